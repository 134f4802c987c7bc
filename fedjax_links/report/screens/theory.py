"""What configured links do to FedAvg and to gossip, exact where known, as one screen of text."""

from typing import Any

import numpy as np

from fedjax_links import analysis, evaluation
from fedjax_links.analysis import EffectiveWeights
from fedjax_links.base import Problem
from fedjax_links.core import describing
from fedjax_links.experiment import Experiment
from fedjax_links.participation.laws import LinkLaw, SeparationLaw
from fedjax_links.report.screens import configured, partitions, recording
from fedjax_links.report.screens import prediction as expected

_QUANTILES = {'least': 0.0, '25 %': 0.25, 'median': 0.5, '75 %': 0.75, 'most': 1.0}
_MAX_LISTED_LABELS = 10
_MAX_MATRIX_CLIENTS, _MAX_NEIGHBOURS = 1500, 1000
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


def text(links: configured.ConfiguredLinks, record: recording.LinkRecord) -> str:
    """The screen.

    Args:
      links: a pattern of an experiment.
      record: the same, simulated.

    Returns:
      Lines of at most 80 columns: for how long links remember, rates, effective weights, FedAvg's
      bias, gossip, what is special to the pattern, and the participation report of the record.
    """
    law, active = links.law, record.participates
    if law.weights is None:
        weights = analysis.effective_weights(masks=active)
    else:
        weights = EffectiveWeights(law.weights, np.zeros(law.weights.size), True, np.inf)
    blocks = [
        _header(links, record),
        _rates(law, record),
        _weights(law, weights, active),
        _bias(links.problem, law, weights, active),
        [f'  {line}' for line in expected.of_links(links)],
        _gossip(law),
        _separation(law.separation, law.weights_source),
        [f'As simulated ({len(active):,} rounds of seed {record.seed})']
        + ['  ' + line for line in analysis.participation_report(active).text().splitlines()],
    ]
    return '\n'.join(line for block in blocks for line in block)


def _header(links: configured.ConfiguredLinks, record: recording.LinkRecord) -> list[str]:
    known = evaluation.attainable_text(links.problem)
    name = (links.experiment.config or {})['problem']['name']
    lines = [f'problem  {name}: {links.problem.num_clients:,} clients']
    lines += [f"best     {known} (the population's best model, exact)"] if known else []
    lines += _described(links, f'{links.name}: {links.law.description}')
    lines.append(f'memory   {_memory(links.law, links.participation.cycle)}')
    if record.duplex:
        lines.append('         taking part = hearing the server, training and delivering')
    return [links.experiment.title, *(line[:80] for line in lines)]


def _memory(law: LinkLaw, cycle: int | None) -> str:
    """For how long links are as they were."""
    if cycle is not None and cycle > 1:
        return f'links repeat every {cycle:,} rounds'
    if law.memoryless:
        return 'none: rounds are independent'
    if (rates := recording.chain(law)) is None:
        return 'not known'
    kept = 1 - sum(rates)  # the correlation of a round with the next
    scales = np.where(kept >= 1, np.inf, -1 / np.log(np.clip(kept, 1e-300, 1 - 1e-16)))
    scale = float(np.median(scales))
    return 'less than a round' if scale < 1 else f'{scale:.3g} rounds (median client)'


def _described(links: configured.ConfiguredLinks, text: str) -> list[str]:
    """A pattern, and at which point of the grid all that follows holds."""
    where = [f'         at {links.where}'] if links.where else []
    return [f'links    {text}', *where]


def _rates(law: LinkLaw, record: recording.LinkRecord) -> list[str]:
    name, stated = recording.stated_rates(law, record)
    lines = [_heading('Rates per client')]
    if stated is not None:
        lines.append(_row(name, stated))
    return [*lines, _row('realised', record.participates.mean(axis=0))]


def _weights(law: LinkLaw, found: EffectiveWeights, active: np.ndarray) -> list[str]:
    num_clients = found.weights.size
    source = f'exact: {law.weights_source}' if found.exact else f'estimated, {len(active):,} rounds'
    lines = [
        f'Effective weights E[1{{i in A}}/|A| | A nonempty], {source}',
        _row('weight x N', found.weights * num_clients),
    ]
    noise = ''
    if not found.exact:
        lines.append(_row('standard error x N', found.standard_errors * num_clients))
        # The expected L1 norm of the errors: what equal weights would seem to be off.
        noise = _noise(np.sqrt(2 / np.pi) * found.standard_errors.sum())
    distance = _number(np.abs(found.weights - 1 / num_clients).sum())
    effective = f'effective clients {1 / np.sum(found.weights**2):.4g} of {num_clients}'
    return [*lines, f'  L1 from uniform {distance}{noise}, {effective}']


