r"""Says which theorems of the four papers cover a run, and how far each bound is from the run.

A theorem covers a run if all its assumptions hold.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from fedjax_links.analysis import _checks
from fedjax_links.analysis.theorems import (
    sun2025,
    theorem_run,
    wang2022,
    xiang2023,
    xiang2024,
)
from fedjax_links.analysis.theorems.problem_constants import ProblemConstants
from fedjax_links.analysis.theorems.theorem_run import TheoremRun


class Assumption(NamedTuple):
    """Describes an assumption of a theorem.

    Attributes:
      statement: what is assumed.
      holds: whether the assumption holds; None if this is not known.
      detail: the numbers on which this rests.
    """

    statement: str
    holds: bool | None
    detail: str


_Findings = tuple[tuple[Assumption, ...], float, float]
"""A theorem's assumptions, its rate cap and its bound, as in `TheoremCheck`."""


class TheoremCheck(NamedTuple):
    """Holds what a theorem says of a run.

    Attributes:
      theorem: name of the theorem.
      assumptions: the assumptions in the order of the checks; the condition on the rate is last.
      learning_rate: the rate of the run.
      rate_cap: the largest rate that the theorem covers; NaN if not known.
      bound: value of the printed formula for the run's numbers; NaN if not known. The value is a
        bound only if every assumption holds.
      realised: mean squared gradient norm of the run, as in `TheoremRun`; NaN if not known.
    """

    theorem: str
    assumptions: tuple[Assumption, ...]
    learning_rate: float
    rate_cap: float
    bound: float
    realised: float

    @property
    def covers(self) -> bool:
        """Returns whether every assumption is known to hold."""
        return all(assumption.holds is True for assumption in self.assumptions)

    @property
    def first_broken(self) -> Assumption | None:
        """Returns the first assumption that does not hold; None if none is known to be broken."""
        return next((each for each in self.assumptions if each.holds is False), None)

    @property
    def factor(self) -> float:
        """Returns the bound over the realised value; NaN if either is not known."""
        if math.isnan(self.bound) or math.isnan(self.realised):
            return math.nan
        return self.bound / self.realised if self.realised else math.inf

    def text(self) -> str:
        """Formats the check as lines of at most 80 columns."""
        verdict = 'covers this run' if self.covers else 'does not cover this run'
        lines = [f'{self.theorem}: {verdict}']
        for assumption in self.assumptions:
            mark = {True: 'yes', False: 'NO', None: '?'}[assumption.holds]
            lines.append(f'  {mark:<4}{assumption.statement}: {assumption.detail}')
        lines.append(
            f'  rate used {self.learning_rate:.3g}, largest {self.rate_cap:.3g}'
        )
        lines.append(
            f'  bound {self.bound:.3g}, realised {self.realised:.3g}, '
            f'factor {self.factor:.3g}'
        )
        return '\n'.join(line[:80] for line in lines)


def check_theorem(
    theorem: str, problem: ProblemConstants, run: TheoremRun
) -> TheoremCheck:
    """Checks a theorem's assumptions on a run and evaluates its bound.

    Args:
      theorem: a name. ``'xiang2023'`` and ``'xiang2024'`` are Theorem 1 of FedPBC's conference and
        journal version. ``'wang2022'`` is Theorem 3.1, ``'sun2025'`` is Theorem 4 with the
        constants of its proof. ``'sun2025_debiased'`` is Lemma 10, on which Theorem 3 rests, with
        debiasing weights at their limit.
      problem: constants of the problem, from
        `fedjax_links.analysis.theorems.problem_constants`.
      run: the run. The theorems average ``||grad F||^2`` over rounds: at the mean client model for
        FedPBC, and at the server model for FedAvg. ``'wang2022'`` averages over the starts of
        blocks, ``'sun2025'`` over all but the last tau rounds, tau from `sun2025.least_lag`.

    Returns:
      The check; ``text()`` is its form for reading.

    Raises:
      ValueError: for an unknown theorem, or a field of the run that is out of range.

    Example:
      >>> from fedjax_links import analysis
      >>> from fedjax_links.analysis.theorems import problem_constants
      >>> problem = problem_constants.quadratic_constants([0.0, 100.0])
      >>> run = analysis.TheoremRun(
      ...     0.02, 5, 200, realised=60.0, rounds_are_independent=True,
      ...     mixing_rate=analysis.mixing_rate([0.5, 0.3]),
      ... )
      >>> print(analysis.check_theorem('xiang2024', problem, run).text())
      xiang2024: does not cover this run
        yes L >= 1: L = 1
        yes gradient noise is bounded: sigma = 0
        yes rounds are independent: so that products of W contract
        yes rho < 1: rho = 0.85
        NO  rate at most the cap: 0.02 against 2.89e-06
        rate used 0.02, largest 2.89e-06
        bound 2.01e+05, realised 60, factor 3.35e+03
    """
    check = THEOREMS[_checks.checked_choice('theorem', theorem, THEOREMS)]
    _checks.checked_kind('problem', problem, ProblemConstants, 'a `ProblemConstants`')
    _checks.checked_kind('run', run, TheoremRun, 'a `TheoremRun`')
    theorem_run.check_fields(run)
    assumptions, cap, bound = check(problem, run)
    realised = math.nan if run.realised is None else run.realised
    return TheoremCheck(theorem, assumptions, run.learning_rate, cap, bound, realised)


