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
from fedjax_links.core import checks, contracts, errors
from fedjax_links.participation import schedules


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

    The masks of a run (`fedjax_links.simulation.realised_links`) replay bit for bit. A mask says
    whose upload arrived. If a run's links have separate masks for downlink and compute, pass
    ``links.downlink`` and ``links.compute`` too. Without these arguments, clients that delivered
    also received, and all could train. If only ``mask`` is given and every round has the same
    number of active clients, samples hold the ids of these clients
    (`fedjax_links.links.samples.CohortLinkSample`).

    Args:
      mask: bool[T, N], or integers 0 and 1: which uploads arrived in each recorded round.
      prob: float[T, N] in [0, 1], or NaN where unknown; unknown everywhere by default.
      neighbours: int[N, K], the neighbours of each client. A client with fewer than K neighbours
        fills its row with its own id. None for no links between clients.
      edges: bool[T, N, K], which links to neighbours were up. An edge is up for both ends or none.
      edge_prob: float[T, N, K], P(an edge is up), or float[T] if all edges have one probability;
        NaN where unknown.
      downlink: bool[T, N], who received the broadcast; by default clients whose upload arrived.
      compute: bool[T, N], who could train; all by default. It needs ``downlink``.

    Returns:
      The pattern; it has no carry.

    Raises:
      ValueError: if shapes do not fit, if a mask is neither boolean nor 0 and 1, if there are
        edges without neighbours, if an edge is up for one end alone or joins a client to
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
    # A sample of links is a tuple that holds the mask, so it would pass for a list of masks.
    if isinstance(mask, contracts.SAMPLES):
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
            neighbour_ids, recorded_edges = peers
            is_up = jnp.asarray(recorded_edges)[row]
            links = PeerLinkSample(
                mask,
                links.prob,
                neighbour_ids,
                edges=is_up,
                edge_prob=_probs_of_row(edge_prob, row, is_up),
            )
        if directions is not None:
            receives, computes = directions
            links = base.with_direction_masks(
                links, mask, jnp.asarray(receives)[row], jnp.asarray(computes)[row]
            )
        return carry, links

    return Participation(lambda key: (), sample, num_clients, cycle=num_rounds)


def _cohorts_of_one_size(masks: Any) -> NDArray[np.int32] | None:
    """Returns the ids of the active clients of each round, int32[T, B], increasing.

    Returns None if the masks are traced or rounds have unequal numbers of active clients, or none.
    """
    if not checks.is_concrete(masks) or not masks[0].any():
        return None
    if np.ptp(masks.sum(axis=1)) > 0:
        return None
    return np.nonzero(masks)[1].astype(np.int32).reshape(len(masks), -1)


def _replay_cohorts(cohorts: NDArray[np.int32], num_clients: int) -> Participation:
    """Replays rounds of B active clients each, given by their ids int32[T, B]."""
    num_rounds = len(cohorts)

    def sample(carry: PyTree, key: Key, round: Array) -> tuple[PyTree, Links]:
        ids = jnp.asarray(cohorts)[jnp.mod(round, num_rounds)]
        return carry, base.cohort_links(ids, num_clients, jnp.nan)

    return Participation(lambda key: (), sample, num_clients, cycle=num_rounds)


def _probs_of_row(table: ArrayLike | None, row: Array, is_up: Array) -> Array:
    """Returns the probabilities in a row of the table; NaN without a table."""
    if table is None:
        return jnp.full(is_up.shape, jnp.nan, jnp.result_type(float))
    return jnp.asarray(schedules.as_floats(table))[row]


