"""Assigns colours, lines and markers, the same in every picture.

A registered algorithm has the same colour, line and marker in all pictures. Related algorithms have
shades of one hue. Any other label takes a style that is free in its picture, so no two labels of a
picture have one colour. Colour-blind readers can tell the colours apart. The first eight are six
colours of Okabe and Ito (2008) and two more. The other colours were chosen far from these and from
each other.
"""

import collections
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_links.core import checks

_MARKERS_PER_LINE = 7
"""Markers of a line among others."""

_HUES = (
    ('#0072B2', '#ACCEF8', '#1442BE', '#052482'),  # blue
    ('#E69F00', '#885E40', '#C9BDA1', '#F8C230'),  # orange
    ('#009E73', '#5EE56D', '#15342D', '#66B46B'),  # green
    ('#CC79A7', '#4C074F', '#8C1491', '#B7369F'),  # pink
    ('#D55E00', '#C3A29D', '#7E2403', '#9D6E56'),  # vermilion
    ('#56B4E9', '#4A92F2', '#9BBEC8', '#254B6B'),  # sky
    ('#595959', '#424242', '#6F6F6F', '#CACACA'),  # grey
    ('#661100', '#E27820', '#CF3007', '#923522'),  # brown
)
"""The shades of every hue, by rank."""
COLOURS = tuple(itertools.chain.from_iterable(zip(*_HUES, strict=True)))
"""The first shades of all hues, then the second shades, and so on."""
EXACT = '#1a1a1a'
"""The colour of what is known exactly."""
REALISED = '#9a9a9a'
"""The colour of what was realised in a run, below an exact line."""
THEORY = COLOURS[4]
"""The colour of an exact line over what was realised."""

_LINES: Mapping[str, Sequence[Any]] = {
    'server': ('-', '-.', (0, (1, 1)), (0, (9, 2))),
    'client_mean': ('--', (0, (6, 1, 1, 1, 1, 1)), (0, (1, 3)), (0, (4, 1, 4, 3))),
}
"""By candidate model and rank."""
_NUM_RANKS = 4
_MARKER_STEP = 3
_HATCHES = (None, '///', '...', '\\\\\\')
# By rank: towards white (1) or black (0), and how far.
_BLENDS = ((1.0, 0.3), (1.0, 0.65), (0.0, 0.3), (0.0, 0.6))
_MARKERS = ('o', 's', '^', 'D', 'v', 'P', 'X', '*', '<', '>')

_FAMILIES = (
    ('fedavg', 'fedavg_all', 'fedavg_known', 's2a'),
    ('scaffold', 'amplified_scaffold', 'feddyn', 'mimic'),
    ('mifa', 'fedvarp', 'area', 'ca2fl'),
    ('fedau', 'debiased_fedavg', 'fednova', 'colrel'),
    ('fedpbc', 'amplified_fedavg', 'fedbuff', 's2s'),
    ('fedawe', 'fedstale', 'gossip', 'fedstale_async'),
    ('f3ast', 'wait_for_all', 'cogc', 'ca_fed'),
    ('focus', 'fedprox', 'fedopt'),
)
"""One family per hue; an algorithm's index within its family is its rank."""
_COLOUR_OF_NAME = {
    name: hue + len(_HUES) * rank
    for hue, family in enumerate(_FAMILIES)
    for rank, name in enumerate(family)
}
"""Indices of `COLOURS`."""


class LabelStyle(NamedTuple):
    """Describes how a label looks in every picture.

    Attributes:
      colour: one of `COLOURS`; its index says the hue and the rank.
      variant: the number of labels with this colour that come before this label in the picture. It
        is 0 unless a picture has more labels than colours.
    """

    colour: str
    variant: int = 0

    @property
    def hue(self) -> int:
        """Returns the index of the label's hue among the eight."""
        return self._index % len(_HUES)

    @property
    def rank(self) -> int:
        """Returns which shade, line and hatching of its hue the label has, from 0 to 3."""
        return self._index // len(_HUES)

    @property
    def _index(self) -> int:
        """Returns the index of the label's colour in `COLOURS`; raises for any other colour."""
        checks.choice('colour', self.colour, COLOURS)
        return COLOURS.index(self.colour)

    def line(self, model: str = 'server') -> Any:
        """Returns the line style of one of the label's candidate models; dotted for other names."""
        return _LINES.get(model, (':',) * _NUM_RANKS)[self.rank]

    @property
    def marker(self) -> str:
        """Returns the marker of the label's points and lines; variants of a colour differ in it."""
        offset = _MARKER_STEP * self.rank + self.variant
        return _MARKERS[(self.hue + offset) % len(_MARKERS)]

    @property
    def hatch(self) -> str | None:
        """Returns the hatching of the label's bars."""
        return _HATCHES[self.rank] if not self.variant else 'xo+*'[self.variant % 4] * 3

    @property
    def face(self) -> tuple[float, ...]:
        """Returns red, green and blue of areas that text stands on."""
        from matplotlib import colors

        end, amount = _BLENDS[self.rank]
        grey = min(0.25 * self.variant, 0.75)
        channels = colors.to_rgb(_HUES[self.hue][0])
        blended = ((1 - amount) * channel + amount * end for channel in channels)
        return tuple((1 - grey) * channel + grey * 0.8 for channel in blended)


