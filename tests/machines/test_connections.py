"""Connections of three processes, without JAX."""

import socket
import struct
import subprocess
import sys
import threading
import time
from unittest import mock

import pytest

from fedjax_links.machines import connections, ports
from tests import ROOT
from tests.machines.sockets import free_port

PROGRAM = """
import os, signal, sys
from fedjax_links.machines import connections

port, index, count = map(int, sys.argv[1:4])
end, host = sys.argv[4:]
is_absent = end in ('absent', 'late')
connections._JOIN_SECONDS = connections._NAME_SECONDS = 0.5 if is_absent else 60
if end == 'late':
    connections._NOTE_SECONDS = 0.1
try:
    joined = connections.meet(host, port, index, count)
except ValueError as error:
    sys.exit(str(error))
for message in (f'from {index}'.encode(), bytes([index]) * 2**22):
    received = joined.exchange(message)
    print(*(content[-6:].decode() for content in received), flush=True)
if end == f'kill {index}':
    os.kill(os.getpid(), signal.SIGKILL)
if end == f'fail {index}':
    joined.leave(together=False)
    sys.exit('failed')
joined.exchange(b'the end')
joined.leave(together=True)
"""

PAUSES_ON_CONNECTING = """
import socket, time

connect = socket.create_connection


def connect_and_pause(*arguments, **options):
    connection = connect(*arguments, **options)
    socket.create_connection = connect
    time.sleep(3)
    return connection


socket.create_connection = connect_and_pause
"""


