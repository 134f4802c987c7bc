"""Defines the types that all other modules use.

Shapes use ``N`` for the number of clients. Behaviour is a NamedTuple of pure functions, and state a
typed NamedTuple. `Problem` and `ExampleGenerator` are dataclasses, as some of their fields are
static.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links.core import reprs
from fedjax_links.links.samples import ClientKinds as ClientKinds
from fedjax_links.links.samples import CohortLinkSample as CohortLinkSample
from fedjax_links.links.samples import DuplexLinkSample as DuplexLinkSample
from fedjax_links.links.samples import Links as Links
from fedjax_links.links.samples import LinkSample as LinkSample
from fedjax_links.links.samples import MaskLinks as MaskLinks
from fedjax_links.links.samples import PeerLinkSample as PeerLinkSample
from fedjax_links.links.samples import all_down as all_down
from fedjax_links.links.samples import as_masks as as_masks
from fedjax_links.links.samples import cohort_links as cohort_links
from fedjax_links.links.samples import computes as computes
from fedjax_links.links.samples import delivers as delivers
from fedjax_links.links.samples import has_peers as has_peers
from fedjax_links.links.samples import is_duplex as is_duplex
from fedjax_links.links.samples import mask_of as mask_of
from fedjax_links.links.samples import participants as participants
from fedjax_links.links.samples import peers as peers
from fedjax_links.links.samples import prob_of as prob_of
from fedjax_links.links.samples import reached as reached
from fedjax_links.links.samples import receives as receives
from fedjax_links.links.samples import with_direction_masks as with_direction_masks

Array = jax.Array
Key = jax.Array
Number = float | Array
"""A hyper-parameter: a Python number, or an array of shape [] that may be a tracer."""
Numbers = Number | np.ndarray
"""A `Number`, or one number for each client, float[N]."""
PyTree = Any
Params = PyTree

_STATIC = {'static': True}


class RoundContext(NamedTuple):
    """Holds what a round may read besides its state and the problem.

    Attributes:
      round: int32[], index t of the round, from 0.
      links: which messages arrive in this round, see `Links`.
      client_key: key of the clients' randomness this round; fold in the client id.
      server_key: key of the server's randomness this round.
    """

    round: Array
    links: Links
    client_key: Key
    server_key: Key


class RoundMetrics(NamedTuple):
    """Reports a round by sums and counts, so that any group of rounds can be averaged.

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


S = TypeVar('S')
Step = tuple[S, RoundMetrics]
"""What ``round_step`` returns: the new state, and the metrics."""
CarryAndLinks = tuple[S, Links]
"""What a pattern's ``sample`` returns: its new carry, and the links of the round."""


class Rows(NamedTuple):
    """Says which of the stored examples each client owns.

    Attributes:
      offsets: int32[N], first row of each client.
      counts: int32[N], number of rows of each client: at least one for training examples, perhaps
        none for evaluation examples.
    """

    offsets: Array
    counts: Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ExampleGenerator:
    """Makes the examples of a client whenever it trains.

    Attributes:
      make: ``(data, client id) -> examples``, leaves [m, ...], the same m for all clients.
      num_clients: N.
    """

    make: Callable[[PyTree, Array], PyTree] = field(metadata=_STATIC)
    num_clients: int = field(metadata=_STATIC)


class LinearObjective(NamedTuple):
    """States that a problem's loss is a linear model's, so that limits of training are computable.

    The scores of an example with inputs x are ``B^T x + b``. B and b are all parameters.

    Attributes:
      loss: ``'softmax'``, ``'logistic'`` or ``'least_squares'``, as in
        `fedjax_links.analysis.weighted_minimiser`.
      inputs: ``data -> (inputs [E, ...], labels [E, ...])``.
      coefficients: ``params -> (B [d, C], b [C])``.
      params: ``(B, b) -> params``, the inverse of ``coefficients``.
      l2: the weight of ``|B|^2 / 2`` in the loss.
    """

    loss: str
    inputs: Callable[[PyTree], tuple[Array, Array]]
    coefficients: Callable[[Params], tuple[Array, Array]]
    params: Callable[[Array, Array], Params]
    l2: float = 0.0


