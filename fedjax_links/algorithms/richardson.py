"""Richardson-Romberg extrapolation over the local rate, around any rule.

References:
  Mangold et al. 2025, Refined analysis of constant step size federated averaging and federated
  Richardson-Romberg extrapolation.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

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
    """The rule's state, twice.

    Attributes:
      once: at the local rate g.
      twice: at 2 g.
    """

    once: PyTree
    twice: PyTree


@cite('mangold2025refined')
def richardson(make_algorithm: Callable[..., Algorithm]) -> Callable[..., Algorithm]:
    """Richardson-Romberg around a rule: it at local rates g and 2 g, candidates ``2 x_g - x_2g``.

    Both meet the same links and batches, start alike, and know nothing of each other. What the
    local rate does to the limit in first order cancels: under unequal curvature, the drift of
    several local steps.

    ::

      make = richardson(lambda learning_rate: fedavg(local_sgd(learning_rate, local_steps=5)))
      algorithm = make(0.05)

    Every client that trains does so twice. Metrics are those of the rule at g.

    Args:
      make_algorithm: ``learning_rate -> Algorithm``, further keywords as they come.

    Returns:
      The same of the extrapolated rule: a maker for `fedjax_links.sweep`, or to be called. It
      raises a ValueError for a rate that is not one positive number.

    References:
      Mangold et al. 2025, section 5.
    """

    def make(learning_rate: Number, **columns: Any) -> Algorithm:
        if callable(learning_rate):
            requirement = (
                'be one number (a schedule is made of it inside, by `make_algorithm`)'
            )
            raise errors.invalid(
                'learning_rate', requirement, contracts.kind_of(learning_rate)
            )
        checks.positive_number('learning_rate', learning_rate)
        rules = [make_algorithm(k * learning_rate, **columns) for k in (1, 2)]

        def init(params: Params, problem: Problem) -> RichardsonState:
            return RichardsonState(*(rule.init(params, problem) for rule in rules))

        def round_step(
            state: RichardsonState, ctx: RoundContext, problem: Problem
        ) -> Step[RichardsonState]:
            once, metrics = rules[0].round_step(state.once, ctx, problem)
            twice, _ = rules[1].round_step(state.twice, ctx, problem)
            return RichardsonState(once, twice), metrics

        def extrapolated(reader: str, state: RichardsonState) -> Any:
            found = [
                getattr(rule, reader)(kept)
                for rule, kept in zip(rules, state, strict=True)
            ]
            return jax.tree.map(lambda a, b: (2 * a - b).astype(a.dtype), *found)

        models, own = (
            functools.partial(extrapolated, k) for k in ('models', 'client_models')
        )
        keep_models = all(rule.client_models for rule in rules)
        return Algorithm(init, round_step, models, own if keep_models else None)

    return make
