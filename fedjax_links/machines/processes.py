"""Keeps several processes in step that run the same program; process 0 leads.

All processes must make the same calls in the same order, or all processes wait for ever. So no
process decides by what it alone sees (a clock, a full disk, free memory, a signal). Each process
gives an answer, and all processes decide by the same answers. If a process fails, the others notice
that its connection is gone, and end (`connections`).
"""

import atexit
import contextlib
import functools
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import jax
import numpy as np

from fedjax_links.core import checks, errors
from fedjax_links.machines import connections, ports

_T = TypeVar('_T')
_MISTAKES = errors.InvalidError, errors.MissingPackageError
# The first byte of a message says whether it holds an answer or a mistake.
_HAS_ANSWER = b'+'
_HAS_MISTAKE = b'-'
_NOTICE_SECONDS = 5  # in which other processes learn that a process has ended
_HEARTBEAT_SECONDS = 10**6  # JAX aborts all processes if one stands still for longer
_LARGEST_PORT = 65_535
_NAME_BYTES = 255  # the longest name of a machine
_PIECE_BYTES = 2**26  # sent by one message of `broadcast_bytes`
_LENGTH_BYTES = 8  # for the length of the content, before its first piece
# The connections of this process while it is joined to others.
_open: connections.Connections | None = None


def join(
    coordinator: str | None, num_processes: int | None, process_id: int | None
) -> AbstractContextManager[None]:
    """Joins this process to others, before JAX is first used.

    Args:
      coordinator: where process 0 listens, ``HOST:PORT``; None for a process alone.
      num_processes: number of processes; None for a process alone.
      process_id: index of this process, from 0; process 0 leads. None for a process alone.

    Returns:
      A context in which the processes are joined. To enter or to leave the context, each process
      waits for all others. The context does nothing for a process alone.

    Raises:
      ValueError: if an argument is given without the others, or is out of range.
    """
    if coordinator is None or num_processes is None or process_id is None:
        _check_all_are_missing(
            coordinator=coordinator, num_processes=num_processes, process_id=process_id
        )
        return contextlib.nullcontext()
    host, _, port = coordinator.rpartition(':')
    if not host or not port.isdecimal():
        raise errors.invalid('coordinator', 'read HOST:PORT', coordinator)
    if not 1 <= int(port) <= _LARGEST_PORT:
        requirement = f'have a port from 1 to {_LARGEST_PORT:,}'
        raise errors.invalid('coordinator', requirement, coordinator)
    checks.static_int('num_processes', num_processes)
    checks.static_int('process_id', process_id, minimum=0, maximum=num_processes - 1)
    host = host.strip('[]')
    return _joined(
        host,
        int(port),
        num_processes,
        process_id,
        initialize=lambda: _initialize_jax(host, num_processes, process_id),
    )


def adopt(*common_errors: type[Exception]) -> AbstractContextManager[None]:
    """Joins the processes that the caller connected by `jax.distributed.initialize`, for a run.

    Args:
      *common_errors: kinds of errors that all processes raise together. After such an error the
        processes leave the context together, so a caller may catch the error and continue. After
        any other error, a process is gone for the others.

    Returns:
      A context in which the processes are joined, as by `join`. It does nothing for a process
      alone, or if the processes are joined already.

    Raises:
      ValueError: if the processes cannot reach process 0.
    """
    are_joined = _open is not None and not _open.are_over
    if are_joined or not jax.distributed.is_initialized() or jax.process_count() == 1:
        return contextlib.nullcontext()
    host, port = _meeting_point()
    count = jax.process_count()
    return _joined(host, port, count, jax.process_index(), common_errors=common_errors)


def _meeting_point() -> tuple[str, int]:
    """Agrees on a name and a port of process 0; all processes call this function together."""
    from jax.experimental import multihost_utils

    encoded = socket.gethostname().encode()[:_NAME_BYTES].ljust(_NAME_BYTES, b'\0')
    rows = multihost_utils.process_allgather(np.frombuffer(encoded, np.uint8))
    names = [bytes(np.asarray(row, np.uint8)).rstrip(b'\0').decode() for row in rows]
    # The address that JAX reads may be the only one that other machines know.
    coordinator = os.environ.get('JAX_COORDINATOR_ADDRESS', '')
    host = coordinator.rpartition(':')[0].strip('[]') or names[0]
    if len(set(names)) == 1:
        host = 'localhost'
    port = ports.free_port(host) if jax.process_index() == 0 else 0
    return host, int(multihost_utils.broadcast_one_to_all(np.int32(port)))


def _check_all_are_missing(**arguments: object) -> None:
    """Raises if some arguments are None and others are not, naming the first that is None."""
    missing = [name for name, value in arguments.items() if value is None]
    if len(missing) < len(arguments):
        others = ' and '.join(name for name in arguments if name != missing[0])
        raise errors.invalid(missing[0], f'be given with {others}', None)


