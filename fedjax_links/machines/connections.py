"""Connects the processes of a run to process 0, so that each learns what the others do.

Once a process is gone, computations that devices of several processes share may wait, raise or
abort. So all messages between processes take these connections. A process that finds another
process gone prints a line and ends itself, wherever it is waiting.

Anybody who reaches the port of process 0 can join as one of the processes, as nothing proves who
connects. So process 0 listens only on the addresses of the coordinator's name, and takes messages
of bounded size. It hangs up on anybody who does not greet as a process of this package does.
"""

import contextlib
import errno
import math
import os
import queue
import selectors
import socket
import struct
import sys
import threading
import time
from collections.abc import Mapping
from typing import NoReturn

from fedjax_links.core import errors
from fedjax_links.machines import ports

_JOIN_SECONDS = 300  # in which all processes must start
_NOTE_SECONDS = 10  # after which a process says that it waits for process 0
_NAME_SECONDS = 60  # in which a machine that starts, such as a pod, must have a name
_SILENT_SECONDS = 40
"""Seconds after which a machine that does not answer counts as gone.

If a process is merely stopped, its machine still answers."""
_KEEPING_ALIVE = {
    'KEEPIDLE': _SILENT_SECONDS // 4,
    'KEEPINTVL': _SILENT_SECONDS // 8,
    'KEEPCNT': 6,
    'USER_TIMEOUT': 1000 * _SILENT_SECONDS,
}
"""TCP options by which a machine checks that the machine at the other end still answers."""
_SIZE = struct.Struct('>q')  # of a message
_LEFT = -1  # in place of a size: the sender leaves with all others
_GONE = -2  # in place of a size: process i is gone, as -2 - i
_HELLO = struct.Struct('>12sqq')  # a greeting: _NAME, index, number of processes
_NAME = b'fedjax_links'
_WELCOME = b'+'  # the answer to a greeting
_GREETING_SECONDS = 2  # in which a greeting must come once a process has connected
_LARGEST = 2**28  # bytes of a message; more than any process sends


class Connections:
    """Holds the connections of this process: process 0's to all others, or another's to process 0.

    Attributes:
      process_id: index of this process.
      are_over: whether nothing more is sent.
    """

    def __init__(
        self, process_id: int, count: int, sockets: Mapping[int, socket.socket]
    ) -> None:
        """Begins to listen.

        Args:
          process_id: index of this process.
          count: number of processes.
          sockets: the connections, by the index of the process at the other end.
        """
        self.process_id = process_id
        self.are_over = False
        self._count = count
        self._sockets = sockets
        self._messages: dict[int, queue.SimpleQueue[bytes]] = {
            process: queue.SimpleQueue() for process in sockets
        }
        self._sending = {process: threading.Lock() for process in sockets}
        self._ending = threading.Lock()
        for process in sockets:
            threading.Thread(target=self._listen, args=(process,), daemon=True).start()

    def exchange(self, message: bytes) -> list[bytes]:
        """Returns the messages of all processes, in their order, once all have sent one."""
        if len(message) > _LARGEST:
            raise ValueError(
                f'A message has {len(message)} bytes, more than {_LARGEST}.'
            )
        if self.process_id:
            self._send(0, _SIZE.pack(len(message)) + message)
            return [self._messages[0].get() for _ in range(self._count)]
        others = [self._messages[process].get() for process in range(1, self._count)]
        messages = [message, *others]
        content = b''.join(_SIZE.pack(len(part)) + part for part in messages)
        for process in self._sockets:
            self._send(process, content)
        return messages

    def leave(self, *, together: bool) -> None:
        """Ends the exchange.

        Args:
          together: whether all processes leave now. If not, this process is gone for the others.
        """
        self.are_over = True
        for process, connection in self._sockets.items():
            if together:
                self._send(process, _SIZE.pack(_LEFT))
            else:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _send(self, process: int, content: bytes, *, patience: float = -1) -> None:
        """Sends to a process. If the process is gone, the thread that listens to it finds out."""
        if self._sending[process].acquire(timeout=patience):
            with contextlib.suppress(OSError):
                self._sockets[process].sendall(content)
            self._sending[process].release()

    def _listen(self, process: int) -> None:
        """Receives the messages of a process, until it leaves or is gone."""
        stream = self._sockets[process].makefile('rb')
        gone = process
        with contextlib.suppress(OSError, struct.error):  # too few bytes: it hung up
            (size,) = _SIZE.unpack(stream.read(_SIZE.size))
            while 0 <= size <= _LARGEST:
                (message,) = struct.unpack(f'{size}s', stream.read(size))
                self._messages[process].put(message)
                (size,) = _SIZE.unpack(stream.read(_SIZE.size))
            if size == _LEFT:
                return
            if 0 <= _GONE - size < self._count:
                gone = _GONE - size
        if not self.are_over:
            self._end(gone)

    def _end(self, gone: int) -> NoReturn:
        """Tells the other processes which process is gone, and ends this process.

        The exit is immediate, as the main thread may be waiting without a way to interrupt it.
        """
        self._ending.acquire()
        try:
            sys.stdout.flush()
            print(
                f'error: process {gone} of {self._count} has ended or cannot be reached; the same '
                'command, given to each of them, resumes from the last save.',
                file=sys.stderr,
                flush=True,
            )
            for process, connection in self._sockets.items():
                connection.settimeout(1)
                self._send(process, _SIZE.pack(_GONE - gone), patience=1)
        finally:
            os._exit(2)


