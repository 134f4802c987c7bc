"""Which theorems of the four papers cover a configured run, and how far their bounds are."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from fedjax_links import analysis, base
from fedjax_links.analysis.theorems import (
    mixing_rates,
    problem_constants,
    quadratic_runs,
    regularity,
)
from fedjax_links.core.records import Section
from fedjax_links.preview.configured_links import ConfiguredLinks
from fedjax_links.preview.links import chain

_MOST_ROUNDS = 200  # different rounds of changing probabilities, each O(N^3)
_BATCHES = 8
_PERIODS = (1, 10, 100, 1000)
_MOST_CELLS = 2**24  # of rounds and clients that are weighed
_AMPLIFIED = 'amplified_fedavg'


def text(links: ConfiguredLinks, record: base.MaskLinks) -> str:
    """Says with which P a pattern is regular, and which theorems cover a quadratic problem.

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


def _checks(links: ConfiguredLinks, record: base.MaskLinks) -> list[str]:
    """Checks the theorems on runs of a quadratic problem along the recorded links."""
    experiment = links.experiment
    config = experiment.config or {}
    client = config['client']
    targets = np.asarray(links.problem.data, np.float64)
    start = np.asarray(links.problem.init_params(jax.random.key(0)), np.float64)
    active = np.asarray(base.participants(record))[: experiment.num_rounds]
    constants = problem_constants.quadratic_constants(targets, initial_point=start)
    rho, source = _mixing_rate(links, record, active)
    run = analysis.TheoremRun(
        float(client['learning_rate']),
        int(client['local_steps']),
        len(active),
        rounds_are_independent=_are_independent(links),
        mixing_rate=rho,
    )
    squares = quadratic_runs.fedpbc_gradient_squares(
        active, targets, run.learning_rate, run.local_steps, initial_point=start
    )
    fedpbc = run._replace(realised=float(squares.mean()))
    lines = [
        f'Theorems on {len(active):,} rounds of seed {experiment.seeds[0]}',
        f'FedPBC, mean squared gradient norm at the mean client model ({source})',
    ]
    for theorem in ('xiang2023', 'xiang2024'):
        lines.append(analysis.check_theorem(theorem, constants, fedpbc).text())
    period, amplification = _amplification(config)
    if period <= len(active):
        amplified = _amplified_run(
            run, constants, active, targets, start, (period, amplification)
        )
        lines.append(
            f'FedAvg with P = {period}, eta = {amplification:g}: the same at block starts'
        )
        lines.append(analysis.check_theorem('wang2022', constants, amplified).text())
    return lines


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
            mean, error = found.mean, found.standard_error
            lines.append(f'    P = {period:<6} {mean:.4g}, standard error {error:.2g}')
    return lines


def _unknown(links: ConfiguredLinks) -> str:
    """Says why the constants that theorems need are not known; empty if they are."""
    problem = links.problem
    data = problem.data
    is_matrix = hasattr(data, 'ndim') and data.ndim == 2
    if not is_matrix or problem.max_examples != 1 or problem.random_loss_fn is not None:
        return 'their constants are known for `quadratic` problems only'
    client: Mapping[str, Any] = (links.experiment.config or {}).get('client', {})
    if not isinstance(client.get('learning_rate'), int | float):
        return '`config.client.learning_rate` is no number'
    if not isinstance(client.get('local_steps'), int):
        return '`config.client.local_steps` is no number'
    if not 0 < client['learning_rate'] < 2:
        return 'the local steps diverge'
    if client.get('decay', 'constant') != 'constant':
        return 'the learning rate changes over rounds'
    return ''


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
    """Returns P and eta of the config's amplified FedAvg; 1 and 1 without one."""
    section = config.get('algorithms', {}).get(_AMPLIFIED, {})
    period, factor = section.get('period', 1), section.get('amplification', 1.0)
    are_numbers = isinstance(period, int) and isinstance(factor, int | float)
    return (period, float(factor)) if are_numbers else (1, 1.0)


def _amplified_run(
    run: analysis.TheoremRun,
    constants: problem_constants.ProblemConstants,
    active: np.ndarray,
    targets: np.ndarray,
    start: np.ndarray,
    amplification: tuple[int, float],
) -> analysis.TheoremRun:
    """Runs amplified FedAvg along the links and measures the pattern."""
    period, factor = amplification
    squares = quadratic_runs.amplified_fedavg_gradient_squares(
        active,
        targets,
        run.learning_rate,
        run.local_steps,
        period=period,
        amplification=factor,
        initial_point=start,
    )
    weights = regularity.participation_weights(active)
    assert constants.gradient_differences is not None
    pattern = regularity.pattern_constants(
        weights, constants.gradient_differences, period
    )
    return run._replace(
        realised=float(squares[::period].mean()),
        period=period,
        amplification=factor,
        pattern=pattern,
    )
