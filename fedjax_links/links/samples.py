"""Describes what the links did in a round: samples, and who takes part.

A participation pattern draws one sample per round, and the algorithm reads it. A client delivers if
its upload arrives at the server. Shapes use ``N`` for the number of clients. `fedjax_links.base`
offers all names of this module.
"""

import dataclasses
from typing import NamedTuple, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike


class LinkSample(NamedTuple):
    """Holds what the links did in one round.

    Attributes:
      mask: bool[N], whether client i's uplink delivers.
      prob: float32[N] (float64 under x64), P(mask_i) in this round; NaN where unknown. It is
        averaged over random schedules and over the state of the links, such as the state of a
        Markov chain. A pattern's docstring says what else its ``prob`` is conditioned on.
      duration: float32[], seconds that the round took; None if the pattern has no times.
    """

    mask: Array
    prob: Array
    duration: Array | None = None


class DuplexLinkSample(NamedTuple):
    """Holds a sample with separate masks for uplink, downlink and compute.

    A plain `LinkSample` has one mask: clients that deliver also receive, and all clients can
    compute. Use a `DuplexLinkSample` when uplink, downlink and compute differ.

    Attributes:
      mask: bool[N], whether client i's uplink delivers. A result arrives only if the client also
        computes, see `delivers`.
      prob: float32[N], the probability that client i takes part (`participants`):
        P(mask_i and downlink_i and compute_i); otherwise as in `LinkSample`.
      downlink: bool[N], whether client i receives the server's message.
      compute: bool[N], whether client i can train.
      duration: as in `LinkSample`.
    """

    mask: Array
    prob: Array
    downlink: Array
    compute: Array
    duration: Array | None = None


class PeerLinkSample(NamedTuple):
    """Holds a sample with links between clients: up to K neighbours each, and which edges are up.

    Attributes:
      mask: bool[N], as in `LinkSample`; with a ``downlink``, as in `DuplexLinkSample`.
      prob: float32[N], as in the same class as ``mask``.
      neighbours: int32[N, K], neighbours of each client in increasing order, the same in all
        rounds. A client with fewer than K neighbours fills its row with its own id.
      edges: bool[N, K], whether the edge to each neighbour is up; symmetric.
      edge_prob: float32[N, K], P(an edge is up), or [] if it is the same for all edges; NaN
        or None where unknown.
      downlink: bool[N], as in `DuplexLinkSample`; None without separate masks.
      compute: bool[N], as in `DuplexLinkSample`; None without separate masks.
      duration: as in `LinkSample`.
    """

    mask: Array
    prob: Array
    neighbours: Array
    edges: Array
    edge_prob: Array | None = None
    downlink: Array | None = None
    compute: Array | None = None
    duration: Array | None = None


@dataclasses.dataclass(frozen=True)
class ClientKinds:
    """Holds the kind of each client: clients of one kind have one probability.

    The object is hashable, so that it can be a static part of a pytree.

    Attributes:
      values: int32[N] as bytes.
    """

    values: bytes = dataclasses.field(repr=False)

    @property
    def by_client(self) -> np.ndarray:
        """Returns the kinds, int32[N], read-only."""
        return np.frombuffer(self.values, np.int32)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class CohortLinkSample:
    """Lists the clients that deliver, in O(B) memory for a cohort of at most B.

    A cohort is the set of clients that deliver in a round. This class has the properties `mask`
    and `prob`, equal to the fields of a `LinkSample`. Both are computed on access, which costs
    O(N); `fedjax_links.clients.cohorts.participating` costs nothing. Leaves may have leading
    axes, such as rounds, which both properties keep.

    Attributes:
      ids: int32[B], clients whose uplink delivers, in increasing order; an empty slot holds N.
      chance: float32[K] (float64 under x64), P(mask_i) of a client of each kind (`ClientKinds`);
        NaN where unknown.
      num_clients: N.
      is_full: whether no slot is ever empty, so that the compiler knows the size.
      kinds: the kind of each client, from 0 to K - 1. By default all clients have the kind 0 if
        K = 1, and client i has the kind i if K = N.
    """

    ids: Array
    chance: Array
    num_clients: int = dataclasses.field(metadata={'static': True})
    is_full: bool = dataclasses.field(default=False, metadata={'static': True})
    kinds: ClientKinds | None = dataclasses.field(
        default=None, metadata={'static': True}
    )

    @property
    def size(self) -> Array | int:
        """Returns the number of clients whose uplink delivers: B if full, else int32[]."""
        if self.is_full:
            return self.ids.shape[-1]
        return jnp.sum(self.ids < self.num_clients, axis=-1, dtype=jnp.int32)

    @property
    def mask(self) -> Array:
        """Returns whether client i's uplink delivers, bool[N]."""
        mask_of_round = jnp.vectorize(
            lambda ids: mask_of(ids, self.num_clients), signature='(b)->(n)'
        )
        return mask_of_round(self.ids)

    @property
    def prob(self) -> Array:
        """Returns P(mask_i) as in `LinkSample`, float[N]."""
        if self.kinds is not None:
            return self.chance[..., self.kinds.by_client]
        shape = (*self.chance.shape[:-1], self.num_clients)
        return jnp.broadcast_to(self.chance, shape)


