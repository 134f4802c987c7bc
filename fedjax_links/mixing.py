"""Mixes client models by the matrix W of a participation mask: dense, or factored in O(N).

``W_ij = 1/|A|`` for i, j in the active set A, and W is the identity elsewhere. So active clients
average their models, and each other client keeps its own. W is symmetric, doubly stochastic and a
projection; an empty or single-client round gives the identity.

This module also has the weights of links between clients, `metropolis_weights`.

References: Xiang et al. 2023, section IV (the matrix before eq. 3).
"""

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links.base import Array, PyTree
from fedjax_links.core import checks, contracts, errors, tree


def mixing_matrix(mask: Array) -> Array:
    """Returns the dense matrix W.

    Args:
      mask: bool[N], the active set A.

    Returns:
      float[N, N].

    Example:
      >>> import jax.numpy as jnp
      >>> from fedjax_links import mixing
      >>> print(mixing.mixing_matrix(jnp.array([True, False, True])))
      [[0.5 0.  0.5]
       [0.  1.  0. ]
       [0.5 0.  0.5]]
    """
    _check_mask(mask)
    active = mask.astype(jnp.result_type(float))
    pairs = active[:, None] * active[None, :]
    weight = 1 / jnp.maximum(jnp.sum(active), 1)
    return pairs * weight + jnp.diag(1 - active)


def active_mean(mask: Array, client_tree: PyTree) -> PyTree:
    """Averages the active rows, zero when there are none; O(N).

    Args:
      mask: bool[N].
      client_tree: leaves [N, ...], no integers.

    Returns:
      Leaves [...] in their dtypes, summed in float32 at least. Rows outside the mask are never read
      into the sum.

    Example:
      >>> import jax.numpy as jnp
      >>> from fedjax_links import mixing
      >>> print(mixing.active_mean(jnp.array([True, False, True]), jnp.array([1.0, 2.0, 5.0])))
      3.0
    """
    _check_mask(mask)
    _check_leaves(client_tree, len(mask))
    active_rows = tree.select_rows(mask, client_tree, tree.zeros_like(client_tree))
    sums = jax.tree.map(
        lambda a: jnp.sum(a, axis=0, dtype=tree.sum_dtype(a.dtype)), active_rows
    )
    return tree.cast_like(tree.divide(sums, jnp.sum(mask)), client_tree)


def mix(mask: Array, client_tree: PyTree) -> PyTree:
    """Applies W without building it: active rows become their mean, other rows stay; O(N).

    Args:
      mask: bool[N].
      client_tree: leaves [N, ...], no integers; row i is the model of client i.

    Returns:
      Leaves [N, ...].

    Example:
      >>> import jax.numpy as jnp
      >>> from fedjax_links import mixing
      >>> print(mixing.mix(jnp.array([True, False, True]), jnp.array([1.0, 2.0, 5.0])))
      [3. 2. 3.]
    """
    return tree.fill_rows(mask, active_mean(mask, client_tree), client_tree)


def metropolis_weights(neighbours: Array, edges: Array) -> Array:
    """Computes Metropolis weights of edges that are up: ``1 / (1 + max(d_i, d_j))``, d degrees.

    With the rest of every row on the diagonal, ``M_ii = 1 - sum_j M_ij``, the matrix is symmetric
    and doubly stochastic, whichever edges are up.

    Args:
      neighbours: int32[N, K], see `fedjax_links.base.PeerLinkSample`.
      edges: bool[N, K], whether each edge is up; symmetric.

    Returns:
      float[N, K], M_ij for j the k-th neighbour of i; zero where the edge is down.

    Example:
      >>> import jax.numpy as jnp
      >>> from fedjax_links import mixing
      >>> neighbours = jnp.array([[1, 0], [0, 2], [1, 2]])
      >>> edges = jnp.array([[True, False], [True, True], [True, False]])
      >>> print(1 / mixing.metropolis_weights(neighbours, edges))
      [[ 3. inf]
       [ 3.  3.]
       [ 3. inf]]

    References:
      Rodio, Neglia, Chen and Larsson 2025.
    """
    _check_edges(neighbours, edges)
    degrees = jnp.sum(edges, axis=1)
    larger_degree = jnp.maximum(degrees[:, None], degrees[neighbours])
    weights = 1 / (1 + larger_degree.astype(jnp.result_type(float)))
    return jnp.where(edges, weights, 0)


def _check_mask(mask: object) -> None:
    """Raises unless ``mask`` is an array bool[N], or an array [N] of zeros and ones."""
    kind, ndim = _kind(mask) or ('', 0)
    if kind not in 'biuf' or ndim != 1:
        raise errors.invalid('mask', 'be an array bool[N]', contracts.kind_of(mask))
    if checks.is_concrete(mask) and not np.isin(np.asarray(mask), (0, 1)).all():
        raise errors.invalid('mask', 'hold zeros and ones', errors.text_of(mask))


def _check_leaves(client_tree: PyTree, num_clients: int) -> None:
    """Raises for a leaf that is no array with a row for each client, or that has integers."""
    for leaf in jax.tree.leaves(client_tree):
        if not hasattr(leaf, 'shape') or leaf.shape[:1] != (num_clients,):
            requirement = f'have arrays [{num_clients}, ...] as leaves'
            raise errors.invalid('client_tree', requirement, contracts.kind_of(leaf))
        # The mean of integers, cast back to integers, would be cut.
        if not jnp.issubdtype(leaf.dtype, jnp.inexact):
            requirement = 'have leaves of floating-point numbers'
            raise errors.invalid('client_tree', requirement, contracts.kind_of(leaf))


def _check_edges(neighbours: Array, edges: Array) -> None:
    """Raises unless ``neighbours`` is int[N, K] of client ids, and ``edges`` bool[N, K]."""
    if _kind(neighbours) not in {('i', 2), ('u', 2)}:
        got = contracts.kind_of(neighbours)
        raise errors.invalid('neighbours', 'be an array int[N, K]', got)
    checks.within('neighbours', neighbours, 0, len(neighbours) - 1, axis='neighbour')
    if _kind(edges) != ('b', 2) or np.shape(edges) != np.shape(neighbours):
        requirement = f'be an array bool{list(np.shape(neighbours))}'
        raise errors.invalid('edges', requirement, contracts.kind_of(edges))


def _kind(value: object) -> tuple[str, int] | None:
    """Returns the letter of an array's kind of dtype and its number of axes."""
    if not (hasattr(value, 'dtype') and hasattr(value, 'ndim')):
        return None
    return value.dtype.kind, value.ndim