def _bias(problem: Problem, law: LinkLaw, found: EffectiveWeights, active: np.ndarray) -> list[str]:
    shares = partitions.of_problem(problem).class_mix
    if shares.size:
        return _label_bias(shares, found, active)
    data = problem.data
    if not (hasattr(data, 'ndim') and data.ndim == 2 and problem.max_examples == 1):
        return []
    targets = np.asarray(data, np.float64)
    bias = found.weights @ targets - targets.mean(axis=0)
    line = f"FedAvg's bias ||E x - x*|| = {_number(np.linalg.norm(bias), 6)}"
    if not found.exact:
        off = np.linalg.norm(recording.standard_errors(active, targets))
        return [f'{line}, estimated{_noise(off)}']
    if law.memoryless or law.never_empty:
        return [f'{line}, exact for every step size']
    if law.probs is None:
        return [f'{line}, exact for small steps']
    return [f'{line}, exact but for empty rounds ({np.prod(1 - law.probs):.2g})']


def _label_bias(shares: np.ndarray, found: EffectiveWeights, active: np.ndarray) -> list[str]:
    wanted, implicit = shares.mean(axis=0), found.weights @ shares
    lines = ["FedAvg's bias: the label mix that it trains on, against the clients' mean mix"]
    if shares.shape[1] <= _MAX_LISTED_LABELS:
        lines.append(f'  {"label":<18}' + ''.join(f'{label:>6}' for label in range(wanted.size)))
        for name, mix in (('mean of clients', wanted), ('FedAvg', implicit)):
            lines.append(f'  {name:<18}' + ''.join(f'{share:>6.3f}' for share in mix))
    line = f'  total variation {0.5 * np.abs(implicit - wanted).sum():.4g}'
    if not found.exact:
        line += _noise(np.sqrt(2 / np.pi) * 0.5 * recording.standard_errors(active, shares).sum())
    return [*lines, line]


def _gossip(law: LinkLaw) -> list[str]:
    if law.probs is None or not 2 <= law.probs.size <= _MAX_MATRIX_CLIENTS:
        return []
    rate, bound = analysis.mixing_rate(law.probs), analysis.mixing_rate_bound(law.probs)
    known = f'{1 - rate:.4g}, exact; published lower bound {1 - bound:.2g}'
    lines = [f'Gossip: 1 - lambda_2(E[W]) = {known}']
    if law.edges is not None and law.edges[0].size <= _MAX_NEIGHBOURS:
        gap = 1 - analysis.semi_decentralised_rate(law.probs, *law.edges)
        lines.append(f'  with links between clients: 1 - lambda_2(E[M W M]) = {gap:.4g}, exact')
    return lines


def _separation(law: SeparationLaw | None, source: str) -> list[str]:
    if law is None:
        return []
    shares = law.law[law.law > 0]
    unit = 'clients' if law.group_size is None else f'groups of {law.group_size}'
    distance = _number(np.abs(shares - 1 / shares.size).sum())
    scale = _range(analysis.debiasing_weights(shares))
    return [
        f'pi_R over {shares.size} {unit}: {_range(shares)}, L1 from uniform {distance}',
        f'  debiasing weights 1/(M pi_R): {scale}; {source}',
    ]


def _heading(title: str) -> str:
    return f'{title:<20}' + ''.join(f'{name:>10}' for name in (*_QUANTILES, 'mean'))


def _row(label: str, values: Any) -> str:
    known = np.asarray(values, np.float64)
    known = known[~np.isnan(known)]
    cells = [*np.quantile(known, [*_QUANTILES.values()]), known.mean()]
    return f'  {label:<18}' + ''.join(f'{cell:>10.4g}' for cell in cells)


def _range(values: np.ndarray, digits: int = 4) -> str:
    return describing.span(f'{values.min():.{digits}g}', f'{values.max():.{digits}g}')


def _noise(size: Any) -> str:
    return f' (noise alone: {size:.2g})'


def _number(value: Any, digits: int = 4) -> str:
    """Digits that mean something: rounding errors of float64 are printed as zero."""
    return '0' if abs(value) < 1e-12 else f'{value:.{digits}g}'
