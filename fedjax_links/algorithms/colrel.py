"""ColRel: clients relay what they hear of their neighbours' updates.

References:
  Yemini, Saha, Ozfatura, Gündüz and Goldsmith 2024, Robust federated learning with connectivity
  failures.
"""

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from fedjax_links import base
from fedjax_links.algorithms import common
from fedjax_links.algorithms.common import ServerState
from fedjax_links.base import Algorithm, Array, Links, Problem, RoundContext, Step
from fedjax_links.clients import cohorts
from fedjax_links.core import checks, errors, references, tree
from fedjax_links.local_training import ClientProgram


@references.cite('yemini2024robust')
def colrel(
    local_train: ClientProgram, *, weights: ArrayLike | None = None
) -> Algorithm:
    """ColRel: ``x += (1/N) sum_{i in A} sum_j tau_ji alpha_ij Delta_j``, over i and its neighbours.

    Everybody trains from x; client i sends the sum of its own update and of those that it hears
    over the edges that are up (tau_ji), weighted by alpha_ij. The step is unbiased, for known
    probabilities p_i of uplinks and q_ji of edges, if ``sum_i p_i q_ji alpha_ij = 1`` for every j.
    Without links between clients this is `fedavg_known`, to the bit.

    Link semantics: everybody is assumed to hear the server, unless links tell directions apart;
    who cannot hear or train has no update, but relays. An empty round keeps x. ``num_computing``
    counts all that train, though only those are simulated whose update gets through.

    Memory: one model.

    Args:
      local_train: the client program L_i.
      weights: alpha, float[N, N], row i of what client i sends: `analysis.colrel_weights` has those
        of least variance. By default all that carry j's update give it the weight
        ``1 / sum_i p_i q_ji``, by the probabilities that the links of the round report. Where
        links tell directions apart they do not report that of a relay, which uploads without
        having heard the server: nobody relays then without weights, and this is `fedavg_known`.

    Returns:
      The algorithm; models: ``server``.

    Raises:
      ValueError: for weights that are negative or have another shape.

    References:
      Yemini et al. 2024, Algorithms 1 and 2; the default weights are this package's.
    """
    checks.within('weights', 0 if weights is None else weights, 0, np.inf)
    alpha = None if weights is None else jnp.asarray(weights, jnp.result_type(float))

    def coefficients(links: Links) -> Array:  # c_j, of the server's sum of c_j Delta_j
        heard, (neighbours, edges) = links.mask, base.peers(links)
        relayed, own = heard[neighbours] & edges, jnp.arange(len(heard))
        if alpha is not None:
            through = jnp.where(relayed, alpha[neighbours, own[:, None]], 0)
            return jnp.where(heard, alpha[own, own], 0) + jnp.sum(through, axis=1)
        expected = links.prob
        if base.tells_directions(links):
            return jnp.where(base.participants(links), 1 / expected, 0)
        if base.has_peers(links):
            edge_prob = jnp.nan if links.edge_prob is None else links.edge_prob
            through = jnp.where(
                neighbours == own[:, None], 0, edge_prob * expected[neighbours]
            )
            expected += jnp.sum(through, axis=1)
        times = heard + jnp.sum(relayed, axis=1, dtype=jnp.int32)
        return jnp.where(times > 0, (1 / expected) * times, 0)

    def round_step(
        state: ServerState, ctx: RoundContext, problem: Problem
    ) -> Step[ServerState]:
        size = problem.num_clients
        if alpha is not None and alpha.shape != (size, size):
            raise errors.invalid(
                'weights', f'have shape [{size}, {size}]', f'shape {alpha.shape}'
            )
        factor = coefficients(ctx.links)
        trains = base.computes(ctx.links) & base.reached(ctx.links)
        cohort = cohorts.make_cohort((factor != 0) & trains)
        deltas, metrics = common.sum_deltas(
            local_train, ctx, problem, state.server, factor, cohort
        )
        server = tree.add_scaled(state.server, 1.0 / size, deltas)
        return ServerState(server), metrics._replace(
            num_computing=jnp.sum(trains, dtype=jnp.int32)
        )

    return common.of_server(round_step)
