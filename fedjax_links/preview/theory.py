"""Describes what configured links do to FedAvg and to gossip, exactly where theory is exact."""

import textwrap
from typing import Any

import numpy as np

from fedjax_links import analysis, base, evaluation
from fedjax_links.analysis.independent_links import batch_means
from fedjax_links.core import reprs
from fedjax_links.experiment import Experiment
from fedjax_links.participation.link_laws import LinkLaw
from fedjax_links.preview import (
    configured_links,
    covered_runs,
    exact_limits,
    predicted_lines,
    prediction,
    weighted_limits,
)
from fedjax_links.preview.links import stated_rates, transition_probs
from fedjax_links.problems import vectors
from fedjax_links.problems.classification import partition_of

_QUANTILES = {'least': 0.0, '25 %': 0.25, 'median': 0.5, '75 %': 0.75, 'most': 1.0}
_MAX_LISTED_LABELS = 10
_MAX_MATRIX_CLIENTS = 1500
"""Most clients for which the eigenvalues of the mixing matrix are computed, in O(N^3)."""
_MAX_NEIGHBOURS = 1000
"""Most neighbours, over all clients, for which the contraction by edges is computed."""
_FEW_PATTERNS = 4
"""So many patterns each get a full budget of predictions; more patterns share these budgets."""
_WIDTH = 80
_INDENT = ' ' * 9


def summary(experiment: Experiment) -> str:
    """Says what the links of an experiment do to FedAvg, in a line or two per pattern.

    Where known, the lines give the clients' rates, and how far FedAvg's implicit weights are from
    equal. For linear models of moderate size they predict the final metrics of FedAvg and FedPBC.
    For quadratics they give the exact limits of all algorithms.

    Args:
      experiment: made from a config.
    """
    lines = []
    budget = prediction.QUICK.divided(max(1, len(experiment.patterns) / _FEW_PATTERNS))
    for label in experiment.patterns:
        links = configured_links.from_experiment(experiment, label)
        description = f'{label}: {links.name}, {links.law.description}'
        lines += _links_lines(links, description)
        rates = links.law.rates
        if rates is not None:
            lines.append(f'{_INDENT}rates {_range(rates, 3)}, mean {rates.mean():.3g}')
        weights = links.law.weights
        if weights is not None:
            bias = np.abs(weights - 1 / weights.size).sum()
            lines[-1] += (
                f"; FedAvg's implicit weights are {bias:.2f} from equal (L1, exact)"
            )
        predictions = predicted_lines.describe(links, budget)
        lines += [f'{_INDENT}{line}' for line in predictions]
        weighted = weighted_limits.weighted_algorithms(links, budget)
        if weighted:
            names = ', '.join(weighted)
            lines.append(f'{_INDENT}`theory` says what memory does to {names}')
        quick_work = exact_limits.QUICK_WORK / len(experiment.patterns)
        limit_lines = exact_limits.describe(links, quick_work)
        lines += [f'{_INDENT}{line}' for line in limit_lines]
    return '\n'.join(lines)


def text(links: configured_links.ConfiguredLinks, record: base.MaskLinks) -> str:
    """Writes the screen of the command ``theory``.

    The screen shows the memory of links, rates, FedAvg's implicit weights and bias, gossip, what is
    special to the pattern, and the participation report of the record.

    Args:
      links: a pattern of an experiment.
      record: the same links, simulated with the first seed, leaves [T, ...].

    Returns:
      Lines of at most 80 columns.
    """
    law = links.law
    active = np.asarray(base.participants(record))
    weights: analysis.EffectiveWeights | None = None
    if law.weights is not None:
        weights = analysis.effective_weights(selection_law=law.weights)
    elif active.any():
        weights = analysis.effective_weights(masks=active)
    lines = _opening_lines(links)
    if base.is_duplex(record):
        lines.append(
            f'{_INDENT}taking part = receiving the broadcast, training and delivering'
        )
    headings = ''.join(f'{name:>10}' for name in (*_QUANTILES, 'mean'))
    lines.append(f'{"Rates per client":<20}{headings}')
    name, rates = stated_rates(law, record)
    if rates is not None:
        lines.append(_quantiles_row(name, rates))
    lines.append(_quantiles_row('realised', active.mean(axis=0)))
    if weights is None:
        lines.append(
            f'Implicit weights: no client takes part in {len(active):,} rounds'
        )
    else:
        lines += _weights_lines(law, weights, len(active))
        lines += _bias_lines(links, weights, active)
    for line in predicted_lines.describe(links, prediction.LONG):
        lines += textwrap.wrap(f'  {line}', _WIDTH, subsequent_indent=' ' * 4)
    lines += weighted_limits.describe(links, prediction.LONG)
    lines += exact_limits.describe(links)
    lines += _gossip_lines(law)
    lines += _separation_lines(law)
    first_seed = links.experiment.seeds[0]
    lines.append(f'As simulated ({len(active):,} rounds of seed {first_seed})')
    report = analysis.participation_report(active).text().splitlines()
    return '\n'.join([*lines, *(f'  {line}' for line in report)])


