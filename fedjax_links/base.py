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


Links = LinkSample | DuplexLinkSample


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


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Problem:
    """Client data, evaluation data and the functions that turn them into losses.

    Examples are stored once, sorted by owner: client i owns rows ``offsets[i]`` to
    ``offsets[i] + counts[i]`` of every leaf of ``data``, so imbalance costs no memory.
    Build one with the constructors in `fedjax_links.problems`, which validate.

    Attributes:
      data: pytree with leaves [E, ...], E examples over all clients.
      offsets: int32[N], first row of each client.
      counts: int32[N], number of rows of each client, at least one.
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
    """

    data: PyTree
    offsets: Array
    counts: Array
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

    @property
    def num_clients(self) -> int:
        """Number of clients N."""
        return self.offsets.shape[0]


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


class Participation(NamedTuple):
    """A participation pattern as a sampler driven by keys.

    Attributes:
      init: ``key -> carry`` (Markov states, clocks, offsets; ``()`` when memoryless).
      sample: ``(carry, key, round) -> (carry, LinkSample)``.
      num_clients: N.
    """

    init: Callable[[Key], PyTree]
    sample: Callable[[PyTree, Key, Array], tuple[PyTree, Links]]
    num_clients: int


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
        form.
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