MaskLinks = LinkSample | DuplexLinkSample | PeerLinkSample
Links = MaskLinks | CohortLinkSample


def cohort_links(
    ids: Array,
    num_clients: int,
    prob: ArrayLike,
    kinds: ClientKinds | None = None,
    *,
    is_full: bool = True,
) -> CohortLinkSample:
    """Builds the sample in which the clients of a cohort deliver.

    Args:
      ids: int32[B], in increasing order; an empty slot holds N.
      num_clients: N.
      prob: float[K], probability of a client of each kind, NaN where unknown; or one number.
      kinds: the kind of each client, as in `CohortLinkSample`.
      is_full: whether no slot is ever empty.
    """
    chance = jnp.atleast_1d(jnp.asarray(prob, jnp.result_type(float)))
    return CohortLinkSample(ids, chance, num_clients, is_full, kinds)


def all_down(shapes: Links) -> Links:
    """Returns a sample in which no client delivers, of the shapes and dtypes of ``shapes``."""
    down = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)
    if isinstance(down, CohortLinkSample):
        return dataclasses.replace(down, ids=jnp.full_like(down.ids, down.num_clients))
    return down


def as_masks(links: Links) -> MaskLinks:
    """Returns the sample with its mask stored instead of the ids of a cohort."""
    if isinstance(links, CohortLinkSample):
        return LinkSample(mask=links.mask, prob=links.prob)
    return links


def mask_of(ids: Array, num_clients: int) -> Array:
    """Returns whether each client is among ids int32[B], bool[N]; ids from N on are ignored."""
    return jnp.zeros(num_clients, bool).at[ids].set(True, mode='drop')


def prob_of(links: Links, client: Array) -> Array:
    """Returns the probability that a client, int32[], takes part: float[], NaN if unknown."""
    if not isinstance(links, CohortLinkSample):
        return links.prob[client]
    if links.chance.shape[-1] == 1:
        return links.chance[0]
    if links.kinds is None:
        return links.chance[client]
    kind = jnp.asarray(links.kinds.by_client)[client]
    return links.chance[kind]


def participants(links: Links) -> Array:
    """Returns the clients that receive the server's model, train and deliver: bool[N]."""
    if is_duplex(links):
        return links.mask & links.downlink & links.compute
    return links.mask


def delivers(links: Links) -> Array:
    """Returns the clients that can train and whose result arrives: bool[N].

    Whether these clients receive the server's message does not matter.
    """
    return links.mask & links.compute if is_duplex(links) else links.mask


def receives(links: Links) -> Array:
    """Returns the clients that receive the answer to an upload: bool[N].

    In a plain sample these are the clients that upload.
    """
    return links.downlink if is_duplex(links) else links.mask


def computes(links: Links) -> Array:
    """Returns the clients that can train, whether or not their result arrives: bool[N]."""
    return links.compute if is_duplex(links) else jnp.ones_like(links.mask)


def reached(links: Links) -> Array:
    """Returns the clients that receive a broadcast to all: bool[N].

    In a plain sample these are all clients.
    """
    return links.downlink if is_duplex(links) else jnp.ones_like(links.mask)


def is_duplex(links: object) -> TypeGuard[DuplexLinkSample]:
    """Returns whether a sample has separate masks for uplink, downlink and compute."""
    return getattr(links, 'downlink', None) is not None


def with_direction_masks(
    links: Links, mask: Array, downlink: Array, compute: Array
) -> MaskLinks:
    """Returns the sample with separate masks for uplink, downlink and compute."""
    if isinstance(links, PeerLinkSample):
        return links._replace(mask=mask, downlink=downlink, compute=compute)
    return DuplexLinkSample(
        mask, links.prob, downlink, compute, getattr(links, 'duration', None)
    )


def has_peers(links: object) -> TypeGuard[PeerLinkSample]:
    """Returns whether a sample has links between clients."""
    return isinstance(links, PeerLinkSample)


def peers(links: Links) -> tuple[Array, Array]:
    """Returns neighbours int32[N, K] and which edges are up, bool[N, K]; K = 0 without peers."""
    if isinstance(links, PeerLinkSample):
        return links.neighbours, links.edges
    no_neighbours = jnp.zeros((*links.mask.shape, 0), jnp.int32)
    return no_neighbours, no_neighbours > 0