def _opening_lines(links: configured_links.ConfiguredLinks) -> list[str]:
    """Writes the title, the problem, the links and their memory."""
    law = links.law
    description = f'{links.name}: {law.description}'
    if links.of_several:
        description = f'{links.of_several}: {links.name}, {law.description}'
    opening = [
        *_problem_lines(links),
        *_links_lines(links, description),
        f'memory   {_memory(law, links.participation.cycle)}',
    ]
    lines = [links.experiment.title[:_WIDTH]]
    for line in opening:
        lines += textwrap.wrap(line, _WIDTH, subsequent_indent=_INDENT)
    return lines


def _problem_lines(links: configured_links.ConfiguredLinks) -> list[str]:
    """Names the problem, and the metrics of its best model if these are known."""
    config = links.experiment.config
    assert config is not None  # `from_experiment` takes only what a config made.
    name = config['problem']['name']
    lines = [f'problem  {name}: {links.problem.num_clients:,} clients']
    attainable = evaluation.attainable_text(links.problem)
    if attainable:
        lines.append(f"best     {attainable} (the population's best model, exact)")
    return lines


def _memory(law: LinkLaw, cycle: int | None) -> str:
    """Says for how many rounds a link's state is correlated with its past.

    Args:
      law: the exact law of the links.
      cycle: rounds after which the links repeat; None if they do not.
    """
    if cycle is not None and cycle > 1:
        return f'links repeat every {cycle:,} rounds'
    if law.memoryless:
        return 'none: rounds are independent'
    probs = transition_probs(law)
    if probs is None:
        return 'not known'
    rise, fall = probs
    changes = rise + fall
    # The correlation of one round with the next decays geometrically over rounds. A negative
    # correlation, of links that change in most rounds, counts as no memory: below one round.
    correlation = 1 - changes
    decay = -1 / np.log(np.clip(correlation, 1e-300, 1 - 1e-16))
    times = np.where(correlation >= 1, np.inf, decay)
    stationary_rates = rise / np.where(changes > 0, changes, 1)
    if not stationary_rates.any():
        return 'none: no client ever takes part'
    median = _weighted_median(times, stationary_rates)
    typical = 'less than a round' if median < 1 else f'{median:.3g} rounds'
    least = _time_text(times.min())
    most = _time_text(times.max())
    if least == most:
        return f'{typical} (every client)'
    return f'{typical} (median participation), clients: {reprs.span(least, most)}'


def _time_text(num_rounds: float) -> str:
    """Writes a number of rounds: ``12.3`` or ``below 1``."""
    return 'below 1' if num_rounds < 1 else f'{num_rounds:.3g}'


def _weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    """Returns the value at which half of the weight is reached."""
    order = np.argsort(values)
    cumulative = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(cumulative, cumulative[-1] / 2)])


def _links_lines(
    links: configured_links.ConfiguredLinks, description: str
) -> list[str]:
    """Names a pattern, and the grid point for which all following lines hold."""
    lines = [f'links    {description}']
    if links.grid_point:
        lines.append(f'{_INDENT}at {links.grid_point}')
    return lines


def _weights_lines(
    law: LinkLaw, weights: analysis.EffectiveWeights, num_rounds: int
) -> list[str]:
    """Describes FedAvg's implicit weights."""
    num_clients = weights.weights.size
    source = f'estimated, {num_rounds:,} rounds'
    if weights.exact:
        source = f'exact: {law.weights_source}'
    lines = [
        f'Implicit weights E[1{{i in A}}/|A| | A nonempty], {source}',
        _quantiles_row('weight x N', weights.weights * num_clients),
    ]
    noise = ''
    if not weights.exact:
        errors = weights.standard_errors
        lines.append(_quantiles_row('standard error x N', errors * num_clients))
        noise = _noise_text(errors)
    distance = _number(np.abs(weights.weights - 1 / num_clients).sum())
    num_effective = 1 / np.sum(weights.weights**2)
    effective = f'effective clients {num_effective:.4g} of {num_clients}'
    return [*lines, f'  L1 from uniform {distance}{noise}, {effective}']


def _bias_lines(
    links: configured_links.ConfiguredLinks,
    weights: analysis.EffectiveWeights,
    active: np.ndarray,
) -> list[str]:
    """Describes FedAvg's bias: in labels, or on quadratics of one curvature."""
    class_mix = partition_of(links.problem).class_mix
    losses = vectors.quadratics_of(links.problem)
    if not class_mix.size and (losses is None or np.ptp(losses.curvature)):
        return []
    reason = covered_runs.reason_unpredicted(links)
    if reason:
        text = f"FedAvg's bias: not known, {reason}"
        return textwrap.wrap(text, _WIDTH, subsequent_indent='  ')
    if class_mix.size:
        return _label_bias_lines(class_mix, weights, active)
    assert losses is not None
    return _quadratic_bias_lines(links.law, losses.targets, weights, active)


