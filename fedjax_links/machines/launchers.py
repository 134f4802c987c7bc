"""Finds out how this process was started, from environment variables that launchers set."""

import os
import re
import socket
from collections.abc import Callable, Mapping
from typing import NamedTuple

from fedjax_links.core import errors

# JAX chooses ports from this one on.
_FIRST_PORT = 61440
_NUM_PORTS = 4096
_PORT_OF_PODS = 55527

Variables = Mapping[str, str]
"""Variables of the environment."""


class Started(NamedTuple):
    """Describes this process as one of several.

    Attributes:
      coordinator: ``HOST:PORT``, where process 0 listens for the other processes
        (`processes.join`); None for a task of a job array.
      num_processes: number of processes.
      process_id: index of this process, from 0.
      source: the variable that holds the index.
    """

    coordinator: str | None
    num_processes: int
    process_id: int
    source: str


class _Launcher(NamedTuple):
    """Names the variables of a launcher.

    Attributes:
      process_id: the variable with the index of this process, from 0.
      num_processes: the variable with the number of processes.
      address: finds where process 0 listens; returns '' if no variable says that.
      needed: another variable that must be set; empty for none.
    """

    process_id: str
    num_processes: str
    address: Callable[[Variables], str]
    needed: str = ''


class _JobArray(NamedTuple):
    """Names the variables of a job array. A variable that a scheduler does not have is empty.

    Attributes:
      task: the variable with the number of this task.
      first: the variable with the first number of the array.
      last: the variable with the last number.
      step: the variable with the difference of neighbouring numbers.
      num_tasks: the variable with the number of tasks.
    """

    task: str
    first: str = ''
    last: str = ''
    step: str = ''
    num_tasks: str = ''


def array_task(
    variables: Variables = os.environ, *, allow_gaps: bool = False
) -> Started | None:
    """Returns which task of a job array this process is; None if it belongs to no array.

    Args:
      variables: of the environment; by default of this process.
      allow_gaps: whether the numbers of the array may have gaps. Then two tasks may get the same
        index, so the index cannot choose a shard.

    Raises:
      ValueError: if the numbers have gaps, and ``allow_gaps`` is not set.
    """
    for array in _ARRAYS:
        task = _number(variables, array.task)
        last = _number(variables, array.last)
        count = _number(variables, array.num_tasks)
        if task is None or (last is None and count is None):
            continue
        first = _number(variables, array.first)
        if first is None:
            first = 1 if count is None else 0
        if count is None:
            count = (last or 0) - first + 1
        if count < 1:
            return None
        step = _number(variables, array.step) or 1
        gaps = _gaps(first, last, step, count)
        if gaps and not allow_gaps:
            requirement = (
                f'be given where {array.task} has gaps, such as --shard={task}/64'
            )
            raise errors.invalid('shard', requirement, gaps)
        return Started(None, count, task % count, array.task)
    return None


def _gaps(first: int, last: int | None, step: int, count: int) -> str:
    """Describes the numbers of an array that have gaps; empty if there are no gaps."""
    if step > 1 and last != first:
        return f'numbers from {first} to {last} in steps of {step}'
    if last is not None and last - first + 1 != count:
        return f'{count} numbers from {first} to {last}'
    return ''


def started_as(variables: Variables = os.environ) -> Started | None:
    """Returns which of several processes this is; None if it was started alone.

    Args:
      variables: of the environment; by default of this process.

    Raises:
      ValueError: if there are several processes, and nothing says where process 0 listens.
    """
    for launcher in _LAUNCHERS:
        process_id = _number(variables, launcher.process_id)
        count = _number(variables, launcher.num_processes)
        if process_id is None or count is None:
            continue
        if launcher.needed and launcher.needed not in variables:
            continue
        if count < 2:
            return None
        coordinator = variables.get('JAX_COORDINATOR_ADDRESS')
        coordinator = coordinator or launcher.address(variables)
        if not coordinator:
            requirement = (
                'be given (or JAX_COORDINATOR_ADDRESS set), because '
                f'{launcher.process_id} is set'
            )
            raise errors.invalid('coordinator', requirement, None)
        return Started(coordinator, count, process_id, launcher.process_id)
    return None


