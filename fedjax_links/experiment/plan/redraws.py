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

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from fedjax_links.base import Key
from fedjax_links.core import checks, errors

BY_SEED, FIXED = 'by_seed', 'fixed'
STREAMS = ('data', 'partition', 'links_quality', 'init', 'links', 'batches')
COLUMNS: Mapping[str, str] = {
    'data': 'data_seed',
    'partition': 'partition_seed',
    'links_quality': 'links_quality_seed',
}
"""Of the makers, by stream."""

DEFAULTS: Mapping[str, str] = {name: FIXED if name in COLUMNS else BY_SEED for name in STREAMS}

GRID = 'redraw'
"""The column of a grid whose values are streams: each is at its point the only one by seed."""


def resolve(redraw: Mapping[str, str] | str) -> dict[str, str]:
    """Every stream with its way.

    Args:
      redraw: ways by stream, the rest as by default; or one way for all.

    Returns:
      ``'by_seed'`` or ``'fixed'`` by stream.

    Raises:
      ValueError: for an unknown stream or way.
    """
    if isinstance(redraw, str):
        checks.choice('redraw', redraw, (BY_SEED, FIXED))
        return dict.fromkeys(STREAMS, redraw)
    if not isinstance(redraw, Mapping):
        raise errors.invalid('redraw', 'be ways by stream, or one for all', errors.text_of(redraw))
    for stream, way in redraw.items():
        checks.choice('redraw', stream, STREAMS)
        checks.choice(f'redraw.{stream}', way, (BY_SEED, FIXED))
    return {**DEFAULTS, **redraw}


def check(
    redraw: Mapping[str, str] | str, num_seeds: int, taken: Collection[str], grid: Collection[str]
) -> None:
    """Raises for streams that cannot be drawn as an experiment asks.

    Args:
      redraw: as in `resolve`.
      num_seeds: seeds of the experiment.
      taken: columns that makers of problems and patterns take.
      grid: columns of the grid.

    Raises:
      ValueError: if seeds would all be alike, for a stream by seed that stands in the grid, or that
        was named and that nothing takes.
    """
    ways = resolve(redraw)
    if num_seeds > 1 and BY_SEED not in ways.values():
        raise errors.invalid('redraw', f'have a stream by seed for {num_seeds} seeds', repr(FIXED))
    for stream, column in COLUMNS.items():
        if ways[stream] == FIXED:
            continue
        if column in grid:
            requirement = f'be fixed beside grid.{column}'
            raise errors.invalid(f'redraw.{stream}', requirement, repr(BY_SEED))
        if not isinstance(redraw, str) and column not in taken:
            whose = 'pattern' if stream == 'links_quality' else 'problem'
            requirement = f'be fixed, as no {whose} draws it'
            raise errors.invalid(f'redraw.{stream}', requirement, repr(BY_SEED))


class Draws:
    """Which seed each draw of an experiment's lanes has."""

    def __init__(
        self, redraw: Mapping[str, str] | str, seeds: Sequence[int], alone: Sequence[str] = ()
    ) -> None:
        """Resolves what an experiment says.

        Args:
          redraw: as in `resolve`.
          seeds: all that lanes may have, the experiment's first one first.
          alone: values of the grid's column ``redraw``.

        Raises:
          ValueError: for an unknown stream or way.
        """
        self._ways = resolve(redraw)
        self._seeds = [int(seed) for seed in seeds]
        for value in alone:
            checks.choice(f'grid.{GRID}', value, (*STREAMS, BY_SEED))
        self._points = [None, *({GRID: value} for value in alone)]

    def ways(self, point: Mapping[str, Any] | None = None) -> Mapping[str, str]:
        """``'by_seed'`` or ``'fixed'``, by stream, at a point of the grid."""
        value = (point or {}).get(GRID)
        if value is None:
            return self._ways
        return {name: BY_SEED if value in (name, BY_SEED) else FIXED for name in STREAMS}

    def seed_of(self, stream: str, seed: int, point: Mapping[str, Any] | None = None) -> int:
        """The seed that a stream has in a lane."""
        return int(seed) if self.ways(point)[stream] == BY_SEED else self._seeds[0]

    def key_of(self, stream: str, seed: int, point: Mapping[str, Any] | None = None) -> Key:
        """The key of ``init``, ``links`` or ``batches`` in a lane."""
        return jax.random.key(np.uint32(self.seed_of(stream, seed, point)))

    def decisive(self, seed: int, point: Mapping[str, Any] | None = None) -> dict[str, int | None]:
        """The seed of each stream of a lane; None where no seed is given to what draws it."""
        ways = self.ways(point)
        free = [name for name in STREAMS if name in COLUMNS and ways[name] == FIXED]
        return {s: None if s in free else self.seed_of(s, seed, point) for s in STREAMS}

    @property
    def redrawn(self) -> list[str]:
        """The streams with a column that are by seed at some point."""
        return [s for s in COLUMNS if any(self.ways(at)[s] == BY_SEED for at in self._points)]

    def columns(
        self, seed: int | None = None, point: Mapping[str, Any] | None = None
    ) -> dict[str, int]:
        """What columns of makers are in a lane; of the first seed by default."""
        seed = self._seeds[0] if seed is None else seed
        return {COLUMNS[stream]: self.seed_of(stream, seed, point) for stream in self.redrawn}

    def every(self) -> list[dict[str, int]]:
        """The columns of all lanes that there may be."""
        return [self.columns(seed, point) for point in self._points for seed in self._seeds]
