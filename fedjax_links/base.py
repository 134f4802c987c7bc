"""The types that everything else is written in: no logic beyond reading them.

Shapes use ``N`` for the number of clients. Behaviour is a NamedTuple of pure functions, state is a
typed NamedTuple, and only the problem, which mixes arrays with functions, is a dataclass.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import describing

Array = jax.Array
Key = jax.Array
Number = float | Array
"""A hyper-parameter: a Python number, or an array of shape [] that may be a tracer."""
Numbers = Number | np.ndarray
"""The same, or one for each client, float[N]."""
PyTree = Any
Params = PyTree


class LinkSample(NamedTuple):
    """What the links did in one round.

    Attributes:
      mask: bool[N], whether client i's uplink delivers.
      prob: float32[N] (float64 under x64), P(mask_i) this round given everything that was fixed
        before the round's own draw except the link states; NaN where unknown.
    """

    mask: Array
    prob: Array


class DuplexLinkSample(NamedTuple):
    """A richer sample that tells uplink, downlink and compute apart.

    A plain `LinkSample` describes one state per client: who delivers also hears the server, and
    who does not may still compute. Use this one when the three differ.

    Attributes:
      mask: bool[N], the client's result of this round reaches the server.
      prob: float32[N], P(mask_i) as in `LinkSample`.
      downlink: bool[N], the client hears the server.
      compute: bool[N], the client is able to train.
    """

    mask: Array
    prob: Array
    downlink: Array
    compute: Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class CohortLinkSample:
    """A sample that lists who delivers: a small cohort of many clients, held in O(B).

    It says what a `LinkSample` says, and `mask` and `prob` read the same; they are made when asked
    for, which costs O(N). `fedjax_links.cohorts.participating` costs nothing. Leaves may have
    leading axes, such as rounds, which both properties keep.

    Attributes:
      ids: int32[B], clients whose uplink delivers, in increasing order; an empty slot holds N.
      size: int32[], number of them.
      chance: float32[] (float64 under x64), P(mask_i) of every client that was available; NaN where
        unknown.
      available: int32[2], first available client and the one after the last; others have no chance.
      num_clients: N.
    """

    ids: Array
    size: Array
    chance: Array
    available: Array
    num_clients: int = dataclasses.field(metadata={'static': True})

    @property
    def mask(self) -> Array:
        """bool[N], whether client i's uplink delivers."""
        lead, num_slots = self.ids.shape[:-1], self.ids.shape[-1]
        filled = jnp.arange(num_slots)[None] < jnp.reshape(self.size, (-1, 1))
        ids = jnp.where(filled, jnp.reshape(self.ids, (-1, num_slots)), self.num_clients)
        rows = jnp.arange(len(ids))[:, None]
        nobody = jnp.zeros((len(ids), self.num_clients), bool)
        return nobody.at[rows, ids].set(True, mode='drop').reshape(*lead, self.num_clients)

    @property
    def prob(self) -> Array:
        """float[N], P(mask_i) as in `LinkSample`."""
        return self.prob_of(jnp.arange(self.num_clients, dtype=jnp.int32))

    def prob_of(self, clients: Array) -> Array:
        """float[...], P(mask_i) of the clients int32[...]."""
        lead = self.chance.ndim
        first, stop, chance = (
            jnp.expand_dims(a, range(lead, lead + clients.ndim))
            for a in (self.available[..., 0], self.available[..., 1], self.chance)
        )
        clients = jnp.expand_dims(clients, range(lead))
        return jnp.where((clients >= first) & (clients < stop), chance, 0)


MaskLinks = LinkSample | DuplexLinkSample
Links = MaskLinks | CohortLinkSample


def as_masks(links: Links) -> MaskLinks:
    """A sample with a mask of its own."""
    if isinstance(links, CohortLinkSample):
        return LinkSample(mask=links.mask, prob=links.prob)
    return links


def prob_of(links: Links, client: Array) -> Array:
    """float[]: the probability that one client, int32[], delivers; NaN where unknown."""
    if isinstance(links, CohortLinkSample):
        return links.prob_of(client)
    return links.prob[client]


def participants(links: Links) -> Array:
    """bool[N]: clients that can hear the server, train from its model and deliver."""
    if isinstance(links, DuplexLinkSample):
        return links.mask & links.downlink & links.compute
    return links.mask


def delivers(links: Links) -> Array:
    """bool[N]: clients that train from a model of their own and whose result arrives."""
    return links.mask & links.compute if isinstance(links, DuplexLinkSample) else links.mask


def receives(links: Links) -> Array:
    """bool[N]: clients that the server's message of this round reaches."""
    return links.downlink if isinstance(links, DuplexLinkSample) else links.mask