@contextlib.contextmanager
def _joined(
    host: str,
    port: int,
    count: int,
    process_id: int,
    initialize: Callable[[], None] | None = None,
    common_errors: tuple[type[Exception], ...] = (),
) -> Iterator[None]:
    """Connects this process to the others while the context is open.

    Args:
      host: name or address on which process 0 listens.
      port: on which process 0 listens.
      count: number of processes.
      process_id: index of this process.
      initialize: connects JAX; None if the caller has done so.
      common_errors: as in `adopt`.
    """
    global _open
    _open = connections.meet(host, port, process_id, count)
    common_error: Exception | None = None
    try:
        if initialize is not None:
            initialize()
        try:
            yield
        except common_errors as error:
            common_error = error
        all_gather(lambda: b'')  # waits for all
        _open.leave(together=True)
    except BaseException as error:
        if isinstance(error, jax.errors.JaxRuntimeError):
            # If the cause is that another process has ended, this process is ended while it waits.
            time.sleep(_NOTICE_SECONDS)
        if not _open.are_over:
            _open.leave(together=False)
            atexit.register(_exit, _exit_status(error))
        raise
    finally:
        _open = None
    if common_error is not None:
        raise common_error


def _initialize_jax(host: str, count: int, process_id: int) -> None:
    """Starts JAX's own service in process 0, and connects the other processes to the service."""
    jax.config.update('jax_enable_preemption_service', False)  # it would take SIGTERM
    port = broadcast_from_leader(lambda: ports.free_port(host))
    options: dict[str, Any] = {'heartbeat_timeout_seconds': _HEARTBEAT_SECONDS}
    if process_id:
        # JAX aborts a process whose connection ends. The relay hides such an end from JAX.
        address = f'127.0.0.1:{connections.relay(host, port)}'
    else:
        addresses = ports.addresses(host)
        first = addresses[0] if addresses else '127.0.0.1'
        address = f'[{first}]:{port}' if ':' in first else f'{first}:{port}'
        if addresses:  # otherwise JAX listens on all addresses
            options['coordinator_bind_address'] = address
    jax.distributed.initialize(address, count, process_id, **options)


def _exit_status(error: BaseException) -> int:
    """Returns the exit status of a process that ends alone: 2 for a user's mistake, else 1."""
    status = error.code if isinstance(error, SystemExit) else None
    if isinstance(status, int):
        return status
    is_mistake = isinstance(error, (*_MISTAKES, OSError))
    return 2 if is_mistake or errors.innermost_user_frame(error) else 1


def _exit(status: int) -> None:
    """Ends this process, where JAX would wait for the others."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def are_several() -> bool:
    """Returns whether this process has joined others."""
    return _open is not None


def is_leader() -> bool:
    """Returns whether this process leads and writes files. A process alone leads itself."""
    return _open is None or _open.process_id == 0


def all_gather(answer: Callable[[], bytes]) -> list[bytes]:
    """Returns the answers of all processes, in each of them.

    Args:
      answer: makes the answer of this process.

    Returns:
      The answers, in the order of the processes. If this process is alone, or if the processes have
      left the exchange, only its own answer.

    Raises:
      ValueError: in all processes, if ``answer`` raises it in any process. Then all processes have
        left the exchange.
    """
    if _open is None or _open.are_over:
        return [answer()]
    mistake = None
    try:
        with errors.on_disk('a file'):
            message = _HAS_ANSWER + answer()
    except _MISTAKES as error:
        if _open.are_over:
            # A call inside of `answer` has already sent the mistake to all processes.
            raise
        mistake = error
        message = _HAS_MISTAKE + json.dumps(error.args, default=str).encode()
    messages = _open.exchange(message)
    failed = [content[1:] for content in messages if content[:1] == _HAS_MISTAKE]
    if failed:
        _open.leave(together=True)
        raise mistake or _mistake_of(failed[0])
    return [content[1:] for content in messages]


def _mistake_of(content: bytes) -> Exception:
    """Makes the error that another process raised from the message of that process."""
    arguments = json.loads(content)
    if len(arguments) > 1:
        return errors.InvalidError(*arguments)
    return errors.MissingPackageError(*arguments)


def broadcast_from_leader(answer: Callable[[], Any]) -> Any:
    """Returns the leader's answer in all processes, after a passage through JSON.

    Args:
      answer: makes the answer, which has plain values. It is called in the leader alone.

    Raises:
      ValueError: as `all_gather`.
    """
    return json.loads(broadcast_bytes(lambda: json.dumps(answer()).encode()))


def broadcast_bytes(read: Callable[[], bytes]) -> bytes:
    """Returns the bytes that the leader reads, in all processes.

    Messages are of bounded size, so the bytes are sent in pieces.

    Args:
      read: reads the bytes; it is called in the leader alone.

    Raises:
      ValueError: as `all_gather`.
    """
    content = b''  # stays empty except in the leader

    def first_piece() -> bytes:
        nonlocal content
        if not is_leader():
            return b''
        content = read()
        return len(content).to_bytes(_LENGTH_BYTES) + content[:_PIECE_BYTES]

    def later_piece(start: int) -> bytes:
        return content[start : start + _PIECE_BYTES]

    first = all_gather(first_piece)[0]
    num_bytes = int.from_bytes(first[:_LENGTH_BYTES])
    pieces = [first[_LENGTH_BYTES:]]
    for start in range(_PIECE_BYTES, num_bytes, _PIECE_BYTES):
        pieces.append(all_gather(functools.partial(later_piece, start))[0])
    return b''.join(pieces)


def run_in_all(do: Callable[[], _T]) -> _T:
    """Calls a function in all processes, and continues only if no call raises.

    Args:
      do: the function.

    Returns:
      What ``do`` returns in this process.

    Raises:
      ValueError: as `all_gather`.
    """
    results: list[_T] = []

    def answer() -> bytes:
        results.append(do())
        return b''

    all_gather(answer)
    return results[0]