def assign_styles(labels: Iterable[str]) -> dict[str, LabelStyle]:
    """Assigns styles to what stands side by side in a picture, each with a colour of its own.

    ``fedavg``, ``FedAvg`` and ``fedavg (learning_rate 0.1)`` are the registry's ``fedavg``, as is
    ``fedavg-long``. If two of these labels are in one picture, the first has the colour of
    ``fedavg``, and the second a free shade of its hue.

    Args:
      labels: of algorithms or of anything else, in the order of the picture.

    Returns:
      By label. Colours repeat only beyond the 32 of `COLOURS`.
    """
    is_stream = isinstance(labels, Iterator)
    names = checks.names('labels', list(labels) if is_stream else labels)
    name_of = {label: _registered_name(label) for label in names}
    colour_of: dict[str, int] = {}
    num_uses = collections.Counter[int]()
    for label, name in name_of.items():
        colour = _COLOUR_OF_NAME.get(name)
        if colour is not None and not num_uses[colour]:
            colour_of[label] = colour
            num_uses[colour] = 1
    style_of: dict[str, LabelStyle] = {}
    for label, name in name_of.items():
        variant = 0
        if label not in colour_of:
            colour = _least_used(num_uses, _COLOUR_OF_NAME.get(name))
            colour_of[label] = colour
            variant = num_uses[colour]
            num_uses[colour] += 1
        style_of[label] = LabelStyle(COLOURS[colour_of[label]], variant)
    return style_of


def _least_used(num_uses: collections.Counter[int], relative: int | None) -> int:
    """Returns the colour with the fewest uses, in a relative's hue if one there has as few.

    Args:
      num_uses: by index of the colour.
      relative: the colour of the registered algorithm that a label names; None for none.
    """

    def preference(colour: int) -> tuple[int, bool, int]:
        is_other_hue = relative is not None and (colour - relative) % len(_HUES) != 0
        return num_uses[colour], is_other_hue, colour

    return min(range(len(COLOURS)), key=preference)


def _registered_name(label: str) -> str:
    """Returns the registered algorithm that a label names; the label itself for none."""
    name = re.sub(r'[\s-]+', '_', label.split(' (')[0].strip().lower())
    matches = [
        known
        for known in _COLOUR_OF_NAME
        if name == known or name.startswith(f'{known}_')
    ]
    return max(matches, key=len, default=name)


def marked(
    x_values: np.ndarray, values: np.ndarray, line: int, count: int, *, log: bool
) -> list[int]:
    """Returns the indices of the points of a line that have markers.

    The markers of a panel's lines alternate, so that lines below others show. A line alone needs
    none. A point without a finite neighbour has a marker in any case, as no line goes through it.

    Args:
      x_values: float[E], ascending.
      values: float[E].
      line: index of the line in its panel.
      count: how many lines the panel has.
      log: whether the axis is logarithmic.
    """
    if not len(x_values):
        return []
    padded = np.pad(np.isfinite(values), 1)
    is_alone = padded[1:-1] & ~padded[:-2] & ~padded[2:]
    indices = np.flatnonzero(is_alone)
    if count > 1:
        coordinates = np.log(x_values) if log else x_values
        targets = np.linspace(
            coordinates[0], coordinates[-1], _MARKERS_PER_LINE * count
        )
        alternating = np.searchsorted(coordinates, targets[line::count])
        indices = np.r_[indices, alternating.clip(max=len(x_values) - 1)]
    return [int(index) for index in np.unique(indices)]
