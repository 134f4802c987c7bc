"""Richardson-Romberg extrapolation over the local rate, around any algorithm.

The symbols are those of `fedjax_links.algorithms`.

References:
  Mangold et al. 2025, Refined analysis of constant step size federated averaging and federated
  Richardson-Romberg extrapolation.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax

from fedjax_links.base import (
    Algorithm,
    Number,
    Params,
    Problem,
    PyTree,
    RoundContext,
    Step,
)
from fedjax_links.core import checks, contracts, errors
from fedjax_links.core.references import cite


class RichardsonState(NamedTuple):
    """Holds the states of the algorithm at two local rates.

    Attributes:
      once: the algorithm's state at the local rate g.
      twice: the algorithm's state at the local rate 2 g.
    """

    once: PyTree
    twice: PyTree


@cite('mangold2025refined')
def richardson(make_algorithm: Callable[..., Algorithm]) -> Callable[..., Algorithm]:
    """Wraps an algorithm in Richardson-Romberg extrapolation over its local rate.

    The algorithm runs at local rates g and 2 g, and the candidate models are ``2 x_g - x_{2 g}``.
    Both runs use the same links, batches and initial model, and are otherwise independent. The
    first-order effect of the local rate on the limit cancels. Under unequal curvature this effect
    is the drift of several local steps.

    The metrics come from the run at g.

    Link semantics: those of the wrapped algorithm. Each client that trains does so at both rates.

    Memory: twice the memory of the wrapped algorithm.

    Args:
      make_algorithm: ``learning_rate -> Algorithm``, which may take further keywords.

    Returns:
      The function ``learning_rate -> Algorithm`` with extrapolation, to call or to pass to
      `fedjax_links.sweep`. The function passes further keywords on unchanged, and raises a
      ValueError for a rate that is not one positive number.

    Raises:
      ValueError: if ``make_algorithm`` is no function.

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import algorithms, local_training, participation, problems
      >>> # The optimum is 0.75, and FedAvg ends at 0.71.
      >>> problem = problems.quadratic([[0.0], [1.0]], curvature=[1.0, 3.0])
      >>> links = participation.always(2)
      >>> def make(learning_rate):
      ...     client = local_training.local_sgd(learning_rate, local_steps=5)
      ...     return algorithms.fedavg(client)
      >>> algorithm = algorithms.richardson(make)(0.05)
      >>> result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=100)
      >>> print(round(float(algorithm.models(result.state.algorithm)['server'][0]), 2))
      0.75

    References:
      Mangold et al. 2025, section 5.
    """
    checks.function('make_algorithm', make_algorithm)

    def make(learning_rate: Number, **columns: object) -> Algorithm:
        if callable(learning_rate):
            requirement = (
                'be one number (a schedule is made of it inside, by `make_algorithm`)'
            )
            raise errors.invalid(
                'learning_rate', requirement, contracts.kind_of(learning_rate)
            )
        checks.positive_number('learning_rate', learning_rate)
        algorithm_once = make_algorithm(learning_rate, **columns)
        algorithm_twice = make_algorithm(2 * learning_rate, **columns)
        contracts.check_algorithm(algorithm_once)

        def init(params: Params, problem: Problem) -> RichardsonState:
            return RichardsonState(
                once=algorithm_once.init(params, problem),
                twice=algorithm_twice.init(params, problem),
            )

        def round_step(
            state: RichardsonState, ctx: RoundContext, problem: Problem
        ) -> Step[RichardsonState]:
            once, metrics = algorithm_once.round_step(state.once, ctx, problem)
            twice, _ = algorithm_twice.round_step(state.twice, ctx, problem)
            return RichardsonState(once, twice), metrics

        def models(state: RichardsonState) -> Mapping[str, Params]:
            models_once = algorithm_once.models(state.once)
            models_twice = algorithm_twice.models(state.twice)
            extrapolated: Mapping[str, Params] = _extrapolate(models_once, models_twice)
            return extrapolated

        get_models_once = algorithm_once.client_models
        get_models_twice = algorithm_twice.client_models
        if get_models_once is None or get_models_twice is None:
            return Algorithm(init, round_step, models)

        def client_models(state: RichardsonState) -> Params:
            models_once = get_models_once(state.once)
            models_twice = get_models_twice(state.twice)
            return _extrapolate(models_once, models_twice)

        return Algorithm(init, round_step, models, client_models)

    return make


def _extrapolate(once: PyTree, twice: PyTree) -> PyTree:
    """Returns ``2 x_g - x_{2 g}`` for all leaves."""
    return jax.tree.map(lambda a, b: (2 * a - b).astype(a.dtype), once, twice)
