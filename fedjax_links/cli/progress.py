"""One live line per algorithm: rounds done, time taken, time left."""

import sys
from collections.abc import Mapping
from typing import Any

from tqdm import tqdm

from fedjax_links.experiment import Callback, Experiment, Lane
from fedjax_links.experiment.lanes import count_rounds

_FORMAT = '{desc} |{bar:24}| {n_fmt}/{total_fmt} rounds [{elapsed}<{remaining}, {rate_fmt}]'


class Progress(Callback):
    """Draws the line on the terminal."""

    def on_start(self, experiment: Experiment) -> None:
        """Remembers what there is to do."""
        self._experiment = experiment
        self._labels = list(experiment.algorithms)
        self._bar: Any = None
        self._label: str | None = None
        self._done: dict[str, int] = {}

    def on_stage(self, algorithm: str, stage: str, num_rounds: int) -> None:
        """Starts a line where an algorithm starts."""
        if algorithm == self._label:
            return
        self._close()
        self._label = algorithm
        place = f'{self._labels.index(algorithm) + 1}/{len(self._labels)}'
        self._bar = tqdm(
            total=count_rounds(self._experiment, algorithm),
            desc=f'{algorithm:16s} {place}',
            unit='round',
            file=sys.stdout,
            bar_format=_FORMAT,
            mininterval=0.5,
        )

    def on_period(self, lane: Lane, record: Mapping[str, Any]) -> None:
        """Counts the rounds."""
        before = self._done.get(lane.name, 0)
        self._done[lane.name] = record['round']
        if len(record) == 1:  # done before: no credit for its speed
            self._bar.initial += record['round'] - before
        self._bar.update(record['round'] - before)

    def on_end(self, results: Any) -> None:
        """Leaves the last line."""
        self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
