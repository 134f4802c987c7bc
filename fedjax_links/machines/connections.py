"""Connections of a run's processes to its first one, by which each learns what the others do.

Once a process is gone, what devices compute together waits, raises or aborts, as it happens. So all
that processes say to each other goes these ways, and whoever finds that one is gone says so in a
line and ends its own process, wherever that is waiting.

Whoever reaches the port of process 0 can join in the place of a process: nothing proves who it is.
So process 0 listens on the addresses that the coordinator's name stands for and on no others, takes
messages of bounded size, and hangs up on who greets otherwise.
"""

import contextlib
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

_JOIN_SECONDS = 300
_NAME_SECONDS = 60  # until a machine that starts, such as a pod, has a name
_SILENT_SECONDS = 40
"""A machine that does not answer for so long is gone; that of a stopped process answers."""
_KEEPING_ALIVE = {
    **{
        'KEEPIDLE': _SILENT_SECONDS // 4,
        'KEEPINTVL': _SILENT_SECONDS // 8,
        'KEEPCNT': 6,
    },
    'USER_TIMEOUT': 1000 * _SILENT_SECONDS,
}
"""How machines ask each other whether they are there, where their system can."""
_SIZE = struct.Struct('>q')  # of a message
_LEFT, _GONE = (
    -1,
    -2,
)  # in its place: the sender leaves with all others; process i is gone: -2 - i
_HELLO = struct.Struct('>12sqq')
_NAME = b'fedjax_links'
_GREETING_SECONDS = 2  # for what comes as soon as a process is connected
_LARGEST = 2**28  # bytes of a message
_LOOPBACK = ('127.', '::1')


class Connections:
    """Those of one process: of process 0 to all others, of any other to process 0.

    Attributes:
      own: which process this is.
      are_over: whether nothing more is said.
    """

    def __init__(
        self, own: int, count: int, sockets: Mapping[int, socket.socket]
    ) -> None:
        """Begins to listen.

        Args:
          own: which process this is.
          count: of all of them.
          sockets: by process.
        """
        self.own, self._count, self._sockets = own, count, sockets
        self._heard: dict[int, queue.SimpleQueue[bytes]] = {
            i: queue.SimpleQueue() for i in sockets
        }
        self._sending = {i: threading.Lock() for i in sockets}
        self._ending = threading.Lock()
        self.are_over = False
        for place in sockets:
            threading.Thread(target=self._listen, args=(place,), daemon=True).start()

    def exchange(self, message: bytes) -> list[bytes]:
        """What every process says, in their order, once all have said something."""
        if len(message) > _LARGEST:
            raise ValueError(
                f'A message has {len(message)} bytes, more than {_LARGEST}.'
            )
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
        with contextlib.suppress(
            OSError, struct.error
        ):  # too few bytes: it has hung up
            while 0 <= (size := _SIZE.unpack(stream.read(_SIZE.size))[0]) <= _LARGEST:
                (message,) = struct.unpack(f'{size}s', stream.read(size))
                self._heard[place].put(message)
            if size == _LEFT:
                return
            if 0 <= _GONE - size < self._count:
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
      host: where process 0 is heard; it listens there and nowhere else (`addresses`).
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
        sockets = _accept_others(host, port, count, deadline)
    for (
        connection
    ) in sockets.values():  # machines ask each other whether they are there
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPING_ALIVE.items():
            if hasattr(socket, f'TCP_{name}'):
                connection.setsockopt(
                    socket.IPPROTO_TCP, getattr(socket, f'TCP_{name}'), value
                )
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


def addresses(host: str) -> list[str]:
    """Finds the addresses of this machine that a name stands for, for process 0 to listen on.

    Args:
      host: a name or an address.

    Returns:
      The addresses; none if no address of this machine is known to others by that name. So it is
      where a machine calls itself 127.0.1.1, or where the name is that of a service in front of it.
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    every = list(dict.fromkeys(str(address[0]) for *_, address in found))
    means_loopback = host == 'localhost' or host.startswith(_LOOPBACK)
    if not means_loopback:
        every = [address for address in every if not address.startswith(_LOOPBACK)]
    return [address for address in every if _is_here(address)]


def _is_here(address: str) -> bool:
    """Tells whether an address is one of this machine's."""
    family = socket.AF_INET6 if ':' in address else socket.AF_INET
    with (
        contextlib.suppress(OSError),
        socket.socket(family, socket.SOCK_STREAM) as probe,
    ):
        probe.bind((address, 0))
        return True
    return False


