"""Wrong configs: each runs as meant or is refused in one line.

  python -m tests.attacks.fuzz --count=2000 --seed=0 --commands=20 --runs=1

Everyday configs at tiny sizes, some on files of data and logs, get wrong values, files and names
(`mutations`). Each goes through the steps of the command line up to where training would begin.
`rules` judges what is accepted, independently of the package's checks. With `--runs` a fraction of
the small accepted configs also trains, reports, is read, watched and merged.

The exit status is 1 if a config ends in a traceback, or in a line that names no field, flag or
file; if an accepted one is nonsense or takes too long; or if a report hides NaN.
"""

import argparse
import collections
import contextlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fedjax_links import experiment, report, runs
from fedjax_links.config import bound, nested
from fedjax_links.core import errors
from fedjax_links.preview import theory
from fedjax_links.report import live
from tests.attacks import mutations, rules

LINE = 'one line'
NAMELESS = 'a line that names nothing'
TRACEBACK = 'traceback'
RUNS = 'runs'
NONSENSE = 'nonsense'
SLOW = 'too long'
ENDS = 'ran'
BAD = (NAMELESS, TRACEBACK, NONSENSE, SLOW)
_LONGEST_LINE = 2_000
# Only configs up to this size run.
_MOST_CLIENTS = 12
_MOST_ROUNDS = 12
_MOST_LANES = 24


class Verdict(NamedTuple):
    """How a config ended.

    Attributes:
      kind: one of the constants above.
      text: the message, the traceback, or the faults.
    """

    kind: str
    text: str


class _TooLong(BaseException):
    """Raised by the alarm; no handler of errors catches it."""


def judge(
    config: dict[str, Any],
    files: Mapping[str, bytes] | None = None,
    *,
    limit: float = 60.0,
    runs_too: bool = False,
) -> Verdict:
    """Drives a config up to the point where training would begin, or to its end.

    Args:
      config: plain values.
      files: contents of the files beside it, by name.
      limit: seconds of processor time that it may take.
      runs_too: whether it trains and reports, if it is small.

    Returns:
      How it ended.
    """
    with _folder_with(files or {}) as folder:
        try:
            with _alarm(limit):
                planned, num_clients = _drive(config)
                kind = RUNS
                faults = rules.nonsense(config, num_clients)
                if runs_too and not faults and _is_small(planned, num_clients):
                    kind = ENDS
                    faults = _run(planned, folder)
                if faults:
                    return Verdict(NONSENSE, '; '.join(faults))
                return Verdict(kind, '')
        except (errors.InvalidError, errors.MissingPackageError) as error:
            return _as_line(str(error))
        except _TooLong:
            return Verdict(SLOW, f'more than {limit:g} s')
        except Exception:
            return Verdict(TRACEBACK, traceback.format_exc())


