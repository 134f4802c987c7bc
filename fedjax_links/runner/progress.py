"""How far a run is, in a line that goes on: of the commands, and of a notebook's cell."""

import sys
from collections.abc import Sequence
from typing import Any, TextIO

from tqdm import tqdm

from fedjax_links import runs
from fedjax_links.core import errors
from fedjax_links.core.records import MetricsRow
from fedjax_links.planning.lanes import STAGE_NAMES, Lane
from fedjax_links.runner.hooks import Callback

_LIVE = '{desc} |{bar:24}| {n:,}/{total:,} rounds [{elapsed}<{remaining}, {rate_fmt}]'
_PLAIN = '{desc}: {n:,} of {total:,} rounds, {elapsed}, {remaining} left'


class _Lines(tqdm):  # type: ignore[misc]  # which has no types
    """Lines that a file or a pipe can hold."""

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """A line below the last one."""
        print(self, file=self.fp, flush=True)


class Progress(Callback):
    """One live line for the whole experiment: rounds done, time taken, time left.

    Where stdout is neither a terminal nor a notebook's, a plain line at each stage and once a
    minute. A simulation that is not finite any more is named at once, above the line, on stderr;
    the others go on.
    """

    def __init__(self, file: TextIO | None = None) -> None:
        """Draws nothing yet.

        Args:
          file: where to; stdout by default.
        """
        self._file = file or sys.stdout
        self._is_live = self._file.isatty() or (file is None and in_ipython())

    def on_start(self, experiment: Any) -> None:
        """Starts the line."""
        self._labels = list(experiment.algorithms)
        own = [
            lane
            for label in self._labels
            for lane in experiment.plan.lanes_at_first(label)
        ]
        self._done = dict.fromkeys((lane.name for lane in own), 0)  # rounds, by lane
        self._several = len(experiment.patterns) > 1
        self._diverged: set[str] = set()
        self._is_fresh = False
        kind, form, seconds = (
            (tqdm, _LIVE, 0.5) if self._is_live else (_Lines, _PLAIN, 60)
        )
        self._bar: Any = kind(
            total=sum(lane.num_rounds for lane in own),
            unit='round',
            file=self._file,
            bar_format=form,
            mininterval=seconds,
            miniters=1,
            delay=1e-9,  # nothing before the first stage has its name
        )

    def on_stage(self, algorithm: str, stage: str, num_rounds: int) -> None:
        """Names the algorithm and its stage."""
        self._bar.set_description_str(self._words(algorithm, stage))

    def on_period(self, lane: Lane, record: MetricsRow) -> None:
        """Counts the rounds, and tells of a lane's first value that is not finite."""
        if not record.get('finite', True) and lane.name not in self._diverged:
            self._diverged.add(lane.name)
            round = int(record['first_bad_round'])
            line = f'not finite from round {round} on (of 0 to {lane.num_rounds - 1})'
            hint = f'--debug_round={round} looks into it'
            tqdm.write(f'{lane.description}: {line}; {hint}', file=sys.stderr)
        earlier = len(record) == 1
        if not earlier and not self._is_fresh:
            self._is_fresh = True
            if before := sum(self._done.values()):
                tqdm.write(
                    f'Goes on after {before:,} rounds done before.', file=self._file
                )
        if (
            lane.name not in self._done
        ):  # of another shard, which this one helps to tune
            self._bar.total += lane.num_rounds
        new = record['round'] - self._done.get(lane.name, 0)
        self._done[lane.name] = record['round']
        words = self._words(lane.algorithm, lane.stage, lane.pattern * self._several)
        self._bar.set_description_str(words, refresh=False)
        if earlier:  # no credit for its speed
            self._bar.initial += new
            self._bar.n += new
            self._bar.last_print_n += new
        else:
            self._bar.update(new)

    def on_wait(self, text: str) -> None:
        """Says what is waited for."""
        if text:
            tqdm.write(text, file=self._file)

    def on_end(self, results: runs.Results) -> None:
        """Leaves the last line."""
        self._bar.close()

    def _words(self, algorithm: str, stage: str, pattern: str = '') -> str:
        place = f'{self._labels.index(algorithm) + 1}/{len(self._labels)}'
        return ', '.join(
            filter(None, (f'{algorithm} {place}', STAGE_NAMES[stage], pattern))
        )


def in_ipython() -> bool:
    """Whether this code runs in a notebook, or another shell of IPython."""
    shell = sys.modules.get('IPython')
    return shell is not None and shell.get_ipython() is not None


def beside(callbacks: Sequence[Callback], progress: bool | None) -> list[Callback]:
    """Returns the callbacks of a run and, where progress is to be shown, one that shows it.

    Args:
      callbacks: of the run.
      progress: whether to show it; None for notebooks alone.
    """
    if progress is not None and not isinstance(progress, bool):
        raise errors.invalid(
            'progress', 'be True, False or None', errors.text_of(progress)
        )
    is_wanted = in_ipython() if progress is None else progress
    is_there = any(isinstance(callback, Progress) for callback in callbacks)
    return [*([Progress()] if is_wanted and not is_there else []), *callbacks]
