"""S2S and S2A: gossip between clients, and a server that averages a sample of them.

The symbols are those of `fedjax_links.algorithms`.

References:
  Rodio, Neglia, Chen and Larsson 2025, A unified convergence analysis for semi-decentralized
  learning.
"""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from fedjax_links import base
from fedjax_links.algorithms import common
from fedjax_links.algorithms.common import ClientsState
from fedjax_links.base import (
    Algorithm,
    Array,
    Problem,
    PyTree,
    RoundContext,
    RoundMetrics,
    Step,
)
from fedjax_links.clients import cohorts, peers
from fedjax_links.core import checks, references, tree
from fedjax_links.core.records import Section
from fedjax_links.local_training import (
    ClientProgram,
    Contribution,
    LocalUpdate,
    Train,
)


@references.cite('rodio2025unified')
def s2s(local_train: ClientProgram, *, server_every: int = 1) -> Algorithm:
    """Runs S2S (sampled to sampled): gossip, then the server averages the uploading clients.

    Clients train, ``z_i = L_i(x_i)``, and average with their neighbours, ``y_i = sum_j M_ij z_j``,
    by the round's Metropolis matrix (`mixing.metropolis_weights`). In every ``server_every``-th
    round the server sets ``x^{t+1} = mean_{i in A} y_i``. The clients in A receive that model, all
    others continue from y_i. The mean of the client models carries no participation bias, on any
    graph. Clients that cannot compute bias this mean, and so do lost downlinks. Without links
    between clients and with ``server_every=1`` S2S equals `fedpbc` to the bit.

    Link semantics: every client that can compute trains in every round, from its own model. In a
    server round, the server averages the models of clients whose uplink delivers. These clients
    receive the average at the end of the round, unless their downlink is lost. An empty round keeps
    x, and so does a round between server rounds. Clients still train and gossip.

    Memory: 1 + N models.

    Args:
      local_train: the client program L_i.
      server_every: rounds from one server round to the next, at least 1.

    Returns:
      The algorithm; models: ``server`` and ``client_mean``.

    Raises:
      ValueError: for ``server_every`` below 1.

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import algorithms, local_training, participation, problems
      >>> from fedjax_links.links import graphs
      >>> problem = problems.quadratic([[0.0], [1.0], [2.0], [3.0]])  # the optimum is 1.5
      >>> uplinks = participation.bernoulli([0.9, 0.9, 0.9, 0.3])
      >>> links = participation.peers(uplinks, graphs.ring(4), prob=0.8)
      >>> client = local_training.local_sgd(0.1, local_steps=2)
      >>> algorithm = algorithms.s2s(client, server_every=5)
      >>> result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=200)
      >>> print(round(float(result.state.algorithm.server[0]), 2))
      1.44

    References:
      Rodio, Neglia, Chen and Larsson 2025, Algorithm 1.
    """
    checks.integer('server_every', server_every)

    def local_model(x_i: PyTree, update: LocalUpdate) -> PyTree:
        # As in `fedpbc`, for equal bits.
        return tree.add_scaled(x_i, 1.0, update.delta)

    def upload_of(y_i: PyTree) -> PyTree:
        return y_i

    def round_step(
        state: ClientsState, ctx: RoundContext, problem: Problem
    ) -> Step[ClientsState]:
        uploads = _is_upload(ctx, server_every)
        upload_sum, y, metrics = _train_and_gossip(
            local_train, ctx, problem, state.clients, uploads, local_model, upload_of
        )

        # Server: average the models that arrived; an empty round keeps x.
        num_uploads = jnp.sum(uploads, dtype=jnp.int32)
        mean = tree.divide(upload_sum, num_uploads)
        new_server = tree.cast_like(mean, state.server)
        server = tree.select(num_uploads > 0, new_server, state.server)

        # Broadcast to the clients whose upload arrived.
        receivers = uploads & base.receives(ctx.links)
        clients = tree.fill_rows(receivers, tree.cast_like(server, y), y)
        return ClientsState(server, clients), metrics._replace(num_active=num_uploads)

    return common.client_model_algorithm(round_step)


