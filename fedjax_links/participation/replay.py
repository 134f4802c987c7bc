"""Replays recorded links."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links import base
from fedjax_links.base import (
    Array,
    Key,
    Links,
    LinkSample,
    Participation,
    PeerLinkSample,
    PyTree,
)
from fedjax_links.core import checks, errors
from fedjax_links.participation import rejection_sampling, schedules


def replay(
    mask: ArrayLike,
    prob: ArrayLike | None = None,
    *,
    neighbours: ArrayLike | None = None,
    edges: ArrayLike | None = None,
    edge_prob: ArrayLike | None = None,
    downlink: ArrayLike | None = None,
    compute: ArrayLike | None = None,
) -> Participation:
    """Replays recorded links: round t has the links of row ``t mod T``.

    The masks of a run (`fedjax_links.simulation.realised_links`) replay bit for bit. Masks of
    one cohort size, without probabilities, replay as cohorts by name. A mask says whose
    upload arrived. If a run's links have separate directions, pass ``links.downlink`` and
    ``links.compute`` too. Without them, clients that delivered also received, and all could
    train.

    Args:
      mask: bool[T, N], who delivered in each recorded round; integers 0 and 1 count as
        booleans.
      prob: float[T, N] in [0, 1], or NaN where unknown; unknown everywhere by default.
      neighbours: int[N, K], of links between clients; a client with fewer neighbours repeats
        its own id. None for no links between clients.
      edges: bool[T, N, K], which of these were up: for both ends or for none.
      edge_prob: float[T, N, K] as ``prob``, or float[T] if all edges have one probability.
      downlink: bool[T, N], who received the server's message; None if those who delivered
        did.
      compute: bool[T, N], who could train; everybody by default. It needs ``downlink``.

    Returns:
      The pattern; it has no carry.

    Raises:
      ValueError: if shapes do not fit, if a mask has other values, floats included, if there
        are edges without neighbours, if an edge is up for one end alone or joins a client to
        itself, or if there is ``compute`` without ``downlink``.

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
    if isinstance(mask, tuple):
        raise errors.invalid(
            'mask', 'be bool[T, N], as `links.mask` is', errors.text_of(mask)
        )
    masks = _as_masks('mask', mask)
    if masks.ndim != 2 or 0 in masks.shape:
        raise errors.invalid('mask', 'have shape [rounds, clients]', list(masks.shape))
    _check_probs('prob', prob, [masks.shape])
    peers = _checked_peers(neighbours, edges, edge_prob, masks.shape)
    directions = _checked_directions(downlink, compute, masks.shape)
    num_rounds, num_clients = masks.shape
    if prob is None and peers is None and directions is None:
        cohorts = _cohorts_of_one_size(masks)
        if cohorts is not None:
            return _replay_cohorts(cohorts, num_clients)

    def sample(carry: PyTree, key: Key, round: Array) -> tuple[PyTree, Links]:
        row = jnp.mod(round, num_rounds)
        mask = jnp.asarray(masks)[row]
        links: Links = LinkSample(mask, _probs_of_row(prob, row, mask))
        if peers is not None:
            is_up = jnp.asarray(peers[1])[row]
            links = PeerLinkSample(
                mask,
                links.prob,
                peers[0],
                edges=is_up,
                edge_prob=_probs_of_row(edge_prob, row, is_up),
            )
        if directions is not None:
            receives = jnp.asarray(directions[0])[row]
            computes = jnp.asarray(directions[1])[row]
            links = base.directed(links, mask, downlink=receives, compute=computes)
        return carry, links

    return Participation(lambda key: (), sample, num_clients, cycle=num_rounds)


def _cohorts_of_one_size(masks: Any) -> NDArray[np.int32] | None:
    """Returns the active clients of each round, int32[T, B].

    Returns:
      The ids in increasing order; None if cohorts are empty, of unequal size or traced.
    """
    if not checks.is_concrete(masks) or not masks[0].any():
        return None
    if np.ptp(masks.sum(axis=1)) > 0:
        return None
    return np.nonzero(masks)[1].astype(np.int32).reshape(len(masks), -1)


def _replay_cohorts(cohorts: NDArray[np.int32], num_clients: int) -> Participation:
    """Replays cohorts of one size by the ids of their members."""
    num_rounds = len(cohorts)

    def sample(carry: PyTree, key: Key, round: Array) -> tuple[PyTree, Links]:
        ids = jnp.asarray(cohorts)[jnp.mod(round, num_rounds)]
        return carry, rejection_sampling.sample(ids, num_clients, jnp.nan)

    return Participation(lambda key: (), sample, num_clients, cycle=num_rounds)


def _probs_of_row(table: ArrayLike | None, row: Array, is_up: Array) -> Array:
    """Returns the probabilities of a row; NaN if there are none."""
    if table is None:
        return jnp.full(is_up.shape, jnp.nan, jnp.result_type(float))
    return jnp.asarray(schedules.as_floats(table))[row]


