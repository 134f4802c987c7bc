"""Partitions by name, and functions of the user's own in their place."""

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from fedjax_links.core import checks, errors, kinds
from fedjax_links.problems import partition

Partitioner = Callable[..., np.ndarray]
"""``(labels, *, num_clients, **options) -> int[E]``; gets ``seed`` if it has such a parameter."""


PARTITIONS: Mapping[str, Partitioner] = {
    'dirichlet': partition.dirichlet,
    'dirichlet_unequal': partition.dirichlet_unequal,
    'dirichlet_per_class': partition.dirichlet_per_class,
    'hierarchical_dirichlet': partition.hierarchical_dirichlet,
    'label_shards': partition.label_shards,
    'similarity': partition.similarity,
    'iid': partition.iid,
    'natural': partition.natural,
}


def bind(
    partition: str | Partitioner, options: Mapping[str, Any], others: Collection[str] = ()
) -> Callable[[np.ndarray, int, int], np.ndarray]:
    """A partition with its options, checked before any data are read.

    Args:
      partition: a name in `PARTITIONS`, or a function.
      options: of the partition.
      others: names of options that are no concern of the partition's, to be suggested.

    Returns:
      ``(labels int[E], num_clients, seed) -> owners int[E]``; it raises if there is not one owner
      per example, or the last clients own nothing.

    Raises:
      ValueError: naming the option and the nearest valid one.
    """
    if isinstance(partition, str):
        checks.choice('partition', partition, PARTITIONS)
        partition = PARTITIONS[partition]
    if not callable(partition):
        raise errors.invalid('partition', 'be a name or a function', repr(partition))
    function, names = partition, keywords(partition)
    for option in options:
        if option not in names:
            raise errors.unknown_name('partition', option, {*others, *names} - {option})
    kinds.check('', function, options)
    bound = function.keywords if isinstance(function, functools.partial) else {}

    def complete(num_clients: int, seed: int) -> dict[str, Any]:
        drawn = {'seed': seed} if 'seed' in names - bound.keys() else {}
        return {'num_clients': num_clients, **drawn, **options}

    checks.options('partition', function, complete(1, 0), None)

    def deal(labels: np.ndarray, num_clients: int, seed: int) -> np.ndarray:
        checks.static_int('num_clients', num_clients, maximum=len(labels))
        clients = np.asarray(function(labels, **complete(num_clients, seed)))
        if clients.shape != labels.shape:
            requirement = f'give each of the {len(labels)} examples an owner'
            raise errors.invalid('partition', requirement, f'shape {clients.shape}')
        if clients.max() != num_clients - 1:
            requirement = f'number the owners from 0 to {num_clients - 1}'
            raise errors.invalid('partition', requirement, f'{clients.max()} as the highest')
        return clients

    return deal


def keywords(function: Callable[..., Any]) -> set[str]:
    """Names that a function takes by keyword, apart from that of its first positional argument."""
    function = function.func if isinstance(function, functools.partial) else function
    first, *others = inspect.signature(function).parameters.values()
    named = [p for p in others if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return {p.name for p in (named if first.kind is not first.KEYWORD_ONLY else [first, *named])}
