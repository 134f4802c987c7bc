"""A candidate model drawn uniformly from all server models so far, around any algorithm.

The symbols are those of `fedjax_links.algorithms`.

References:
  Sun et al. 2025, Algorithm 1, line 12.
"""

from collections.abc import Mapping
from typing import NamedTuple

import jax

from fedjax_links.base import Algorithm, Params, Problem, PyTree, RoundContext, Step
from fedjax_links.core import contracts, prng, tree
from fedjax_links.core.references import cite

_STREAM = 0x554E  # keeps the draw apart from what the algorithm draws at the server


class UniformIterateState(NamedTuple):
    """Holds the state of the algorithm and the model that was drawn.

    Attributes:
      algorithm: the state of the algorithm.
      iterate: one of x_0, ..., x_{t-1}, each equally likely; x_0 before the first round.
    """

    algorithm: PyTree
    iterate: Params


@cite('sun2025debiasing')
def uniform_iterate(algorithm: Algorithm) -> Algorithm:
    """Adds the candidate model ``uniform_iterate``, drawn uniformly from the server models.

    Theorems about non-convex problems bound ``(1 / T) sum_t E ||grad F(x_t)||^2`` over t = 0 to
    T - 1. This sum is ``E ||grad F(x~_T)||^2`` for an x~_T drawn uniformly from x_0, ..., x_{T-1}.
    Sun et al. return x~_T. `evaluation.with_gradient_norm` measures this norm.

    The draw needs no memory of the past: round t replaces the drawn model by x_t with probability
    ``1 / (t + 1)``. Evaluations of one run are dependent, as a draw stays for many rounds.

    Link semantics: those of the wrapped algorithm, whose models and metrics stay the same, bit for
    bit.

    Memory: one model more.

    Args:
      algorithm: any algorithm.

    Returns:
      The algorithm; models: those of the wrapped algorithm, and ``uniform_iterate``.

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import algorithms, local_training, participation, problems
      >>> problem = problems.quadratic([[0.0], [1.0]])
      >>> client = local_training.local_sgd(0.1, local_steps=2)
      >>> algorithm = algorithms.uniform_iterate(algorithms.fedavg(client))
      >>> links = participation.bernoulli([0.9, 0.3])
      >>> result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=9)
      >>> print(sorted(algorithm.models(result.state.algorithm)))
      ['server', 'uniform_iterate']

    References:
      Sun et al. 2025, Algorithm 1, line 12; Vitter 1985 for the draw.
    """
    contracts.check_algorithm(algorithm)

    def init(params: Params, problem: Problem) -> UniformIterateState:
        return UniformIterateState(algorithm.init(params, problem), params)

    def round_step(
        state: UniformIterateState, ctx: RoundContext, problem: Problem
    ) -> Step[UniformIterateState]:
        start = contracts.server_of(algorithm.models(state.algorithm))
        new_state, metrics = algorithm.round_step(state.algorithm, ctx, problem)

        # x_t is one of t + 1 models that are equally likely.
        draw = prng.uniform(jax.random.fold_in(ctx.server_key, _STREAM))
        is_replaced = draw * (ctx.round + 1) < 1
        iterate = tree.select(is_replaced, start, state.iterate)
        return UniformIterateState(new_state, iterate), metrics

    def models(state: UniformIterateState) -> Mapping[str, Params]:
        models_of_state = algorithm.models(state.algorithm)
        return {**models_of_state, 'uniform_iterate': state.iterate}

    get_client_models = algorithm.client_models
    if get_client_models is None:
        return Algorithm(init, round_step, models)

    def client_models(state: UniformIterateState) -> Params:
        return get_client_models(state.algorithm)

    return Algorithm(init, round_step, models, client_models)
