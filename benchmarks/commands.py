"""Measures how long commands take in separate processes, and how much memory."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
_LAUNCHER = """
import resource, subprocess, sys, time
begin = time.perf_counter()
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)
seconds = time.perf_counter() - begin
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(done.returncode, seconds, peak * (1 if sys.platform == 'darwin' else 1024))
"""  # small itself: a process counts what it held when its parent started it


class CommandCost(NamedTuple):
    """Holds what a command took.

    Attributes:
      seconds: from start to end.
      gibibytes: its peak memory, GiB.
    """

    seconds: float
    gibibytes: float


def run(
    arguments: Sequence[str],
    environment: Mapping[str, str] | None = None,
    *,
    status: int = 0,
) -> CommandCost:
    """Runs ``python ARGUMENTS``, with modules as compiled by earlier runs, like installed ones.

    Args:
      arguments: of the interpreter.
      environment: variables besides those of this process.
      status: the exit status expected.

    Raises:
      RuntimeError: for another exit status, with the end of its error output.
    """
    inherited = dict(os.environ)
    inherited.pop('PYTHONDONTWRITEBYTECODE', None)
    launched = subprocess.run(
        [sys.executable, '-c', _LAUNCHER, sys.executable, *arguments],
        cwd=ROOT,
        env={**inherited, **(environment or {})},
        capture_output=True,
        text=True,
        check=True,
    )
    ended, seconds, peak = launched.stdout.split()
    if int(ended) != status:
        raise RuntimeError(launched.stderr[-500:])
    return CommandCost(float(seconds), float(peak) / 2**30)
