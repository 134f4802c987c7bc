"""Connections of a run's processes to its first one, by which each learns what the others do.

Once a process is gone, what devices compute together waits, raises or aborts, as it happens. So all
that processes say to each other goes these ways, and whoever finds that one is gone says so in a
line and ends its own process, wherever that is waiting.
"""

import contextlib
import os
import queue
import socket
import struct
import sys
import threading
import time
from collections.abc import Mapping
from typing import NoReturn

from fedjax_links.core import errors

_JOIN_SECONDS = 300
_NAME_SECONDS = 60  # until a machine that starts, such as a pod, has a name
_SILENT_SECONDS = 40
"""A machine that does not answer for so long is gone; that of a stopped process answers."""
_KEEPING_ALIVE = {
    **{'KEEPIDLE': _SILENT_SECONDS // 4, 'KEEPINTVL': _SILENT_SECONDS // 8, 'KEEPCNT': 6},
    'USER_TIMEOUT': 1000 * _SILENT_SECONDS,
}
"""How machines ask each other whether they are there, where their system can."""
_SIZE = struct.Struct('>q')  # of a message
_LEFT, _GONE = -1, -2  # in its place: the sender leaves with all others; process i is gone: -2 - i
_HELLO = struct.Struct('>12sqq')
_NAME = b'fedjax_links'


class Connections:
    """Those of one process: of process 0 to all others, of any other to process 0.

    Attributes:
      own: which process this is.
      are_over: whether nothing more is said.
    """

    def __init__(self, own: int, count: int, sockets: Mapping[int, socket.socket]) -> None:
        """Begins to listen.

        Args:
          own: which process this is.
          count: of all of them.
          sockets: by process.
        """
        self.own, self._count, self._sockets = own, count, sockets
        self._heard: dict[int, queue.SimpleQueue[bytes]] = {i: queue.SimpleQueue() for i in sockets}
        self._sending = {i: threading.Lock() for i in sockets}
        self._ending = threading.Lock()
        self.are_over = False
        for place in sockets:
            threading.Thread(target=self._listen, args=(place,), daemon=True).start()

    def exchange(self, message: bytes) -> list[bytes]:
        """What every process says, in their order, once all have said something."""
        if self.own:
            self._send(0, _SIZE.pack(len(message)) + message)
            return [self._heard[0].get() for _ in range(self._count)]
        said = [message, *(self._heard[place].get() for place in range(1, self._count))]
        content = b''.join(_SIZE.pack(len(part)) + part for part in said)
        for place in self._sockets:
            self._send(place, content)
        return said

    def leave(self, *, together: bool) -> None:
        """Ends the talk.

        Args:
          together: whether every process does so now; else this one is gone for the others.
        """
        self.are_over = True
        for place, connection in self._sockets.items():
            if together:
                self._send(place, _SIZE.pack(_LEFT))
            else:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _send(self, place: int, content: bytes, *, patience: float = -1) -> None:
        """Sends to a process; where it is gone, the one who listens to it knows."""
        if self._sending[place].acquire(timeout=patience):
            with contextlib.suppress(OSError):
                self._sockets[place].sendall(content)
            self._sending[place].release()

    def _listen(self, place: int) -> None:
        """Takes what a process says, until it leaves or is gone."""
        stream, gone = self._sockets[place].makefile('rb'), place
        with contextlib.suppress(OSError, struct.error):  # too few bytes: it has hung up
            while (size := _SIZE.unpack(stream.read(_SIZE.size))[0]) >= 0:
                (message,) = struct.unpack(f'{size}s', stream.read(size))
                self._heard[place].put(message)
            if size == _LEFT:
                return
            gone = _GONE - size
        if not self.are_over:
            self._end(gone)

    def _end(self, gone: int) -> NoReturn:
        """Ends this process; what it waits for cannot be interrupted. The others learn why."""
        self._ending.acquire()
        try:
            sys.stdout.flush()
            print(
                f'error: process {gone} of {self._count} has ended or cannot be reached; the same '
                'command, given to each of them, goes on from the last save.',
                file=sys.stderr,
                flush=True,
            )
            for place, connection in self._sockets.items():
                connection.settimeout(1)
                self._send(place, _SIZE.pack(_GONE - gone), patience=1)
        finally:
            os._exit(2)


def meet(host: str, port: int, own: int, count: int) -> Connections:
    """Waits for all processes.

    Args:
      host: where process 0 is heard.
      port: likewise.
      own: which process this is.
      count: of all of them.

    Raises:
      InvalidError: if they do not come within minutes, or process 0 cannot be heard there.
    """
    deadline = time.monotonic() + _JOIN_SECONDS
    if own:
        sockets = {0: _reach_first(host, port, deadline)}
        sockets[0].sendall(_HELLO.pack(_NAME, own, count))
    else:
        sockets = _accept_others(port, count, deadline)
    for connection in sockets.values():  # machines ask each other whether they are there
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPING_ALIVE.items():
            if hasattr(socket, f'TCP_{name}'):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, f'TCP_{name}'), value)
    return Connections(own, count, sockets)


