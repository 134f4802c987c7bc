"""Runs programs in a process with four devices."""

import os
import subprocess
import sys

import jax

from tests import ROOT

FOUR_DEVICES = "import jax\njax.config.update('jax_num_cpu_devices', 4)\n"


def in_a_process(program, *arguments, as_users_compile=True):
    """Runs a program on four devices and returns the lines that it prints."""
    environment = dict(os.environ)
    if as_users_compile:
        environment.pop('XLA_FLAGS', None)
    cache = jax.config.jax_compilation_cache_dir
    if cache:
        environment['JAX_COMPILATION_CACHE_DIR'] = cache
        environment['JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS'] = '0.05'
    done = subprocess.run(
        [sys.executable, '-c', FOUR_DEVICES + program, *map(str, arguments)],
        cwd=ROOT,
        env={**environment, 'PYTHONPATH': str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