@references.cite('rodio2025unified')
def s2a(local_train: ClientProgram, *, server_every: int = 1) -> Algorithm:
    """Runs S2A (sampled to all): as `s2s`, but every client receives the server's average.

    ``x_i^{t+1} = x^{t+1} = mean_{i in A} y_i`` for all i, unless A is empty. Clients that upload
    more often pull all models towards themselves. This is FedAvg's bias. It shrinks with a better
    connected graph and with rarer server rounds. Without links between clients, with
    ``server_every=1`` and without empty rounds S2A equals ``fedavg(compute='all')`` to the bit.

    Link semantics: as `s2s`, but every client receives. Where links have a downlink, the clients
    whose downlink is up receive. An empty round keeps x, and clients continue from y_i.

    Memory: 1 + N models.

    Args:
      local_train: the client program L_i.
      server_every: rounds from one server round to the next, at least 1.

    Returns:
      The algorithm; models: ``server`` and ``client_mean``.

    Raises:
      ValueError: for ``server_every`` below 1.

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import algorithms, local_training, participation, problems
      >>> from fedjax_links.links import graphs
      >>> problem = problems.quadratic([[0.0], [1.0], [2.0], [3.0]])  # the optimum is 1.5
      >>> uplinks = participation.bernoulli([0.9, 0.9, 0.9, 0.3])
      >>> links = participation.peers(uplinks, graphs.ring(4), prob=0.8)
      >>> client = local_training.local_sgd(0.1, local_steps=2)
      >>> algorithm = algorithms.s2a(client, server_every=5)
      >>> result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=200)
      >>> print(round(float(result.state.algorithm.server[0]), 2))
      1.44

    References:
      Rodio, Neglia, Chen and Larsson 2025, Algorithm 1.
    """
    checks.integer('server_every', server_every)

    def local_model(x_i: PyTree, update: LocalUpdate) -> PyTree:
        return update.params

    def round_step(
        state: ClientsState, ctx: RoundContext, problem: Problem
    ) -> Step[ClientsState]:
        def upload_of(y_i: PyTree) -> PyTree:
            # Displacements, as in `fedavg`, for equal bits.
            return tree.subtract(y_i, state.server)

        uploads = _is_upload(ctx, server_every)
        upload_sum, y, metrics = _train_and_gossip(
            local_train, ctx, problem, state.clients, uploads, local_model, upload_of
        )

        # Server: average the models that arrived; an empty round keeps x.
        num_uploads = jnp.sum(uploads, dtype=jnp.int32)
        mean = tree.divide(upload_sum, num_uploads)
        new_server = tree.add_scaled(state.server, 1.0, mean)
        server = tree.select(num_uploads > 0, new_server, state.server)

        # Broadcast to all clients, unless no upload arrived.
        receivers = base.reached(ctx.links) & (num_uploads > 0)
        clients = tree.fill_rows(receivers, tree.cast_like(server, y), y)
        return ClientsState(server, clients), metrics._replace(num_active=num_uploads)

    return common.client_model_algorithm(round_step)


def semi_decentralised_senders(mask: np.ndarray, options: Section) -> np.ndarray:
    """Returns which clients upload, bool[T, N]: those whose uplink delivers in server rounds.

    Args:
      mask: bool[T, N], the clients whose uplink delivers.
      options: the options of the algorithm in a config, such as ``server_every``.
    """
    rounds = np.arange(1, len(mask) + 1)
    is_server_round = rounds % options.get('server_every', 1) == 0
    return np.asarray(mask & is_server_round[:, None])


def _is_upload(ctx: RoundContext, server_every: int) -> Array:
    """Returns the clients whose upload arrives, bool[N]; none between server rounds."""
    is_server_round = (ctx.round + 1) % server_every == 0
    return base.delivers(ctx.links) & is_server_round


def _train_and_gossip(
    local_train: ClientProgram,
    ctx: RoundContext,
    problem: Problem,
    clients: PyTree,
    uploads: Array,
    local_model: Callable[[PyTree, LocalUpdate], PyTree],
    upload_of: Callable[[PyTree], PyTree],
) -> tuple[PyTree, PyTree, RoundMetrics]:
    """Trains all clients that can compute, mixes their models, and sums the uploads.

    Args:
      local_train: the client program L_i.
      ctx: the round.
      problem: the problem.
      clients: the client models x_i, leaves [N, ...].
      uploads: bool[N], the clients whose upload arrives.
      local_model: ``(x_i, update) -> z_i``, the locally trained model.
      upload_of: ``y_i -> upload``, what client i uploads.

    Returns:
      The sum of the uploads that arrive; the mixed models y_i, leaves [N, ...]; the metrics.
    """

    def client(train: Train, i: Array, x_i: PyTree) -> tuple[Contribution, PyTree]:
        update = train(x_i)
        z_i = local_model(x_i, update)
        # Without links between clients y_i is z_i. With them the sum below replaces this one.
        contribution = Contribution(upload_of(z_i), update.loss)
        nothing = tree.zeros_like(contribution)
        return tree.select(uploads[i], contribution, nothing), z_i

    # Every client that can compute trains from its own model.
    cohort = cohorts.computing(ctx.links)
    upload_sum, z, metrics = common.train(
        local_train, ctx, problem, client, clients, cohort
    )

    # Gossip: y_i = sum_j M_ij z_j. Without links between clients y = z, whose sum is known.
    y = peers.mix(ctx.links, z)
    if base.has_peers(ctx.links):
        upload_sum = peers.sum_rows(upload_of, cohorts.make_cohort(uploads), y)
    return upload_sum, y, metrics
