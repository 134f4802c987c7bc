"""Which of several like tasks this process is, as those say who started them."""

import os
from collections.abc import Mapping
from typing import NamedTuple

from fedjax_links.core import errors

_ARRAYS = (  # variables with a task's number, the first, the last, and how many there are
    [f'SLURM_ARRAY_TASK_{name}' for name in ('ID', 'MIN', 'MAX', 'COUNT')],
    ('SGE_TASK_ID', 'SGE_TASK_FIRST', 'SGE_TASK_LAST', ''),
    ('LSB_JOBINDEX', '', 'LSB_JOBINDEX_END', ''),
    ('SKYPILOT_JOB_RANK', '', '', 'SKYPILOT_NUM_JOBS'),
)


class Task(NamedTuple):
    """A task of an array.

    Attributes:
      place: its number, from 0.
      size: how many there are.
      source: the variable that says so.
    """

    place: int
    size: int
    source: str


def task(environment: Mapping[str, str] | None = None) -> Task | None:
    """The task that this process is; None if it is of no array.

    Args:
      environment: variables; those of this process by default.

    Raises:
      ValueError: if the numbers of the array have gaps, so that they do not tell shards apart.
    """
    said = os.environ if environment is None else environment
    for names in _ARRAYS:
        texts = (said.get(name, '') for name in names)
        own, first, last, size = (int(text) if text.isdecimal() else None for text in texts)
        if own is None or (last is None and size is None):
            continue
        start = first if first is not None else int(size is None)
        count = size if size is not None else (last or 0) - start + 1
        if count < 2:
            return None
        if last is not None and last - start + 1 != count:
            requirement = f'be given where {names[0]} has gaps, such as --shard={own}/64'
            raise errors.invalid('shard', requirement, f'{count} numbers from {start} to {last}')
        return Task(own % count, count, names[0])
    return None
