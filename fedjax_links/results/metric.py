"""What a metric is: which way it is better, its unit, and how its numbers are written."""

import math
from typing import Any, NamedTuple

import numpy as np

from fedjax_links.core import errors


class Metric(NamedTuple):
    """One metric; those with ``accuracy`` in their names are shares, which read in per cent.

    Attributes:
      name: as it was recorded.
      direction: ``'max'``, ``'min'`` or None where nothing says which way it is better.
    """

    name: str
    direction: str | None = None

    @property
    def is_share(self) -> bool:
        """Whether it is a share of examples."""
        return 'accuracy' in self.name.split('_')

    @property
    def scale(self) -> int:
        """What its numbers are multiplied with before they are written."""
        return 100 if self.is_share else 1

    @property
    def sign(self) -> int:
        """1 where larger is better, -1 where smaller is.

        Raises:
          ValueError: if nothing says so.
        """
        if self.direction is None:
            requirement = (
                f"be 'max' or 'min', as nothing says which way {self.name} is better"
            )
            raise errors.invalid('config.direction', requirement, None)
        return 1 if self.direction == 'max' else -1

    @property
    def words(self) -> str:
        """Its name as it is read."""
        return self.name.replace('_', ' ')

    @property
    def title(self) -> str:
        """Its name with its unit, as a heading."""
        return f'{self.words}, %' if self.is_share else self.words

    def difference_title(self, text: str) -> str:
        """What a difference is called, with its unit."""
        return f'{text}, points' if self.is_share else text

    def number(self, value: float, *, digits: int = 4) -> str:
        """Shares in per cent with one decimal, everything else with so many digits."""
        if value != value:
            return 'diverged'
        return f'{self.scale * value:.1f}' if self.is_share else f'{value:.{digits}g}'

    def interval(self, found: Any, *, signed: bool = False, wide: Any = None) -> str:
        """``84.3 ± 0.4``, ``0.457 ± 0.008``; the mean alone where there is no interval.

        With a second, wider interval around the same mean, ``84.3 ± 0.4 [0.9]``.

        The half width has one significant digit, or two where the first is a 1, and the mean as
        many decimals; shares in per cent have at least one. What is beyond a million, or a
        millionth, is written with a power of ten.

        Args:
          found: `evaluation.Interval` of single numbers.
          signed: whether to write a plus.
          wide: of the second interval; None for none.
        """
        mean, half = float(found.mean), float(found.half_width)
        widths = [half] if wide is None else [half, float(wide.half_width)]
        shown, *said = (
            self.number(mean),
            *(self.number(width, digits=1) for width in widths),
        )
        if 1e-6 < self.scale * half < 1e6:
            needed = -math.floor(math.log10(self.scale * half / 2))
            decimals = max(needed, 1 if self.is_share else 0)
            shown, *said = (
                f'{self.scale * value:.{decimals}f}' for value in (mean, *widths)
            )
        shown = f'+{shown}' if signed and mean >= 0 else shown
        width, *beyond = said
        return (
            shown
            if half != half
            else f'{shown} ± {width}' + ''.join(f' [{k}]' for k in beyond)
        )

    def difference(self, found: Any, *, survives: bool = False) -> str:
        """``+1.2 ± 0.4 *``; nothing where a run diverged.

        Args:
          found: with `interval`'s fields, and ``excludes_zero``, which gives a star.
          survives: whether it does so among all comparisons of a page, which gives two.
        """
        if found.mean != found.mean:
            return ''
        stars = ' **' if survives else ' *' if found.excludes_zero else ''
        return (
            self.interval(found, signed=True, wide=getattr(found, 'wide', None)) + stars
        )

    def reached(self, values: np.ndarray, level: float) -> np.ndarray:
        """bool[...], where values are at a level or better.

        Raises:
          ValueError: if nothing says which way it is better.
        """
        found: np.ndarray = self.sign * values >= self.sign * level
        return found


def numbers_of(value: Any) -> str:
    """A value of a grid, as short as it can be."""
    return f'{value:g}' if isinstance(value, float) else str(value)