def computes(links: Links) -> Array:
    """bool[N]: clients able to train, whether or not anyone hears of it."""
    if isinstance(links, DuplexLinkSample):
        return links.compute
    return jnp.ones_like(links.mask)


class RoundContext(NamedTuple):
    """All that a round may look at besides its own state.

    Attributes:
      round: int32[], index t of the round, from 0.
      links: what the links do in this round.
      client_key: key of the clients' randomness this round; fold in the client id.
      server_key: key of the server's randomness this round.
    """

    round: Array
    links: Links
    client_key: Key
    server_key: Key


class RoundMetrics(NamedTuple):
    """What a round reports: sums and counts, so that any grouping of rounds can be averaged.

    Attributes:
      num_active: int32[], clients whose result entered the server's update.
      num_computing: int32[], clients that trained.
      loss_sum: float[], sum over the active clients of the training loss at their starting points,
        each on the batch of its first local step.
      extra: further sums and counts by name, fixed per algorithm.
    """

    num_active: Array
    num_computing: Array
    loss_sum: Array
    extra: Mapping[str, Array]


class Rows(NamedTuple):
    """Who owns which of the stored examples.

    Attributes:
      offsets: int32[N], first row of each client.
      counts: int32[N], number of rows of each client, at least one.
    """

    offsets: Array
    counts: Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class DividedRows:
    """Who owns which of the examples that the devices of a mesh keep between them.

    Each keeps those of its share of the clients (`meshes.Share`), and as many rows as any other;
    what fills them up belongs to nobody. See `devices.divided`.

    Attributes:
      offsets: int32[N], first row of each client among those of all devices.
      counts: int32[N], number of rows of each client, at least one.
      num_devices: D, of the mesh.
    """

    offsets: Array
    counts: Array
    num_devices: int = dataclasses.field(metadata={'static': True})


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Source:
    """What makes a client's examples.

    Attributes:
      make: ``(data, client id) -> examples``, leaves [m, ...], the same m for every client.
      num_clients: N.
    """

    make: Callable[[PyTree, Array], PyTree] = dataclasses.field(metadata={'static': True})
    num_clients: int = dataclasses.field(metadata={'static': True})


class LinearObjective(NamedTuple):
    """A statement about a problem: its loss is that of a linear model, so its limits are known.

    The scores of an example are ``B^T x + b``, x its inputs, B and b all that there is to train.

    Attributes:
      loss: ``'softmax'``, ``'logistic'`` or ``'least_squares'``, as in
        `fedjax_links.analysis.weighted_minimiser`.
      inputs: ``data -> (inputs [E, ...], labels [E, ...])``.
      coefficients: ``params -> (B [d, C], b [C])``.
      params: ``(B, b) -> params``, the inverse.
      l2: what ``|B|^2 / 2`` is weighted by in the loss.
    """

    loss: str
    inputs: Callable[[PyTree], tuple[Array, Array]]
    coefficients: Callable[[Params], tuple[Array, Array]]
    params: Callable[[Array, Array], Params]
    l2: float = 0.0


