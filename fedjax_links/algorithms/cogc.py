"""CoGC: a gradient code between clients gives the exact sum of all updates, or nothing.

The symbols are those of `fedjax_links.algorithms`.

References:
  Weng, Ren, Xiao and Skoglund 2025, Cooperative gradient coding.
"""

import jax.numpy as jnp

from fedjax_links import base
from fedjax_links.algorithms import common
from fedjax_links.algorithms.common import ServerState
from fedjax_links.base import Algorithm, Array, Links, Problem, RoundContext, Step
from fedjax_links.clients import cohorts
from fedjax_links.core import checks, references, tree
from fedjax_links.local_training import ClientProgram


@references.cite('weng2025cooperative')
def cogc(local_train: ClientProgram, *, tolerance: int) -> Algorithm:
    """Runs CoGC: the server adds the mean update of all N clients if it can decode their code.

    ``x += (1/N) sum_j Delta_j``, over all N clients, in rounds that decode; otherwise x stays.
    Client i receives the updates of the r = ``tolerance`` clients after it, ``i + 1, ..., i + r``
    modulo N. It uploads a sum of these updates and its own. The sum is complete only if all r edges
    are up. Any N - r complete sums that arrive decode to the exact sum of all updates. The decoding
    itself changes nothing but rounding and is not simulated. So x moves as under FedAvg with full
    participation, at random rounds. With one probability p of all uplinks and one q of all edges,
    and ``2 r < N``, the probability of a step is `analysis.cogc_probability`.

    Link semantics: all clients train, and all receive x unless the links have a downlink. A client
    that does not train makes every sum incomplete that contains its update. A client whose next
    ``tolerance`` clients are not its neighbours never has a complete sum, so use a ring of degree
    ``2 tolerance`` or more. An empty round keeps x. ``num_computing`` counts all clients that
    train, also in rounds that do not decode, where training is not simulated.

    Memory: one model.

    Args:
      local_train: the client program L_i.
      tolerance: r, uplinks that may fail, from 0 to N - 1.

    Returns:
      The algorithm; models: ``server``.

    Raises:
      ValueError: for a tolerance that is negative, or not below N.

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import algorithms, local_training, participation, problems
      >>> from fedjax_links.links import graphs
      >>> problem = problems.quadratic([[0.0], [1.0], [2.0], [3.0]])  # the optimum is 1.5
      >>> uplinks = participation.bernoulli([0.9, 0.9, 0.9, 0.3])
      >>> links = participation.peers(uplinks, graphs.ring(4), prob=0.8)
      >>> client = local_training.local_sgd(0.1, local_steps=2)
      >>> algorithm = algorithms.cogc(client, tolerance=1)
      >>> result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=200)
      >>> print(round(float(result.state.algorithm.server[0]), 2))
      1.5

    References:
      Weng et al. 2025, section III; the cyclic code is Tandon et al. 2017.
    """
    checks.static_int('tolerance', tolerance, minimum=0)

    def decodes(links: Links, computing: Array) -> Array:
        """Returns whether at least N - r complete sums arrive, bool[]."""
        num_clients = len(computing)
        neighbours, edges = base.peers(links)
        complete = computing & links.mask
        for offset in range(1, tolerance + 1):
            successor = (jnp.arange(num_clients) + offset) % num_clients
            is_edge_up = jnp.any(edges & (neighbours == successor[:, None]), axis=1)
            complete &= is_edge_up & computing[successor]
        return jnp.sum(complete) >= num_clients - tolerance

    def round_step(
        state: ServerState, ctx: RoundContext, problem: Problem
    ) -> Step[ServerState]:
        num_clients = problem.num_clients
        checks.static_int('tolerance', tolerance, minimum=0, maximum=num_clients - 1)

        # All clients train if the round decodes; otherwise the training would have no effect.
        computing = base.computes(ctx.links) & base.reached(ctx.links)
        is_decoded = decodes(ctx.links, computing)
        cohort = cohorts.make_cohort(jnp.broadcast_to(is_decoded, num_clients))
        deltas, metrics = common.sum_deltas(
            local_train, ctx, problem, state.server, cohort=cohort
        )

        # Server: add the decoded mean of all updates.
        mean = tree.divide(deltas, metrics.num_active)
        server = tree.add_scaled(state.server, 1.0, mean)
        num_computing = jnp.sum(computing, dtype=jnp.int32)
        return ServerState(server), metrics._replace(num_computing=num_computing)

    return common.server_only_algorithm(round_step)
