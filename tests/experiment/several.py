"""Runs of two processes that share a mesh, as commands."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np

from fedjax_links.storage import checksummed_npz
from tests import ROOT
from tests.experiment.configs import files_of

CONFIG = """
import os
import time


def get_config():
    from fedjax_links.core import memory
    from fedjax_links.storage import atomic_files
    from fedjax_links.runner import save_clock, stages

    stages._SAVE_SECONDS = 0.05
    save_clock._TIME_PER_SAVE = 2
    write_atomically = atomic_files.write

    def counted(path, content):
        write_atomically(path, content)
        if '@' in path.name and '.part' not in path.name:
            folder = path.parent.parent
            with folder.with_name(f'{folder.name}.saves').open('a') as saves:
                saves.write('.')

    atomic_files.write = counted
    if 'SECONDS_TO_SYNC' in os.environ:
        fsync = os.fsync

        def slow(file):
            time.sleep(float(os.environ['SECONDS_TO_SYNC']))
            fsync(file)

        os.fsync = slow
    if 'BYTES_FREE' in os.environ:
        memory.available_bytes = lambda: int(os.environ['BYTES_FREE'])
    return {
        'title': 'In step',
        'problem': {'name': 'counterexample', 'num_clients': 18, 'dimension': 60},
        'links': {'name': 'bernoulli', 'probs': {'name': 'equal', 'value': 0.5}},
        'client': {'local_steps': 2, 'learning_rate': 0.1},
        'algorithms': {'mifa': {}, 'fedpbc': {}},
        'num_rounds': 400,
        'eval_every': 1,
        'num_seeds': 1,
    }
"""
"""Both algorithms keep a table, which four devices divide; they save for up to half of the time.

The disk of a process with SECONDS_TO_SYNC takes so long for every file that it must have written.
"""


CONNECTED = """
import runpy
import sys

import jax

config, folder, coordinator, index = sys.argv[1:]
jax.config.update('jax_num_cpu_devices', 2)
jax.distributed.initialize(coordinator, 2, int(index))

from fedjax_links import experiment


class StopAtFirst(experiment.Callback):
    def on_period(self, lane, record):
        raise experiment.Stop


values = runpy.run_path(config)['get_config']()
shorter = experiment.build({**values, 'num_rounds': 200})
try:
    # The callback of one process stops all of them, and they continue.
    shorter.run(folder, [StopAtFirst()] if index == '1' else [], mesh=4)
except experiment.Stop:
    print('stopped')
shorter.run(folder, mesh=4)
experiment.build(values).run(folder, mesh=4)

