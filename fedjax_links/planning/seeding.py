"""Which draws of an experiment are made once, and which by every seed anew.

=================== ==================================================================== =========
stream              what it draws                                                        default
=================== ==================================================================== =========
``data``            examples, their split into training and test data, label noise       fixed
``partition``       who owns which examples, clients' label shares and sizes             fixed
``links_quality``   link probabilities, the class weights behind them, weights, groups   fixed
``init``            the initial model                                                    by seed
``links``           links that deliver, round by round, and where patterns begin         by seed
``batches``         minibatches, and whatever else training draws                        by seed
=================== ==================================================================== =========

The first three are columns of the makers of problems and patterns, ``data_seed``,
``partition_seed`` and ``links_quality_seed``, whose value is then the seed; the others are keys of
the seed. A fixed stream of the latter is that of the experiment's first seed. Of a config the
first three are by seed as well, where neither a section nor the grid gives them a seed.

A grid with a column ``redraw`` runs the experiment with one stream at a time by seed, and with all
of them at the value ``'by_seed'``; the layout `spread` then says how much each moves the results.
"""

from collections.abc import Mapping, Sequence

import jax
import numpy as np

from fedjax_links.base import Key
from fedjax_links.core import checks, errors
from fedjax_links.core.grids import Point

StreamModes = Mapping[str, str] | str
"""``'by_seed'`` or ``'fixed'`` by stream, or one of them for all streams."""

BY_SEED, FIXED = 'by_seed', 'fixed'
STREAMS = ('data', 'partition', 'links_quality', 'init', 'links', 'batches')
COLUMNS: Mapping[str, str] = {stream: f'{stream}_seed' for stream in STREAMS[:3]}
"""Of the makers, by stream."""

DEFAULTS: Mapping[str, str] = {
    name: FIXED if name in COLUMNS else BY_SEED for name in STREAMS
}

GRID = 'redraw'
"""The column of a grid whose values are streams: each is at its point the only one by seed."""


class Draws:
    """Which seed each draw of an experiment's lanes has.

    Attributes:
      seeds: all that lanes may have, the experiment's first one first.
    """

    def __init__(
        self,
        redraw: StreamModes,
        seeds: Sequence[int],
        streams_of_grid: Sequence[str] = (),
    ) -> None:
        """Resolves what an experiment says.

        Args:
          redraw: modes by stream, the rest as by default; or one mode for all.
          seeds: all that lanes may have, the experiment's first one first.
          streams_of_grid: values of the grid's column ``redraw``.

        Raises:
          ValueError: for an unknown stream or mode.
        """
        self._modes = {**DEFAULTS, **_modes_of(redraw)}
        for value in streams_of_grid:
            checks.choice(f'grid.{GRID}', value, (*STREAMS, BY_SEED))
        self.seeds = [int(seed) for seed in seeds]
        self._points: list[Point | None] = [None]
        self._points += [{GRID: value} for value in streams_of_grid]
        self._columns = {
            stream: column
            for stream, column in COLUMNS.items()
            if any(self.modes(point)[stream] == BY_SEED for point in self._points)
        }

    def modes(self, point: Point | None = None) -> Mapping[str, str]:
        """Returns ``'by_seed'`` or ``'fixed'``, by stream, at a point of the grid."""
        value = (point or {}).get(GRID)
        if value is None:
            return self._modes
        return {
            stream: BY_SEED if value in (stream, BY_SEED) else FIXED
            for stream in STREAMS
        }

    def seed_of(self, stream: str, seed: int, point: Point | None = None) -> int:
        """Returns the seed that a stream has in a lane."""
        return int(seed) if self.modes(point)[stream] == BY_SEED else self.seeds[0]

    def key_of(self, stream: str, seed: int, point: Point | None = None) -> Key:
        """Returns the key of ``init``, ``links`` or ``batches`` in a lane."""
        return jax.random.key(np.uint32(self.seed_of(stream, seed, point)))

    def stream_seeds(
        self, seed: int, point: Point | None = None
    ) -> dict[str, int | None]:
        """Returns the seed of each stream of a lane; None where no seed is given to its maker."""
        seeds: dict[str, int | None] = {}
        for stream, mode in self.modes(point).items():
            has_no_seed = mode == FIXED and stream in COLUMNS
            seeds[stream] = None if has_no_seed else self.seed_of(stream, seed, point)
        return seeds

    def columns(
        self, seed: int | None = None, point: Point | None = None
    ) -> dict[str, int]:
        """Returns the columns that makers take in a lane; of the first seed by default."""
        seed = self.seeds[0] if seed is None else seed
        return {
            column: self.seed_of(stream, seed, point)
            for stream, column in self._columns.items()
        }

    def all_columns(self) -> list[dict[str, int]]:
        """Returns the columns of all lanes that there may be."""
        return [
            self.columns(seed, point) for point in self._points for seed in self.seeds
        ]


def _modes_of(redraw: StreamModes) -> Mapping[str, str]:
    """Returns modes by stream, as far as an experiment says them.

    Raises:
      InvalidError: for an unknown stream or mode.
    """
    if isinstance(redraw, str):
        checks.choice('redraw', redraw, (BY_SEED, FIXED))
        return dict.fromkeys(STREAMS, redraw)
    if not isinstance(redraw, Mapping):
        requirement = 'be modes by stream, or one for all'
        raise errors.invalid('redraw', requirement, errors.text_of(redraw))
    for stream, mode in redraw.items():
        checks.choice('redraw', stream, STREAMS)
        checks.choice(f'redraw.{stream}', mode, (BY_SEED, FIXED))
    return redraw
