"""Which theorems of the four papers cover a configured run, and how far their bounds are."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from fedjax_links import analysis, base
from fedjax_links.analysis import linear_models
from fedjax_links.analysis.theorems import (
    gradient_runs,
    mixing_rates,
    mixing_times,
    problem_constants,
    regularity,
    sun2025,
)
from fedjax_links.config import nested
from fedjax_links.core.records import Section
from fedjax_links.preview import configured_links
from fedjax_links.preview.configured_links import ConfiguredLinks
from fedjax_links.preview.links import chain
from fedjax_links.problems import classification, vectors

_MOST_ROUNDS = 200  # different rounds of changing probabilities, each O(N^3)
_BATCHES = 8
_PERIODS = (1, 10, 100, 1000)
_MOST_CELLS = 2**24  # of rounds and clients that are weighed
_MOST_GRADIENTS = 10**7  # of examples, in all rounds of a run
_AMPLIFIED = 'amplified_fedavg'


def text(links: ConfiguredLinks, record: base.MaskLinks) -> str:
    """Says with which P a pattern is regular, and which theorems cover the problem.

    Theorems are checked for quadratics and for linear models with an intercept.
    `gaussian_regression` has none, as no function of `analysis.linear_models` has such models.

    Args:
      links: a pattern of an experiment, at the first point of its grid.
      record: its links, leaves [T, ...]. For theorems, rounds beyond those of the experiment are
        left out.

    Returns:
      Lines of at most 80 columns. One line says why, where no theorem is checked.
    """
    lines = _regularity(np.asarray(base.participants(record)))
    reason = _unknown(links)
    if reason:
        lines.append(f'Theorems: not checked, {reason}.')
    else:
        lines += _checks(links, record)
    return '\n'.join(line[:80] for part in lines for line in part.splitlines())


class _Setting(NamedTuple):
    """What theorems ask of a configured problem, and its clients.

    Attributes:
      constants: of the problem.
      clients: with full gradients, at a local rate or at one rate per client.
      rate: the local rate.
      steps: local steps.
    """

    constants: problem_constants.ProblemConstants
    clients: Callable[[Any], gradient_runs.TrainedClients]
    rate: float
    steps: int


def _checks(links: ConfiguredLinks, record: base.MaskLinks) -> list[str]:
    """Checks the theorems on runs with full gradients along the recorded links."""
    experiment = links.experiment
    setting = _setting(links)
    active = np.asarray(base.participants(record))[: _num_rounds(links)]
    rho, source = _mixing_rate(links, record, active)
    run = analysis.TheoremRun(
        setting.rate,
        setting.steps,
        len(active),
        rounds_are_independent=_are_independent(links),
        mixing_rate=rho,
    )
    clients = setting.clients(setting.rate)
    squares = gradient_runs.fedpbc_gradient_squares(active, clients)
    fedpbc = run._replace(realised=float(squares.mean()))
    lines = [
        f'Theorems on {len(active):,} rounds of seed {experiment.seeds[0]}, full gradients',
        f'FedPBC, mean squared gradient norm at the mean client model ({source})',
    ]
    for theorem in ('xiang2023', 'xiang2024'):
        lines.append(analysis.check_theorem(theorem, setting.constants, fedpbc).text())
    period, amplification = _amplification(experiment.config or {})
    if period <= len(active):
        amplified = _amplified_run(
            run, setting.constants, active, clients, (period, amplification)
        )
        lines.append(
            f'FedAvg with P = {period}, eta = {amplification:g}: the same at block starts'
        )
        check = analysis.check_theorem('wang2022', setting.constants, amplified)
        lines.append(check.text())
    return lines + _separation_checks(links, setting, run, active)


def _separation_checks(
    links: ConfiguredLinks,
    setting: _Setting,
    run: analysis.TheoremRun,
    active: np.ndarray,
) -> list[str]:
    """Checks the theorems on a minimum separation whose chain is small."""
    chain = _separation_chain(links)
    if chain is None:
        return []
    lag = sun2025.least_lag(chain)
    lines = []
    for theorem in ('sun2025', 'sun2025_debiased'):
        rates: Any = setting.rate
        title = 'FedAvg: the same at the server model over the first T - tau rounds'
        if theorem == 'sun2025_debiased':
            rates = setting.rate / (chain.marginal.size * chain.marginal)
            if not _converges(links.problem, float(rates.max())):
                continue
            title = 'FedAvg with debiasing weights 1 / (N pi) from the start: the same'
        squares = gradient_runs.amplified_fedavg_gradient_squares(
            active, setting.clients(rates)
        )
        counted = squares[: len(squares) - (lag or 0)]
        realised = float(counted.mean()) if counted.size else None
        checked = run._replace(
            chain=chain,
            realised=realised,
            largest_gradient=float(np.sqrt(squares.max())),
        )
        lines.append(title)
        check = analysis.check_theorem(theorem, setting.constants, checked)
        lines.append(check.text())
    return lines


def _separation_chain(
    links: ConfiguredLinks,
) -> analysis.MinimumSeparationChain | None:
    """Enumerates the chain of clients that are drawn one by one; None for other links."""
    bound = configured_links.links_at(links.experiment, links.label)
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


def _setting(links: ConfiguredLinks) -> _Setting:
    """Returns constants and clients of a quadratic or a linear model."""
    problem = links.problem
    client = (links.experiment.config or {})['client']
    rate = float(client['learning_rate'])
    steps = int(client['local_steps'])
    key = jax.random.key(links.experiment.seeds[0])
    initial = jax.device_get(problem.init_params(key))
    if problem.objective is not None:
        return _linear_setting(problem, problem.objective, initial, client)
    points, curves = _quadratic(problem)
    start = np.asarray(initial, np.float64)
    constants = problem_constants.quadratic_constants(
        points, curves, initial_point=start
    )

    def clients(rates: Any) -> gradient_runs.TrainedClients:
        return gradient_runs.quadratic_clients(
            points, rates, steps, curvatures=curves, initial_point=start
        )

    return _Setting(constants, clients, rate, steps)


def _linear_setting(
    problem: base.Problem,
    objective: base.LinearObjective,
    initial: base.Params,
    client: Section,
) -> _Setting:
    """Returns constants and clients of a linear model, minibatches included in sigma."""
    inputs, labels = map(np.asarray, objective.inputs(problem.data))
    parts = map(np.asarray, objective.coefficients(initial))
    start = analysis.LinearModel(*parts)
    options: dict[str, Any] = {'loss': objective.loss, 'l2': objective.l2}
    if objective.loss == linear_models.SOFTMAX:
        options['num_classes'] = start.intercept.size
    rate = float(client['learning_rate'])
    steps = int(client['local_steps'])
    data = inputs, labels, classification.owners(problem)
    batch_size = client.get('batch_size') or 0  # None and 0 are a client's full data.
    constants = problem_constants.linear_model_constants(
        *data, start=start, batch_size=int(batch_size), **options
    )

    def clients(rates: Any) -> gradient_runs.TrainedClients:
        return gradient_runs.linear_clients(*data, rates, steps, start=start, **options)

    return _Setting(constants, clients, rate, steps)


def _quadratic(problem: base.Problem) -> tuple[np.ndarray, np.ndarray]:
    """Returns targets float64[N, d] and one curvature per client."""
    if isinstance(problem.data, vectors.CurvedTargets):
        points, table = (np.asarray(part, np.float64) for part in problem.data)
        return points, table[:, 0]
    points = np.asarray(problem.data, np.float64)
    return points, np.ones(len(points))


def _num_rounds(links: ConfiguredLinks) -> int:
    """Returns how many rounds the runs take, fewer for linear models with much data."""
    num_rounds = links.experiment.num_rounds
    if links.problem.objective is None:
        return num_rounds
    steps = int((links.experiment.config or {})['client']['local_steps'])
    examples = int(np.sum(np.asarray(links.problem.counts)))
    return max(2, min(num_rounds, _MOST_GRADIENTS // (examples * steps)))


def _regularity(active: np.ndarray) -> list[str]:
    """Says with which P the recorded pattern is regular, or how close it comes."""
    if active.size > _MOST_CELLS:
        return []
    weights = regularity.participation_weights(active)
    regular = regularity.regular_period(weights)
    known = 'no P up to half of the rounds' if regular is None else f'P = {regular}'
    lines = [
        f'Regular (all weights equal over every P rounds) with: {known}',
        '  L1 distance of the weights of P rounds from equal, mean over blocks',
    ]
    for period in _PERIODS:
        if 2 * period <= len(active):
            found = regularity.block_distances(weights, period)
            mean = found.mean
            error = found.standard_error
            lines.append(f'    P = {period:<6} {mean:.4g}, standard error {error:.2g}')
    return lines


def _unknown(links: ConfiguredLinks) -> str:
    """Says why the constants that theorems need are not known; empty if they are."""
    problem = links.problem
    if not _has_constants(problem):
        return (
            'their constants are known for quadratics and\n'
            'for linear models with an intercept only'
        )
    client: Section = (links.experiment.config or {}).get('client', {})
    if not isinstance(client.get('learning_rate'), int | float):
        return '`config.client.learning_rate` is no number'
    if not isinstance(client.get('local_steps'), int):
        return '`config.client.local_steps` is no number'
    if not _converges(problem, client['learning_rate']):
        return 'the local steps diverge'
    if client.get('decay', 'constant') != 'constant':
        return 'the learning rate changes over rounds'
    return ''


def _has_constants(problem: base.Problem) -> bool:
    """Tells whether a problem is a linear model, or quadratics of one curvature per client."""
    if problem.random_loss_fn is not None:
        return False
    if problem.objective is not None:
        return True
    if isinstance(problem.data, vectors.CurvedTargets):
        table = np.asarray(problem.data.curvature)
        return bool(np.all(table == table[:, :1]))
    is_matrix = hasattr(problem.data, 'ndim') and problem.data.ndim == 2
    return is_matrix and problem.max_examples == 1


def _converges(problem: base.Problem, learning_rate: float) -> bool:
    """Tells whether local steps on quadratics come closer to their targets."""
    if problem.objective is not None:
        return learning_rate > 0
    _, curves = _quadratic(problem)
    return 0 < learning_rate * curves.max() < 2


def _are_independent(links: ConfiguredLinks) -> bool | None:
    """Whether rounds are independent of each other; None where nothing says so."""
    if links.law.memoryless or links.name == 'bernoulli':
        return True
    return None if chain(links.law) is None else False


def _mixing_rate(
    links: ConfiguredLinks, record: base.MaskLinks, active: np.ndarray
) -> tuple[float, str]:
    """Returns rho of FedPBC's mixing and how it is known."""
    if links.law.probs is not None:
        return analysis.mixing_rate(links.law.probs), 'rho exact'
    if links.name == 'bernoulli':
        by_round = np.unique(np.asarray(record.prob, np.float64), axis=0)
        if len(by_round) <= _MOST_ROUNDS and np.isfinite(by_round).all():
            return mixing_rates.worst_mixing_rate(by_round), 'rho exact, worst round'
    batches = [_estimated_rate(rows) for rows in np.array_split(active, _BATCHES)]
    error = float(np.std(batches, ddof=1) / np.sqrt(_BATCHES))
    return _estimated_rate(active), f'rho estimated, standard error {error:.1g}'