def _as_masks(argument: str, value: ArrayLike) -> Any:
    """Checks recorded masks and returns them as booleans."""
    masks = checks.array_module(value).asarray(value)
    requirement = 'be boolean, or integers 0 and 1'
    if masks.dtype != bool and not jnp.issubdtype(masks.dtype, jnp.integer):
        raise errors.invalid(argument, requirement, f'dtype {masks.dtype}')
    if checks.is_concrete(masks):
        is_binary = np.isin(masks, (0, 1))
        if not is_binary.all():
            raise errors.invalid(argument, requirement, masks[~is_binary][0])
    return masks.astype(bool)


def _check_probs(
    argument: str, value: ArrayLike | None, shapes: Sequence[tuple[int, ...]]
) -> None:
    """Checks that probabilities, if there are any, have one of the shapes."""
    if value is None:
        return
    if np.shape(value) not in shapes:
        allowed = ' or '.join(str(list(shape)) for shape in shapes)
        partner = '`mask`' if argument == 'prob' else '`edges`'
        requirement = f'have the shape of {partner} {allowed}'
        raise errors.invalid(argument, requirement, list(np.shape(value)))
    if checks.is_concrete(value):
        checks.within(argument, np.nan_to_num(np.asarray(value)), 0, 1)


def _checked_directions(
    downlink: ArrayLike | None, compute: ArrayLike | None, shape: tuple[int, int]
) -> tuple[Any, Any] | None:
    """Checks who received and who could train in each round.

    Returns:
      Both as bool[T, N]; None if neither is known.
    """
    if downlink is None:
        if compute is not None:
            raise errors.invalid('downlink', 'be given with `compute`', None)
        return None
    receives = _as_masks('downlink', downlink)
    computes = np.ones(shape, bool)
    if compute is not None:
        computes = _as_masks('compute', compute)
    for name, masks in (('downlink', receives), ('compute', computes)):
        if masks.shape != shape:
            requirement = f'have the shape of `mask` {list(shape)}'
            raise errors.invalid(name, requirement, list(masks.shape))
    return receives, computes


def _checked_peers(
    neighbours: ArrayLike | None,
    edges: ArrayLike | None,
    edge_prob: ArrayLike | None,
    shape: tuple[int, int],
) -> tuple[Any, Any] | None:
    """Checks recorded links between clients.

    Returns:
      Neighbours int32[N, K] and edges bool[T, N, K]; None if there are none.
    """
    if (neighbours is None) != (edges is None):
        raise errors.invalid('edges', 'be given with `neighbours`, and only then', None)
    if neighbours is None:
        if edge_prob is not None:
            requirement = 'be given with `edges`, and only then'
            raise errors.invalid('edge_prob', requirement, None)
        return None
    num_rounds, num_clients = shape
    table_shape = np.shape(neighbours)
    if len(table_shape) != 2 or table_shape[0] != num_clients:
        requirement = f'have shape [{num_clients}, K]'
        raise errors.invalid('neighbours', requirement, list(table_shape))
    checks.within('neighbours', neighbours, 0, num_clients - 1)
    is_up = checks.array_module(edges).asarray(edges)
    if is_up.shape != (num_rounds, *table_shape) or is_up.dtype != bool:
        requirement = f'be boolean, of shape {[num_rounds, *table_shape]}'
        raise errors.invalid('edges', requirement, f'{is_up.dtype}{list(is_up.shape)}')
    if checks.is_concrete(neighbours) and checks.is_concrete(is_up):
        _check_both_ends(np.asarray(neighbours), is_up)
    _check_probs('edge_prob', edge_prob, [is_up.shape, (num_rounds,)])
    return jnp.asarray(neighbours, jnp.int32), is_up


def _check_both_ends(neighbours: np.ndarray, edges: np.ndarray) -> None:
    """Checks that an edge that is ever up is up for both ends in the same rounds."""
    clients, slots = np.nonzero(edges.any(axis=0))
    others = neighbours[clients, slots]
    is_loop = clients == others
    if is_loop.any():
        got = f'client {clients[is_loop][0]} with itself'
        raise errors.invalid('edges', 'join two clients', got)
    # Number the ordered pairs of clients, and find the reverse of each.
    num_clients = len(neighbours)
    pair = clients * num_clients + others
    reverse = others * num_clients + clients
    order = np.argsort(pair, kind='stable')
    repeated = np.flatnonzero(np.diff(pair[order]) == 0)
    if repeated.size:
        first = order[repeated[0]]
        got = f'{others[first]} twice for client {clients[first]}'
        raise errors.invalid('neighbours', 'name each client once', got)
    if not pair.size:
        return
    position = np.searchsorted(pair[order], reverse)
    partner = order[np.minimum(position, len(order) - 1)]
    history = edges[:, clients, slots]
    is_same = (history == history[:, partner]).all(axis=0)
    fine = (pair[partner] == reverse) & is_same
    if not fine.all():
        first = int(np.argmin(fine))
        requirement = 'be up for both ends or for none'
        got = f'{others[first]} heard by {clients[first]} alone'
        raise errors.invalid('edges', requirement, got)
