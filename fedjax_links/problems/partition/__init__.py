"""Partitions: which client owns which example.

Every partitioner takes the labels and returns ``clients``, int32[E], the owner of each example: the
form that `problems.from_arrays` consumes. Each example is used exactly once. This is host code in
NumPy.

======================== =========== =============================================================
partitioner              volumes     label skew
======================== =========== =============================================================
`iid`                    equal       none
`dirichlet`              equal       Dirichlet class shares per client (the papers' default)
`hierarchical_dirichlet` equal       the same over coarse classes, then within each (Reddi et al.)
`dirichlet_unequal`      unequal     the same, as released with FedAU, FedPBC and FedAWE
`dirichlet_per_class`    unequal     Dirichlet client shares per class (Sun et al.)
`label_shards`           equal       a few shards of the sorted data (McMahan et al.)
`similarity`             near equal  one class per client, 5 % spread at random (Wang and Ji)
`natural`                the data's  the data's: each example has its owner
======================== =========== =============================================================

Equal volumes differ by at most one (`label_shards`: one per shard). The others redraw until every
client owns an example. `divide` leaves clients and examples out, or holds them out;
`class_mix` and `report` describe what came out; `contiguous_groups` groups
clients by id. `PARTITIONS` has them by name.
"""

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from fedjax_links.core import checks, errors
from fedjax_links.problems.partition.reports import PartitionReport, class_mix, report
from fedjax_links.problems.partition.rules import (
    Division,
    contiguous_groups,
    divide,
    iid,
    label_shards,
    natural,
    similarity,
)
from fedjax_links.problems.partition.shares import (
    dirichlet,
    dirichlet_per_class,
    dirichlet_shares,
    dirichlet_unequal,
    hierarchical_dirichlet,
)

__all__ = ['PARTITIONS', 'Division', 'PartitionReport', 'Partitioner', 'bind', 'class_mix']
__all__ += ['contiguous_groups', 'dirichlet', 'dirichlet_per_class', 'dirichlet_shares']
__all__ += ['dirichlet_unequal', 'divide', 'hierarchical_dirichlet', 'iid', 'keywords']
__all__ += ['label_shards', 'natural', 'report', 'similarity']

Partitioner = Callable[..., np.ndarray]
"""``(labels, *, num_clients, **options) -> int[E]``; gets ``seed`` if it has such a parameter."""

_BY_SHARES = dirichlet, dirichlet_unequal, dirichlet_per_class, hierarchical_dirichlet
_BY_RULE = label_shards, similarity, iid, natural
PARTITIONS: Mapping[str, Partitioner] = {f.__name__: f for f in (*_BY_SHARES, *_BY_RULE)}


def bind(
    partition: str | Partitioner, options: Mapping[str, Any], others: Collection[str] = ()
) -> Callable[[np.ndarray, int | None, int], np.ndarray]:
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
        partition = checks.entry('partition', partition, PARTITIONS)
    if not callable(partition):
        raise errors.invalid('partition', 'be a name or a function', repr(partition))
    function, names = partition, keywords(partition)
    for option in options:
        if option not in names:
            raise errors.unknown_name('partition', option, {*others, *names} - {option})
    checks.kinds('', function, options)
    bound = function.keywords if isinstance(function, functools.partial) else {}

    def complete(num_clients: int | None, seed: int) -> dict[str, Any]:
        drawn = {'seed': seed} if 'seed' in names - bound.keys() else {}
        return {'num_clients': num_clients, **drawn, **options}

    checks.options('partition', function, complete(1, 0), None)

    def deal(labels: np.ndarray, num_clients: Any, seed: int) -> np.ndarray:
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