@contextlib.contextmanager
def _folder_with(files: Mapping[str, bytes]) -> Iterator[Path]:
    """Writes files into a folder of their own and works there."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            Path(folder, name).write_bytes(content)
        os.chdir(folder)
        try:
            with bound.importable(folder):
                yield Path(folder)
        finally:
            os.chdir(before)


def _is_small(planned: experiment.Experiment, num_clients: int) -> bool:
    """Whether a run takes no longer than it takes to compile."""
    num_lanes = math.prod(
        len(part)
        for part in (
            planned.algorithms,
            planned.patterns,
            planned.plan.points,
            planned.seeds,
        )
    )
    is_short = planned.num_rounds <= _MOST_ROUNDS
    return is_short and num_clients <= _MOST_CLIENTS and num_lanes <= _MOST_LANES


def _run(planned: experiment.Experiment, folder: Path) -> list[str]:
    """Runs, reports, watches and merges; returns the faults of the results."""
    path = folder / 'run'
    results = planned.run(path)
    report.write(results, planned)
    text = (path / 'report.md').read_text()
    status = runs.status(path)
    progress = live.read(path)
    list(live.progress_lines(progress))
    live.write(progress, path, [planned.title], seconds=None)
    stored = runs.read(path)
    stored.dataset.to_netcdf(path / 'all.nc')
    report.table(stored, form='latex')
    merged = runs.merge(path, folder / 'merged')
    report.table(merged, form='csv')
    faults = []
    if status.done != status.lanes:
        faults.append(f'{status.lanes - status.done} lanes are not done')
    lines = (path / runs.METRICS).read_text()
    if (folder / 'merged' / runs.METRICS).read_text() != lines:
        faults.append('merged metrics differ')
    if hides_nan(lines, text):
        faults.append('NaN, of which the report says nothing')
    return faults


def hides_nan(lines: str, text: str) -> bool:
    """Whether a metric is missing or not finite, and the report does not say why."""
    if 'iverged' in text:
        return False
    for line in map(json.loads, lines.splitlines()):
        values = [value for name, value in line.items() if name.startswith('server/')]
        is_bad = any(value is None or not math.isfinite(value) for value in values)
        if is_bad and line.get('finite', True):
            return True
    return False


def _drive(config: dict[str, Any]) -> tuple[experiment.Experiment, int]:
    """Takes the steps of the command line before compiling; returns the number of clients too."""
    config = nested.full(config)
    planned = experiment.build(config)
    report.check(planned)
    planned.describe()
    theory.summary(planned)
    planned.check()
    pattern = next(iter(planned.plan.patterns))
    return planned, planned.problem_at(pattern, planned.plan.points[0]).num_clients


def _as_line(message: str) -> Verdict:
    """Judges an error; its line has to begin with the field, the flag or the file to change."""
    names = re.match(
        r'(error: )?(`(config\b|--?\w|[\w./-]*/)|[^`]+: `pip install )', message
    )
    is_line = '\n' not in message and len(message) <= _LONGEST_LINE
    return Verdict(LINE if names and is_line else NAMELESS, message)


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    def ring(signum: int, frame: Any) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def command(
    config: dict[str, Any],
    files: Mapping[str, bytes] | None = None,
    limit: float = 300.0,
) -> Verdict:
    """Gives a config to the command line itself, which also compiles (``--dry_run``)."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in (files or {}).items():
            Path(folder, name).write_bytes(content)
        path = Path(folder) / 'spoilt.py'
        text = (
            f'from math import inf, nan\n\n\ndef get_config():\n    return {config!r}\n'
        )
        path.write_text(text)
        arguments = ['simulate', f'--config={path}', '--dry_run']
        try:
            done = subprocess.run(
                [sys.executable, '-m', 'fedjax_links', *arguments],
                capture_output=True,
                text=True,
                check=False,
                cwd=folder,
                timeout=limit,
            )
        except subprocess.TimeoutExpired:
            return Verdict(SLOW, f'more than {limit:g} s')
    output = done.stderr.strip().splitlines()
    if done.returncode == 0:
        return Verdict(RUNS, '')
    if done.returncode == 2 and output:
        return _as_line(output[-1])
    return Verdict(TRACEBACK, done.stderr[-3_000:])


def main() -> None:
    """Counts how configs end, and shows each that ends badly."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--count', type=int, default=200, help='configs')
    parser.add_argument('--seed', type=int, default=0, help='of the first config')
    parser.add_argument(
        '--commands', type=int, default=0, help='of these, run by the command too'
    )
    parser.add_argument(
        '--runs', type=float, default=0, help='fraction of small configs that run'
    )
    parser.add_argument('--lines', action='store_true', help='show every refusal, too')
    options = parser.parse_args()
    start_time = time.perf_counter()
    counts = collections.Counter[str]()
    warnings.simplefilter('ignore')
    by_command = math.ceil(options.count / max(1, options.commands))
    for index in range(options.count):
        seed = options.seed + index
        case = mutations.mutated(seed)
        runs_too = (seed * 0.6180339887) % 1 < options.runs
        verdicts = [('', judge(case.config, case.files, runs_too=runs_too))]
        if options.commands and index % by_command == 0:
            verdicts.append(('command ', command(case.config, case.files)))
        for prefix, verdict in verdicts:
            kind = prefix + verdict.kind
            counts[kind] += 1
            if verdict.kind in BAD or (options.lines and verdict.kind == LINE):
                print(f'--- {seed} {kind}: {case.done}\n{verdict.text}', flush=True)
        if (index + 1) % 100 == 0:
            print(f'{index + 1}: {dict(counts)}', flush=True)
    print(dict(counts))
    print(f'{options.count} configs in {time.perf_counter() - start_time:.0f} s')
    sys.exit(any(kind.removeprefix('command ') in BAD for kind in counts))


if __name__ == '__main__':
    main()
