"""One live line for the whole experiment: rounds done, time taken, time left.

Where stdout is no terminal, a plain line at each stage and once a minute.
"""

import datetime
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from tqdm import tqdm

from fedjax_links.experiment import Callback, Experiment, Lane
from fedjax_links.experiment.plan.lanes import TUNING, count_rounds

_FORMAT = '{desc} |{bar:24}| {n_fmt}/{total_fmt} rounds [{elapsed}<{remaining}, {rate_fmt}]'
_SECONDS = 60.0


class Progress(Callback):
    """Draws the line."""

    def __init__(
        self, file: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Draws nothing yet.

        Args:
          file: where to; stdout by default.
          clock: seconds, for plain lines.
        """
        self._file, self._clock = file or sys.stdout, clock
        self._bar: Any = None

    def on_start(self, experiment: Experiment) -> None:
        """Starts the line."""
        self._labels = list(experiment.algorithms)
        self._several = len(experiment.patterns) > 1
        self._done: dict[str, int] = {}
        self._earlier, self._is_fresh = 0, False
        self._total = sum(count_rounds(experiment, label) for label in self._labels)
        self._began = self._last = self._clock()
        if self._file.isatty():
            self._bar = tqdm(
                total=self._total,
                unit='round',
                file=self._file,
                bar_format=_FORMAT,
                mininterval=0.5,
            )

    def on_stage(self, algorithm: str, stage: str, num_rounds: int) -> None:
        """Names the algorithm and its stage."""
        self._show(self._words(algorithm, stage), is_stage=True)

    def on_period(self, lane: Lane, record: Mapping[str, Any]) -> None:
        """Counts the rounds."""
        earlier = len(record) == 1
        if not earlier and not self._is_fresh:
            self._is_fresh = True
            if self._done:
                before = f'Goes on after {sum(self._done.values()):,} rounds done before.'
                tqdm.write(before, file=self._file)
        new = record['round'] - self._done.get(lane.name, 0)
        self._done[lane.name] = record['round']
        self._earlier += new if earlier else 0
        pattern = f', {lane.pattern}' if self._several else ''
        self._show(f'{self._words(lane.algorithm, lane.stage)}{pattern}')
        if self._bar is not None and earlier:  # no credit for its speed
            self._bar.initial += new
            self._bar.n += new
            self._bar.last_print_n += new
        elif self._bar is not None:
            self._bar.update(new)

    def on_end(self, results: Any) -> None:
        """Leaves the last line."""
        if self._bar is None:
            self._show('done', is_stage=True)
        else:
            self._bar.close()

    def _words(self, algorithm: str, stage: str) -> str:
        place = f'{self._labels.index(algorithm) + 1}/{len(self._labels)}'
        return f'{algorithm} {place}{", tuning" if stage == TUNING else ""}'

    def _show(self, words: str, *, is_stage: bool = False) -> None:
        """Names what runs; in a file, at a stage and once a minute, how far it is."""
        if self._bar is not None:
            self._bar.set_description_str(words, refresh=is_stage)
            return
        if not is_stage and self._clock() - self._last < _SECONDS:
            return
        self._last = self._clock()
        done, taken = sum(self._done.values()), self._last - self._began
        left = ''
        if self._earlier < done < self._total:
            left = f', {_time(taken / (done - self._earlier) * (self._total - done))} left'
        rounds = f'{done:,} of {self._total:,} rounds'
        print(f'{words}: {rounds}, {_time(taken)}{left}', file=self._file, flush=True)


def _time(seconds: float) -> str:
    return str(datetime.timedelta(seconds=round(seconds)))
