"""One process at a time holds a lock, and the lock ends with its process."""

import os
import signal
import subprocess
import sys
import time

from fedjax_links.storage import file_locks
from tests import ROOT

RACE = """
import os
import sys
import time
from pathlib import Path

from fedjax_links.storage import file_locks

folder = Path(sys.argv[1])
won = 0
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    claim = file_locks.acquire(folder / 'lane.lock')
    if claim is None:
        continue
    os.close(os.open(folder / 'alone', os.O_CREAT | os.O_EXCL))  # fails if another one is here
    won += 1
    time.sleep(won % 3 / 10000)
    os.unlink(folder / 'alone')
    claim.release(keep=won % 2 == 0)
print(won)
"""
HOLD = """
import sys
import time
from pathlib import Path

from fedjax_links.storage import file_locks

claim = file_locks.acquire(Path(sys.argv[1]))
print('held', flush=True)
time.sleep(60)
"""


def start(code, *arguments):
    """Starts another process."""
    return subprocess.Popen(
        [sys.executable, '-c', code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def test_processes_that_race_never_hold_one_file_together(tmp_path):
    racers = [start(RACE, tmp_path, 1) for _ in range(4)]
    output = [racer.communicate() for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * 4, output
    assert sum(int(out) for out, _ in output) > 100


def test_a_claim_ends_with_its_process(tmp_path):
    path = tmp_path / 'lane.lock'
    holder = start(HOLD, path)
    try:
        assert holder.stdout.readline() == 'held\n'
        assert file_locks.acquire(path) is None
        assert file_locks.holder_info(path)['holder'].startswith(
            f'process {holder.pid} on '
        )
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    claim = file_locks.acquire(path)
    assert claim is not None
    claim.release()
    assert not path.exists()


def test_a_lock_names_its_holder_and_since_when(tmp_path):
    before = time.time()
    claim = file_locks.acquire(tmp_path / 'a.lock')
    claim.write_info(rounds=3)
    info = file_locks.holder_info(tmp_path / 'a.lock')
    assert info['holder'] == file_locks.process_name()
    assert info['rounds'] == 3
    assert before <= info['since'] <= time.time()
    claim.release(keep=True)
    assert file_locks.holder_info(tmp_path / 'a.lock') is None
    assert file_locks.holder_info(tmp_path / 'b.lock') is None


def test_a_lock_of_nested_lists_names_no_holder(tmp_path):
    path = tmp_path / 'a.lock'
    path.write_text('[' * 10**5)
    assert file_locks.read_info(path) == {}
    assert not file_locks.is_lock(path)


def test_shared_locks_exclude_the_exclusive_one_alone(tmp_path):
    path = tmp_path / 'a.lock'
    first = file_locks.acquire_shared(path)
    second = file_locks.acquire_shared(path)
    assert file_locks.acquire(path) is None
    first.close()
    second.close()
    claim = file_locks.acquire(path)
    assert file_locks.acquire_shared(path) is None
    claim.release()


def test_information_is_updated_and_the_file_keeps_its_time(tmp_path):
    path = tmp_path / 'a.lock'
    lock = file_locks.acquire(path)
    lock.write_info(lanes=1_000_000)
    os.utime(path, (5, 5))
    lock.update_info(lanes=3)
    lock.update_info(running=2)
    info = file_locks.read_info(path)
    assert (info['lanes'], info['running']) == (3, 2)
    assert info['holder'] == file_locks.process_name()
    assert path.stat().st_mtime == 5
    lock.release(keep=True)
    assert file_locks.is_lock(path)
    again = file_locks.acquire(path)
    assert 'running' not in file_locks.read_info(path)
    again.release()
