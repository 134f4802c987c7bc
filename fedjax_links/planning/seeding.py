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

Ways = Mapping[str, str] | str
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
        self, redraw: Ways, seeds: Sequence[int], alone: Sequence[str] = ()
    ) -> None:
        """Resolves what an experiment says.

        Args:
          redraw: ways by stream, the rest as by default; or one way for all.
          seeds: all that lanes may have, the experiment's first one first.
          alone: values of the grid's column ``redraw``.

        Raises:
          ValueError: for an unknown stream or way.
        """
        given = dict.fromkeys(STREAMS, redraw) if isinstance(redraw, str) else redraw
        if not isinstance(given, Mapping):
            requirement = 'be ways by stream, or one for all'
            raise errors.invalid('redraw', requirement, errors.text_of(redraw))
        for stream, way in given.items():
            checks.choice('redraw', stream, STREAMS)
            where = 'redraw' if given is not redraw else f'redraw.{stream}'
            checks.choice(where, way, (BY_SEED, FIXED))
        for value in alone:
            checks.choice(f'grid.{GRID}', value, (*STREAMS, BY_SEED))
        self._ways = {**DEFAULTS, **given}
        self.seeds = [int(seed) for seed in seeds]
        self._points = [None, *({GRID: value} for value in alone)]
        by_seed = {
            s
            for at in self._points
            for s, way in self.ways(at).items()
            if way == BY_SEED
        }
        self._columns = {s: column for s, column in COLUMNS.items() if s in by_seed}

    def ways(self, point: Point | None = None) -> Mapping[str, str]:
        """``'by_seed'`` or ``'fixed'``, by stream, at a point of the grid."""
        value = (point or {}).get(GRID)
        if value is None:
            return self._ways
        return {
            name: BY_SEED if value in (name, BY_SEED) else FIXED for name in STREAMS
        }

    def seed_of(self, stream: str, seed: int, point: Point | None = None) -> int:
        """The seed that a stream has in a lane."""
        return int(seed) if self.ways(point)[stream] == BY_SEED else self.seeds[0]

    def key_of(self, stream: str, seed: int, point: Point | None = None) -> Key:
        """The key of ``init``, ``links`` or ``batches`` in a lane."""
        return jax.random.key(np.uint32(self.seed_of(stream, seed, point)))

    def decisive(self, seed: int, point: Point | None = None) -> dict[str, int | None]:
        """The seed of each stream of a lane; None where no seed is given to what draws it."""
        free = {
            s for s, way in self.ways(point).items() if way == FIXED and s in COLUMNS
        }
        return {s: None if s in free else self.seed_of(s, seed, point) for s in STREAMS}

    def columns(
        self, seed: int | None = None, point: Point | None = None
    ) -> dict[str, int]:
        """What columns of makers are in a lane; of the first seed by default."""
        seed = self.seeds[0] if seed is None else seed
        return {
            column: self.seed_of(s, seed, point) for s, column in self._columns.items()
        }

    def every(self) -> list[dict[str, int]]:
        """The columns of all lanes that there may be."""
        return [
            self.columns(seed, point) for point in self._points for seed in self.seeds
        ]
