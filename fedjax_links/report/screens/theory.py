"""What configured links do to FedAvg and to gossip, exact where known, as one screen of text."""

from typing import Any

import numpy as np

from fedjax_links import analysis, evaluation
from fedjax_links.base import Problem
from fedjax_links.core import describing
from fedjax_links.experiment import Experiment
from fedjax_links.participation.laws import LinkLaw, SeparationLaw
from fedjax_links.report.screens import configured, deciding
from fedjax_links.report.screens import prediction as expected
from fedjax_links.report.screens.configured import ConfiguredLinks
from fedjax_links.report.screens.recording import LinkRecord

_QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
_NAMES = ('least', '25 %', 'median', '75 %', 'most', 'mean')
_NUM_BATCHES = 32
_MAX_LISTED_LABELS = 10
_MAX_MATRIX_CLIENTS = 1500
_ENOUGH_EVENTS = 25
_FEW_PATTERNS = 4  # whose problems may be as large as they may be at all


def prediction(experiment: Experiment) -> str:
    """What the links of an experiment do to FedAvg, a line or two per pattern.

    Args:
      experiment: made from a config.

    Returns:
      Who takes part how often, and how far FedAvg's implicit weights are from equal, where known;
      what FedAvg and FedPBC are expected to end at, for linear models of moderate size.
    """
    lines = []
    most_work = expected.MOST_WORK * min(1, _FEW_PATTERNS / len(experiment.patterns))
    for label in experiment.patterns:
        links = configured.of_experiment(experiment, label)
        lines += _described(links, f'{label}: {links.name}, {links.law.description}')
        rates, weights = links.law.rates, links.law.weights
        if rates is not None:
            lines.append(f'         rates {_range(rates, 3)}, mean {rates.mean():.3g}')
        if weights is not None:
            bias = np.abs(weights - 1 / weights.size).sum()
            lines[-1] += f"; FedAvg's implicit weights are {bias:.2f} from equal (L1, exact)"
        lines += [f'         {line}' for line in expected.of_links(links, most_work=most_work)]
    return '\n'.join(lines)


def text(links: ConfiguredLinks, record: LinkRecord) -> str:
    """The screen.

    Args:
      links: the links of a config.
      record: the same, simulated.

    Returns:
      Lines of at most 80 columns: rates, effective weights, FedAvg's bias, gossip, what is special
      to the pattern, what decides which algorithm to take, and the participation report of the
      record.
    """
    law = links.law
    active = record.participates
    weights = _effective_weights(law, active)
    blocks = [
        _header(links, record),
        _rates(law, record),
        _weights(law, weights, active),
        _bias(links.problem, law, weights, active),
        [f'  {line}' for line in expected.of_links(links, active)],
        _gossip(law, active),
        _separation(law.separation),
        _memory(law),
        deciding.lines(links, record),
        [f'As simulated ({len(active):,} rounds of seed {record.seed})']
        + ['  ' + line for line in analysis.participation_report(active).text().splitlines()],
    ]
    return '\n'.join(line for block in blocks for line in block)


def _header(links: ConfiguredLinks, record: LinkRecord) -> list[str]:
    known = evaluation.attainable_text(links.problem)
    lines = [
        links.title,
        f'problem  {links.problem_name}: {links.problem.num_clients:,} clients',
        *([f"best     {known} (the population's best model, exact)"[:80]] if known else []),
        *(line[:80] for line in _described(links, f'{links.name}: {links.law.description}')),
    ]
    if record.duplex:
        lines.append('         taking part = hearing the server, training and delivering')
    return lines


def _described(links: ConfiguredLinks, text: str) -> list[str]:
    """A pattern, and at which point of the grid all that follows holds."""
    where = [f'         at {links.where}'] if links.where else []
    return [f'links    {text}', *where]


def _rates(law: LinkLaw, record: LinkRecord) -> list[str]:
    realised = record.participates.mean(axis=0)
    nominal = record.nominal_rates
    lines = [f'{"Rates per client":<20}' + ''.join(f'{name:>10}' for name in _NAMES)]
    if law.rates is not None:
        lines.append(_row('exact', law.rates))
    elif not np.isnan(nominal).all():
        lines.append(_row('nominal', nominal))
    lines.append(_row('realised', realised))
    if law.up_rate is not None and law.down_rate is not None and law.rates is not None:
        lines.extend(_deviation(law.rates, law.up_rate, law.down_rate, realised, record.num_rounds))
    return lines


