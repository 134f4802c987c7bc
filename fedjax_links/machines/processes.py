"""Several processes that run the same program in step: the first leads, and tells what it knows.

Every process makes the same calls in the same order, or all of them wait for ever. So none decides
by what it alone sees (a clock, a full disk, free memory, a signal): it answers, and all decide by
the same answers. A process that fails alone is gone for the others, which end (`connections`).
"""

import atexit
import contextlib
import json
import os
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, TypeVar

import jax

from fedjax_links.core import checks, errors
from fedjax_links.machines import connections

_T = TypeVar('_T')
_MISTAKES = errors.InvalidError, errors.MissingPackageError
_A_MOMENT = 5  # s, in which the others hear that a process has ended
_A_LONG_TIME = 10**6  # s; where one stands still for longer, JAX aborts all
_FIRST_PORT, _NUM_PORTS, _PORT_OF_PODS = 61440, 4096, 55527  # as JAX chooses them
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
    given = {
        'coordinator': coordinator,
        'num_processes': num_processes,
        'process_id': process_id,
    }
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
        jax.config.update(
            'jax_enable_preemption_service', False
        )  # it would take SIGTERM
        service = int(ask_leader(lambda: str(connections.free_port(host)).encode()))
        options: dict[str, Any] = {'heartbeat_timeout_seconds': _A_LONG_TIME}
        if own:
            near = f'127.0.0.1:{connections.relay(host, service)}'
        else:
            here = connections.addresses(host)
            near = _joined_address(here[0] if here else '127.0.0.1', service)
            if here:  # else JAX listens on all addresses
                options['coordinator_bind_address'] = near
        jax.distributed.initialize(near, count, own, **options)
        yield
        ask_all(lambda: b'')
        _open.leave(together=True)
    except BaseException as error:
        if isinstance(error, jax.errors.JaxRuntimeError):
            time.sleep(_A_MOMENT)  # this process ends meanwhile, if another one has
        if not _open.are_over:
            _open.leave(together=False)
            status = error.code if isinstance(error, SystemExit) else None
            is_users = isinstance(error, (*_MISTAKES, OSError)) or errors.users_place(
                error
            )
            alone = 2 if is_users else 1
            atexit.register(_exit, status if isinstance(status, int) else alone)
        raise


def _joined_address(address: str, port: int) -> str:
    """Writes an address and a port as JAX reads them."""
    return f'[{address}]:{port}' if ':' in address else f'{address}:{port}'


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


# As it was started.


class Started(NamedTuple):
    """A process of several.

    Attributes:
      coordinator: where process 0 is heard by those that are to `join` it, ``HOST:PORT``; None for
        a task of an array.
      num_processes: K, all of them.
      process_id: which of them it is, from 0.
      source: the variable that says so.
    """

    coordinator: str | None
    num_processes: int
    process_id: int
    source: str


def array_variable(said: Mapping[str, str] = os.environ) -> str | None:
    """The variable that says which task of a job array this process is; None if none does.

    Args:
      said: variables; those of this process by default.
    """
    for number, _, last, size in _ARRAYS:
        texts = said.get(number, ''), said.get(size) or said.get(last, '')
        if all(text.isdecimal() for text in texts) and int(texts[1]) > 0:
            return number
    return None


def array_task(said: Mapping[str, str] = os.environ) -> Started | None:
    """The task that this process is; None if it is of no array.

    Args:
      said: variables; those of this process by default.

    Raises:
      ValueError: if the numbers of the array have gaps, so that they do not tell shards apart.
    """
    for names in _ARRAYS:
        texts = (said.get(name, '') for name in names)
        own, first, last, size = (
            int(text) if text.isdecimal() else None for text in texts
        )
        if own is None or (last is None and size is None):
            continue
        start = first if first is not None else int(size is None)
        count = size if size is not None else (last or 0) - start + 1
        if count < 2:
            return None
        if last is not None and last - start + 1 != count:
            requirement = (
                f'be given where {names[0]} has gaps, such as --shard={own}/64'
            )
            raise errors.invalid(
                'shard', requirement, f'{count} numbers from {start} to {last}'
            )
        return Started(None, count, own % count, names[0])
    return None


