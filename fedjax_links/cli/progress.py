"""One live line for the whole experiment: rounds done, time taken, time left.

Where stdout is no terminal, a plain line at each stage and once a minute.
"""

import datetime
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TextIO

from tqdm import tqdm

from fedjax_links.experiment import Callback, Experiment, Lane
from fedjax_links.experiment.plan.lanes import TUNING, count_rounds

_FORMAT = '{desc} |{bar:24}| {n_fmt}/{total_fmt} rounds [{elapsed}<{remaining}, {rate_fmt}]'
_SECONDS = 60.0


class _Line(Protocol):
    def name(self, words: str, *, is_stage: bool) -> None: ...

    def add(self, rounds: int, *, earlier: bool) -> None: ...

    def say(self, words: str) -> None: ...

    def close(self) -> None: ...


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
        self._line: _Line | None = None

    def on_start(self, experiment: Experiment) -> None:
        """Starts the line."""
        self._labels = list(experiment.algorithms)
        self._several = len(experiment.patterns) > 1
        self._done: dict[str, int] = {}
        self._is_fresh = False
        total = sum(count_rounds(experiment, label) for label in self._labels)
        is_live = self._file.isatty()
        self._line = _Live(total, self._file) if is_live else _Plain(total, self._file, self._clock)

    def on_stage(self, algorithm: str, stage: str, num_rounds: int) -> None:
        """Names the algorithm and its stage."""
        assert self._line is not None
        self._line.name(self._words(algorithm, stage), is_stage=True)

    def on_period(self, lane: Lane, record: Mapping[str, Any]) -> None:
        """Counts the rounds."""
        assert self._line is not None
        if self._several:
            words = f'{self._words(lane.algorithm, lane.stage)}, {lane.pattern}'
            self._line.name(words, is_stage=False)
        new, earlier = record['round'] - self._done.get(lane.name, 0), len(record) == 1
        if not earlier and not self._is_fresh:
            self._is_fresh = True
            if self._done:
                self._line.say(f'Goes on after {sum(self._done.values()):,} rounds done before.')
        self._done[lane.name] = record['round']
        self._line.add(new, earlier=earlier)

    def on_end(self, results: Any) -> None:
        """Leaves the last line."""
        if self._line is not None:
            self._line.close()

    def _words(self, algorithm: str, stage: str) -> str:
        place = f'{self._labels.index(algorithm) + 1}/{len(self._labels)}'
        return f'{algorithm} {place}{", tuning" if stage == TUNING else ""}'


class _Live:
    """A bar that stays in its place."""

    def __init__(self, total: int, file: TextIO) -> None:
        self._bar: Any = tqdm(
            total=total, unit='round', file=file, bar_format=_FORMAT, mininterval=0.5
        )

    def name(self, words: str, *, is_stage: bool) -> None:
        self._bar.set_description_str(words, refresh=is_stage)

    def add(self, rounds: int, *, earlier: bool) -> None:
        if not earlier:
            self._bar.update(rounds)
            return
        self._bar.initial += rounds  # done before: no credit for its speed
        self._bar.n += rounds
        self._bar.last_print_n += rounds

    def say(self, words: str) -> None:
        self._bar.write(words, file=self._bar.fp)

    def close(self) -> None:
        self._bar.close()


class _Plain:
    """Lines that a file or a pipe can hold."""

    def __init__(self, total: int, file: TextIO, clock: Callable[[], float]) -> None:
        self._total, self._file, self._clock = total, file, clock
        self._words, self._rounds, self._earlier = '', 0, 0
        self._began = self._last = clock()

    def name(self, words: str, *, is_stage: bool) -> None:
        self._words = words
        if is_stage:
            self._print()

    def add(self, rounds: int, *, earlier: bool) -> None:
        self._rounds += rounds
        self._earlier += rounds if earlier else 0
        if self._clock() - self._last >= _SECONDS:
            self._print()

    def say(self, words: str) -> None:
        print(words, file=self._file, flush=True)

    def close(self) -> None:
        self._words = 'done'
        self._print()

    def _print(self) -> None:
        self._last = self._clock()
        taken, own = self._last - self._began, self._rounds - self._earlier
        left = ''
        if own > 0 and self._rounds < self._total:
            left = f', {_time(taken / own * (self._total - self._rounds))} left'
        rounds = f'{self._rounds:,} of {self._total:,} rounds'
        print(f'{self._words}: {rounds}, {_time(taken)}{left}', file=self._file, flush=True)


def _time(seconds: float) -> str:
    return str(datetime.timedelta(seconds=round(seconds)))
