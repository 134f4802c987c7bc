"""Partitions by name, and functions of the user's own in their place."""

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.core import checks, errors, kinds
from fedjax_links.problems import partition

Partitioner = Callable[..., np.ndarray]
"""``(labels, *, num_clients, **options) -> int[E]``; gets ``seed`` if it has such a parameter."""


def _iid(labels: ArrayLike, *, num_clients: int, seed: int) -> np.ndarray:
    """Deals shuffled examples out in equal volumes."""
    return partition.iid(np.size(labels), num_clients=num_clients, seed=seed)


PARTITIONS: Mapping[str, Partitioner] = {
    'dirichlet': partition.dirichlet,
    'dirichlet_unequal': partition.dirichlet_unequal,
    'dirichlet_per_class': partition.dirichlet_per_class,
    'label_shards': partition.label_shards,
    'label_groups': partition.label_groups,
    'similarity': partition.similarity,
    'iid': _iid,
}


def check(
    partition: str | Partitioner, options: Mapping[str, Any], others: Collection[str]
) -> None:
    """Raises for options that do not fit a partition, before any data are read.

    Args:
      partition: a name in `PARTITIONS`, or a function.
      options: options of the partition, and possibly some of the ``others``.
      others: names of options that are no concern of the partition's.

    Raises:
      ValueError: naming the option and the nearest valid one.
    """
    if isinstance(partition, str):
        checks.choice('partition', partition, PARTITIONS)
    elif not callable(partition):
        raise errors.invalid('partition', 'be a name or a function', repr(partition))
    function = _function(partition)
    names = {*others, *keywords(function)}
    for option in options:
        if option not in names:
            raise errors.unknown_name('partition', option, names)
    own = {name: value for name, value in options.items() if name not in others}
    kinds.check('', function, own)
    checks.options('partition', function, _arguments(partition, 1, 0, own), None)


def owners(
    partition: str | Partitioner,
    labels: np.ndarray,
    num_clients: int,
    seed: int,
    options: Mapping[str, Any],
) -> np.ndarray:
    """Who owns which example.

    Args:
      partition: a name in `PARTITIONS`, or a function.
      labels: int[E].
      num_clients: N.
      seed: for partitions that have a parameter of that name.
      options: further ones.

    Returns:
      int[E].

    Raises:
      ValueError: if there is not one owner per example, or the last clients own nothing.
    """
    checks.static_int('num_clients', num_clients, maximum=len(labels))
    arguments = _arguments(partition, num_clients, seed, options)
    clients = np.asarray(_function(partition)(labels, **arguments))
    if clients.shape != labels.shape:
        requirement = f'give each of the {len(labels)} examples an owner'
        raise errors.invalid('partition', requirement, f'shape {clients.shape}')
    if clients.max() != num_clients - 1:
        requirement = f'number the owners from 0 to {num_clients - 1}'
        raise errors.invalid('partition', requirement, f'{clients.max()} as the highest')
    return clients


def keywords(function: Callable[..., Any]) -> set[str]:
    """Names that a function takes by keyword, apart from that of its first positional argument."""
    parameters = inspect.signature(_unbound(function)).parameters.values()
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return {p.name for place, p in enumerate(parameters) if p.kind in kinds[: 1 + (place > 0)]}


def _arguments(
    partition: str | Partitioner, num_clients: int, seed: int, options: Mapping[str, Any]
) -> dict[str, Any]:
    """What the partition is called with besides the labels."""
    arguments = {'num_clients': num_clients, **options}
    bound = partition.keywords if isinstance(partition, functools.partial) else {}
    if 'seed' in keywords(_function(partition)) - bound.keys():
        arguments['seed'] = seed
    return arguments


def _function(partition: str | Partitioner) -> Partitioner:
    return PARTITIONS[partition] if isinstance(partition, str) else partition


def _unbound(function: Callable[..., Any]) -> Callable[..., Any]:
    return function.func if isinstance(function, functools.partial) else function