def started_as(said: Mapping[str, str] = os.environ) -> Started | None:
    """Which process this is; None for one that was started alone.

    Args:
      said: variables; those of this process by default.

    Raises:
      ValueError: if there are several, and nothing says where process 0 is heard.
    """
    for own, size, where, address in _LAUNCHERS:
        place, count = said.get(own, ''), said.get(size, '')
        if not (
            place.isdecimal() and count.isdecimal() and (not where or where in said)
        ):
            continue
        if int(count) < 2:
            return None
        if not (coordinator := said.get('JAX_COORDINATOR_ADDRESS') or address(said)):
            requirement = f'be given, or JAX_COORDINATOR_ADDRESS, as {own} is'
            raise errors.invalid('coordinator', requirement, None)
        return Started(coordinator, int(count), int(place), own)
    return None


def _of_mpirun(said: Mapping[str, str]) -> str:
    """The machine of Open MPI's mpirun: by an address, since version 5 by its name."""
    uri = re.match(
        r'(\d+)\..*?tcp6?://(\[[^,\]]+|[^,:]+)', said.get('OMPI_MCA_orte_hnp_uri', '')
    )
    if uri is not None:
        return _at(uri[2] + ']' * (uri[2][0] == '['), int(uri[1]) // 2**12, said)
    name = re.match(r'\w+-(.+)-(\d+)@', said.get('PMIX_NAMESPACE', ''))
    return '' if name is None else _at(name[1], int(name[2]), said)


def _of_step(said: Mapping[str, str]) -> str:
    """The first machine of a SLURM step's list, such as ``rack2n[003-005,9],other``."""
    host = re.sub(r'\[(\w+)[^\]]*\]|,.*', r'\1', said['SLURM_STEP_NODELIST'])
    return _at(host, int(said.get('SLURM_JOB_ID', 0)), said)


def _of_pods(said: Mapping[str, str]) -> str:
    """The first pod of a job, where a headless service names pods: ``JOB-0.SUBDOMAIN``."""
    pod, _, domain = socket.getfqdn(said.get('HOSTNAME', '')).partition('.')
    port = said.get('JAX_COORDINATOR_PORT', _PORT_OF_PODS)
    return f'{pod.rpartition("-")[0]}-0.{domain}:{port}' if domain else ''


def _at(host: str, number: int, said: Mapping[str, str]) -> str:
    return (
        f'{host}:{said.get("JAX_COORDINATOR_PORT", _FIRST_PORT + number % _NUM_PORTS)}'
    )


_LAUNCHERS = (  # variables: a process's number, how many, what else must be; where the first is
    ('JAX_PROCESS_ID', 'JAX_NUM_PROCESSES', '', lambda _: ''),
    ('OMPI_COMM_WORLD_RANK', 'OMPI_COMM_WORLD_SIZE', '', _of_mpirun),
    ('SLURM_PROCID', 'SLURM_STEP_NUM_TASKS', 'SLURM_STEP_NODELIST', _of_step),
    ('SLURM_PROCID', 'SLURM_NTASKS', 'SLURM_STEP_NODELIST', _of_step),  # older ones
    ('PMI_RANK', 'PMI_SIZE', '', lambda _: ''),
    ('JOB_COMPLETION_INDEX', 'JAX_NUM_PROCESSES', '', _of_pods),
)
_ARRAYS = (  # variables with a task's number, the first, the last, and how many there are
    [f'SLURM_ARRAY_TASK_{name}' for name in ('ID', 'MIN', 'MAX', 'COUNT')],
    ('SGE_TASK_ID', 'SGE_TASK_FIRST', 'SGE_TASK_LAST', ''),
    ('LSB_JOBINDEX', '', 'LSB_JOBINDEX_END', ''),
    ('SKYPILOT_JOB_RANK', '', '', 'SKYPILOT_NUM_JOBS'),
)
