"""Describes a metric: whether larger is better, its unit, and how its numbers are written."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np

from fedjax_links.core import errors


class HasInterval(Protocol):
    """Describes a mean and half the width of its interval, such as `statistics.Interval`."""

    @property
    def mean(self) -> Any:
        """Returns the mean."""

    @property
    def half_width(self) -> Any:
        """Returns half the width of the interval; NaN where it is unknown."""


class HasDifference(HasInterval, Protocol):
    """Describes a difference with its interval."""

    @property
    def excludes_zero(self) -> bool | np.ndarray:
        """Returns whether zero lies outside the interval."""


class Metric(NamedTuple):
    """Describes a metric; one with ``accuracy`` in its name is a fraction, written in per cent.

    Attributes:
      name: the recorded name.
      direction: ``'max'``, ``'min'``, or None if it is unknown which way the metric is better.
    """

    name: str
    direction: str | None = None

    @property
    def is_fraction(self) -> bool:
        """Returns whether the metric is a fraction of examples."""
        return 'accuracy' in self.name.split('_')

    @property
    def scale(self) -> int:
        """Returns the factor from the metric's numbers to the written ones: 100 for per cent."""
        return 100 if self.is_fraction else 1

    @property
    def sign(self) -> int:
        """Returns 1 if larger is better, -1 if smaller is.

        Raises:
          ValueError: if the metric's direction is unknown.
        """
        if self.direction is None:
            requirement = (
                f"be 'max' or 'min', as nothing says which way {self.name} is better"
            )
            raise errors.invalid('config.direction', requirement, None)
        return 1 if self.direction == 'max' else -1

    @property
    def words(self) -> str:
        """Returns the metric's name with spaces for underscores."""
        return self.name.replace('_', ' ')

    @property
    def title(self) -> str:
        """Returns the metric's name with its unit, as a heading."""
        return f'{self.words}, %' if self.is_fraction else self.words

    def difference_title(self, text: str) -> str:
        """Adds the unit of differences to a heading."""
        return f'{text}, points' if self.is_fraction else text

    def margin_text(self, margin: float) -> str:
        """Writes a margin with its unit: ``0.5 points``, ``0.01``."""
        return f'{self.scale * margin:g}{" points" if self.is_fraction else ""}'

    def number(self, value: float, *, digits: int = 4) -> str:
        """Writes fractions in per cent with one decimal, other numbers with ``digits`` digits."""
        if math.isnan(value):
            return 'diverged'
        return (
            f'{self.scale * value:.1f}' if self.is_fraction else f'{value:.{digits}g}'
        )

    def interval(
        self,
        interval: HasInterval,
        *,
        signed: bool = False,
        wide: HasInterval | None = None,
    ) -> str:
        """Writes a mean with its interval: ``84.3 ± 0.4``, ``0.457 ± 0.008``.

        If the interval is unknown, the mean stands alone. A second, wider interval around the same
        mean stands in brackets: ``84.3 ± 0.4 [0.9]``.

        The half width has one significant digit, or two if the first is a 1, and the mean as many
        decimals. Fractions in per cent have at least one decimal. If the half width is at most a
        millionth, or a million or more, both are written as `number` does: the mean with four
        digits, the half width with one digit. A wider half width of a million or more is also
        written with one digit.

        Args:
          interval: the mean and its interval, of a single number.
          signed: whether to write a plus before a positive mean.
          wide: the second interval; None for none.
        """
        mean = float(interval.mean)
        half_width = float(interval.half_width)
        half_widths = [half_width]
        if wide is not None:
            half_widths.append(float(wide.half_width))
        if 1e-6 < self.scale * half_width < 1e6:
            # Decimals up to the first digit of half the width, so that a leading 1 gets one more.
            needed = -math.floor(math.log10(self.scale * half_width / 2))
            decimals = max(needed, 1 if self.is_fraction else 0)
            mean_text = f'{self.scale * mean:.{decimals}f}'
            width_texts = [self._width_text(width, decimals) for width in half_widths]
        else:
            mean_text = self.number(mean)
            width_texts = [self.number(width, digits=1) for width in half_widths]
        if signed and mean >= 0:
            mean_text = f'+{mean_text}'
        if math.isnan(half_width):
            return mean_text
        text = f'{mean_text} ± {width_texts[0]}'
        return text if wide is None else f'{text} [{width_texts[1]}]'

    def _width_text(self, half_width: float, decimals: int) -> str:
        """Writes half a width with some decimals, or with one digit from a million on."""
        scaled = self.scale * half_width
        return f'{scaled:.1g}' if scaled >= 1e6 else f'{scaled:.{decimals}f}'

    def difference(self, difference: HasDifference, *, survives: bool = False) -> str:
        """Writes a difference with its stars: ``+1.2 ± 0.4 *``; nothing if a run diverged.

        Args:
          difference: the difference, with a star if its interval excludes zero.
          survives: whether it survives the correction for all comparisons of a page, which gives
            two stars.
        """
        if math.isnan(difference.mean):
            return ''
        stars = ''
        if survives:
            stars = ' **'
        elif difference.excludes_zero:
            stars = ' *'
        wide = getattr(difference, 'wide', None)
        return self.interval(difference, signed=True, wide=wide) + stars

    def reached(self, values: np.ndarray, target: float) -> np.ndarray:
        """Returns bool[...], where values are at a target or better.

        Raises:
          ValueError: if it is unknown which way the metric is better.
        """
        is_reached: np.ndarray = self.sign * values >= self.sign * target
        return is_reached


def format_value(value: object) -> str:
    """Writes a value of a grid, with six digits at most."""
    return f'{value:g}' if isinstance(value, float) else str(value)


def format_values(values: Iterable[object]) -> list[str]:
    """Writes the values of a column, with all digits if six do not tell them apart."""
    column = list(values)
    short = [format_value(value) for value in column]
    exact = [str(value) for value in column]
    return short if len(set(short)) == len(set(exact)) else exact
