"""Checks which theorems of four papers cover a configured run, and compares bounds with the run."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from fedjax_links import analysis, base
from fedjax_links.analysis import linear_models
from fedjax_links.analysis.theorems import (
    gradient_runs,
    mixing_times,
    problem_constants,
    regularity,
    sun2025,
)
from fedjax_links.core.records import Section
from fedjax_links.preview import configured_links, covered_runs, mixing
from fedjax_links.preview.configured_links import ConfiguredLinks
from fedjax_links.preview.links import transition_probs
from fedjax_links.problems import classification, vectors

_PERIODS = (1, 10, 100, 1000)
_MAX_CELLS = 2**24
"""Largest number of rounds times clients whose regularity is checked; a choice."""
_MAX_GRADIENTS = 10**7
"""Largest number of gradients of examples in all rounds of a run; a choice."""
_WIDTH = 80
_AMPLIFIED = 'amplified_fedavg'
_COVERED = ('fedavg', 'fedpbc', 'debiased_fedavg', _AMPLIFIED)
"""Algorithms that the theorems are about."""


def text(links: ConfiguredLinks, record: base.MaskLinks) -> str:
    """Says with which period a pattern is regular, and which theorems cover the problem.

    Theorems are checked for quadratics and for linear models with an intercept. For
    `gaussian_regression` no theorem is checked, as its model has no intercept.

    Args:
      links: a pattern of an experiment, at the first point of its grid.
      record: the links of the pattern, leaves [T, ...]. For theorems, rounds after the experiment's
        last round are left out.

    Returns:
      Lines of at most 80 columns. If no theorem is checked, one line says why.
    """
    texts = _regularity_lines(np.asarray(base.participants(record)))
    reason = _reason_unchecked(links)
    if reason:
        texts.append(f'Theorems: not checked, {reason}.')
    else:
        texts += _theorem_lines(links, record)
    lines = '\n'.join(texts).splitlines()
    return '\n'.join(line[:_WIDTH] for line in lines)


class _Setting(NamedTuple):
    """Holds the constants of a configured problem, and its clients.

    Attributes:
      constants: the constants that theorems need.
      clients: ``rates -> clients`` that take full gradients, for one local rate or one per client.
    """

    constants: problem_constants.ProblemConstants
    clients: Callable[[Any], gradient_runs.TrainedClients]


class _Amplification(NamedTuple):
    """Holds the options of an amplified FedAvg.

    Attributes:
      period: P, rounds of a block.
      factor: eta, by which a block's update is multiplied.
      start_round: rounds before the first block.
    """

    period: int = 1
    factor: float = 1.0
    start_round: int = 0


def _theorem_lines(links: ConfiguredLinks, record: base.MaskLinks) -> list[str]:
    """Checks the theorems on runs with full gradients along the recorded links."""
    seed = links.experiment.seeds[0]
    config = covered_runs.config_at_first_point(links)
    client = config['client']
    rate = float(client['learning_rate'])
    steps = int(client['local_steps'])
    batch_size = client.get('batch_size') or 0  # None and 0 are a client's full data.
    setting = _setting(links, steps, int(batch_size))
    active = np.asarray(base.participants(record))[: _num_rounds(links, steps)]
    run = analysis.TheoremRun(
        rate,
        steps,
        len(active),
        rounds_are_independent=_rounds_are_independent(links),
    )
    clients = setting.clients(rate)
    lines = [
        f'Theorems on {len(active):,} rounds of seed {seed}, full gradients',
        *_gossip_lines(links, record, setting, run, active),
    ]
    amplification = _amplification(config)
    if amplification.start_round:
        lines.append('FedAvg with amplification: not checked, its blocks start late')
    elif amplification.period <= len(active):
        amplified = _amplified_run(
            run, setting.constants, active, clients, amplification
        )
        lines.append(
            f'FedAvg with P = {amplification.period}, eta = {amplification.factor:g}: '
            'the same at block starts'
        )
        check = analysis.check_theorem('wang2022', setting.constants, amplified)
        lines.append(check.text())
    return lines + _separation_lines(links, setting, run, active)


def _gossip_lines(
    links: ConfiguredLinks,
    record: base.MaskLinks,
    setting: _Setting,
    run: analysis.TheoremRun,
    active: np.ndarray,
) -> list[str]:
    """Checks the theorems on FedPBC, whose clients all train in every round."""
    reason = _reason_gossip_is_unchecked(links)
    if reason:
        return [f'FedPBC: not checked, {reason}']
    mixing_rate, source = mixing.rate(links, record, active)
    squares = gradient_runs.fedpbc_gradient_squares(
        active, setting.clients(run.learning_rate)
    )
    realised = run._replace(mixing_rate=mixing_rate, realised=float(squares.mean()))
    lines = [
        'FedPBC, mean squared gradient norm at the mean client model',
        f'  {source}',
    ]
    for theorem in ('xiang2023', 'xiang2024'):
        check = analysis.check_theorem(theorem, setting.constants, realised)
        lines.append(check.text())
    return lines


def _separation_lines(
    links: ConfiguredLinks,
    setting: _Setting,
    run: analysis.TheoremRun,
    active: np.ndarray,
) -> list[str]:
    """Checks the theorems on patterns of minimum separation whose chain is small."""
    chain = _separation_chain(links)
    if chain is None:
        return []
    lag = sun2025.least_lag(chain) or 0
    debiased_rates = run.learning_rate / (chain.marginal.size * chain.marginal)

    def check(theorem: str, rates: Any) -> str:
        squares = gradient_runs.amplified_fedavg_gradient_squares(
            active, setting.clients(rates)
        )
        counted = squares[: len(squares) - lag]
        realised = run._replace(
            chain=chain,
            realised=float(counted.mean()) if counted.size else None,
            largest_gradient=float(np.sqrt(squares.max())),
        )
        return analysis.check_theorem(theorem, setting.constants, realised).text()

    lines = [
        'FedAvg: the same at the server model over the first T - tau rounds',
        check('sun2025', run.learning_rate),
    ]
    if _converges(links.problem, float(debiased_rates.max())):
        lines += [
            'FedAvg with debiasing weights 1 / (N pi) from the start: the same',
            check('sun2025_debiased', debiased_rates),
        ]
    return lines


def _separation_chain(
    links: ConfiguredLinks,
) -> analysis.MinimumSeparationChain | None:
    """Enumerates the chain of a minimum separation; None for other patterns, or too many states.

    The theorems are on clients that are selected one by one, without groups.
    """
    bound = configured_links.bound_links(links.experiment, links.label)
    if bound is None or bound.name != 'minimum_separation':
        return None
    options = dict(bound.options)
    separation = np.asarray(options['separation'])
    weights = np.asarray(options['weights'], np.float64)
    is_single = options.get('cohort_size', 1) == 1 and options.get('groups') is None
    if not is_single or separation.ndim != 0 or weights.min() <= 0:
        return None
    states = math.perm(weights.size, int(separation))
    if states > mixing_times.MAX_STATES:
        return None
    return analysis.minimum_separation_chain(weights, int(separation))


def _setting(links: ConfiguredLinks, steps: int, batch_size: int) -> _Setting:
    """Returns constants and clients of a quadratic or a linear model."""
    problem = links.problem
    key = jax.random.key(links.experiment.seeds[0])
    initial = jax.device_get(problem.init_params(key))
    if problem.objective is not None:
        return _linear_setting(problem, problem.objective, initial, steps, batch_size)
    losses = vectors.quadratics_of(problem)
    assert losses is not None  # `_reason_unchecked` has left out all other problems.
    curvatures = losses.curvature[:, 0]
    start = np.asarray(initial, np.float64)
    constants = problem_constants.quadratic_constants(
        losses.targets, curvatures, initial_point=start
    )

    def clients(rates: Any) -> gradient_runs.TrainedClients:
        return gradient_runs.quadratic_clients(
            losses.targets, rates, steps, curvatures=curvatures, initial_point=start
        )

    return _Setting(constants, clients)


def _linear_setting(
    problem: base.Problem,
    objective: base.LinearObjective,
    initial: base.Params,
    steps: int,
    batch_size: int,
) -> _Setting:
    """Returns constants and clients of a linear model, minibatches included in sigma."""
    inputs, labels = map(np.asarray, objective.inputs(problem.data))
    coefficients, intercept = map(np.asarray, objective.coefficients(initial))
    start = analysis.LinearModel(coefficients, intercept)
    options: dict[str, Any] = {'loss': objective.loss, 'l2': objective.l2}
    if objective.loss == linear_models.SOFTMAX:
        options['num_classes'] = start.intercept.size
    data = inputs, labels, classification.owners(problem)
    constants = problem_constants.linear_model_constants(
        *data, start=start, batch_size=batch_size, **options
    )

    def clients(rates: Any) -> gradient_runs.TrainedClients:
        return gradient_runs.linear_clients(*data, rates, steps, start=start, **options)

    return _Setting(constants, clients)


def _num_rounds(links: ConfiguredLinks, steps: int) -> int:
    """Returns how many rounds the runs take, fewer for linear models with much data."""
    num_rounds = links.experiment.num_rounds
    if links.problem.objective is None:
        return num_rounds
    examples = int(np.sum(np.asarray(links.problem.counts)))
    return max(2, min(num_rounds, _MAX_GRADIENTS // (examples * steps)))


def _regularity_lines(active: np.ndarray) -> list[str]:
    """Says with which period P the recorded pattern is regular, or how close it comes."""
    if active.size > _MAX_CELLS:
        return []
    weights = regularity.participation_weights(active)
    regular_period = regularity.regular_period(weights)
    period_text = f'P = {regular_period}'
    if regular_period is None:
        period_text = 'no P up to half the rounds'
    lines = [
        f'Regular (all weights equal over every P rounds) with: {period_text}',
        '  L1 distance of the weights of P rounds from equal, mean over blocks',
    ]
    for period in _PERIODS:
        if 2 * period <= len(active):
            distances = regularity.block_distances(weights, period)
            lines.append(
                f'    P = {period:<6} {distances.mean:.4g}, '
                f'standard error {distances.standard_error:.2g}'
            )
    return lines


def _reason_unchecked(links: ConfiguredLinks) -> str:
    """Says why the constants that theorems need are not known; empty if they are."""
    problem = links.problem
    if not _has_constants(problem):
        return (
            'their constants are known for quadratics and\n'
            'for linear models with an intercept only'
        )
    config = covered_runs.config_at_first_point(links)
    client: Section = config.get('client', {})
    other_label = covered_runs.label_with_other_client(config, *_COVERED)
    if other_label is not None:
        return f'`config.algorithms.{other_label}.client` differs from\n`config.client`'
    if covered_runs.weighs_by_examples(links, *_COVERED):
        return 'clients weigh by their examples'
    if not isinstance(client.get('learning_rate'), int | float):
        return '`config.client.learning_rate` is no number'
    if not isinstance(client.get('local_steps'), int):
        return '`config.client.local_steps` is no number'
    if not client.keys().isdisjoint({'client_steps', 'min_steps'}):
        return 'clients differ in their local steps'
    other_options = client.keys() - configured_links.PLAIN_SGD_OPTIONS
    if other_options:
        return f'steps with `config.client.{min(other_options)}` are not plain SGD'
    if not _converges(problem, client['learning_rate']):
        return 'the local steps diverge'
    if client.get('decay', 'constant') != 'constant':
        return 'the learning rate changes over rounds'
    return ''


def _reason_gossip_is_unchecked(links: ConfiguredLinks) -> str:
    """Says why the theorems do not cover the config's FedPBC; empty if they do."""
    config = covered_runs.config_at_first_point(links)
    for label, section in covered_runs.sections_of(config, 'fedpbc'):
        if section.get('server_lr', 1) != 1:
            return f'{label} has a server rate'
    return covered_runs.reason_client_mean_is_biased(links)


