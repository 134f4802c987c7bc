"""Runs the same work in other interpreters, each of which is started once and waits for jobs.

``PEER_PYTHON_TORCH``, ``PEER_PYTHON_FLOWER``, ``PEER_PYTHON_FEDJAX`` and
``PEER_PYTHON_PFL_RESEARCH`` name these interpreters. A peer without one runs in this
process's own.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import peer_loops

ROOT = Path(__file__).parent.parent
QUIET = {
    'FLWR_TELEMETRY_ENABLED': '0',
    'RAY_USAGE_STATS_ENABLED': '0',
    'JAX_PLATFORMS': 'cpu',
}


def interpreter(name: str) -> str:
    """Returns the Python that has a peer."""
    return os.environ.get(f'PEER_PYTHON_{name.upper()}', sys.executable)


def missing(name: str) -> str | None:
    """Returns the package that a peer needs and its interpreter lacks, if any."""
    python = interpreter(name)
    _, package = peer_loops.PEERS[name]
    code = (
        f'import importlib.util as u, sys; sys.exit(u.find_spec({package!r}) is None)'
    )
    done = subprocess.run([python, '-c', code], cwd=tempfile.gettempdir())
    return package if done.returncode else None


class Session:
    """Runs a peer's process, which waits for jobs, in a context.

    Between two jobs it sleeps, so that jobs can be timed in turns with something else.
    """

    def __init__(self, name: str):
        """Starts the process."""
        self._name = name
        self._scratch = tempfile.TemporaryDirectory()
        self._folder = Path(self._scratch.name)
        self._jobs = 0
        self._stderr = (self._folder / 'stderr').open('w+')
        self._process = subprocess.Popen(
            [interpreter(name), '-m', 'benchmarks.peer_loops', name],
            cwd=ROOT,
            env={**os.environ, **QUIET, 'PYTHONPATH': str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
        )

    def job(self, **arrays: Any) -> Path:
        """Writes a job to run, once or more often."""
        self._jobs += 1
        path = self._folder / f'{self._jobs}.npz'
        np.savez(path, **arrays)
        return path

    def run(self, job: Path) -> tuple[dict[str, np.ndarray], float]:
        """Runs a job; returns its outputs, and the seconds that it took.

        Raises:
          RuntimeError: if it fails, with the end of its error output.
        """
        target = self._folder / 'result.npz'
        with contextlib.suppress(BrokenPipeError):  # then the reply is missing too
            self._process.stdin.write(f'{job}\t{target}\n')
            self._process.stdin.flush()
        reply = self._process.stdout.readline()
        if not reply:
            self._stderr.seek(0)
            raise RuntimeError(f'{self._name}: {self._stderr.read()[-500:]}')
        return dict(np.load(target)), float(reply)

    def __enter__(self) -> 'Session':
        """Returns the session."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the process."""
        with contextlib.suppress(BrokenPipeError):  # it ended by itself
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._stderr.close()
        self._scratch.cleanup()