def _label_bias_lines(
    class_mix: np.ndarray, weights: analysis.EffectiveWeights, active: np.ndarray
) -> list[str]:
    """Compares the labels that FedAvg trains on with the labels of all clients."""
    mean_mix = class_mix.mean(axis=0)
    implicit_mix = weights.weights @ class_mix
    lines = [
        "FedAvg's bias: the label mix that it trains on, against the clients' mean mix"
    ]
    if mean_mix.size <= _MAX_LISTED_LABELS:
        labels = ''.join(f'{label:>6}' for label in range(mean_mix.size))
        lines.append(f'  {"label":<18}{labels}')
        for name, mix in (('mean of clients', mean_mix), ('FedAvg', implicit_mix)):
            portions = ''.join(f'{portion:>6.3f}' for portion in mix)
            lines.append(f'  {name:<18}{portions}')
    noise = ''
    if not weights.exact:
        _, standard_errors = batch_means(active, values=class_mix)
        noise = _noise_text(0.5 * standard_errors)
    distance = 0.5 * np.abs(implicit_mix - mean_mix).sum()
    return [*lines, f'  total variation {distance:.4g}{noise}']


def _quadratic_bias_lines(
    law: LinkLaw,
    targets: np.ndarray,
    weights: analysis.EffectiveWeights,
    active: np.ndarray,
) -> list[str]:
    """Says how far FedAvg ends from the optimum, and for which steps that is exact."""
    # FedAvg converges to the weighted mean of the targets, and the optimum is their mean.
    distance = np.linalg.norm(weights.weights @ targets - targets.mean(axis=0))
    bias = f"FedAvg's bias ||E x - x*|| = {_number(float(distance), 6)}"
    if not weights.exact:
        _, standard_errors = batch_means(active, values=targets)
        noise = np.linalg.norm(standard_errors)
        return [f'{bias}, estimated (noise alone: {noise:.2g})']
    if law.memoryless or law.never_empty:
        return [f'{bias}, exact for every step size']
    lines = [f'{bias}, exact for small steps']
    if law.probs is not None:
        empty = np.prod(1 - law.probs)
        lines.append(f'  larger steps: empty rounds change it, {empty:.2g} of all')
    return lines


def _gossip_lines(law: LinkLaw) -> list[str]:
    """Says how fast gossip contracts."""
    if law.probs is None or not 2 <= law.probs.size <= _MAX_MATRIX_CLIENTS:
        return []
    if law.is_duplex:  # Who averages models is not who takes part.
        return []
    gap = 1 - analysis.mixing_rate(law.probs)
    bound = 1 - analysis.mixing_rate_bound(law.probs)
    lines = [
        f'Gossip: 1 - lambda_2(E[W]) = {gap:.4g}, exact; published lower bound {bound:.2g}'
    ]
    if law.edges is not None and law.edges[0].size <= _MAX_NEIGHBOURS:
        gap = 1 - analysis.semi_decentralised_rate(law.probs, *law.edges)
        lines.append(
            f'  with links between clients: 1 - lambda_2(E[M W M]) = {gap:.4g}, exact'
        )
    return lines


def _separation_lines(law: LinkLaw) -> list[str]:
    """Says how often each client or group is selected under a minimum separation."""
    if law.separation is None:
        return []
    portions = law.separation.law[law.separation.law > 0]
    size = law.separation.group_size
    unit = 'clients' if size is None else f'groups of {size}'
    distance = _number(np.abs(portions - 1 / portions.size).sum())
    scale = _range(analysis.debiasing_weights(portions))
    return [
        f'pi_R over {portions.size} {unit}: {_range(portions)}, L1 from uniform {distance}',
        f'  debiasing weights 1/(M pi_R): {scale}; {law.weights_source}',
    ]


def _quantiles_row(label: str, values: Any) -> str:
    """Writes quantiles and the mean over clients of float[N], NaN left out."""
    known = np.asarray(values, np.float64)
    known = known[~np.isnan(known)]
    cells = [*np.quantile(known, [*_QUANTILES.values()]), known.mean()]
    columns = ''.join(f'{cell:>10.4g}' for cell in cells)
    return f'  {label:<18}{columns}'


def _range(values: np.ndarray, digits: int = 4) -> str:
    """Writes the least and the largest value."""
    return reprs.span(f'{values.min():.{digits}g}', f'{values.max():.{digits}g}')


def _noise_text(standard_errors: np.ndarray) -> str:
    """Writes the distance expected from noise alone: the expected L1 norm of normal errors."""
    expected_norm = np.sqrt(2 / np.pi) * standard_errors.sum()
    return f' (noise alone: {expected_norm:.2g})'


def _number(value: float, digits: int = 4) -> str:
    """Writes a number; rounding errors of float64 are printed as zero."""
    return '0' if abs(value) < 1e-12 else f'{value:.{digits}g}'
