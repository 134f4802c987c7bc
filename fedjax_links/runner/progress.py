"""Shows how far a run is, in a live line of a terminal or a notebook.

A run consists of lanes: simulations of one algorithm, pattern, grid point and seed each.
"""

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


class _PlainLines(tqdm):  # type: ignore[misc]  # tqdm has no types
    """Prints lines that a file or a pipe can hold."""

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Prints a line below the last one."""
        print(self, file=self.fp, flush=True)


class Progress(Callback):
    """Shows one live line for the whole experiment: rounds done, time taken, time left.

    If stdout is neither a terminal nor a notebook's, it prints a plain line at each stage and once
    a minute. A lane whose values are no longer finite is named at once on stderr, above the line;
    the other lanes go on.
    """

    def __init__(self, file: TextIO | None = None) -> None:
        """Draws nothing yet.

        Args:
          file: where the line goes; stdout by default.
        """
        self._file = file or sys.stdout
        self._is_live = self._file.isatty() or (file is None and in_ipython())

    def on_start(self, experiment: Any) -> None:
        """Starts the line."""
        self._labels = list(experiment.algorithms)
        self._has_several_patterns = len(experiment.patterns) > 1
        lanes = experiment.plan.all_lanes_at_first()
        self._rounds_done = dict.fromkeys((lane.name for lane in lanes), 0)
        self._diverged: set[str] = set()
        self._has_new_rounds = False
        self._bar = self._make_bar(sum(lane.num_rounds for lane in lanes))

    def _make_bar(self, total: int) -> Any:
        """Makes the line for a run of ``total`` rounds."""
        options = {
            'total': total,
            'unit': 'round',
            'file': self._file,
            'miniters': 1,
            'delay': 1e-9,  # nothing is shown before the first stage has its name
        }
        if self._is_live:
            return tqdm(bar_format=_LIVE, mininterval=0.5, **options)
        return _PlainLines(bar_format=_PLAIN, mininterval=60, **options)

    def on_stage(self, algorithm: str, stage: str, num_rounds: int) -> None:
        """Names the algorithm and its stage."""
        self._bar.set_description_str(self._heading(algorithm, stage))

    def on_period(self, lane: Lane, record: MetricsRow) -> None:
        """Counts the rounds, and reports the first value of a lane that is not finite."""
        self._report_divergence(lane, record)
        # The rounds of a lane that an earlier command ran are reported as a last round alone.
        is_from_earlier = len(record) == 1
        if not is_from_earlier and not self._has_new_rounds:
            self._has_new_rounds = True
            num_before = sum(self._rounds_done.values())
            if num_before:
                text = f'Resumes after {num_before:,} rounds.'
                tqdm.write(text, file=self._file)
        if lane.name not in self._rounds_done:
            # A lane of another shard, whose tuning this shard helps with.
            self._bar.total += lane.num_rounds
        num_new = record['round'] - self._rounds_done.get(lane.name, 0)
        self._rounds_done[lane.name] = record['round']
        pattern = lane.pattern if self._has_several_patterns else ''
        heading = self._heading(lane.algorithm, lane.stage, pattern)
        self._bar.set_description_str(heading, refresh=False)
        if is_from_earlier:
            # These rounds count as done, but not for the speed.
            self._bar.initial += num_new
            self._bar.n += num_new
            self._bar.last_print_n += num_new
        else:
            self._bar.update(num_new)

    def _report_divergence(self, lane: Lane, record: MetricsRow) -> None:
        """Names a lane when its values are first not finite."""
        if record.get('finite', True) or lane.name in self._diverged:
            return
        self._diverged.add(lane.name)
        round = int(record['first_bad_round'])
        line = (
            f'not finite from round {round} on (rounds are 0 to {lane.num_rounds - 1})'
        )
        hint = f'--debug_round={round} looks into it'
        tqdm.write(f'{lane.description}: {line}; {hint}', file=sys.stderr)

    def on_wait(self, text: str) -> None:
        """Prints what is waited for."""
        if text:
            tqdm.write(text, file=self._file)

    def on_end(self, results: runs.Results) -> None:
        """Leaves the last line."""
        self._bar.close()

    def _heading(self, algorithm: str, stage: str, pattern: str = '') -> str:
        """Names what runs: the algorithm with its number, its stage and its pattern."""
        number = self._labels.index(algorithm) + 1
        # The main stage has no name.
        words = [
            f'{algorithm} {number}/{len(self._labels)}',
            STAGE_NAMES[stage],
            pattern,
        ]
        return ', '.join(word for word in words if word)


def in_ipython() -> bool:
    """Returns whether this code runs in a notebook, or another shell of IPython."""
    shell = sys.modules.get('IPython')
    return shell is not None and shell.get_ipython() is not None


def with_progress(
    callbacks: Sequence[Callback], progress: bool | None
) -> list[Callback]:
    """Returns the callbacks of a run, with a `Progress` if progress is to be shown.

    Args:
      callbacks: of the run.
      progress: whether to show progress; None to show it in notebooks alone.
    """
    if progress is not None and not isinstance(progress, bool):
        raise errors.invalid(
            'progress', 'be True, False or None', errors.text_of(progress)
        )
    is_shown = in_ipython() if progress is None else progress
    has_progress = any(isinstance(callback, Progress) for callback in callbacks)
    if is_shown and not has_progress:
        return [Progress(), *callbacks]
    return list(callbacks)
