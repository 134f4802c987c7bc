"""What the links did in a round: the samples, and who takes part by them.

Shapes use ``N`` for the number of clients. `fedjax_links.base` offers all names of this module.
"""

import dataclasses
from typing import Any, NamedTuple, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array


class LinkSample(NamedTuple):
    """What the links did in one round.

    Attributes:
      mask: bool[N], whether client i's uplink delivers.
      prob: float32[N] (float64 under x64), P(mask_i) this round given everything that was fixed
        before the round's own draw except the link states; NaN where unknown.
      duration: float32[], seconds that the round took, where the pattern tells; None elsewhere.
    """

    mask: Array
    prob: Array
    duration: Array | None = None


class DuplexLinkSample(NamedTuple):
    """A richer sample that tells uplink, downlink and compute apart.

    A plain `LinkSample` describes one state per client: who delivers also hears the server, and
    who does not may still compute. Use this one when the three differ.

    Attributes:
      mask: bool[N], the client's result of this round reaches the server.
      prob: float32[N], as in `LinkSample`, but of taking part (`participants`):
        P(mask_i and downlink_i and compute_i).
      downlink: bool[N], the client hears the server.
      compute: bool[N], the client is able to train.
    """

    mask: Array
    prob: Array
    downlink: Array
    compute: Array
    duration: Array | None = None


class PeerLinkSample(NamedTuple):
    """A sample with links between clients: each has up to K neighbours, and some edges are up.

    Attributes:
      mask: bool[N], as in `LinkSample`; where ``downlink`` is given, as in `DuplexLinkSample`.
      prob: float32[N], likewise.
      neighbours: int32[N, K], the clients that each could hear, in increasing order; its own id
        where it has fewer. The same in every round.
      edges: bool[N, K], which of these it hears, and is heard by: symmetric.
      edge_prob: float32[N, K], or [] where all are alike: P(an edge is up) as ``prob`` is of
        ``mask``; NaN or None where unknown.
      downlink: bool[N], as in `DuplexLinkSample`; None where uplinks are told alone.
      compute: bool[N], likewise.
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
class Kinds:
    """Which kind each client is of, by values that a pytree may hold as a static part.

    Attributes:
      values: int32[N] as bytes.
    """

    values: bytes = dataclasses.field(repr=False)

    @property
    def of_clients(self) -> np.ndarray:
        """int32[N], read-only."""
        return np.frombuffer(self.values, np.int32)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class CohortLinkSample:
    """A sample that lists who delivers: a cohort whose size is known beforehand, held in O(B).

    It says what a `LinkSample` says, and `mask` and `prob` read the same; they are made when asked
    for, which costs O(N). `fedjax_links.clients.cohorts.participating` costs nothing. Leaves may
    have leading axes, such as rounds, which both properties keep.

    Attributes:
      ids: int32[B], clients whose uplink delivers, in increasing order; an empty slot holds N.
      chance: float32[K] (float64 under x64), P(mask_i) of a client of each kind; NaN where unknown.
      num_clients: N.
      is_full: whether no slot is ever empty, so that the compiler knows the size.
      kinds: the kind of each client; by default all are of one where K = 1, and else, for K = N,
        each is of its own.
    """

    ids: Array
    chance: Array
    num_clients: int = dataclasses.field(metadata={'static': True})
    is_full: bool = dataclasses.field(default=False, metadata={'static': True})
    kinds: Kinds | None = dataclasses.field(default=None, metadata={'static': True})

    @property
    def size(self) -> Array | int:
        """Number of clients whose uplink delivers: B where no slot is empty, else int32[]."""
        if self.is_full:
            return self.ids.shape[-1]
        return jnp.sum(self.ids < self.num_clients, axis=-1, dtype=jnp.int32)

    @property
    def mask(self) -> Array:
        """bool[N], whether client i's uplink delivers."""
        of_round = jnp.vectorize(
            lambda ids: mask_of(ids, self.num_clients), signature='(b)->(n)'
        )
        return of_round(self.ids)

    @property
    def prob(self) -> Array:
        """float[N], P(mask_i) as in `LinkSample`."""
        if self.kinds is not None:
            return self.chance[..., self.kinds.of_clients]
        return jnp.broadcast_to(
            self.chance, (*self.chance.shape[:-1], self.num_clients)
        )


MaskLinks = LinkSample | DuplexLinkSample | PeerLinkSample
Links = MaskLinks | CohortLinkSample


def all_down(shapes: Links) -> Links:
    """A sample in which nothing delivers, of the shapes and dtypes of another."""
    down = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)
    if isinstance(down, CohortLinkSample):
        return dataclasses.replace(down, ids=jnp.full_like(down.ids, down.num_clients))
    return down


def as_masks(links: Links) -> MaskLinks:
    """A sample with a mask of its own."""
    if isinstance(links, CohortLinkSample):
        return LinkSample(mask=links.mask, prob=links.prob)
    return links


def mask_of(ids: Array, num_clients: int) -> Array:
    """bool[N]: whether a client is among ids int32[B], of which those from N on are nobody's."""
    return jnp.zeros(num_clients, bool).at[ids].set(True, mode='drop')


def prob_of(links: Links, client: Array) -> Array:
    """float[]: the probability that one client, int32[], is a participant; NaN where unknown."""
    if not isinstance(links, CohortLinkSample):
        return links.prob[client]
    if links.chance.shape[-1] == 1:
        return links.chance[0]
    kind = (
        client if links.kinds is None else jnp.asarray(links.kinds.of_clients)[client]
    )
    return links.chance[kind]


def participants(links: Links) -> Array:
    """bool[N]: clients that can hear the server, train from its model and deliver."""
    if tells_directions(links):
        return links.mask & links.downlink & links.compute
    return links.mask


def delivers(links: Links) -> Array:
    """bool[N]: clients that train from a model of their own and whose result arrives."""
    return links.mask & links.compute if tells_directions(links) else links.mask


def receives(links: Links) -> Array:
    """bool[N]: clients that the server's message of this round reaches."""
    return links.downlink if tells_directions(links) else links.mask


def computes(links: Links) -> Array:
    """bool[N]: clients able to train, whether or not anyone hears of it."""
    return links.compute if tells_directions(links) else jnp.ones_like(links.mask)


def reached(links: Links) -> Array:
    """bool[N]: clients that a message to everybody reaches: all, unless directions are told."""
    return links.downlink if tells_directions(links) else jnp.ones_like(links.mask)


def tells_directions(links: Any) -> TypeGuard[DuplexLinkSample]:
    """Whether a sample tells uplink, downlink and compute apart."""
    return getattr(links, 'downlink', None) is not None


def directed(links: Links, mask: Array, downlink: Array, compute: Array) -> MaskLinks:
    """A sample with other masks, told apart by direction; all else is as it was."""
    if isinstance(links, PeerLinkSample):
        return links._replace(mask=mask, downlink=downlink, compute=compute)
    return DuplexLinkSample(
        mask, links.prob, downlink, compute, getattr(links, 'duration', None)
    )


def has_peers(links: Any) -> TypeGuard[PeerLinkSample]:
    """Whether a sample has links between clients."""
    return isinstance(links, PeerLinkSample)


def peers(links: Links) -> tuple[Array, Array]:
    """Neighbours int32[N, K] and which of their edges are up, bool[N, K]; K = 0 without any."""
    if isinstance(links, PeerLinkSample):
        return links.neighbours, links.edges
    nobody = jnp.zeros((*links.mask.shape, 0), jnp.int32)
    return nobody, nobody > 0