def free_port(host: str) -> int:
    """Finds a port that is free now where `addresses` has process 0 listen."""
    with _listening(host, 0)[0] as server:
        return int(server.getsockname()[1])


def _listening(host: str, port: int) -> list[socket.socket]:
    """Opens a port on the addresses of a name; on all of this machine where it has none."""
    if here := addresses(host):
        servers: list[socket.socket] = []
        for address in here:
            family = socket.AF_INET6 if ':' in address else socket.AF_INET
            at = servers[0].getsockname()[1] if servers else port
            servers.append(socket.create_server((address, at), family=family))
        return servers
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    return [socket.create_server(('', port), family=family, dualstack_ipv6=both)]


def _accept_others(
    host: str, port: int, count: int, deadline: float
) -> dict[int, socket.socket]:
    """The connections of process 0."""
    found: dict[int, socket.socket] = {}
    try:
        servers = _listening(host, port)
    except OSError as error:
        requirement = 'have a port that is free on the machine of process 0'
        said = f'{port}: {os.strerror(error.errno or 0)}'
        raise errors.invalid('coordinator', requirement, said) from None
    if not addresses(host):
        print(
            f'warning: {host} is no address that this machine knows as its own, so process 0 '
            f'listens on port {port} of all its addresses.',
            file=sys.stderr,
        )
    with contextlib.ExitStack() as opened, selectors.DefaultSelector() as ready:
        for server in servers:
            opened.enter_context(server)
            ready.register(server, selectors.EVENT_READ)
        while len(found) < count - 1:
            events = ready.select(max(0.01, deadline - time.monotonic()))
            if not events and time.monotonic() >= deadline:
                absent = ', '.join(str(i) for i in range(1, count) if i not in found)
                requirement = f'be processes that all start within {_JOIN_SECONDS} s'
                said = f'{count} without process {absent}'
                raise errors.invalid('num_processes', requirement, said)
            for event, _ in events:
                connection, _ = event.fileobj.accept()  # type: ignore[union-attr]
                own = _greeted(connection, count)
                if own is None:
                    connection.close()
                    continue
                if own in found:  # it has been started again
                    found[own].close()
                found[own] = connection
    return found


def _greeted(connection: socket.socket, count: int) -> int | None:
    """Reads who has connected: a process from 1 to ``count`` - 1; None for anybody else.

    Raises:
      InvalidError: if it is one of another number of processes.
    """
    try:
        name, own, theirs = _HELLO.unpack(_received(connection, _HELLO.size))
    except (OSError, struct.error):  # it is silent, or says too little
        return None
    if name != _NAME or not 1 <= own < max(count, theirs):
        return None
    if theirs != count:
        said = f'{count} in process 0 and {theirs} in process {own}'
        raise errors.invalid('num_processes', 'be the same in all of them', said)
    connection.settimeout(None)
    return int(own)


def _received(connection: socket.socket, size: int) -> bytes:
    """Reads so many bytes and none of what follows; fewer if no more come in time."""
    content = b''
    deadline = time.monotonic() + _GREETING_SECONDS
    while len(content) < size:
        connection.settimeout(max(0.01, deadline - time.monotonic()))
        part = connection.recv(size - len(content))
        if not part:
            break
        content += part
    return content


def _reach_first(host: str, port: int, deadline: float) -> socket.socket:
    """The connection of any other process."""
    while True:
        try:
            connection = socket.create_connection((host, port), timeout=10)
        except OSError as error:
            seconds = (
                _NAME_SECONDS if isinstance(error, socket.gaierror) else _JOIN_SECONDS
            )
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