def _deviation(
    rates: np.ndarray, up: np.ndarray, down: np.ndarray, realised: np.ndarray, num_rounds: int
) -> list[str]:
    """How far the realised rates are from the exact ones, in standard errors."""
    from scipy import stats

    memory = np.where(up + down > 0, 2 / np.where(up + down > 0, up + down, 1) - 1, np.inf)
    variance = rates * (1 - rates) * memory / num_rounds
    # Independent stretches, up and down, decide whether the normal law is any good.
    counted = (variance > 0) & (num_rounds * rates * np.minimum(down, 1 - rates) > _ENOUGH_EVENTS)
    if not counted.any():
        return []
    z = np.abs(realised - rates)[counted] / np.sqrt(variance[counted])
    usual = stats.norm.isf((1 - 0.95 ** (1 / counted.sum())) / 2)
    return [
        f'  {"furthest off":<18}{z.max():>10.2f} standard errors; 95 % of runs stay below '
        f'{usual:.2f}'
    ]


def _effective_weights(law: LinkLaw, active: np.ndarray) -> analysis.EffectiveWeights:
    if law.weights is not None:
        return analysis.EffectiveWeights(law.weights, np.zeros(law.weights.size), True, np.inf)
    return analysis.effective_weights(masks=active, num_batches=_NUM_BATCHES)


def _weights(law: LinkLaw, found: analysis.EffectiveWeights, active: np.ndarray) -> list[str]:
    num_clients = found.weights.size
    uniform = 1 / num_clients
    distance = np.abs(found.weights - uniform).sum()
    source = f'exact: {law.weights_source}' if found.exact else f'estimated, {len(active):,} rounds'
    lines = [
        f'Effective weights E[1{{i in A}}/|A| | A nonempty], {source}',
        _row('weight x N', found.weights * num_clients),
    ]
    if not found.exact:
        lines.append(_row('standard error x N', found.standard_errors * num_clients))
    effective = 1 / np.sum(found.weights**2)
    line = f'  L1 from uniform {_number(distance)}'
    if not found.exact:
        # The expected L1 norm of the errors: what equal weights would seem to be off.
        noise = np.sqrt(2 / np.pi) * found.standard_errors.sum()
        line += f' (noise alone: {noise:.2g})'
    return [*lines, f'{line}, effective clients {effective:.4g} of {num_clients}']


def _bias(
    problem: Problem, law: LinkLaw, found: analysis.EffectiveWeights, active: np.ndarray
) -> list[str]:
    data = problem.data
    labels = getattr(data, 'labels', None)
    if labels is not None and np.issubdtype(np.asarray(labels).dtype, np.integer):
        return _label_bias(_label_shares(problem, np.asarray(labels)), found, active)
    if not (hasattr(data, 'ndim') and data.ndim == 2 and problem.max_examples == 1):
        return []
    targets = np.asarray(data, np.float64)
    bias = found.weights @ targets - targets.mean(axis=0)
    line = f"FedAvg's bias ||E x - x*|| = {_number(np.linalg.norm(bias), 6)}"
    if not found.exact:
        noise = np.linalg.norm(_standard_errors(active, targets))
        return [f'{line}, estimated (noise alone: {noise:.2g})']
    if law.memoryless or law.never_empty:
        return [f'{line}, exact for every step size']
    if law.probs is None:
        return [f'{line}, exact for small steps']
    return [f'{line}, exact but for empty rounds ({np.prod(1 - law.probs):.2g})']


def _label_shares(problem: Problem, labels: np.ndarray) -> np.ndarray:
    """float64[N, C], the share of each label in each client's data."""
    owners = np.repeat(np.arange(problem.num_clients), np.asarray(problem.counts))
    table = np.zeros((problem.num_clients, int(labels.max()) + 1))
    np.add.at(table, (owners, labels), 1.0)
    return table / table.sum(axis=1, keepdims=True)


