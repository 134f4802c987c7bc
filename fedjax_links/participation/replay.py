"""Recorded links, played back."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

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
    """Replays recorded links: round t has those of row ``t mod T``.

    The masks of a run (`fedjax_links.simulation.realised_links`) replay bit for bit; those of
    cohorts of one size, with no probabilities, name these as the run did. A mask says whose upload
    arrived. Where a run's links tell directions apart, give ``links.downlink`` and
    ``links.compute`` too: without them, who delivered also heard the server, and all could train.

    Args:
      mask: bool[T, N], who delivered in each recorded round; integers 0 and 1 count as booleans.
      prob: float[T, N] in [0, 1], or NaN where unknown; unknown everywhere by default.
      neighbours: int[N, K], of links between clients, their own id where they have fewer; None
        where there were none.
      edges: bool[T, N, K], which of these were up: for both ends or for none.
      edge_prob: float[T, N, K] as ``prob``, or float[T] where all edges were alike.
      downlink: bool[T, N], whom the server's message reached; None where uplinks tell.
      compute: bool[T, N], who could train; everybody by default where ``downlink`` is given.

    Returns:
      The pattern; it has no carry.

    Raises:
      ValueError: if the shapes do not fit or a mask holds anything else, floats included, if edges
        are told without neighbours, are up for one end alone or join a client to itself, or if
        ``compute`` is told without ``downlink``.

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
    num_rounds, num_clients = masks.shape
    _check_chances('prob', prob, [masks.shape])
    if (neighbours is None) != (edges is None):
        raise errors.invalid('edges', 'be given with `neighbours`, and only then', None)
    between = None if neighbours is None else _peers(neighbours, edges, masks.shape)
    if edge_prob is not None and between is None:
        raise errors.invalid('edge_prob', 'be given with `edges`, and only then', None)
    if between is not None:
        _check_chances('edge_prob', edge_prob, [between[1].shape, (num_rounds,)])
    ways = _directions(downlink, compute, masks.shape)
    cohorts, plain = None, prob is None and between is None and ways is None
    if (
        plain
        and checks.is_concrete(masks)
        and masks[0].any()
        and np.ptp(masks.sum(axis=1)) == 0
    ):
        cohorts = np.nonzero(masks)[1].astype(np.int32).reshape(num_rounds, -1)

    def chances(table: ArrayLike | None, row: Array, up: Array) -> Array:
        if table is None:
            return jnp.full(up.shape, jnp.nan, jnp.result_type(float))
        return jnp.asarray(schedules.as_floats(table))[row]

    def sample(carry: PyTree, key: Key, round: Array) -> tuple[PyTree, Links]:
        row = jnp.mod(round, num_rounds)
        if cohorts is not None:
            return carry, rejection_sampling.sample(
                jnp.asarray(cohorts)[row], num_clients, jnp.nan
            )
        mask = jnp.asarray(masks)[row]
        links: Links = LinkSample(mask, chances(prob, row, mask))
        if between is not None:
            up = jnp.asarray(between[1])[row]
            links = PeerLinkSample(
                mask,
                links.prob,
                between[0],
                edges=up,
                edge_prob=chances(edge_prob, row, up),
            )
        if ways is not None:
            hears, trains = (jnp.asarray(way)[row] for way in ways)
            links = base.directed(links, mask, downlink=hears, compute=trains)
        return carry, links

    return Participation(lambda key: (), sample, num_clients, cycle=num_rounds)


def _as_masks(argument: str, value: ArrayLike) -> Any:
    """Recorded masks as booleans."""
    masks = checks.array_module(value).asarray(value)
    requirement = 'be boolean, or integers 0 and 1'
    if masks.dtype != bool and not jnp.issubdtype(masks.dtype, jnp.integer):
        raise errors.invalid(argument, requirement, f'dtype {masks.dtype}')
    if checks.is_concrete(masks) and not (binary := np.isin(masks, (0, 1))).all():
        raise errors.invalid(argument, requirement, masks[~binary][0])
    return masks.astype(bool)


def _check_chances(
    argument: str, value: ArrayLike | None, shapes: Sequence[tuple[int, ...]]
) -> None:
    """Raises unless probabilities, if there are any, have one of the shapes."""
    if value is None:
        return
    if np.shape(value) not in shapes:
        shown = ' or '.join(str(list(shape)) for shape in shapes)
        whose = '`mask`' if argument == 'prob' else '`edges`'
        requirement = f'have the shape of {whose} {shown}'
        raise errors.invalid(argument, requirement, list(np.shape(value)))
    if checks.is_concrete(value):
        checks.within(argument, np.nan_to_num(np.asarray(value)), 0, 1)


def _directions(
    downlink: ArrayLike | None, compute: ArrayLike | None, shape: tuple[int, int]
) -> tuple[Any, Any] | None:
    """Who heard and who could train in each round; None where nothing says."""
    if downlink is None:
        if compute is not None:
            raise errors.invalid('downlink', 'be given with `compute`', None)
        return None
    hears = _as_masks('downlink', downlink)
    trains = np.ones(shape, bool) if compute is None else _as_masks('compute', compute)
    for name, masks in (('downlink', hears), ('compute', trains)):
        if masks.shape != shape:
            requirement = f'have the shape of `mask` {list(shape)}'
            raise errors.invalid(name, requirement, list(masks.shape))
    return hears, trains


def _peers(
    neighbours: ArrayLike, edges: ArrayLike | None, shape: tuple[int, int]
) -> tuple[Any, Any]:
    """Both, checked."""
    wanted, (num_rounds, num_clients) = np.shape(neighbours), shape
    if len(wanted) != 2 or wanted[0] != num_clients:
        raise errors.invalid(
            'neighbours', f'have shape [{num_clients}, K]', list(wanted)
        )
    checks.within('neighbours', neighbours, 0, num_clients - 1)
    up = checks.array_module(edges).asarray(edges)
    if up.shape != (num_rounds, *wanted) or up.dtype != bool:
        requirement = f'be boolean, of shape {[num_rounds, *wanted]}'
        raise errors.invalid('edges', requirement, f'{up.dtype}{list(up.shape)}')
    if checks.is_concrete(neighbours) and checks.is_concrete(up):
        _check_both_ends(np.asarray(neighbours), up)
    return jnp.asarray(neighbours, jnp.int32), up


def _check_both_ends(neighbours: np.ndarray, edges: np.ndarray) -> None:
    """Raises unless an edge that is ever up is up for both of its ends in the same rounds."""
    clients, slots = np.nonzero(edges.any(axis=0))
    others = neighbours[clients, slots]
    to_itself = clients == others
    if to_itself.any():
        client = clients[to_itself][0]
        raise errors.invalid(
            'edges', 'join two clients', f'client {client} with itself'
        )
    num_clients = len(neighbours)
    pair, back = clients * num_clients + others, others * num_clients + clients
    order = np.argsort(pair, kind='stable')
    twice = np.flatnonzero(np.diff(pair[order]) == 0)
    if twice.size:
        first = order[twice[0]]
        said = f'{others[first]} twice for client {clients[first]}'
        raise errors.invalid('neighbours', 'name each client once', said)
    found = np.searchsorted(pair[order], back)
    partner = order[np.minimum(found, len(order) - 1)] if len(order) else order
    alike = pair[partner] == back
    ways = edges[:, clients, slots]
    alike &= (ways == ways[:, partner]).all(axis=0)
    if not alike.all():
        client, other = clients[~alike][0], others[~alike][0]
        requirement = 'be up for both ends or for none'
        raise errors.invalid('edges', requirement, f'{other} heard by {client} alone')
