"""Recorded links, played back."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.base import Array, Key, Links, LinkSample, Participation, PeerLinkSample, PyTree
from fedjax_links.core import checks, errors
from fedjax_links.participation import rejection, schedules


def replay(
    mask: ArrayLike,
    prob: ArrayLike | None = None,
    *,
    neighbours: ArrayLike | None = None,
    edges: ArrayLike | None = None,
    edge_prob: ArrayLike | None = None,
) -> Participation:
    """Round t has the links of row ``t mod T`` of a recording.

    The masks of a run (`fedjax_links.simulation.realised_links`) replay bit for bit; those of
    cohorts of one size, with no probabilities, name these as the run did.

    Args:
      mask: bool[T, N], who delivered in each recorded round; integers 0 and 1 count as booleans.
      prob: float[T, N] in [0, 1], or NaN where unknown; unknown everywhere by default.
      neighbours: int[N, K], of links between clients; None where there were none.
      edges: bool[T, N, K], which of these were up, symmetric.
      edge_prob: float[T, N, K], as ``prob``.

    Returns:
      The pattern; it has no carry.

    Raises:
      ValueError: if the shapes do not fit or the mask holds anything else, floats included, or if
        edges are told without neighbours.

    Example:
      >>> import jax
      >>> from fedjax_links import participation, simulation
      >>> pattern = participation.replay([[True, False], [True, True]])
      >>> links = simulation.realised_links(jax.random.key(0), pattern, num_rounds=3)
      >>> print(links.mask.astype(int))
      [[1 0]
       [1 1]
       [1 0]]
    """
    xp = checks.array_module(mask)
    masks = xp.asarray(mask)
    if masks.ndim != 2 or 0 in masks.shape:
        raise errors.invalid('mask', 'have shape [rounds, clients]', list(masks.shape))
    wanted = 'be boolean, or integers 0 and 1'
    if masks.dtype != bool and not jnp.issubdtype(masks.dtype, jnp.integer):
        raise errors.invalid('mask', wanted, f'dtype {masks.dtype}')
    if xp is np and not (binary := np.isin(masks, (0, 1))).all():
        raise errors.invalid('mask', wanted, masks[~binary][0])
    if prob is not None and np.shape(prob) != masks.shape:
        requirement = f'have the shape of `mask` {list(masks.shape)}'
        raise errors.invalid('prob', requirement, list(np.shape(prob)))
    if prob is not None and checks.is_concrete(prob):
        checks.within('prob', np.nan_to_num(np.asarray(prob)), 0, 1)
    masks, (num_rounds, num_clients) = masks.astype(bool), masks.shape
    if (neighbours is None) != (edges is None):
        raise errors.invalid('edges', 'be given with `neighbours`, and only then', None)
    between = None if neighbours is None else _peers(neighbours, edges, masks.shape)
    cohorts, plain = None, xp is np and prob is None and between is None
    if plain and masks[0].any() and np.ptp(masks.sum(axis=1)) == 0:
        cohorts = np.nonzero(masks)[1].astype(np.int32).reshape(num_rounds, -1)

    def chances(table: ArrayLike | None, row: Array, up: Array) -> Array:
        if table is None:
            return jnp.full(up.shape, jnp.nan, jnp.result_type(float))
        return jnp.asarray(schedules.as_floats(table))[row]

    def sample(carry: PyTree, key: Key, round: Array) -> tuple[PyTree, Links]:
        row = jnp.mod(round, num_rounds)
        if cohorts is not None:
            return carry, rejection.sample(jnp.asarray(cohorts)[row], num_clients, jnp.nan)
        mask = jnp.asarray(masks)[row]
        if between is None:
            return carry, LinkSample(mask, chances(prob, row, mask))
        peers, up = between[0], jnp.asarray(between[1])[row]
        of_edges = chances(edge_prob, row, up)
        return carry, PeerLinkSample(mask, chances(prob, row, mask), peers, up, of_edges)

    return Participation(lambda key: (), sample, num_clients, cycle=num_rounds)


def _peers(neighbours: Any, edges: Any, shape: tuple[int, int]) -> tuple[Array, Any]:
    """Both, checked."""
    wanted, (num_rounds, num_clients) = np.shape(neighbours), shape
    if len(wanted) != 2 or wanted[0] != num_clients:
        raise errors.invalid('neighbours', f'have shape [{num_clients}, K]', list(wanted))
    checks.within('neighbours', neighbours, 0, num_clients - 1)
    if np.shape(edges) != (num_rounds, *wanted) or edges.dtype != bool:
        requirement = f'be boolean, of shape {[num_rounds, *wanted]}'
        raise errors.invalid('edges', requirement, list(np.shape(edges)))
    return jnp.asarray(neighbours, jnp.int32), edges
