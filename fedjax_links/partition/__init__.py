"""Partitions: which client owns which example.

Every partitioner takes the labels and returns ``clients``, int32[E], the owner of each example: the
form that `problems.from_arrays` consumes. Each example is used exactly once. This is host code in
NumPy.

======================== =========== =============================================================
partitioner              volumes     label skew
======================== =========== =============================================================
`iid`                    equal       none
`dirichlet`              equal       Dirichlet class shares per client (the papers' default)
`hierarchical_dirichlet` equal       Dirichlet shares of coarse classes, then within (Reddi et al.)
`dirichlet_unequal`      unequal     Dirichlet class shares, as released with FedAU and FedPBC
`dirichlet_per_class`    unequal     Dirichlet client shares per class (Sun et al.)
`dirichlet_capped`       unequal     per class, for clients below the mean volume (Li et al.)
`label_shards`           equal       a few shards of the sorted data (McMahan et al.)
`pathological`           by class    exactly k classes per client
`similarity`             near equal  one class per client, 5 % spread at random (Wang and Ji)
`natural`                the data's  the data's own
======================== =========== =============================================================

A client's volume is its number of examples. Equal volumes differ by at most one (`label_shards`:
one per shard). `similarity` and the Dirichlet partitions of unequal volumes redraw until every
client owns an example. `divide` leaves clients and examples out, or holds them out. `class_mix` and
`report` describe what came out. `contiguous_groups` groups clients by id. `PARTITIONS` has the
partitioners by name.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.core import checks, errors, factory_options
from fedjax_links.core.records import Section
from fedjax_links.core.registry import Registry
from fedjax_links.datasets import columns
from fedjax_links.partition.cut_classes import (
    dirichlet_capped,
    dirichlet_per_class,
    dirichlet_unequal,
    pathological,
)
from fedjax_links.partition.label_shares import (
    dirichlet,
    dirichlet_shares,
    hierarchical_dirichlet,
)
from fedjax_links.partition.rules import (
    Division,
    contiguous_groups,
    divide,
    iid,
    label_shards,
    natural,
    similarity,
)

__all__ = [
    'PARTITIONS',
    'Division',
    'PartitionReport',
    'Partitioner',
    'bind',
    'class_mix',
    'contiguous_groups',
    'dirichlet',
    'dirichlet_capped',
    'dirichlet_per_class',
    'dirichlet_shares',
    'dirichlet_unequal',
    'divide',
    'hierarchical_dirichlet',
    'iid',
    'keywords',
    'label_shards',
    'natural',
    'pathological',
    'report',
    'similarity',
    'volumes',
]

Partitioner = Callable[..., np.ndarray]
"""``(labels, *, num_clients, **options) -> int[E]``; gets ``seed`` if it has such a parameter."""

_PARTITIONERS = (
    dirichlet,
    dirichlet_unequal,
    dirichlet_per_class,
    dirichlet_capped,
    hierarchical_dirichlet,
    label_shards,
    pathological,
    similarity,
    iid,
    natural,
)
PARTITIONS: Mapping[str, Partitioner] = Registry(
    {partitioner.__name__: partitioner for partitioner in _PARTITIONERS}
)


def bind(
    partition: str | Partitioner,
    options: Section,
    caller: Callable[..., object] | None = None,
) -> Callable[[np.ndarray, int | None, int], np.ndarray]:
    """Binds a partition to its options, checked before any data are read.

    Args:
      partition: a name in `PARTITIONS`, or a function.
      options: of the partition.
      caller: the function that passes on the options which it does not take itself. Errors name the
        caller, and suggest the caller's options too.

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
    function = partition
    names = keywords(partition)
    for option in options:
        if option not in names:
            raise _unknown_option(option, names, caller)
    factory_options.check_types('', function, options)
    bound = function.keywords if isinstance(function, functools.partial) else {}

    def complete(num_clients: int | None, seed: int) -> Section:
        takes_seed = 'seed' in names - bound.keys()
        seeds = {'seed': seed} if takes_seed else {}
        return {'num_clients': num_clients, **seeds, **options}

    factory_options.check('partition', function, complete(1, 0), None)

    def assign_owners(labels: np.ndarray, num_clients: Any, seed: int) -> np.ndarray:
        checks.static_int('num_clients', num_clients, maximum=len(labels))
        clients = np.asarray(function(labels, **complete(num_clients, seed)))
        if clients.shape != labels.shape:
            requirement = f'give each of the {len(labels)} examples an owner'
            raise errors.invalid('partition', requirement, f'shape {clients.shape}')
        lowest = clients.min()
        highest = clients.max()
        if lowest < 0 or highest != num_clients - 1:
            requirement = f'number the owners from 0 to {num_clients - 1}'
            got = f'{highest} as the highest'
            if lowest < 0:
                got = f'{lowest} as the lowest'
            raise errors.invalid('partition', requirement, got)
        return clients

    return assign_owners


def _unknown_option(
    option: str, names: set[str], caller: Callable[..., object] | None
) -> errors.InvalidError:
    """Builds the error for an option that neither a partition nor its caller takes."""
    if caller is None:
        return errors.unknown_name('partition', option, names)
    valid = (keywords(caller) | names) - {option}
    return errors.unknown_option(caller.__name__, option, valid, 'with this partition')


