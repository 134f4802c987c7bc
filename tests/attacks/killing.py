"""Kills processes (SIGKILL) while they run, and starts them again until they end."""

import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence

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
    with tempfile.TemporaryFile() as errors:

        def start(number: int) -> tuple[subprocess.Popen[bytes], Callable[[], bool]]:
            process = subprocess.Popen(
                commands[number], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=errors
            )
            return process, draw_moment(number)

        running = {number: start(number) for number in range(len(commands))}
        kills = dict.fromkeys(running, 0)
        while running:
            for number, (process, has_come) in list(running.items()):
                if process.poll() is not None:
                    del running[number]
                    if process.returncode != 0:
                        _end(process for process, _ in running.values())
                        errors.seek(0)
                        output = errors.read().decode()[-2000:]
                        error = f'status {process.returncode}: {output}'
                        return error, sum(kills.values())
                elif kills[number] < most and has_come():
                    process.send_signal(signal.SIGKILL)
                    process.wait()
                    kills[number] += 1
                    running[number] = start(number)
            time.sleep(pause)
        return '', sum(kills.values())


def _end(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.kill()
        process.wait()