def _has_constants(problem: base.Problem) -> bool:
    """Returns whether a problem is a linear model, or quadratics of one curvature per client."""
    if problem.random_loss_fn is not None:
        return False
    if problem.objective is not None:
        return True
    losses = vectors.quadratics_of(problem)
    return losses is not None and not np.ptp(losses.curvature, axis=1).any()


def _converges(problem: base.Problem, learning_rate: float) -> bool:
    """Returns whether local steps on quadratics come closer to their targets."""
    if problem.objective is not None:
        return learning_rate > 0
    losses = vectors.quadratics_of(problem)
    return losses is not None and 0 < learning_rate * losses.curvature.max() < 2


def _rounds_are_independent(links: ConfiguredLinks) -> bool | None:
    """Returns whether rounds are independent of each other; None if that is not known."""
    if links.law.memoryless or links.name == 'bernoulli':
        return True
    has_memory = transition_probs(links.law) is not None
    return False if has_memory else None


def _amplification(config: Section) -> _Amplification:
    """Returns the options of the config's first amplified FedAvg; P and eta 1 without one."""
    for _, section in covered_runs.sections_of(config, _AMPLIFIED):
        period = section.get('period', 1)
        factor = section.get('amplification', 1.0)
        if isinstance(period, int) and isinstance(factor, int | float):
            start_round = section.get('start_round', 0)
            return _Amplification(period, float(factor), start_round)
    return _Amplification()


def _amplified_run(
    run: analysis.TheoremRun,
    constants: problem_constants.ProblemConstants,
    active: np.ndarray,
    clients: gradient_runs.TrainedClients,
    amplification: _Amplification,
) -> analysis.TheoremRun:
    """Adds what Wang and Ji's theorem needs: gradients of amplified FedAvg, and the pattern."""
    period = amplification.period
    squares = gradient_runs.amplified_fedavg_gradient_squares(
        active, clients, period=period, amplification=amplification.factor
    )
    weights = regularity.participation_weights(active)
    pattern = None
    if constants.gradient_differences is not None:
        pattern = regularity.pattern_constants(
            weights, constants.gradient_differences, period
        )
    elif math.isfinite(constants.dissimilarity):
        pattern = regularity.pattern_bounds(weights, constants.dissimilarity, period)
    return run._replace(
        realised=float(squares[::period].mean()),
        period=period,
        amplification=amplification.factor,
        pattern=pattern,
    )