def meet(host: str, port: int, process_id: int, count: int) -> Connections:
    """Connects this process to process 0, and waits until all processes have connected.

    Args:
      host: name or address on whose addresses alone process 0 listens (`ports.addresses`).
      port: on which process 0 listens.
      process_id: index of this process.
      count: number of processes.

    Raises:
      ValueError: if the others do not come within minutes, or process 0 cannot be reached.
    """
    deadline = time.monotonic() + _JOIN_SECONDS
    if process_id:
        greeting = _HELLO.pack(_NAME, process_id, count)
        sockets = {0: _reach_first(host, port, greeting, deadline)}
    else:
        sockets = _accept_others(host, port, count, deadline)
    return Connections(process_id, count, sockets)


def _keep_alive(connection: socket.socket) -> None:
    """Makes this machine check that the machine at the other end still answers."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPING_ALIVE.items():
        option = getattr(socket, f'TCP_{name}', None)
        if option is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)


def relay(host: str, port: int) -> int:
    """Opens a local port that leads to a port of another machine, and hides that it hangs up.

    JAX has a service in process 0, and aborts a process whose connection to that service ends. With
    the relay, the connection of JAX stays open.

    Args:
      host: the other machine.
      port: on the other machine.

    Returns:
      The local port.
    """
    server = socket.create_server(('127.0.0.1', 0))
    pairs = []  # The list keeps the sockets open.

    def serve() -> None:
        while True:
            near, _ = server.accept()
            try:
                far = socket.create_connection((host, port))
            except OSError:  # The process that connects will try again.
                near.close()
                continue
            pairs.append((near, far))
            for pair in ((near, far), (far, near)):
                threading.Thread(target=_pass_on, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return server.getsockname()[1]


def _accept_others(
    host: str, port: int, count: int, deadline: float
) -> dict[int, socket.socket]:
    """Returns the connections of process 0, once all others have come."""
    sockets: dict[int, socket.socket] = {}
    with contextlib.ExitStack() as opened, selectors.DefaultSelector() as ready:
        for server in _open_port(host, port):
            opened.enter_context(server)
            ready.register(server, selectors.EVENT_READ)
        while len(sockets) < count - 1:
            events = ready.select(max(0.01, deadline - time.monotonic()))
            if not events and time.monotonic() >= deadline:
                raise _absent_processes(sockets, count)
            for event, _ in events:
                connection, _ = event.fileobj.accept()  # type: ignore[union-attr]
                process_id = _read_greeting(connection, count)
                if process_id is None:
                    connection.close()
                    continue
                if process_id in sockets:  # The process has been started again.
                    sockets[process_id].close()
                _keep_alive(connection)
                sockets[process_id] = connection
    return sockets


def _open_port(host: str, port: int) -> list[socket.socket]:
    """Opens the port of process 0, and warns if it is open on all addresses."""
    try:
        servers = ports.listen(host, port)
    except OSError as error:
        requirement = 'have a port that is free on the machine of process 0'
        value = f'{port}: {os.strerror(error.errno or 0)}'
        raise errors.invalid('coordinator', requirement, value) from None
    if not ports.addresses(host):
        print(
            f'warning: {host} is no address that this machine knows as its own, so process 0 '
            f'listens on port {port} of all its addresses.',
            file=sys.stderr,
        )
    return servers


def _absent_processes(
    sockets: Mapping[int, socket.socket], count: int
) -> errors.InvalidError:
    """Makes the error of processes that did not come in time."""
    absent = [str(process) for process in range(1, count) if process not in sockets]
    requirement = f'be processes that all start within {_JOIN_SECONDS} s'
    value = f'{count} without process {", ".join(absent)}'
    return errors.invalid('num_processes', requirement, value)


def _read_greeting(connection: socket.socket, count: int) -> int | None:
    """Reads who has connected: a process from 1 to ``count`` - 1; None for anybody else.

    Raises:
      ValueError: if the process expects another number of processes.
    """
    try:
        greeting = _receive(connection, _HELLO.size)
        name, process_id, its_count = _HELLO.unpack(greeting)
        if name != _NAME or not 1 <= process_id < max(count, its_count):
            return None
        connection.settimeout(None)
        # A process that expects another number is welcomed too. Otherwise it would keep trying.
        connection.sendall(_WELCOME)
    except (OSError, struct.error):  # The other side is silent, or sends too little.
        return None
    if its_count != count:
        value = f'{count} in process 0 and {its_count} in process {process_id}'
        raise errors.invalid('num_processes', 'be the same in all of them', value)
    return int(process_id)


def _receive(connection: socket.socket, size: int) -> bytes:
    """Reads ``size`` bytes; fewer if the sender hangs up.

    Raises:
      OSError: if the bytes do not come in time.
    """
    content = b''
    deadline = time.monotonic() + _GREETING_SECONDS
    while len(content) < size:
        connection.settimeout(max(0.01, deadline - time.monotonic()))
        part = connection.recv(size - len(content))
        if not part:
            break
        content += part
    return content


def _reach_first(
    host: str, port: int, greeting: bytes, deadline: float
) -> socket.socket:
    """Returns the connection of this process, which is not process 0, to process 0.

    If process 0 hangs up, this process tries again. Process 0 does so if a greeting comes late.
    """
    note_at = time.monotonic() + _NOTE_SECONDS
    while True:
        try:
            return _greet_first(host, port, greeting, deadline)
        except OSError as error:
            has_no_name = isinstance(error, socket.gaierror)
            seconds = _NAME_SECONDS if has_no_name else _JOIN_SECONDS
            value = f'{host}:{port}: {error.strerror or error}'
            now = time.monotonic()
            if now > deadline - _JOIN_SECONDS + seconds:
                requirement = f'answer within {seconds} s'
                raise errors.invalid('coordinator', requirement, value) from None
            if now > note_at:
                note_at = math.inf
                # This may be a second process with the same index, which is never answered.
                print(
                    f'waiting for process 0 at {value} (it answers until all have joined, one '
                    'process for each process_id)',
                    file=sys.stderr,
                    flush=True,
                )
            time.sleep(0.2)


def _greet_first(
    host: str, port: int, greeting: bytes, deadline: float
) -> socket.socket:
    """Connects to process 0 and waits for its welcome.

    Raises:
      OSError: if process 0 cannot be reached, or hangs up.
    """
    connection = socket.create_connection((host, port), timeout=10)
    try:
        _keep_alive(connection)
        connection.settimeout(max(0.01, deadline - time.monotonic()))
        connection.sendall(greeting)
        if connection.recv(len(_WELCOME)) != _WELCOME:
            raise ConnectionAbortedError(errno.ECONNABORTED, 'process 0 hung up')
        connection.settimeout(None)
    except OSError:
        connection.close()
        raise
    return connection


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    """Copies what one connection receives to another, until the first one hangs up."""
    with contextlib.suppress(OSError):
        content = source.recv(2**16)
        while content:
            sink.sendall(content)
            content = source.recv(2**16)
