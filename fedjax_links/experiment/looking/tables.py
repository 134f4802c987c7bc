"""Tables of one row per client: what they take of a device, and in which form they would fit."""

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.base import PyTree
from fedjax_links.core import memory
from fedjax_links.experiment.definition import Experiment

if TYPE_CHECKING:
    from fedjax_links.experiment.running.programs import Group

FORMS = 'float32', 'bfloat16'
"""Dtypes of rows that are compared."""


class Table(NamedTuple):
    """The rows that the lanes of a group keep for their clients, on one device.

    Attributes:
      entries: numbers in all rows.
      num_bytes: what they take as the algorithm is set up.
    """

    entries: int
    num_bytes: int

    def as_form(self, form: str) -> int:
        """Bytes of the rows in this dtype."""
        return self.entries * jnp.dtype(form).itemsize


def table(group: 'Group') -> Table | None:
    """What a group's algorithm keeps per client in the shape of a model; None if nothing."""
    params = jax.eval_shape(group.problem.init_params, jax.random.key(0))
    structure: Any = jax.tree.structure(params)
    num_clients = group.problem.num_clients
    shapes = [(num_clients, *leaf.shape) for leaf in jax.tree.leaves(params)]

    def is_table(part: PyTree) -> bool:
        alike = bool(structure == jax.tree.structure(part))
        return alike and [leaf.shape for leaf in jax.tree.leaves(part)] == shapes

    found = jax.tree.map(
        lambda part, placed: placed if is_table(part) else None,
        group.shapes()[0].algorithm,
        group.inputs()[0].algorithm,
        is_leaf=is_table,
    )
    sizes = [(_entries(leaf), leaf.dtype.itemsize) for leaf in jax.tree.leaves(found)]
    if not sizes:
        return None
    return Table(sum(n for n, _ in sizes), sum(n * width for n, width in sizes))


def describe(kept: Table, num_clients: int, needed: int, copies: int, devices: int) -> str:
    """Which forms of a table fit.

    Args:
      kept: the table.
      num_clients: N.
      needed: bytes of the program at its peak, in all copies.
      copies: how often the free memory holds the table.
      devices: of the mesh that shares it; 1 for none.

    Returns:
      Some words.
    """
    free = memory.available_bytes()
    texts = []
    for form in FORMS:
        peak = needed + copies * (kept.as_form(form) - kept.num_bytes)
        verdict = '' if free is None else ' (fits)' if peak <= free else ' (does not fit)'
        texts.append(f'{form} {memory.size(kept.as_form(form))}{verdict}')
    each = f' on each of {devices} devices' if devices > 1 else ''
    return f'rows of {num_clients:,} clients{each}: {", ".join(texts)}'


def refuse_if_above(experiment: Experiment, group: 'Group', needed: int, copies: int = 1) -> None:
    """Raises if what a group needs is known not to fit, naming what would.

    Args:
      experiment: the experiment.
      group: the lanes.
      needed: their bytes, in all copies.
      copies: how often the free memory holds their table.

    Raises:
      ValueError: with what is needed, what is free, and what would fit.
    """
    free, label = memory.available_bytes(), group.lanes[0].algorithm
    kept = None if free is None or needed <= free else table(group)
    remedies = []
    if free is not None and kept is not None:
        rest = needed - copies * kept.num_bytes
        narrow = rest + copies * kept.as_form('bfloat16')
        if narrow <= free and narrow < needed and (option := _option(experiment, label)):
            remedies.append(f'{option} ({memory.size(narrow)})')
        count = len(jax.devices())
        divided = rest + kept.num_bytes // count
        if (
            jax.default_backend() != 'cpu'
            and not group.place.is_mesh
            and count > 1
            and divided <= free
        ):
            remedies.append(f'--mesh=clients:{count} ({memory.size(divided)} on each)')
        if rest <= free:
            remedies.append(f'an algorithm without rows per client ({memory.size(rest)})')
    memory.refuse_if_above(free, needed, label, remedies)


def _option(experiment: Experiment, label: str) -> str | None:
    """How the rows of an algorithm are narrowed; None if they cannot be."""
    section = (experiment.config or {}).get('algorithms', {}).get(label)
    entry = None if section is None else ALGORITHMS.get(section.get('name', label))
    if entry is None:  # made in Python: nothing says what the factory takes
        return f"`table_dtype='bfloat16'` where {label} takes it"
    if 'table_dtype' not in inspect.signature(entry.factory).parameters:
        return None
    return f'`table_dtype: bfloat16` in `config.algorithms.{label}`'


def _entries(leaf: jax.ShapeDtypeStruct) -> int:
    """How many numbers of an array a device holds."""
    sharding = leaf.sharding
    return int(np.prod(leaf.shape if sharding is None else sharding.shard_shape(leaf.shape)))
