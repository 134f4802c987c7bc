"""Wrong configs: each runs as meant or is refused in one line.

  python -m tests.attacks.fuzz --count=2000 --seed=0 --commands=20

Takes everyday configs at tiny sizes, spoils one to three places (`mutations`), and drives each
the way of the command line up to the point where training would begin. What is accepted is judged
by rules of its own (`rules`). Exit status 1 if anything ends in a traceback or in a line that
names no field, flag or file, is nonsense, or takes too long.
"""

import argparse
import collections
import contextlib
import math
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fedjax_links import experiment, report
from fedjax_links.config import trees
from fedjax_links.core import errors
from fedjax_links.report.screens import theory
from tests.attacks import mutations, rules

LINE, NAMELESS, TRACEBACK = 'one line', 'a line that names nothing', 'traceback'
RUNS, NONSENSE, SLOW = 'runs', 'nonsense', 'too long'
BAD = (NAMELESS, TRACEBACK, NONSENSE, SLOW)
_LONGEST_LINE = 2_000


class Verdict(NamedTuple):
    """How a config ended.

    Attributes:
      kind: one of the constants above.
      text: the message, the traceback, or what is nonsense about it.
    """

    kind: str
    text: str


class _TooLong(BaseException):
    """Raised by the alarm; no handler of errors catches it."""


def judge(config: dict[str, Any], limit: float = 60.0) -> Verdict:
    """Drives a config up to the point where training would begin.

    Args:
      config: plain values.
      limit: seconds of processor time that it may take.

    Returns:
      How it ended.
    """
    try:
        with _alarm(limit):
            num_clients = _drive(config)
    except (errors.InvalidError, errors.MissingPackageError) as error:
        return _as_line(str(error))
    except _TooLong:
        return Verdict(SLOW, f'more than {limit:g} s')
    except Exception:
        return Verdict(TRACEBACK, traceback.format_exc())
    found = rules.nonsense(config, num_clients)
    return Verdict(NONSENSE, '; '.join(found)) if found else Verdict(RUNS, '')


def _drive(config: dict[str, Any]) -> int:
    """The command line's way, without compiling; returns the number of clients."""
    config = trees.full(config)
    planned = experiment.build(config)
    report.check(planned)
    planned.describe()
    theory.prediction(planned)
    planned.check()
    pattern = next(iter(planned.plan.patterns))
    return planned.problem_at(pattern, planned.plan.points[0]).num_clients


def _as_line(message: str) -> Verdict:
    """A line has to begin with the field, the flag or the file that is to be mended."""
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


def command(config: dict[str, Any], limit: float = 300.0) -> Verdict:
    """Gives a config to the command line itself, which also compiles (``--dry_run``)."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / 'spoilt.py'
        path.write_text(
            f'from math import inf, nan\n\n\ndef get_config():\n    return {config!r}\n'
        )
        line = [
            sys.executable,
            '-m',
            'fedjax_links',
            'simulate',
            f'--config={path}',
            '--dry_run',
        ]
        try:
            done = subprocess.run(
                line, capture_output=True, text=True, timeout=limit, check=False
            )
        except subprocess.TimeoutExpired:
            return Verdict(SLOW, f'more than {limit:g} s')
    said = done.stderr.strip().splitlines()
    if done.returncode == 0:
        return Verdict(RUNS, '')
    if done.returncode == 2 and said:
        return _as_line(said[-1])
    return Verdict(TRACEBACK, done.stderr[-3_000:])


def main() -> None:
    """Counts how configs end, and shows each that ends badly."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--count', type=int, default=200, help='configs')
    parser.add_argument('--seed', type=int, default=0, help='of the first config')
    parser.add_argument(
        '--commands', type=int, default=0, help='of these, given to the command'
    )
    parser.add_argument('--lines', action='store_true', help='show every refusal, too')
    options = parser.parse_args()
    began, counts = time.perf_counter(), collections.Counter[str]()
    by_command = math.ceil(options.count / max(1, options.commands))
    for place in range(options.count):
        seed = options.seed + place
        config, done = mutations.mutated(seed)
        verdicts = [('', judge(config))]
        if options.commands and place % by_command == 0:
            verdicts.append(('command ', command(config)))
        for who, verdict in verdicts:
            counts[who + verdict.kind] += 1
            if verdict.kind in BAD or (options.lines and verdict.kind == LINE):
                print(
                    f'--- {seed} {who}{verdict.kind}: {done}\n{verdict.text}',
                    flush=True,
                )
    print(dict(counts))
    print(f'{options.count} configs in {time.perf_counter() - began:.0f} s')
    sys.exit(any(kind.removeprefix('command ') in BAD for kind in counts))


if __name__ == '__main__':
    main()