@describing.described(describing.of_problem)
@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Problem:
    """Client data, evaluation data and the functions that turn them into losses.

    Examples are stored once, sorted by owner: client i owns rows ``offsets[i]`` to
    ``offsets[i] + counts[i]`` of every leaf of ``data``, so imbalance costs no memory. Or they are
    stored nowhere, and made whenever a client trains: then nothing is kept per client.
    Build one with the constructors in `fedjax_links.problems`, which validate.

    Attributes:
      data: pytree with leaves [E, ...], E examples over all clients; what ``source`` reads where
        examples are made.
      owned: the rows of every client, also if a mesh divides them, or the `Source` that makes its
        examples.
      eval_data: pytree that ``metrics`` reads.
      init_params: ``key -> params``.
      loss_fn: ``(params, batch) -> []``, mean loss over a batch of ``data`` rows.
      metrics: ``(params, eval_data) -> {name: []}``.
      min_examples: smallest entry of ``counts``.
      max_examples: largest entry of ``counts``.
      random_loss_fn: ``(params, batch, key) -> []``, what clients descend where training draws at
        random, as dropout does; None where they descend ``loss_fn``.
      larger_is_better: names of the metrics, as ``metrics`` names them, that are better when
        larger; all others are then better when smaller. None: not stated, so only ``loss`` and
        ``distance`` have a known direction (smaller).
      attainable: by metric, the best value that any model can have, where it is known; further
        names for what else is known beforehand. Numbers, float64[] on the host.
      objective: what is known of the loss; None: nothing, so that no limit is predicted.
    """

    data: PyTree
    owned: Rows | DividedRows | Source
    eval_data: PyTree
    init_params: Callable[[Key], Params] = dataclasses.field(metadata={'static': True})
    loss_fn: Callable[[Params, PyTree], Array] = dataclasses.field(metadata={'static': True})
    metrics: Callable[[Params, PyTree], Mapping[str, Array]] = dataclasses.field(
        metadata={'static': True}
    )
    min_examples: int = dataclasses.field(metadata={'static': True})
    max_examples: int = dataclasses.field(metadata={'static': True})
    random_loss_fn: Callable[[Params, PyTree, Key], Array] | None = dataclasses.field(
        default=None, metadata={'static': True}
    )
    larger_is_better: tuple[str, ...] | None = dataclasses.field(
        default=None, metadata={'static': True}
    )
    attainable: Mapping[str, Array | np.ndarray] = dataclasses.field(default_factory=dict)
    objective: LinearObjective | None = dataclasses.field(default=None, metadata={'static': True})

    @property
    def num_clients(self) -> int:
        """Number of clients N."""
        if isinstance(self.owned, Source):
            return self.owned.num_clients
        return self.owned.offsets.shape[0]

    @property
    def num_examples(self) -> int:
        """Number of examples over all clients, E; concrete problems only."""
        if isinstance(self.owned, Source):
            return self.owned.num_clients * self.max_examples
        return int(self.owned.counts.sum())

    @property
    def counts(self) -> Array:
        """int32[N], number of examples of each client, at least one."""
        if isinstance(self.owned, Source):
            return jnp.full(self.num_clients, self.max_examples, jnp.int32)
        return self.owned.counts

    @property
    def offsets(self) -> Array:
        """int32[N], the first row of each client; all zero where examples are made."""
        if isinstance(self.owned, Source):
            return jnp.zeros(self.num_clients, jnp.int32)
        return self.owned.offsets

    def examples_of(self, client: Array | int) -> tuple[PyTree, Array, Array]:
        """Where a client's examples are.

        Args:
          client: int32[], its id.

        Returns:
          A pytree with leaves [E, ...], the first of its rows that the client owns, and how many.
        """
        if isinstance(self.owned, Source):
            made = self.owned.make(self.data, jnp.asarray(client))
            return made, jnp.int32(0), jnp.int32(self.max_examples)
        return self.data, self.owned.offsets[client], self.owned.counts[client]


@describing.described(
    lambda it: describing.of_functions('Algorithm', (it.round_step, it.init)),
    line=True,
    by='round_step',
)
class Algorithm(NamedTuple):
    """A federated algorithm as three pure functions.

    Attributes:
      init: ``(params, problem) -> state``.
      round_step: ``(state, context, problem) -> (state, RoundMetrics)``.
      models: ``state -> {name: params}``; ``'server'`` always, ``'client_mean'`` where clients keep
        models of their own. All of them are evaluated.
    """

    init: Callable[[Params, Problem], PyTree]
    round_step: Callable[[PyTree, RoundContext, Problem], tuple[PyTree, RoundMetrics]]
    models: Callable[[PyTree], Mapping[str, Params]]


@describing.described(
    lambda it: describing.of_functions(
        'Participation', (it.sample, it.init), num_clients=it.num_clients, cycle=it.cycle
    ),
    line=True,
    by='sample',
)
class Participation(NamedTuple):
    """A participation pattern as a sampler driven by keys.

    Attributes:
      init: ``key -> carry`` (Markov states, clocks, offsets; ``()`` when memoryless).
      sample: ``(carry, key, round) -> (carry, LinkSample)``.
      num_clients: N.
      cycle: rounds after which links, or their probabilities, repeat; None if they do not. Whoever
        evaluates every so many rounds should see all of the cycle.
    """

    init: Callable[[Key], PyTree]
    sample: Callable[[PyTree, Key, Array], tuple[PyTree, Links]]
    num_clients: int
    cycle: int | None = None


class ParticipationCounters(NamedTuple):
    """How often and how recently each client's uplink delivered.

    Attributes:
      participation_count: int32[N], rounds in which the client delivered.
      last_active: int32[N], the last such round, -1 before the first.
    """

    participation_count: Array
    last_active: Array


class FederationState(NamedTuple):
    """The whole federation: the scan's carry, the checkpoint, the thing you fork.

    Attributes:
      round: int32[], rounds completed.
      algorithm: the algorithm's state (server model, client models, memories).
      participation: the pattern's carry.
      links: the realised links of the last round; with the mask, the mixing matrix W in factored
        form. Of a small cohort of many clients, a `CohortLinkSample`.
      counters: participation counters.
      finite: bool[], whether server models and reported losses have been finite so far.
      first_bad_round: int32[], the round in which ``finite`` turned false, -1 while it is true.
    """

    round: Array
    algorithm: PyTree
    participation: PyTree
    links: Links
    counters: ParticipationCounters
    finite: Array
    first_bad_round: Array
