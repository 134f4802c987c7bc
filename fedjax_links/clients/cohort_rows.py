"""Reads, writes and sums the rows of a cohort's members.

A table, leaves [N, ...], has a row for each client. A cohort lists the clients that a round
computes, its members.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedjax_links.base import Array, PyTree
from fedjax_links.core import tree


class Cohort(NamedTuple):
    """Lists the ids of clients, the cohort's members, in K slots.

    Attributes:
      ids: int32[K], the members in increasing order; each empty slot after them holds N.
      size: number of members, int32[], or a Python int if it is static.
      num_clients: N.
      is_everyone: whether the slots are all clients in order, so that rows need no look-up.
    """

    ids: Array
    size: Array | int
    num_clients: int
    is_everyone: bool = False


def gather(cohort: Cohort, client_tree: PyTree) -> PyTree:
    """Returns the rows of the cohort's slots.

    Args:
      cohort: K slots.
      client_tree: leaves [N, ...].

    Returns:
      Leaves [K, ...]; an empty slot repeats the last client's row and must not be used.
    """
    return jax.tree.map(
        lambda a: jnp.take(a, cohort.ids, axis=0, mode='clip'), client_tree
    )


def scatter(cohort: Cohort, client_tree: PyTree, new_rows: PyTree) -> PyTree:
    """Writes the rows of cohort members into the client table.

    Args:
      cohort: K slots.
      client_tree: leaves [N, ...].
      new_rows: leaves [K, ...]; rows of empty slots are dropped.

    Returns:
      Leaves [N, ...].
    """

    def write(table: Array, rows: Array) -> Array:
        rows = rows.astype(table.dtype)
        return table.at[cohort.ids].set(rows, mode='drop', indices_are_sorted=True)

    return jax.tree.map(write, client_tree, new_rows)


def weighted_sum(
    cohort: Cohort, slot_tree: PyTree, weights: Array | None = None
) -> PyTree:
    """Sums ``weight * row`` over the members.

    Args:
      cohort: K slots, the members first.
      slot_tree: leaves [K, ...].
      weights: float[K], one by default; weights of empty slots are not read.

    Returns:
      Leaves [...], in float32 at least.
    """
    num_slots = cohort.ids.shape[0]
    is_full = isinstance(cohort.size, int) and cohort.size == num_slots
    is_member = jnp.arange(num_slots) < cohort.size

    # Rows and weights are selected before they are multiplied: 0 x NaN is NaN.
    def zero_empty_slots(a: Array) -> Array:
        if is_full:
            return a
        return jnp.where(tree.expand_dims_like(is_member, a), a, jnp.zeros_like(a))

    member_weights = None if weights is None else zero_empty_slots(weights)

    def leaf_sum(a: Array) -> Array:
        dtype = tree.sum_dtype(a.dtype)
        terms = zero_empty_slots(a)
        if member_weights is not None:
            terms = terms * tree.expand_dims_like(member_weights.astype(dtype), a)
        return jnp.sum(terms, axis=0, dtype=dtype)

    return jax.tree.map(leaf_sum, slot_tree)
