"""Processes that are killed (SIGKILL) on their way, and started again until they end."""

import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence

from tests import ROOT


def run_with_kills(
    commands: Sequence[Sequence[str]],
    due_of: Callable[[int], Callable[[], bool]],
    *,
    most: int = 3,
    pause: float = 0.005,
) -> tuple[str, int]:
    """Runs commands side by side, each killed at some moments and started again.

    Args:
      commands: what is run.
      due_of: number of a command -> what tells, from its start on, when it is to be killed.
      most: how often each is killed at the most.
      pause: seconds between two looks.

    Returns:
      What the first that failed has said, or nothing; and how many were killed.
    """
    with tempfile.TemporaryFile() as errors:

        def start(number: int) -> tuple[subprocess.Popen[bytes], Callable[[], bool]]:
            process = subprocess.Popen(
                commands[number], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=errors
            )
            return process, due_of(number)

        running = {number: start(number) for number in range(len(commands))}
        kills = dict.fromkeys(running, 0)
        while running:
            for number, (process, due) in list(running.items()):
                if process.poll() is not None:
                    del running[number]
                    if process.returncode != 0:
                        _end(process for process, _ in running.values())
                        errors.seek(0)
                        output = errors.read().decode()[-2000:]
                        return f'status {process.returncode}: {output}', sum(
                            kills.values()
                        )
                elif kills[number] < most and due():
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
