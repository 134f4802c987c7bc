"""Decides which random draws of an experiment are fixed, and which follow the seed of a lane.

A lane is one simulation (`planning.lanes.Lane`). A stream is one kind of random draws:

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

The engine takes the last three streams as random keys. If such a stream is fixed, all lanes have
the key of the experiment's first seed. Problems and patterns take the first three streams as seeds,
from the columns ``data_seed``, ``partition_seed`` and ``links_quality_seed``. In a config these
streams are by seed too, unless a section or the grid sets the seed.

The grid may have a column ``redraw``. Each value names the only stream that is by seed there, and
at the value ``'by_seed'`` all streams are. The report's layout ``spread`` then says how much each
stream moves the results.
"""

from collections.abc import Mapping, Sequence

import jax
import numpy as np

from fedjax_links.base import Key
from fedjax_links.core import checks, errors
from fedjax_links.core.grids import Point

StreamModes = Mapping[str, str] | str
"""The mode of each stream, ``'by_seed'`` or ``'fixed'``; or one mode for all streams."""

BY_SEED = 'by_seed'
FIXED = 'fixed'
COLUMNS: Mapping[str, str] = {
    'data': 'data_seed',
    'partition': 'partition_seed',
    'links_quality': 'links_quality_seed',
}
"""By stream, the column with which problems and patterns take its seed."""

DEFAULTS: Mapping[str, str] = {
    'data': FIXED,
    'partition': FIXED,
    'links_quality': FIXED,
    'init': BY_SEED,
    'links': BY_SEED,
    'batches': BY_SEED,
}
STREAMS = tuple(DEFAULTS)

REDRAW_COLUMN = 'redraw'
"""The grid's column of streams. At each value, only the stream with that name is by seed."""


class Draws:
    """Says which seed each stream has in each lane of an experiment.

    Attributes:
      seeds: seeds of all lanes. The first is the experiment's first seed; fixed streams have it.
    """

    def __init__(
        self,
        redraw: StreamModes,
        seeds: Sequence[int],
        streams_of_grid: Sequence[str] = (),
    ) -> None:
        """Resolves the modes of streams.

        Args:
          redraw: as in `Experiment`: modes by stream, with defaults for other streams; or one mode
            for all streams.
          seeds: seeds of all lanes, the experiment's first seed first.
          streams_of_grid: values of the grid's column ``redraw``.

        Raises:
          ValueError: for an unknown stream or mode.
        """
        self._modes = {**DEFAULTS, **_modes_of(redraw)}
        for value in streams_of_grid:
            checks.choice(f'grid.{REDRAW_COLUMN}', value, (*STREAMS, BY_SEED))
        self.seeds = [int(seed) for seed in seeds]
        self._points: list[Point | None] = [None]
        self._points += [{REDRAW_COLUMN: value} for value in streams_of_grid]
        # If a stream is by seed at any point, its column gets a value at all points.
        self._columns: dict[str, str] = {}
        for stream, column in COLUMNS.items():
            if any(self.modes(point)[stream] == BY_SEED for point in self._points):
                self._columns[stream] = column

    def modes(self, point: Point | None = None) -> Mapping[str, str]:
        """Returns ``'by_seed'`` or ``'fixed'``, by stream, at a point of the grid."""
        column_value = (point or {}).get(REDRAW_COLUMN)
        if column_value is None:
            return self._modes
        return {
            stream: BY_SEED if column_value in (stream, BY_SEED) else FIXED
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
        """Returns the seed of each stream of a lane; None for a fixed stream with a column."""
        seeds: dict[str, int | None] = {}
        for stream, mode in self.modes(point).items():
            is_fixed_column = mode == FIXED and stream in COLUMNS
            seeds[stream] = None
            if not is_fixed_column:
                seeds[stream] = self.seed_of(stream, seed, point)
        return seeds

    def columns(
        self, seed: int | None = None, point: Point | None = None
    ) -> dict[str, int]:
        """Returns the seeds that problems and patterns take in a lane, by column.

        Args:
          seed: of the lane; the experiment's first seed by default.
          point: of the lane.
        """
        seed = self.seeds[0] if seed is None else seed
        return {
            column: self.seed_of(stream, seed, point)
            for stream, column in self._columns.items()
        }

    def all_columns(self) -> list[dict[str, int]]:
        """Returns `columns` for each seed, at each value of the grid's column ``redraw``."""
        return [
            self.columns(seed, point) for point in self._points for seed in self.seeds
        ]


def _modes_of(redraw: StreamModes) -> Mapping[str, str]:
    """Returns modes by stream, for the streams that an experiment names.

    Raises:
      ValueError: for an unknown stream or mode.
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
