"""Kills processes (SIGKILL) while they run, and starts them again until they end."""

import contextlib
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from typing import IO

from tests import ROOT


def run_with_kills(
    commands: Sequence[Sequence[str]],
    draw_moment: Callable[[int], Callable[[], bool]],
    *,
    most: int = 3,
    pause: float = 0.005,
) -> tuple[str, int]:
    """Runs commands side by side, each killed at some moments and started again.

    Args:
      commands: the commands.
      draw_moment: called with a command's index at each of its starts; returns a function that
        tells whether the moment to kill it has come.
      most: kills of each command, at most.
      pause: seconds between two checks.

    Returns:
      The error of the first command that failed, or nothing; and the number of kills.
    """
    kills = [0] * len(commands)
    running: dict[int, subprocess.Popen[bytes]] = {}
    moments: dict[int, Callable[[], bool]] = {}
    with contextlib.ExitStack() as stack:
        errors = [stack.enter_context(tempfile.TemporaryFile()) for _ in commands]
        stack.callback(lambda: _end(running.values()))

        def start(number: int) -> None:
            running[number] = subprocess.Popen(
                commands[number],
                cwd=ROOT,
                stdout=subprocess.DEVNULL,
                stderr=errors[number],
            )
            moments[number] = draw_moment(number)

        for number in range(len(commands)):
            start(number)
        while running:
            for number, process in list(running.items()):
                if process.poll() is not None:
                    del running[number]
                    if process.returncode != 0:
                        output = _last_letters(errors[number])
                        error = f'status {process.returncode}: {output}'
                        return error, sum(kills)
                elif kills[number] < most and moments[number]():
                    process.send_signal(signal.SIGKILL)
                    process.wait()
                    kills[number] += 1
                    start(number)
            time.sleep(pause)
        return '', sum(kills)


def _last_letters(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors='replace')[-2000:]


def _end(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.kill()
        process.wait()
