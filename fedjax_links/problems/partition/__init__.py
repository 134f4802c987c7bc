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
clients by id.
"""

from fedjax_links.problems.partition.holdouts import Division, divide
from fedjax_links.problems.partition.reports import PartitionReport, class_mix, report
from fedjax_links.problems.partition.rules import (
    contiguous_groups,
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

__all__ = [
    'Division',
    'PartitionReport',
    'class_mix',
    'contiguous_groups',
    'dirichlet',
    'dirichlet_per_class',
    'dirichlet_shares',
    'dirichlet_unequal',
    'divide',
    'hierarchical_dirichlet',
    'iid',
    'label_shards',
    'natural',
    'report',
    'similarity',
]