def _estimated_rate(active: np.ndarray) -> float:
    """Estimates lambda_2(E[W]) from recorded rounds."""
    weights = regularity.participation_weights(active)
    mean = weights.T @ active / len(active) + np.diag(1.0 - active.mean(axis=0))
    values = np.linalg.eigvalsh(mean)
    return float(np.clip(values[-2], 0.0, 1.0)) if values.size > 1 else 0.0


def _amplification(config: Section) -> tuple[int, float]:
    """Returns P and eta of the config's first amplified FedAvg; 1 and 1 without one."""
    for label, value in config.get('algorithms', {}).items():
        section = nested.section(value)
        if section.get('name', label) != _AMPLIFIED:
            continue
        period = section.get('period', 1)
        factor = section.get('amplification', 1.0)
        if isinstance(period, int) and isinstance(factor, int | float):
            return period, float(factor)
    return 1, 1.0


def _amplified_run(
    run: analysis.TheoremRun,
    constants: problem_constants.ProblemConstants,
    active: np.ndarray,
    clients: gradient_runs.TrainedClients,
    amplification: tuple[int, float],
) -> analysis.TheoremRun:
    """Runs amplified FedAvg along the links and measures the pattern."""
    period, factor = amplification
    squares = gradient_runs.amplified_fedavg_gradient_squares(
        active, clients, period=period, amplification=factor
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
        amplification=factor,
        pattern=pattern,
    )