def start(port, index, count=3, end='together', host='127.0.0.1', program=PROGRAM):
    """Starts one process."""
    arguments = [str(port), str(index), str(count), end, host]
    return subprocess.Popen(
        [sys.executable, '-c', program, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(end, started=(0, 1, 2), counts=(3, 3, 3), port=None, host='127.0.0.1'):
    """Runs processes; returns their exit statuses and outputs, in the order of their start."""
    port = port or free_port()
    processes = [start(port, index, counts[index], end, host) for index in started]
    output = [process.communicate(timeout=90) for process in processes]
    return [process.returncode for process in processes], output


def first_error(*arguments, **options):
    """Runs processes and returns what the first one writes to stderr."""
    _, output = run(*arguments, **options)
    return output[0][1]


RECEIVED = (
    'from 0 from 1 from 2\n' + ' '.join(chr(index) * 6 for index in range(3)) + '\n'
)
GONE = (
    'error: process {} of 3 has ended or cannot be reached; the same command, given to each of '
    'them, resumes from the last save.\n'
)


def test_each_process_receives_the_messages_of_all():
    assert run('together') == ([0, 0, 0], [(RECEIVED, '')] * 3)


@pytest.mark.parametrize('gone', [0, 1])
@pytest.mark.parametrize(
    'how, status, words', [('kill', -9, ''), ('fail', 1, 'failed\n')]
)
def test_all_name_the_process_that_is_gone(how, status, words, gone):
    statuses, output = run(f'{how} {gone}')
    assert statuses == [status if index == gone else 2 for index in range(3)]
    line = GONE.format(gone)
    assert [text for _, text in output] == [
        words if index == gone else line for index in range(3)
    ]


HELLO = struct.Struct('>12sqq')
STRANGERS = {
    'is silent': b'',
    'is no process': b'GET / HTTP/1.1\r\nHost: x\r\n\r\n',
    'sends half a greeting': HELLO.pack(b'fedjax_links', 1, 3)[:20],
    'claims to be process 0': HELLO.pack(b'fedjax_links', 0, 3),
    'is one too many': HELLO.pack(b'fedjax_links', 3, 3),
    'is far away': HELLO.pack(b'fedjax_links', 2**62, 3),
    'is negative': HELLO.pack(b'fedjax_links', -1, 3),
}


def reach(port, host='127.0.0.1'):
    """Connects as soon as a process listens."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return socket.create_connection((host, port))
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.mark.slow
def test_strangers_at_the_port_change_nothing():
    port = free_port()
    first = start(port, 0)
    strangers = [reach(port) for _ in STRANGERS]
    for stranger, output in zip(strangers, STRANGERS.values(), strict=True):
        stranger.sendall(output)
    with pytest.raises(ConnectionRefusedError):  # another address of this machine
        socket.create_connection(('127.0.0.2', port))
    statuses, output = run('together', started=(1, 2), port=port)
    assert (statuses, output) == ([0, 0], [(RECEIVED, '')] * 2)
    assert first.communicate(timeout=90) == (RECEIVED, '')
    for stranger in strangers:
        stranger.settimeout(30)
        assert stranger.recv(1) == b''  # process 0 has hung up
        stranger.close()


@pytest.mark.slow
def test_a_process_that_pauses_before_its_greeting_joins():
    """It pauses for longer than process 0 waits for a greeting."""
    port = free_port()
    first = start(port, 0)
    paused = start(port, 1, program=PAUSES_ON_CONNECTING + PROGRAM)
    statuses, output = run('together', started=(2,), port=port)
    assert (statuses, output) == ([0], [(RECEIVED, '')])
    assert paused.communicate(timeout=90) == (RECEIVED, '')
    assert first.communicate(timeout=90) == (RECEIVED, '')


@pytest.mark.parametrize('size', [2**40, 2**62, -(2**40)])
def test_a_message_without_bounds_is_one_that_never_comes(size):
    ours, theirs = socket.socketpair()
    ended = threading.Event()
    results = []

    def end(gone):
        results.append(gone)
        ended.set()

    with mock.patch.object(connections.Connections, '_end', mock.Mock(side_effect=end)):
        joined = connections.Connections(0, 3, {1: ours})
        theirs.sendall(struct.pack('>q', size))
        assert ended.wait(30)
        assert results == [1]
        joined.are_over = True
    ours.close()
    theirs.close()


def test_an_address_is_listened_on_where_it_is_ours():
    assert ports.addresses('127.0.0.1') == ['127.0.0.1']
    assert '127.0.0.1' in ports.addresses('localhost')
    assert ports.addresses('203.0.113.7') == []  # reserved for documentation
    assert ports.addresses('no-such-host.invalid') == []


def test_a_host_name_that_hides_this_machine_binds_everywhere(monkeypatch):
    """As Debian calls a machine 127.0.1.1, where others reach it by another address."""
    known = [(socket.AF_INET, socket.SOCK_STREAM, 6, '', ('127.0.1.1', 0))]
    monkeypatch.setattr(socket, 'getaddrinfo', lambda *of, **options: known)
    assert ports.addresses('a-machine') == []
    assert ports.free_port('a-machine') > 0


def test_a_free_port_is_left_open_on_no_address(monkeypatch):
    servers = [socket.create_server(('127.0.0.1', 0)) for _ in range(2)]
    port = servers[0].getsockname()[1]
    monkeypatch.setattr(ports, 'listen', lambda host, port: servers)
    assert ports.free_port('a-machine') == port
    assert [server.fileno() for server in servers] == [-1, -1]


def test_a_process_says_that_it_waits_for_the_first_one():
    """So does a second one of an index, as process 0 answers no more once all have joined."""
    waiting, refusal, *_ = first_error('late', started=[1]).splitlines()
    assert waiting.startswith('waiting for process 0 at 127.0.0.1:')
    assert waiting.endswith(
        'refused (it answers until all have joined, one process for each process_id)'
    )
    assert refusal.startswith('`coordinator` must answer within 0.5 s')


@pytest.mark.slow
def test_processes_that_do_not_meet_say_why():
    requirement = 'be processes that all start within 0.5 s'
    error = first_error('absent', started=[0])
    assert error == f'`num_processes` must {requirement}, got 3 without process 1, 2.\n'
    for host in ('127.0.0.1', 'no-such-host.invalid'):
        error = first_error('absent', started=[2], host=host)
        assert error.startswith(f'`coordinator` must answer within 0.5 s, got {host}:')
    _, output = run('together', started=[0, 1], counts=(3, 4))
    assert output[0][1] == (
        '`num_processes` must be the same in all of them, got 3 in process 0 and 4 in process 1.\n'
    )
    assert output[1][1] == GONE.format(0).replace('of 3', 'of 4')
    with socket.create_server(('', 0)) as taken:
        port = taken.getsockname()[1]
        error = first_error('absent', started=[0], port=port)
    requirement = 'have a port that is free on the machine of process 0'
    reason = 'Address already in use'
    assert error == f'`coordinator` must {requirement}, got {port}: {reason}.\n'