# Each process is alone again.
jax.distributed.shutdown()
alone = experiment.build({**values, 'num_rounds': 2}).run(progress=False)
assert len(alone.columns['round']) == 4
"""
"""What a caller runs in each process who connects JAX without this package."""


def environment(variables=None):
    """That of a user, who gives XLA no flags, and more variables; SIGABRT prints all stacks."""
    inherited = {
        name: value for name, value in os.environ.items() if name != 'XLA_FLAGS'
    }
    return {**inherited, 'PYTHONFAULTHANDLER': '1', **(variables or {})}


def command(folder, *flags):
    """What a user types."""
    config = folder.parent / 'config.py'
    config.write_text(CONFIG)
    arguments = [f'--config={config}', f'--workdir={folder}', '--mesh=clients:4']
    return [sys.executable, '-m', 'fedjax_links', 'simulate', *arguments, *flags]


def start(folder, *flags, of_leader=None, of_other=None, flags_of_other=()):
    """Starts two processes.

    Args:
      folder: of the run.
      *flags: more flags of both.
      of_leader: variables of process 0.
      of_other: of process 1.
      flags_of_other: more flags of process 1.
    """
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        flags = [
            f'--coordinator=127.0.0.1:{probe.getsockname()[1]}',
            '--num_processes=2',
            *flags,
        ]
    arguments = [(of_leader, ()), (of_other, flags_of_other)]
    return [
        subprocess.Popen(
            command(folder, *flags, f'--process_id={index}', *more),
            cwd=ROOT,
            env=environment(variables),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index, (variables, more) in enumerate(arguments)
    ]


def start_connected(folder):
    """Starts two processes that run in Python: stopped, then resumed, then extended."""
    config = folder.parent / 'config.py'
    config.write_text(CONFIG)
    program = folder.parent / 'connected.py'
    program.write_text(CONNECTED)
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        coordinator = f'127.0.0.1:{probe.getsockname()[1]}'
    arguments = [str(program), str(config), str(folder), coordinator]
    return [
        subprocess.Popen(
            [sys.executable, *arguments, str(index)],
            cwd=ROOT,
            env=environment({'PYTHONPATH': str(ROOT)}),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]


def start_as_a_step(folder):
    """Starts the same command twice, as `srun` does with two tasks; ``task-I`` has what I says."""
    for job in range(4096):  # names a port, as in JAX
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(('', 61440 + job))
            break
    step = {
        'SLURM_JOB_ID': str(job),
        'SLURM_STEP_NODELIST': 'localhost',
        'SLURM_NTASKS': '2',
    }
    return [
        subprocess.Popen(
            command(folder),
            cwd=ROOT,
            env=environment(
                {**step, 'SLURM_STEP_NUM_TASKS': '2', 'SLURM_PROCID': str(index)}
            ),
            stdout=(folder.parent / f'task-{index}').open('w'),
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]


def run_alone(folder, *flags):
    """One process on a mesh of as many devices, or as more flags say."""
    inputs = command(folder, *flags)
    subprocess.run(
        inputs, cwd=ROOT, env=environment(), check=True, stdout=subprocess.DEVNULL
    )


def wait_for(folder, num_lines, processes):
    """Waits until there are so many lines of metrics."""
    metrics = folder / 'metrics.jsonl'
    deadline = time.monotonic() + 240
    while not metrics.exists() or metrics.read_bytes().count(b'\n') < num_lines:
        assert all(process.poll() is None for process in processes), ended(processes)
        assert time.monotonic() < deadline
        time.sleep(0.02)


def ended(processes, timeout=300):
    """Exit statuses, and what each process says to stderr; none is left behind.

    Where one does not end, the error shows where each of them stands.
    """
    try:
        output = [process.communicate(timeout=timeout)[1] for process in processes]
    except subprocess.TimeoutExpired as error:
        for process in processes:
            process.send_signal(signal.SIGABRT)
        stacks = [process.communicate(timeout=timeout)[1] for process in processes]
        statuses = [process.returncode for process in processes]
        raise AssertionError(f'{error}: {statuses}\n' + '\n'.join(stacks)) from None
    finally:
        for process in processes:
            process.kill()
    return [process.returncode for process in processes], output


def pause(process, seconds):
    """Stops a process for a while."""
    process.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    process.send_signal(signal.SIGCONT)


def kept(folder):
    """All that a run keeps, of states the last; divided ones are put together."""
    files = {
        name: content
        for name, content in files_of(folder).items()
        if '.part' not in name
    }
    rounds = {
        name: int(name.split('@')[1].removesuffix('.npz'))
        for name in files
        if '@' in name
    }
    last = max(rounds.values())
    full = {
        name: as_one(folder / name) for name, round in rounds.items() if round == last
    }
    return {**{name: files[name] for name in files if name not in rounds}, **full}


def as_one(path):
    """The bytes that a save has where one process writes it, from its file and its parts."""
    with np.load(path) as stored:
        entries = dict(stored)
    about = json.loads(bytes(entries['about']))
    divided = {}
    for index in range(len(about.pop('parts', []))):
        with np.load(path.with_name(f'{path.stem}.part{index}.npz')) as stored:
            for name in stored.files[1:]:
                divided.setdefault(name, []).append(stored[name])
    entries |= {name: np.concatenate(rows) for name, rows in divided.items()}
    texts = np.frombuffer(json.dumps(about).encode(), np.uint8), entries['lines']
    leaves = {name: entries[name] for name in sorted(entries) if name.isdecimal()}
    return checksummed_npz.npz(
        {'about': texts[0], 'lines': texts[1], **leaves}, compress=False
    )


def num_saves(folder):
    """How often a run was saved."""
    return folder.with_name(f'{folder.name}.saves').stat().st_size


def run_with_a_slow_disk(folder):
    """Two processes, of which the leader's disk is slow and each is stopped for two seconds."""
    both = start(folder, of_leader={'SECONDS_TO_SYNC': '0.01'})
    for index, process in enumerate(both):
        wait_for(folder, 50 * (index + 1), both)
        pause(process, 2)
    return ended(both)
