"""Several processes that run the same program in step: the first leads, and tells what it knows.

Every process makes the same calls in the same order, or all of them wait for ever. So none decides
by what it alone sees (a clock, a full disk, free memory, a signal): it answers, and all decide by
the same answers. A process that fails alone is gone for the others, which end (`connections`).
"""

import atexit
import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TypeVar

import jax

from fedjax_links.core import checks, errors
from fedjax_links.machines import connections

_T = TypeVar('_T')
_MISTAKES = errors.InvalidError, errors.MissingPackageError
_A_MOMENT = 5  # s, in which the others hear that a process has ended
_A_LONG_TIME = 10**6  # s; where one stands still for longer, JAX aborts all
_open: connections.Connections | None = None


def join(
    coordinator: str | None, num_processes: int | None, process_id: int | None
) -> AbstractContextManager[None]:
    """What joins this process to others, which takes place before JAX is first used.

    Args:
      coordinator: where process 0 is heard, ``HOST:PORT``; None for a process alone.
      num_processes: K, all of them.
      process_id: which of them this is, from 0; process 0 leads.

    Returns:
      A context in which they are joined: it waits for all of them when it is entered, and when it
      is left. It does nothing for a process alone.

    Raises:
      InvalidError: if one is given without the others, or is out of range.
    """
    given = {'coordinator': coordinator, 'num_processes': num_processes, 'process_id': process_id}
    if set(given.values()) == {None}:
        return contextlib.nullcontext()
    if coordinator is None or num_processes is None or process_id is None:
        absent = next(name for name, value in given.items() if value is None)
        others = ' and '.join(name for name in given if name != absent)
        raise errors.invalid(absent, f'be given with {others}', None)
    host, _, port = coordinator.rpartition(':')
    if not host or not port.isdecimal():
        raise errors.invalid('coordinator', 'read HOST:PORT', coordinator)
    checks.static_int('num_processes', num_processes)
    checks.static_int('process_id', process_id, minimum=0, maximum=num_processes - 1)
    return _joined(host.strip('[]'), int(port), num_processes, process_id)


@contextlib.contextmanager
def _joined(host: str, port: int, count: int, own: int) -> Iterator[None]:
    global _open
    _open = connections.meet(host, port, own, count)
    try:
        jax.config.update('jax_cpu_collectives_implementation', 'gloo')
        jax.config.update('jax_enable_preemption_service', False)  # it would take SIGTERM
        service = int(ask_leader(lambda: str(connections.free_port()).encode()))
        near = f'127.0.0.1:{connections.relay(host, service) if own else service}'
        jax.distributed.initialize(near, count, own, heartbeat_timeout_seconds=_A_LONG_TIME)
        yield
        ask_all(lambda: b'')
        _open.leave(together=True)
    except BaseException as error:
        if isinstance(error, jax.errors.JaxRuntimeError):
            time.sleep(_A_MOMENT)  # this process ends meanwhile, if another one has
        if not _open.are_over:
            _open.leave(together=False)
            status = error.code if isinstance(error, SystemExit) else None
            is_users = isinstance(error, (*_MISTAKES, OSError)) or errors.users_place(error)
            alone = 2 if is_users else 1
            atexit.register(_exit, status if isinstance(status, int) else alone)
        raise


def _exit(status: int) -> None:
    """Ends this process, where JAX would wait for the others."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def are_several() -> bool:
    """Whether this process has joined others."""
    if jax.process_count() > 1 and _open is None:
        requirement = 'be given to processes.join, which joins processes of a run'
        raise errors.invalid('coordinator', requirement, 'jax.distributed.initialize')
    return _open is not None


def is_leader() -> bool:
    """Whether this process is the one that keeps what is kept; alone, it is."""
    return _open is None or _open.own == 0


def ask_all(answer: Callable[[], bytes]) -> list[bytes]:
    """What every process answers, in all of them.

    Args:
      answer: is asked of each; of this one alone, if it is alone or the others have left.

    Returns:
      The answers, in the order of the processes.

    Raises:
      InvalidError: in every process, if one makes a mistake; then all have left.
    """
    if _open is None or _open.are_over:
        return [answer()]
    error = None
    try:
        with errors.on_disk('a file'):
            said = b'+' + answer()
    except _MISTAKES as raised:
        if _open.are_over:  # all have made it, in a part of this
            raise
        said, error = b'-' + json.dumps(raised.args, default=str).encode(), raised
    found = _open.exchange(said)
    failed = [content[1:] for content in found if content[:1] == b'-']
    if failed:
        _open.leave(together=True)
        if error is None:
            words = json.loads(failed[0])
            kind = errors.InvalidError if len(words) > 1 else errors.MissingPackageError
            error = kind(*words)
        raise error
    return [content[1:] for content in found]


def ask_leader(answer: Callable[[], bytes]) -> bytes:
    """What the leader answers.

    Args:
      answer: is asked of the leader alone.

    Returns:
      Its answer, in every process.

    Raises:
      InvalidError: as `ask_all`.
    """
    return ask_all(lambda: answer() if is_leader() else b'')[0]


def do_in_all(do: Callable[[], _T]) -> _T:
    """Does the same in every process, and goes on only if all of them can.

    Args:
      do: what is done.

    Returns:
      What it returns here.

    Raises:
      InvalidError: as `ask_all`.
    """
    done: list[_T] = []

    def answer() -> bytes:
        done.append(do())
        return b''

    ask_all(answer)
    return done[0]
