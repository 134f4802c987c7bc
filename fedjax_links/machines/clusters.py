"""Which of several joint processes this one is, as those say who started them.

They are the variables in which `jax.distributed.initialize` finds it, where no service is asked.
"""

import os
import re
import socket
from collections.abc import Mapping
from typing import NamedTuple

from fedjax_links.core import errors

_FIRST_PORT, _NUM_PORTS, _PORT_OF_PODS = 61440, 4096, 55527  # as JAX chooses them


class Process(NamedTuple):
    """A process of several, as `processes.join` takes it.

    Attributes:
      coordinator: where process 0 is heard, ``HOST:PORT``.
      num_processes: K, all of them.
      process_id: which of them it is, from 0.
      source: the variable that says so.
    """

    coordinator: str
    num_processes: int
    process_id: int
    source: str


def process(environment: Mapping[str, str] | None = None) -> Process | None:
    """Which process this is; None for one that was started alone.

    Args:
      environment: variables; those of this process by default.

    Raises:
      ValueError: if there are several, and nothing says where process 0 is heard.
    """
    said = os.environ if environment is None else environment
    for own, size, where, address in _LAUNCHERS:
        place, count = said.get(own, ''), said.get(size, '')
        if not (place.isdecimal() and count.isdecimal() and (not where or where in said)):
            continue
        if int(count) < 2:
            return None
        if not (coordinator := said.get('JAX_COORDINATOR_ADDRESS') or address(said)):
            requirement = f'be given, or JAX_COORDINATOR_ADDRESS, as {own} is'
            raise errors.invalid('coordinator', requirement, None)
        return Process(coordinator, int(count), int(place), own)
    return None


def _of_mpirun(said: Mapping[str, str]) -> str:
    """The machine of Open MPI's mpirun: by an address, since version 5 by its name."""
    uri = re.match(r'(\d+)\..*?tcp6?://(\[[^,\]]+|[^,:]+)', said.get('OMPI_MCA_orte_hnp_uri', ''))
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
    return f'{host}:{said.get("JAX_COORDINATOR_PORT", _FIRST_PORT + number % _NUM_PORTS)}'


_LAUNCHERS = (  # variables: a process's number, how many, what else must be; where the first is
    ('JAX_PROCESS_ID', 'JAX_NUM_PROCESSES', '', lambda _: ''),
    ('OMPI_COMM_WORLD_RANK', 'OMPI_COMM_WORLD_SIZE', '', _of_mpirun),
    ('SLURM_PROCID', 'SLURM_STEP_NUM_TASKS', 'SLURM_STEP_NODELIST', _of_step),
    ('SLURM_PROCID', 'SLURM_NTASKS', 'SLURM_STEP_NODELIST', _of_step),  # older ones
    ('PMI_RANK', 'PMI_SIZE', '', lambda _: ''),
    ('JOB_COMPLETION_INDEX', 'JAX_NUM_PROCESSES', '', _of_pods),
)
