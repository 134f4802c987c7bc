"""CoGC: a gradient code between clients, exact or nothing.

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
    """CoGC: ``x += mean over all N of Delta_j`` where the code can be decoded; else x stays.

    Client i hears the updates of the r = ``tolerance`` clients after it, ``i + 1, ..., i + r``
    modulo N, and sends a sum of these and its own that is complete only if all r edges are up.
    From any N - r complete sums that arrive, a cyclic code gives the sum of all updates, exactly:
    the decoding itself, which changes nothing but rounding, is not simulated. So x moves as under
    FedAvg with everyone, at random times, on any links; with equal probabilities p and q the
    chance of a step is `analysis.cogc_probability`.

    Link semantics: everybody must train and is assumed to hear the server, unless links tell
    directions apart: one who does not leaves no sum complete in which it has a part. A client
    whose ``tolerance`` next ones are not its neighbours never has a complete sum: take a ring of
    degree ``2 tolerance`` or more. An empty round keeps x. ``num_computing`` counts all that train,
    also where nothing comes of it, though that is not simulated.

    Memory: one model.

    Args:
      local_train: the client program L_i.
      tolerance: r, at least 0: uplinks that may fail; below N.

    Returns:
      The algorithm; models: ``server``.

    Raises:
      ValueError: for a tolerance that is negative, or not below N.

    References:
      Weng et al. 2025, section III; the cyclic code is Tandon et al. 2017.
    """
    checks.static_int('tolerance', tolerance, minimum=0)

    def decodes(links: Links, able: Array) -> Array:  # bool[]
        (neighbours, edges), num_clients = base.peers(links), len(able)
        complete = able & links.mask
        for step in range(1, tolerance + 1):
            other = (jnp.arange(num_clients) + step) % num_clients
            complete &= (
                jnp.any(edges & (neighbours == other[:, None]), axis=1) & able[other]
            )
        return jnp.sum(complete) >= num_clients - tolerance

    def round_step(
        state: ServerState, ctx: RoundContext, problem: Problem
    ) -> Step[ServerState]:
        num_clients = problem.num_clients
        checks.static_int('tolerance', tolerance, minimum=0, maximum=num_clients - 1)
        able = base.computes(ctx.links) & base.reached(ctx.links)
        cohort = cohorts.make_cohort(
            jnp.broadcast_to(decodes(ctx.links, able), num_clients)
        )
        deltas, metrics = common.sum_deltas(
            local_train, ctx, problem, state.server, None, cohort
        )
        server = tree.add_scaled(
            state.server, 1.0, tree.divide(deltas, metrics.num_active)
        )
        return ServerState(server), metrics._replace(
            num_computing=jnp.sum(able, dtype=jnp.int32)
        )

    return common.of_server(round_step)