def _number(variables: Variables, name: str) -> int | None:
    """Returns the number that a variable holds; None if it holds no number."""
    text = variables.get(name, '')
    return int(text) if text.isdecimal() else None


def _unknown_address(variables: Variables) -> str:
    """Finds nothing, as some launchers do not say where process 0 is."""
    return ''


def _address_of_mpirun(variables: Variables) -> str:
    """Returns the machine of Open MPI's mpirun, by address, or since version 5 by name."""
    uri = re.match(
        r'(\d+)\..*?tcp6?://(\[[^,\]]+|[^,:]+)',
        variables.get('OMPI_MCA_orte_hnp_uri', ''),
    )
    if uri is not None:
        host = f'{uri[2]}]' if uri[2].startswith('[') else uri[2]
        return _address(host, int(uri[1]) // 2**12, variables)
    name = re.match(r'\w+-(.+)-(\d+)@', variables.get('PMIX_NAMESPACE', ''))
    return '' if name is None else _address(name[1], int(name[2]), variables)


def _address_of_step(variables: Variables) -> str:
    """Returns the first machine of a SLURM step's list, such as ``rack2n[003-005,9],other``."""
    host = re.sub(r'\[(\w+)[^\]]*\]|,.*', r'\1', variables['SLURM_STEP_NODELIST'])
    return _address(host, int(variables.get('SLURM_JOB_ID', 0)), variables)


def _address_of_pods(variables: Variables) -> str:
    """Returns a job's first pod, if a headless service names pods: ``JOB-0.SUBDOMAIN``."""
    pod, _, domain = socket.getfqdn(variables.get('HOSTNAME', '')).partition('.')
    port = variables.get('JAX_COORDINATOR_PORT', _PORT_OF_PODS)
    return f'{pod.rpartition("-")[0]}-0.{domain}:{port}' if domain else ''


def _address(host: str, job: int, variables: Variables) -> str:
    """Returns the address of a machine, with the port that JAX would choose for the job."""
    port = variables.get('JAX_COORDINATOR_PORT', _FIRST_PORT + job % _NUM_PORTS)
    return f'{host}:{port}'


_STEP = 'SLURM_STEP_NODELIST'
_LAUNCHERS = (
    _Launcher('JAX_PROCESS_ID', 'JAX_NUM_PROCESSES', _unknown_address),
    _Launcher('OMPI_COMM_WORLD_RANK', 'OMPI_COMM_WORLD_SIZE', _address_of_mpirun),
    _Launcher('SLURM_PROCID', 'SLURM_STEP_NUM_TASKS', _address_of_step, needed=_STEP),
    # Older versions of SLURM.
    _Launcher('SLURM_PROCID', 'SLURM_NTASKS', _address_of_step, needed=_STEP),
    _Launcher('PMI_RANK', 'PMI_SIZE', _unknown_address),
    _Launcher('JOB_COMPLETION_INDEX', 'JAX_NUM_PROCESSES', _address_of_pods),
)
_ARRAYS = (
    _JobArray(
        task='SLURM_ARRAY_TASK_ID',
        first='SLURM_ARRAY_TASK_MIN',
        last='SLURM_ARRAY_TASK_MAX',
        num_tasks='SLURM_ARRAY_TASK_COUNT',
    ),
    _JobArray(
        task='SGE_TASK_ID',
        first='SGE_TASK_FIRST',
        last='SGE_TASK_LAST',
        step='SGE_TASK_STEPSIZE',
    ),
    _JobArray('LSB_JOBINDEX', last='LSB_JOBINDEX_END', step='LSB_JOBINDEX_STEP'),
    _JobArray('SKYPILOT_JOB_RANK', num_tasks='SKYPILOT_NUM_JOBS'),
)