class ClientNames:
    """Names the owners of a problem's examples.

    Any two instances are equal, so problems that differ in names alone share compiled programs.

    Attributes:
      clients: names of the N clients, in order; empty if the data have none.
      others: names of owners that do not train. First come the owners held out for evaluation, in
        the order of evaluation data, then the owners whose examples are left out.
    """

    def __init__(
        self, clients: Sequence[object] = (), others: Sequence[object] = ()
    ) -> None:
        """Converts names to texts.

        Args:
          clients: names or numbers of the clients.
          others: names or numbers of the other owners.
        """
        self.clients = tuple(map(str, clients))
        self.others = tuple(map(str, others))

    def __eq__(self, other: object) -> bool:
        """Returns True: any two are equal."""
        return isinstance(other, ClientNames)

    def __hash__(self) -> int:
        """Returns one hash for all instances."""
        return hash(ClientNames)

    def __repr__(self) -> str:
        """Returns the same text for all instances."""
        return 'ClientNames()'


@reprs.described(reprs.problem_text)
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Problem:
    """Holds client data, evaluation data and the functions that turn them into losses.

    Examples are stored once, sorted by owner: client i owns rows ``offsets[i]`` to
    ``offsets[i] + counts[i]`` of each leaf of ``data``, so imbalance costs no memory. Or an
    `ExampleGenerator` makes the examples whenever a client trains, and nothing is stored per
    client. Build a problem with the constructors in `fedjax_links.problems`, which check their
    arguments.

    Attributes:
      data: pytree with leaves [E, ...], E examples over all clients; or what an
        `ExampleGenerator` reads.
      owned: the rows of each client, or the `ExampleGenerator` that makes its examples.
      eval_data: pytree that ``metrics`` reads.
      init_params: ``key -> params``.
      loss_fn: ``(params, batch) -> []``, mean loss over a batch of ``data`` rows.
      metrics: ``(params, eval_data) -> {name: []}``.
      min_examples: the smallest entry of ``counts``; if seeds with different data share a compiled
        program, the smallest over all these seeds.
      max_examples: likewise, the largest entry.
      random_loss_fn: ``(params, batch, key) -> []``, the training loss if it is random, as with
        dropout; None if clients descend ``loss_fn``.
      larger_is_better: names of the metrics that are better when larger; all others are then
        better when smaller. None: not stated, so only ``loss`` and ``distance`` have a known
        direction (smaller).
      attainable: by metric, the best value that any model can have, float64[] on the host. Metrics
        whose best value is unknown are absent.
      objective: the form of the loss, from which limits are predicted; None if unknown.
      held_out: True if ``eval_data`` are examples of the same form as ``data``, on which no client
        trains. False if ``eval_data`` are the clients' training examples. None if ``eval_data`` are
        something else.
      eval_owned: which rows of ``eval_data`` each owner has: first the N clients, then the owners
        that do not train. An owner may have no rows. None if evaluation data have no owners.
      named: names of the clients, by which recorded links are matched.
    """

    data: PyTree
    owned: Rows | ExampleGenerator
    eval_data: PyTree
    init_params: Callable[[Key], Params] = field(metadata=_STATIC)
    loss_fn: Callable[[Params, PyTree], Array] = field(metadata=_STATIC)
    metrics: Callable[[Params, PyTree], Mapping[str, Array]] = field(metadata=_STATIC)
    min_examples: int = field(metadata=_STATIC)
    max_examples: int = field(metadata=_STATIC)
    random_loss_fn: Callable[[Params, PyTree, Key], Array] | None = field(
        default=None, metadata=_STATIC
    )
    larger_is_better: tuple[str, ...] | None = field(default=None, metadata=_STATIC)
    attainable: Mapping[str, Array | np.ndarray] = field(default_factory=dict)
    objective: LinearObjective | None = field(default=None, metadata=_STATIC)
    held_out: bool | None = field(default=None, metadata=_STATIC)
    eval_owned: Rows | None = None
    named: ClientNames = field(default=ClientNames(), metadata=_STATIC)

    @property
    def client_names(self) -> tuple[str, ...]:
        """Returns the names of the N clients; empty if the data have none."""
        return self.named.clients

    @property
    def num_clients(self) -> int:
        """Returns N."""
        if isinstance(self.owned, ExampleGenerator):
            return self.owned.num_clients
        return self.owned.offsets.shape[0]

    @property
    def num_examples(self) -> int:
        """Returns E, the number of examples over all clients; concrete problems only."""
        return int(np.asarray(self.counts, np.int64).sum())

    @property
    def counts(self) -> Array:
        """Returns int32[N], the number of examples of each client, at least one."""
        if isinstance(self.owned, ExampleGenerator):
            return jnp.full(self.num_clients, self.max_examples, jnp.int32)
        return self.owned.counts

    @property
    def offsets(self) -> Array:
        """Returns int32[N], the first row of each client; all zero where no examples are stored."""
        if isinstance(self.owned, ExampleGenerator):
            return jnp.zeros(self.num_clients, jnp.int32)
        return self.owned.offsets

    def examples_of(self, client: Array | int) -> tuple[PyTree, Array, Array]:
        """Returns the examples of a client.

        Args:
          client: int32[], its id.

        Returns:
          A pytree of examples, the first row of the client, int32[], and how many it owns, int32[].
        """
        if isinstance(self.owned, ExampleGenerator):
            examples = self.owned.make(self.data, jnp.asarray(client))
            return examples, jnp.int32(0), jnp.int32(self.max_examples)
        return self.data, self.owned.offsets[client], self.owned.counts[client]