def relay(host: str, port: int) -> int:
    """A port of this machine that leads to one of another, and hides that the other hangs up.

    JAX aborts a process as soon as the service in the first one does.

    Args:
      host: the other machine.
      port: of the other.

    Returns:
      The port here.
    """
    server = socket.create_server(('127.0.0.1', 0))
    kept = []

    def serve() -> None:
        while True:
            near, _ = server.accept()
            try:
                far = socket.create_connection((host, port))
            except OSError:  # whoever connects tries again
                near.close()
                continue
            kept.append((near, far))
            for pair in ((near, far), (far, near)):
                threading.Thread(target=_pass_on, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return server.getsockname()[1]


def free_port() -> int:
    """A port of this machine that is free now."""
    with socket.create_server(('', 0)) as server:
        return server.getsockname()[1]


def _accept_others(port: int, count: int, deadline: float) -> dict[int, socket.socket]:
    """The connections of process 0."""
    found: dict[int, socket.socket] = {}
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    try:
        server = socket.create_server(('', port), family=family, dualstack_ipv6=both)
    except OSError as error:
        requirement = 'have a port that is free on the machine of process 0'
        said = f'{port}: {os.strerror(error.errno or 0)}'
        raise errors.invalid('coordinator', requirement, said) from None
    with server:
        while len(found) < count - 1:
            server.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                connection, _ = server.accept()
            except TimeoutError:
                absent = ', '.join(str(i) for i in range(1, count) if i not in found)
                requirement = f'be processes that all start within {_JOIN_SECONDS} s'
                said = f'{count} without process {absent}'
                raise errors.invalid('num_processes', requirement, said) from None
            connection.settimeout(10)
            with contextlib.suppress(OSError, struct.error):
                name, own, theirs = _HELLO.unpack(connection.recv(_HELLO.size))
                if name != _NAME:
                    continue
                if theirs != count:
                    said = f'{count} in process 0 and {theirs} in process {own}'
                    raise errors.invalid('num_processes', 'be the same in all of them', said)
                connection.settimeout(None)
                found[own] = connection  # in the place of one that has been started again
    return found


def _reach_first(host: str, port: int, deadline: float) -> socket.socket:
    """The connection of any other process."""
    while True:
        try:
            connection = socket.create_connection((host, port), timeout=10)
        except OSError as error:
            seconds = _NAME_SECONDS if isinstance(error, socket.gaierror) else _JOIN_SECONDS
            if time.monotonic() > deadline - _JOIN_SECONDS + seconds:
                requirement = f'be heard within {seconds} s'
                said = f'{host}:{port}: {error.strerror or error}'
                raise errors.invalid('coordinator', requirement, said) from None
            time.sleep(0.2)
        else:
            connection.settimeout(None)
            return connection


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while content := source.recv(2**16):
            sink.sendall(content)
