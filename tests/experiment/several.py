"""Starts runs of two processes that share a mesh, and reads what they keep."""

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
from tests.machines.sockets import free_port

CONFIG = """
import os
import time


def get_config():
    from fedjax_links.core import memory
    from fedjax_links.storage import atomic_files
    from fedjax_links.runner import save_clock, stages

    stages._DISPATCH_SECONDS = 0.005
    stages._SAVE_SECONDS = 0.05
    save_clock._LEAST_INTERVAL = 2
    write_atomically = atomic_files.write

    def write_and_count(path, content):
        write_atomically(path, content)
        if '@' in path.name and '.part' not in path.name:
            folder = path.parent.parent
            with folder.with_name(f'{folder.name}.saves').open('a') as saves:
                saves.write('.')

    atomic_files.write = write_and_count
    if 'SECONDS_TO_SYNC' in os.environ:
        fsync = os.fsync

        def slow_fsync(file):
            time.sleep(float(os.environ['SECONDS_TO_SYNC']))
            fsync(file)

        os.fsync = slow_fsync
    if 'BYTES_FREE' in os.environ:
        memory.available_bytes = lambda: int(os.environ['BYTES_FREE'])
    return {
        'title': 'In step',
        'problem': {'name': 'counterexample', 'num_clients': 18, 'dimension': 60},
        'links': {'name': 'bernoulli', 'probs': {'name': 'equal', 'value': 0.5}},
        'client': {'local_steps': 2, 'learning_rate': 0.1},
        'algorithms': {'mifa': {}, 'fedpbc': {}},
        'num_rounds': 200,
        'eval_every': 1,
        'num_seeds': 1,
    }
"""
"""Both algorithms keep a table, which four devices divide; they save for up to half of the time.

SECONDS_TO_SYNC is how long the disk of a process takes to write a file, and BYTES_FREE its memory.
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
shorter = experiment.build({**values, 'num_rounds': 100})
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
"""The program of each process of a caller that connects JAX without this package."""


def environment(variables=None):
    """Returns the variables of a user, who sets no XLA_FLAGS; SIGABRT prints all stacks."""
    inherited = {
        name: value for name, value in os.environ.items() if name != 'XLA_FLAGS'
    }
    return {**inherited, 'PYTHONFAULTHANDLER': '1', **(variables or {})}


def command(folder, *flags):
    """Returns the command that a user types."""
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
    coordinator = f'127.0.0.1:{free_port("127.0.0.1")}'
    flags = [f'--coordinator={coordinator}', '--num_processes=2', *flags]
    leader = command(folder, *flags, '--process_id=0')
    other = command(folder, *flags, '--process_id=1', *flags_of_other)
    return [popen(leader, of_leader), popen(other, of_other)]


def popen(arguments, variables=None, stdout=subprocess.DEVNULL):
    """Starts a process of a user, with more variables."""
    return subprocess.Popen(
        arguments,
        cwd=ROOT,
        env=environment(variables),
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )


def start_connected(folder):
    """Starts two processes of `CONNECTED`: they stop a run, resume it, then extend it."""
    config = folder.parent / 'config.py'
    config.write_text(CONFIG)
    program = folder.parent / 'connected.py'
    program.write_text(CONNECTED)
    coordinator = f'127.0.0.1:{free_port("127.0.0.1")}'
    arguments = [sys.executable, str(program), str(config), str(folder), coordinator]
    variables = {'PYTHONPATH': str(ROOT)}
    return [popen([*arguments, str(index)], variables) for index in range(2)]


def start_as_a_step(folder):
    """Starts a command twice, as `srun` does; ``task-I`` beside the folder has the output of I."""
    for job in range(4096):  # JAX computes the port from the number of the job
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(('', 61440 + job))
            break
    step = {
        'SLURM_JOB_ID': str(job),
        'SLURM_STEP_NODELIST': 'localhost',
        'SLURM_NTASKS': '2',
        'SLURM_STEP_NUM_TASKS': '2',
    }
    tasks = []
    for index in range(2):
        with (folder.parent / f'task-{index}').open('w') as output:
            variables = {**step, 'SLURM_PROCID': str(index)}
            tasks.append(popen(command(folder), variables, stdout=output))
    return tasks


def run_alone(folder, *flags):
    """Runs one process on a mesh of four devices, unless more flags name another mesh."""
    arguments = command(folder, *flags)
    subprocess.run(
        arguments, cwd=ROOT, env=environment(), check=True, stdout=subprocess.DEVNULL
    )


def wait_for(folder, num_lines, processes):
    """Waits until a run has written so many lines of metrics."""
    metrics = folder / 'metrics.jsonl'
    deadline = time.monotonic() + 240
    while not metrics.exists() or metrics.read_bytes().count(b'\n') < num_lines:
        assert all(process.poll() is None for process in processes), wait_for_end(
            processes
        )
        assert time.monotonic() < deadline
        time.sleep(0.02)


def wait_for_end(processes, timeout=300):
    """Returns the exit statuses and what each process wrote to stderr; kills those left.

    If one does not end in time, the error shows the stacks of all.
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


def saved_files(folder):
    """Returns the files of a run, of states the last; divided ones are put together."""
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
    states = {
        name: merged_save(folder / name)
        for name, round in rounds.items()
        if round == last
    }
    others = {name: files[name] for name in files if name not in rounds}
    return {**others, **states}


def merged_save(path):
    """Returns the bytes of a save as one process writes it, from its file and its parts."""
    with np.load(path) as stored:
        entries = dict(stored)
    about = json.loads(bytes(entries['about']))
    divided = {}
    for index in range(len(about.pop('parts', []))):
        with np.load(path.with_name(f'{path.stem}.part{index}.npz')) as stored:
            for name in stored.files[1:]:
                divided.setdefault(name, []).append(stored[name])
    entries |= {name: np.concatenate(rows) for name, rows in divided.items()}
    arrays = {
        'about': np.frombuffer(json.dumps(about).encode(), np.uint8),
        'lines': entries['lines'],
    }
    arrays |= {name: entries[name] for name in sorted(entries) if name.isdecimal()}
    return checksummed_npz.npz(arrays, compress=False)


def num_saves(folder):
    """Returns how often a run was saved."""
    return folder.with_name(f'{folder.name}.saves').stat().st_size


def run_with_a_slow_disk(folder):
    """Runs two processes: the leader's disk is slow, and each is paused for two seconds."""
    both = start(folder, of_leader={'SECONDS_TO_SYNC': '0.01'})
    for index, process in enumerate(both):
        wait_for(folder, 50 * (index + 1), both)
        pause(process, 2)
    return wait_for_end(both)