def _as_masks(argument: str, value: ArrayLike) -> Any:
    """Checks recorded masks and returns them as booleans."""
    requirement = 'be boolean, or integers 0 and 1'
    checks.no_hidden_entries(argument, value)
    try:
        masks = checks.array_module(value).asarray(value)
    except ValueError:  # Rows of unequal length.
        raise errors.invalid(argument, requirement, errors.text_of(value)) from None
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
    """Checks probabilities and that their shape is one of ``shapes``; None passes."""
    if value is None:
        return
    sizes = checks.shape(argument, value)
    if sizes not in shapes:
        allowed = ' or '.join(str(list(shape)) for shape in shapes)
        partner = '`mask`' if argument == 'prob' else '`edges`'
        requirement = f'have the shape of {partner} {allowed}'
        raise errors.invalid(argument, requirement, list(sizes))
    if checks.is_concrete(value):
        known = np.nan_to_num(checks.numbers(argument, value))
        axis = 'client' if argument == 'prob' else 'neighbour'
        checks.within(argument, known, 0, 1, axis=axis)


def _checked_directions(
    downlink: ArrayLike | None, compute: ArrayLike | None, shape: tuple[int, int]
) -> tuple[Any, Any] | None:
    """Checks who received and who could train, bool[T, N] each; None if neither is known."""
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
) -> tuple[Array, Any] | None:
    """Checks recorded links between clients.

    Returns:
      Neighbours int32[N, K] and edges bool[T, N, K]; None if there are none.
    """
    if edges is None:
        for name, value in {'neighbours': neighbours, 'edge_prob': edge_prob}.items():
            if value is not None:
                raise errors.invalid('edges', f'be given with `{name}`', None)
        return None
    if neighbours is None:
        raise errors.invalid('neighbours', 'be given with `edges`', None)
    _check_neighbours(neighbours, shape[1])
    checks.shape('edges', edges)
    is_up = checks.array_module(edges).asarray(edges)
    edges_shape = (shape[0], *checks.shape('neighbours', neighbours))
    if is_up.shape != edges_shape or is_up.dtype != bool:
        requirement = f'be boolean, of shape {list(edges_shape)}'
        raise errors.invalid('edges', requirement, f'{is_up.dtype}{list(is_up.shape)}')
    if checks.is_concrete(neighbours) and checks.is_concrete(is_up):
        _check_both_ends(np.asarray(neighbours), is_up)
    _check_probs('edge_prob', edge_prob, [is_up.shape, shape[:1]])
    return jnp.asarray(neighbours, jnp.int32), is_up


def _check_neighbours(neighbours: ArrayLike, num_clients: int) -> None:
    """Raises unless there is a row of ids for each client, [N, K]."""
    table_shape = checks.shape('neighbours', neighbours)
    if len(table_shape) != 2 or table_shape[0] != num_clients:
        requirement = f'have shape [{num_clients}, K]'
        raise errors.invalid('neighbours', requirement, list(table_shape))
    checks.within('neighbours', neighbours, 0, num_clients - 1, axis='neighbour')


def _check_both_ends(neighbours: np.ndarray, edges: np.ndarray) -> None:
    """Checks that an edge that is ever up is up for both ends in the same rounds."""
    # List the edges that are ever up: the client, the slot of its row, and the neighbour there.
    clients, slots = np.nonzero(edges.any(axis=0))
    if not clients.size:
        return
    others = neighbours[clients, slots]
    is_loop = clients == others
    if is_loop.any():
        value = f'client {clients[is_loop][0]} with itself'
        raise errors.invalid('edges', 'join two clients', value)
    # Number the ordered pairs of clients, and find the reverse of each by binary search.
    num_clients = len(neighbours)
    pairs = clients * num_clients + others
    reverses = others * num_clients + clients
    order = np.argsort(pairs, kind='stable')
    repeated = np.flatnonzero(np.diff(pairs[order]) == 0)
    if repeated.size:
        first = order[repeated[0]]
        value = f'{others[first]} twice for client {clients[first]}'
        raise errors.invalid('neighbours', 'name each client once', value)
    position = np.searchsorted(pairs[order], reverses)
    partner = order[np.minimum(position, len(order) - 1)]
    history = edges[:, clients, slots]
    has_same_history = (history == history[:, partner]).all(axis=0)
    is_symmetric = (pairs[partner] == reverses) & has_same_history
    if not is_symmetric.all():
        first = int(np.argmin(is_symmetric))
        requirement = 'be up for both ends or for none'
        value = f'{others[first]} received by {clients[first]} alone'
        raise errors.invalid('edges', requirement, value)
