"""Runs of two processes that share a mesh, as commands; and how often they keep what one keeps.

NUM_ROUNDS=400 python -m tests.experiment.several --count=50
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests import ROOT

CONFIG = """
import os
import time


def get_config():
    from fedjax_links.core import memory
    from fedjax_links.storage import checkpoints
    from fedjax_links.experiment.running import loop

    loop._SAVE_SECONDS = 0.05
    write_whole = checkpoints.write_whole

    def counted(path, content):
        write_whole(path, content)
        if '@' in path.name:
            folder = path.parent.parent
            with folder.with_name(f'{folder.name}.saves').open('a') as saves:
                saves.write('.')

    checkpoints.write_whole = counted
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
        'num_rounds': int(os.environ.get('NUM_ROUNDS', 300)),
        'eval_every': 1,
        'num_seeds': 1,
    }
"""
"""Both algorithms keep a table, which four devices divide; a save is due some ten times a second.

The disk of a process with SECONDS_TO_SYNC takes so long for every file that it must have written.
"""


def environment(variables=None):
    """That of a user, who gives XLA no flags, and more variables."""
    own = {name: value for name, value in os.environ.items() if name != 'XLA_FLAGS'}
    return {**own, **(variables or {})}


def command(folder, *flags):
    """What a user types."""
    config = folder.parent / 'config.py'
    config.write_text(CONFIG)
    given = [f'--config={config}', f'--workdir={folder}', '--mesh=clients:4']
    return [sys.executable, '-m', 'fedjax_links', 'simulate', *given, *flags]


def start(folder, *, of_leader=None, of_other=None, flags_of_other=()):
    """Starts two processes.

    Args:
      folder: of the run.
      of_leader: variables of process 0.
      of_other: of process 1.
      flags_of_other: more flags of process 1.
    """
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        flags = [f'--coordinator=127.0.0.1:{probe.getsockname()[1]}', '--num_processes=2']
    given = [(of_leader, ()), (of_other, flags_of_other)]
    return [
        subprocess.Popen(
            command(folder, *flags, f'--process_id={place}', *more),
            cwd=ROOT,
            env=environment(variables),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for place, (variables, more) in enumerate(given)
    ]


def run_alone(folder):
    """One process on a mesh of as many devices."""
    subprocess.run(
        command(folder), cwd=ROOT, env=environment(), check=True, stdout=subprocess.DEVNULL
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
    """Exit statuses, and what each process says to stderr; none is left behind."""
    try:
        said = [process.communicate(timeout=timeout)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [process.returncode for process in processes], said


def pause(process, seconds):
    """Stops a process for a while."""
    process.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    process.send_signal(signal.SIGCONT)


def kept(folder):
    """All files but those that say where and when a run took place, and of states the last."""
    left_out = 'environment.json', '.lock'
    files = [path for path in sorted(folder.rglob('*')) if path.is_file()]
    last = max(int(path.stem.rpartition('@')[2]) for path in files if '@' in path.name)
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in files
        if path.name not in left_out and ('@' not in path.name or path.stem.endswith(f'@{last}'))
    }


def num_saves(folder):
    """How often a run was saved."""
    return folder.with_name(f'{folder.name}.saves').stat().st_size


def run_with_a_slow_disk(folder):
    """Two processes, of which the leader's disk is slow and each is stopped for two seconds."""
    both = start(folder, of_leader={'SECONDS_TO_SYNC': '0.01'})
    for place, process in enumerate(both):
        wait_for(folder, 50 * (place + 1), both)
        pause(process, 2)
    return ended(both)


def main(count):
    """Repeats this, and prints how each came out."""
    alike, saves = 0, []
    with tempfile.TemporaryDirectory() as scratch:
        run_alone(Path(scratch) / 'alone')
        whole = kept(Path(scratch) / 'alone')
        for place in range(count):
            folder, began = Path(scratch) / str(place), time.monotonic()
            statuses, said = run_with_a_slow_disk(folder)
            same = statuses == [0, 0] and kept(folder) == whole
            alike, saves = alike + same, [*saves, num_saves(folder)]
            took = time.monotonic() - began
            print(f'{place + 1:3d} {saves[-1]} saves, {took:.0f} s: {same or (statuses, said)}')
    print(f'{alike} of {count} runs kept what one process keeps; saves: at least {min(saves)}')
    return alike != count


if __name__ == '__main__':
    sys.exit(main(int(sys.argv[1].removeprefix('--count='))))