def keywords(function: Callable[..., object]) -> set[str]:
    """Returns the names that a function takes by keyword, without its first positional argument."""
    function = function.func if isinstance(function, functools.partial) else function
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        name = getattr(function, '__name__', repr(function))
        raise errors.invalid(
            'partition', 'name a function that takes labels first', name
        )
    first, *others = parameters
    named = others if first.kind is not first.KEYWORD_ONLY else [first, *others]
    return {
        p.name for p in named if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)
    }


def class_mix(clients: ArrayLike, labels: ArrayLike) -> NDArray[np.float64]:
    """Measures the class shares that clients actually hold, ``nu_ic = n_ic / n_i``.

    Args:
      clients: int[E], owner of each example.
      labels: int[E], class of each example, numbered from 0.

    Returns:
      Shares float64[N, C]. Rows sum to one; the row of a client without examples is zero.

    Raises:
      ValueError: if the two vectors differ in length.
    """
    return report(clients, labels).class_mix


class PartitionReport(NamedTuple):
    """Holds a partition in numbers, which ``str`` formats. C is 0 where nothing has a class.

    Attributes:
      counts: int64[N], examples of each client.
      class_mix: float64[N, C], class shares of each client, zero where the client owns nothing.
      global_mix: float64[C], class shares of the pooled data.
      total_variation: float64[N], ``0.5 sum_c |nu_ic - nu_c|`` in [0, 1]: the distance of a
        client's mix to the pooled mix. NaN where the client owns nothing.
      classes_held: int64[N], classes of which a client owns at least one example.
    """

    counts: NDArray[np.int64]
    class_mix: NDArray[np.float64]
    global_mix: NDArray[np.float64]
    total_variation: NDArray[np.float64]
    classes_held: NDArray[np.int64]

    def __str__(self) -> str:
        """Formats a table of at most 80 columns, however many clients there are."""
        owns_examples = self.counts > 0
        num_classes = self.global_mix.size
        class_count = f', {num_classes} classes' if num_classes else ''
        heads = ('min', '10 %', 'median', '90 %', 'max', 'mean')
        lines = [
            f'{owns_examples.size} clients ({(~owns_examples).sum()} without examples), '
            f'{self.counts.sum()} examples{class_count}',
            f'{"per client":<22}' + ''.join(f'{head:>9}' for head in heads),
            _line('examples', self.counts, '.1f'),
        ]
        if num_classes:
            lines += [
                _line('classes held', self.classes_held, '.1f'),
                _line(
                    'largest class share',
                    self.class_mix.max(axis=1)[owns_examples],
                    '.3f',
                ),
                _line(
                    'distance to pooled mix', self.total_variation[owns_examples], '.3f'
                ),
            ]
        if 0 < num_classes <= 10:
            holders = (self.class_mix > 0).sum(axis=0)
            for name, cells, cell_format in (
                ('class', range(num_classes), '>6'),
                ('pooled share', self.global_mix, '>6.3f'),
                ('clients holding', holders, '>6'),
            ):
                formatted = [f'{cell:{cell_format}}' for cell in cells]
                lines.append(f'{name:<15}' + ''.join(formatted))
        return '\n'.join(lines)


def volumes(counts: ArrayLike) -> PartitionReport:
    """Describes how many examples clients have, for examples without classes.

    Args:
      counts: int[N].

    Raises:
      ValueError: for anything but whole numbers from 0.
    """
    counts = checks.ids('counts', counts, limit=2**31)
    return _describe(np.zeros((counts.size, 0), np.int64), counts)


def report(clients: ArrayLike, labels: ArrayLike) -> PartitionReport:
    """Describes a partition: ``print(report(clients, labels))``.

    Args:
      clients: int[E], owner of each example.
      labels: int[E], class of each example, numbered from 0.

    Returns:
      Counts, mixes and distances; see `PartitionReport`.

    Raises:
      ValueError: if the two vectors differ in length.
    """
    clients = checks.ids('clients', clients)
    labels = columns.class_ids('labels', labels)
    if clients.size != labels.size:
        raise errors.invalid(
            'clients', f'have {labels.size} entries, as labels do', clients.size
        )
    num_clients = int(clients.max()) + 1
    num_classes = int(labels.max()) + 1
    checks.fits('labels', num_classes, 32.0 * num_clients * num_classes)
    table = np.zeros((num_clients, num_classes), np.int64)
    np.add.at(table, (clients, labels), 1)
    return _describe(table, table.sum(axis=1))


def _describe(table: NDArray[np.int64], counts: NDArray[np.int64]) -> PartitionReport:
    """Describes clients by their examples in each class, int64[N, C], and in all, int64[N]."""
    mix = table / np.maximum(counts, 1)[:, None]
    global_mix = table.sum(axis=0) / counts.sum()
    distance = 0.5 * np.abs(mix - global_mix).sum(axis=1)
    return PartitionReport(
        counts=counts,
        class_mix=mix,
        global_mix=global_mix,
        total_variation=np.where(counts > 0, distance, np.nan),
        classes_held=(table > 0).sum(axis=1),
    )


def _line(
    name: str, values: NDArray[np.floating] | NDArray[np.int64], number_format: str
) -> str:
    """Formats a row of the table: five quantiles that are values of the data, and the mean.

    Quantiles that are whole numbers have no decimals.
    """
    cells = []
    for value in np.quantile(values, [0, 0.1, 0.5, 0.9, 1], method='nearest'):
        text = format(value, number_format if value % 1 else '.0f')
        cells.append(f'{text:>9}')
    return f'{name:<22}' + ''.join(cells) + f'{values.mean():>9{number_format}}'