@reprs.described_by('round_step')
class Algorithm(NamedTuple):
    """Defines a federated algorithm by pure functions.

    Attributes:
      init: ``(params, problem) -> state``.
      round_step: ``(state, context, problem) -> (state, RoundMetrics)``.
      models: ``state -> {name: params}``, the candidate models, which are all evaluated. There is
        always ``'server'``, and ``'client_mean'``, the clients' mean, if clients keep models.
      client_models: ``state -> params``, the clients' own trained models, leaves [N, ...]; None if
        clients keep no models, or only copies of the server's.
    """

    init: Callable[[Params, Problem], PyTree]
    round_step: Callable[[PyTree, RoundContext, Problem], tuple[PyTree, RoundMetrics]]
    models: Callable[[PyTree], Mapping[str, Params]]
    client_models: Callable[[PyTree], Params] | None = None


@reprs.described(reprs.pattern_text)
class Participation(NamedTuple):
    """Defines a participation pattern by a sampler of links.

    Attributes:
      init: ``key -> carry`` (Markov states, clocks, offsets; ``()`` when memoryless).
      sample: ``(carry, key, round) -> (carry, links)``, see `Links`.
      num_clients: N.
      cycle: number of rounds after which links, or their probabilities, repeat; None if they do not
        repeat. Evaluations every multiple of ``cycle`` rounds would all see the same part of the
        cycle.
      combinators: names of the combinators (patterns made of patterns) around this pattern that
        pass its key on, from the inside out. The names keep apart the random streams of nested
        combinators (``participation.combining``).
      client_names: names of the N clients of a recording of links; () if the recording numbers its
        clients. None for links that belong to no particular clients.
    """

    init: Callable[[Key], PyTree]
    sample: Callable[[PyTree, Key, Array], tuple[PyTree, Links]]
    num_clients: int
    cycle: int | None = None
    combinators: tuple[str, ...] = ()
    client_names: tuple[str, ...] | None = None


class ParticipationCounters(NamedTuple):
    """Counts how often and how recently each client's uplink delivered.

    Attributes:
      participation_count: int32[N], rounds in which the client delivered.
      last_active: int32[N], the last such round, -1 before the first.
    """

    participation_count: Array
    last_active: Array


class FederationState(NamedTuple):
    """Holds the state of a federation: the carry of the scan, and the content of a checkpoint.

    Attributes:
      round: int32[], rounds completed.
      algorithm: the algorithm's state (server model, client models, memories).
      participation: the pattern's carry.
      links: the realised links of the last round.
      counters: participation counters.
      finite: bool[], whether server models and reported losses have been finite so far.
      first_bad_round: int32[], the round, from 0, in which ``finite`` turned false; -1 while it is
        true.
    """

    round: Array
    algorithm: PyTree
    participation: PyTree
    links: Links
    counters: ParticipationCounters
    finite: Array
    first_bad_round: Array