def _check_xiang2023(problem: ProblemConstants, run: TheoremRun) -> _Findings:
    def bound_of(**arguments: Any) -> float:
        return xiang2023.theorem1_terms(
            num_clients=problem.num_clients, **arguments
        ).total

    cap, bound = _fedpbc_cap_and_bound(problem, run, xiang2023.step_size_cap, bound_of)
    stated = xiang2023.theorem1_learning_rate(
        run.num_rounds, num_clients=problem.num_clients, local_steps=run.local_steps
    )
    schedule = Assumption(
        'rate is sqrt(m / (s T))',
        math.isclose(run.learning_rate, stated, rel_tol=1e-6),
        f'{run.learning_rate:.3g} against {stated:.3g}',
    )
    assumptions = (
        _bounded_noise(problem),
        *_mixing_assumptions(run),
        schedule,
        _limit_of_lemma_5(problem, run),
        _rate(run.learning_rate, cap),
    )
    return assumptions, cap, bound


def _check_xiang2024(problem: ProblemConstants, run: TheoremRun) -> _Findings:
    bound_of = functools.partial(
        xiang2024.theorem1_bound, learning_rate=run.learning_rate
    )
    cap, bound = _fedpbc_cap_and_bound(problem, run, xiang2024.step_size_cap, bound_of)
    smoothness = problem.smoothness
    assumptions = (
        Assumption('L >= 1', smoothness >= 1, f'L = {smoothness:.4g}'),
        _bounded_noise(problem),
        *_mixing_assumptions(run),
        _rate(run.learning_rate, cap),
    )
    return assumptions, cap, bound


def _check_wang2022(problem: ProblemConstants, run: TheoremRun) -> _Findings:
    shared_arguments: dict[str, Any] = {
        'smoothness': problem.smoothness,
        'local_steps': run.local_steps,
        'period': run.period,
    }
    cap = wang2022.local_rate_cap(**shared_arguments)
    product = run.learning_rate * run.amplification
    largest_product = wang2022.rate_product_cap(**shared_arguments)
    empty = None if run.pattern is None else run.pattern.num_empty
    bound = math.nan
    if run.pattern is not None and math.isfinite(problem.noise):
        bound = wang2022.theorem31_terms(
            run.learning_rate,
            run.amplification,
            num_rounds=run.num_rounds,
            initial_gap=problem.initial_gap,
            block_deviation=run.pattern.block_deviation,
            round_deviation=run.pattern.round_deviation,
            round_divergence=run.pattern.round_divergence,
            largest_weight_square=run.pattern.largest_weight_square,
            noise=problem.noise,
            **shared_arguments,
        ).total
    assumptions = (
        _bounded_noise(problem),
        _bounded_differences(problem),
        Assumption(
            'no round is empty',
            None if empty is None else empty == 0,
            'not known' if empty is None else f'{empty} of {run.num_rounds} are',
        ),
        Assumption(
            'P <= T / 2',
            run.period <= run.num_rounds / 2,
            f'P = {run.period}, T = {run.num_rounds}',
        ),
        Assumption(
            'gamma eta at most 1 / (L I P)',
            product <= largest_product,
            f'{product:.3g} against {largest_product:.3g}',
        ),
        _rate(run.learning_rate, cap),
    )
    return assumptions, cap, bound