def _label_bias(
    shares: np.ndarray, found: analysis.EffectiveWeights, active: np.ndarray
) -> list[str]:
    wanted, implicit = shares.mean(axis=0), found.weights @ shares
    lines = ["FedAvg's bias: the label mix that it trains on, against the clients' mean mix"]
    if shares.shape[1] <= _MAX_LISTED_LABELS:
        labels = range(shares.shape[1])
        lines += [
            f'  {"label":<18}' + ''.join(f'{label:>6}' for label in labels),
            f'  {"mean of clients":<18}' + ''.join(f'{share:>6.3f}' for share in wanted),
            f'  {"FedAvg":<18}' + ''.join(f'{share:>6.3f}' for share in implicit),
        ]
    variation = 0.5 * np.abs(implicit - wanted).sum()
    line = f'  total variation {variation:.4g}'
    if not found.exact:
        noise = np.sqrt(2 / np.pi) * 0.5 * _standard_errors(active, shares).sum()
        line += f' (noise alone: {noise:.2g})'
    return [*lines, line]


def _standard_errors(active: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Of ``sum_i w_i v_i`` with weights estimated from a record, float64[d], by batch means."""
    sizes = active.sum(axis=1)
    means = np.where(sizes > 0, 1 / np.maximum(sizes, 1), 0.0)[:, None] * (active @ values)
    batches = np.array_split(np.arange(len(active)), _NUM_BATCHES)
    sums = np.array([means[rows].sum(axis=0) for rows in batches])
    counts = np.array([(sizes[rows] > 0).sum() for rows in batches], np.float64)[:, None]
    residuals = sums - counts * sums.sum(axis=0) / counts.sum()
    spread = np.sum(residuals**2, axis=0) * _NUM_BATCHES / (_NUM_BATCHES - 1)
    return np.sqrt(spread) / counts.sum()


def _gossip(law: LinkLaw, active: np.ndarray) -> list[str]:
    num_clients = active.shape[1]
    if num_clients > _MAX_MATRIX_CLIENTS or num_clients < 2:
        return []
    if law.probs is not None:
        rho, bound = analysis.mixing_rate(law.probs), analysis.mixing_rate_bound(law.probs)
        return [
            f'Gossip: 1 - lambda_2(E[W]) = {1 - rho:.4g}, exact; published lower bound '
            f'{1 - bound:.2g}'
        ]
    shares = active / np.maximum(active.sum(axis=1, keepdims=True), 1)
    matrix = shares.T @ active / len(active) + np.diag(1 - active.mean(axis=0))
    rho = np.linalg.eigvalsh(matrix)[-2]
    if rho > 1 - 1e-9:
        return ['Gossip: 1 - lambda_2(E[W]) = 0, there are clients that never meet']
    return [f'Gossip: 1 - lambda_2(E[W]) = {1 - rho:.4g}, estimated (noise makes it smaller)']


def _separation(law: SeparationLaw | None) -> list[str]:
    if law is None:
        return []
    shares = law.law[law.law > 0]
    unit = 'clients' if law.group_size is None else f'groups of {law.group_size}'
    distance = np.abs(shares - 1 / shares.size).sum()
    scale = analysis.debiasing_weights(shares)
    return [
        f'pi_R over {shares.size} {unit}: {_range(shares)}, L1 from uniform {_number(distance)}',
        f'  debiasing weights 1/(M pi_R): {_range(scale)}; {law.source}',
    ]


def _memory(law: LinkLaw) -> list[str]:
    if law.up_rate is None or law.down_rate is None or law.rates is None or law.memoryless:
        return []
    up, down = law.up_rate, law.down_rate
    moving = (up + down > 0) & (law.rates > 0) & (law.rates < 1)
    if not moving.any():
        return []
    lines = [f'{"Markov links":<20}' + ''.join(f'{name:>10}' for name in _NAMES)]
    lines.append(_row('stationary P(up)', analysis.markov_stationary(up[moving], down[moving])))
    lines += [
        _row(f'autocorr. lag {lag}', analysis.markov_autocorrelation(up[moving], down[moving], lag))
        for lag in (1, 10)
    ]
    return lines


def _row(label: str, values: Any) -> str:
    values = np.asarray(values, np.float64)
    known = values[~np.isnan(values)]
    cells = [*np.quantile(known, _QUANTILES), known.mean()] if known.size else [np.nan] * 6
    return f'  {label:<18}' + ''.join(f'{cell:>10.4g}' for cell in cells)


def _range(values: np.ndarray, digits: int = 4) -> str:
    return describing.span(f'{values.min():.{digits}g}', f'{values.max():.{digits}g}')


def _number(value: Any, digits: int = 4) -> str:
    """Digits that mean something: rounding errors of float64 are printed as zero."""
    return '0' if abs(value) < 1e-12 else f'{value:.{digits}g}'
