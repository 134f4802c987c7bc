"""Partitions: which client owns which example.

Every partitioner takes the labels (`iid` only their number) and returns ``clients``, int32[E], the
owner of each example: the form that `problems.from_arrays` consumes. Each example is used exactly
once. This is host code in NumPy.

===================== ============= ==============================================================
partitioner           volumes       label skew
===================== ============= ==============================================================
`iid`                 equal         none
`dirichlet`           equal         Dirichlet class shares per client (the default in papers' texts)
`dirichlet_unequal`   unequal       the same, as released with FedAU, FedPBC and FedAWE
`dirichlet_per_class` unequal       Dirichlet client shares per class (Sun et al.)
`label_shards`        equal         a few shards of the sorted data (McMahan et al.)
`similarity`          nearly equal  one class per client, 5 % spread at random (Wang and Ji)
===================== ============= ==============================================================

Equal volumes differ by at most one (`label_shards`: one per shard). The others redraw until every
client owns ``min_examples``, except `label_groups`, which has nothing to redraw. `class_mix` and
`report` tell what came out; `contiguous_groups` groups clients by id.
"""

import numpy as np
from numpy.typing import NDArray

from fedjax_links.core import checks
from fedjax_links.problems.partition import draws
from fedjax_links.problems.partition.reports import PartitionReport, class_mix, report
from fedjax_links.problems.partition.rules import (
    contiguous_groups,
    label_shards,
    similarity,
)
from fedjax_links.problems.partition.shares import (
    dirichlet,
    dirichlet_per_class,
    dirichlet_shares,
    dirichlet_unequal,
)

__all__ = [
    'PartitionReport',
    'class_mix',
    'contiguous_groups',
    'dirichlet',
    'dirichlet_per_class',
    'dirichlet_shares',
    'dirichlet_unequal',
    'iid',
    'label_shards',
    'report',
    'similarity',
]


def iid(num_examples: int, *, num_clients: int, seed: int) -> NDArray[np.int32]:
    """Deals shuffled examples out in equal volumes.

    Args:
      num_examples: E.
      num_clients: N, at most E.
      seed: integer in ``[0, 2**32)``.

    Returns:
      Owner of each example, int32[E]. Sizes differ by at most one.

    Raises:
      ValueError: if an argument is out of range.
    """
    checks.static_int('num_examples', num_examples)
    checks.static_int('num_clients', num_clients, maximum=num_examples)
    dealt = np.arange(num_examples, dtype=np.int64) % num_clients
    return draws.generator(seed).permutation(dealt).astype(np.int32)