def _check_sun2025(
    problem: ProblemConstants, run: TheoremRun, *, is_debiased: bool
) -> _Findings:
    """Checks Theorem 4, or Lemma 10 with debiasing weights at their limit."""
    chain = run.chain
    lag = None if chain is None else sun2025.least_lag(chain)
    cap = math.nan
    bound = math.nan
    if chain is not None and lag is not None:
        weight = 1.0
        if is_debiased:
            # The weight is at least 1. Rounding may miss this if all clients are selected equally
            # often.
            least = chain.marginal.size * float(chain.marginal.min())
            weight = max(1.0, 1.0 / least)
        largest = sun2025.theorem4_scale_cap(
            smoothness=problem.smoothness, lag=lag, largest_weight=weight
        )
        unit = sun2025.theorem4_rate(
            1.0,
            smoothness=problem.smoothness,
            local_steps=run.local_steps,
            largest_weight=weight,
        )
        cap = largest * unit
        shared_arguments: dict[str, Any] = {
            'num_rounds': run.num_rounds,
            'lag': lag,
            'smoothness': problem.smoothness,
            'initial_gap': problem.initial_gap,
            'dissimilarity': problem.dissimilarity,
            'remembered': sun2025.remembered_selection(chain, lag),
        }
        scale = run.learning_rate / unit
        if run.num_rounds > lag and is_debiased:
            bound = sun2025.lemma10_terms(
                scale, largest_weight=weight, **shared_arguments
            ).total
        elif run.num_rounds > lag and run.largest_gradient is not None:
            bound = sun2025.theorem4_terms(
                scale,
                largest_gradient=run.largest_gradient,
                marginal=chain.marginal,
                **shared_arguments,
            ).total
    mixes = None if chain is None else lag is not None
    assumptions = (
        Assumption(
            'gradients are full', problem.noise == 0, f'sigma = {problem.noise:.4g}'
        ),
        _bounded_differences(problem),
        Assumption('the chain mixes', mixes, f'tau = {lag}'),
        Assumption(
            'T > tau',
            None if lag is None else run.num_rounds > lag,
            f'T = {run.num_rounds}',
        ),
        _rate(run.learning_rate, cap),
    )
    return assumptions, cap, bound


def _fedpbc_cap_and_bound(
    problem: ProblemConstants,
    run: TheoremRun,
    step_size_cap: Callable[..., float],
    bound_of: Callable[..., float],
) -> tuple[float, float]:
    """Returns the rate cap and the bound of a FedPBC theorem; NaN where they are not known."""
    if run.mixing_rate is None:
        return math.nan, math.nan
    arguments: dict[str, Any] = {
        'smoothness': problem.smoothness,
        'local_steps': run.local_steps,
        'mixing_rate': run.mixing_rate,
    }
    cap = step_size_cap(slope=problem.slope, **arguments)
    if not math.isfinite(problem.noise):
        return cap, math.nan
    bound = bound_of(
        num_rounds=run.num_rounds,
        initial_gap=problem.initial_gap,
        offset=problem.offset,
        noise=problem.noise,
        **arguments,
    )
    return cap, bound


def _bounded_differences(problem: ProblemConstants) -> Assumption:
    """Returns what Wang and Ji and Sun et al. assume of the clients' gradients."""
    return Assumption(
        'gradient differences are bounded',
        math.isfinite(problem.dissimilarity),
        f'G = {problem.dissimilarity:.4g}',
    )


def _bounded_noise(problem: ProblemConstants) -> Assumption:
    """Returns what the theorems assume of stochastic gradients."""
    return Assumption(
        'gradient noise is bounded',
        math.isfinite(problem.noise),
        f'sigma = {problem.noise:.4g}',
    )


def _mixing_assumptions(run: TheoremRun) -> tuple[Assumption, Assumption]:
    """Returns what both FedPBC theorems assume of the links."""
    rho = run.mixing_rate
    contracts = None if rho is None else rho < 1
    detail = 'rho is not known' if rho is None else f'rho = {rho:.4g}'
    reason = 'so that products of W contract'
    return (
        Assumption('rounds are independent', run.rounds_are_independent, reason),
        Assumption('rho < 1', contracts, detail),
    )


def _limit_of_lemma_5(problem: ProblemConstants, run: TheoremRun) -> Assumption:
    """Returns a condition that `xiang2023`'s proof needs and its theorem does not print."""
    rho = run.mixing_rate
    limit = math.nan if rho is None else math.inf
    if rho:
        work = problem.smoothness * float(run.local_steps) ** 2
        limit = (1.0 - math.sqrt(rho)) / (6.0 * math.sqrt(2.0 * rho) * work)
    return _rate(run.learning_rate, limit, 'rate at most the limit of Lemma 5')


def _rate(
    learning_rate: float, cap: float, statement: str = 'rate at most the cap'
) -> Assumption:
    """Returns a condition on the rate."""
    holds = None if math.isnan(cap) else learning_rate <= cap
    return Assumption(statement, holds, f'{learning_rate:.3g} against {cap:.3g}')


THEOREMS: dict[str, Callable[[ProblemConstants, TheoremRun], _Findings]] = {
    'xiang2023': _check_xiang2023,
    'xiang2024': _check_xiang2024,
    'wang2022': _check_wang2022,
    'sun2025': functools.partial(_check_sun2025, is_debiased=False),
    'sun2025_debiased': functools.partial(_check_sun2025, is_debiased=True),
}
