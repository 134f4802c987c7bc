"""Assigns colours, lines and markers, the same in every picture.

A registered algorithm has its colour, line and marker for good; relatives share a colour and differ
in line and marker. Whatever else is in a picture takes the looks that nobody there has. The colours
are told apart by the colour-blind (Okabe and Ito 2008; the last two are added).
"""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

COLOURS = (
    '#0072B2',
    '#E69F00',
    '#009E73',
    '#CC79A7',
    '#D55E00',
    '#56B4E9',
    '#595959',
    '#661100',
)
"""Blue, orange, green, pink, vermilion, sky, grey, brown."""
EXACT = '#1a1a1a'
REALISED = '#9a9a9a'
THEORY = COLOURS[4]
"""Of what is known exactly, over what was realised."""

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
    ('mifa', 'fedvarp', 'area'),
    ('fedau', 'debiased_fedavg', 'fednova', 'colrel'),
    ('fedpbc', 'amplified_fedavg', 'fedbuff', 's2s'),
    ('fedawe', 'fedstale', 'gossip'),
    ('f3ast', 'wait_for_all', 'cogc'),
    ('focus', 'fedprox', 'fedopt'),
)
"""One per colour; the index within it is the rank."""
_STYLES = {
    name: (colour, rank)
    for colour, family in enumerate(_FAMILIES)
    for rank, name in enumerate(family)
}


class Look(NamedTuple):
    """How one thing looks in every picture.

    Attributes:
      colour: as matplotlib takes it.
      rank: 0 to 3: which line, hatching or shade of the colour.
      variant: 0, or the number of things before it in the picture with this colour and rank.
    """

    colour: str
    rank: int = 0
    variant: int = 0

    def line(self, model: str = 'server') -> Any:
        """The line style of one of its candidate models; dotted for models of other names."""
        return _LINES.get(model, (':',) * _NUM_RANKS)[self.rank]

    @property
    def marker(self) -> str:
        """The marker of its points and lines: another one for every colour, rank and variant."""
        offset = _MARKER_STEP * self.rank + self.variant
        return _MARKERS[(COLOURS.index(self.colour) + offset) % len(_MARKERS)]

    @property
    def hatch(self) -> str | None:
        """The hatching of its bars."""
        return _HATCHES[self.rank] if not self.variant else 'xo+*'[self.variant % 4] * 3

    @property
    def face(self) -> tuple[float, ...]:
        """Red, green and blue of areas that text stands on."""
        from matplotlib import colors

        end, amount = _BLENDS[self.rank]
        grey = min(0.25 * self.variant, 0.75)
        channels = colors.to_rgb(self.colour)
        blended = ((1 - amount) * channel + amount * end for channel in channels)
        return tuple((1 - grey) * channel + grey * 0.8 for channel in blended)


def looks(labels: Iterable[str]) -> dict[str, Look]:
    """Assigns looks to what stands side by side in a picture.

    ``fedavg``, ``FedAvg`` and ``fedavg (learning_rate 0.1)`` are the registry's ``fedavg``, as is
    ``fedavg-long``; two of them in one picture differ in their markers.

    Args:
      labels: of algorithms or of anything else, in the order of the picture.

    Returns:
      By label.
    """
    name_of = {label: _registered_name(label) for label in labels}
    style_of = _styles_of(list(dict.fromkeys(name_of.values())))
    look_of: dict[str, Look] = {}
    num_uses: dict[tuple[int, int], int] = {}
    for label, name in name_of.items():
        style = style_of[name]
        colour, rank = style
        variant = num_uses.get(style, 0)
        look_of[label] = Look(COLOURS[colour], rank, variant)
        num_uses[style] = variant + 1
    return look_of


def _styles_of(names: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Returns colour and rank by name; what is not registered takes those that nobody has."""
    style_of = {name: _STYLES[name] for name in names if name in _STYLES}
    used = set(style_of.values())
    by_rank = itertools.product(range(_NUM_RANKS), range(len(COLOURS)))
    all_styles = [(colour, rank) for rank, colour in by_rank]
    free = [style for style in all_styles if style not in used] or all_styles
    others = [name for name in names if name not in _STYLES]
    style_of |= zip(others, itertools.cycle(free), strict=False)
    return style_of


def _registered_name(label: str) -> str:
    """Returns the registered algorithm that a label names; the label itself for none."""
    name = re.sub(r'[\s-]+', '_', label.split(' (')[0].strip().lower())
    matches = [
        known for known in _STYLES if name == known or name.startswith(f'{known}_')
    ]
    return max(matches, key=len, default=name)
