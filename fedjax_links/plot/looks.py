"""Colours and lines: the same algorithm looks the same in every picture.

A registered algorithm has its colour, line and marker for good; relatives share a colour and differ
in line and marker. Whatever else is in a picture takes the looks that nobody there has. The colours
are told apart by the colour-blind (Okabe and Ito 2008; the last two are added).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

COLOURS = ('#0072B2', '#E69F00', '#009E73', '#CC79A7', '#D55E00', '#56B4E9', '#595959', '#661100')
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
_RANKS, _MARKER_STEP = 4, 3
_HATCHES = (None, '///', '...', '\\\\\\')
_BLENDS = (1.0, 0.3), (1.0, 0.65), (0.0, 0.3), (0.0, 0.6)  # towards white or black, how far
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
"""One per colour; the place within it is the rank."""
_PLACES = {
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
        return _LINES.get(model, (':',) * _RANKS)[self.rank]

    @property
    def marker(self) -> str:
        """The marker of its points and lines: another one for every colour, rank and variant."""
        place = COLOURS.index(self.colour) + _MARKER_STEP * self.rank + self.variant
        return _MARKERS[place % len(_MARKERS)]

    @property
    def hatch(self) -> str | None:
        """The hatching of its bars."""
        return _HATCHES[self.rank] if not self.variant else 'xo+*'[self.variant % 4] * 3

    @property
    def face(self) -> tuple[float, ...]:
        """Red, green and blue of areas that text stands on."""
        from matplotlib import colors

        end, share = _BLENDS[self.rank]
        grey = min(0.25 * self.variant, 0.75)
        parts = ((1 - share) * part + share * end for part in colors.to_rgb(self.colour))
        return tuple((1 - grey) * part + grey * 0.8 for part in parts)


def looks(labels: Iterable[str]) -> dict[str, Look]:
    """The looks of what stands side by side in a picture.

    ``fedavg``, ``FedAvg`` and ``fedavg (learning_rate 0.1)`` are the registry's ``fedavg``, as is
    ``fedavg-long``; two of them in one picture differ in their markers.

    Args:
      labels: of algorithms or of anything else, in the order of the picture.

    Returns:
      By label.
    """
    homes = {label: _home(label) for label in labels}
    everywhere = [(colour, rank) for rank in range(_RANKS) for colour in range(len(COLOURS))]
    taken = {_PLACES[home] for home in homes.values() if home in _PLACES}
    free = [place for place in everywhere if place not in taken] or everywhere
    others = [home for home in dict.fromkeys(homes.values()) if home not in _PLACES]
    places = {home: free[k % len(free)] for k, home in enumerate(others)}
    found: dict[str, Look] = {}
    seen: dict[tuple[int, int], int] = {}
    for label, home in homes.items():
        colour, rank = place = _PLACES.get(home) or places[home]
        found[label] = Look(COLOURS[colour], rank, seen.get(place, 0))
        seen[place] = seen.get(place, 0) + 1
    return found


def _home(label: str) -> str:
    """The registered algorithm that a label speaks of; the label itself for none."""
    name = re.sub(r'[\s-]+', '_', label.split(' (')[0].strip().lower())
    near = [known for known in _PLACES if name == known or name.startswith(f'{known}_')]
    return max(near, key=len, default=name)
