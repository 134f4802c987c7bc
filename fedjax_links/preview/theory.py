"""What configured links do to FedAvg and to gossip, exact where known, as one screen of text."""

from typing import Any

import numpy as np

from fedjax_links import analysis, base, evaluation
from fedjax_links.analysis.independent_links import batch_means
from fedjax_links.core import reprs
from fedjax_links.experiment import Experiment
from fedjax_links.participation.link_laws import LinkLaw
from fedjax_links.preview import configured_links
from fedjax_links.preview import prediction as expected
from fedjax_links.preview.links import chain, stated_rates
from fedjax_links.problems.classification import partition_of

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
        links = configured_links.of_experiment(experiment, label)
        lines += _described(links, f'{label}: {links.name}, {links.law.description}')
        rates, weights = links.law.rates, links.law.weights
        if rates is not None:
            lines.append(f'         rates {_range(rates, 3)}, mean {rates.mean():.3g}')
        if weights is not None:
            bias = np.abs(weights - 1 / weights.size).sum()
            lines[-1] += (
                f"; FedAvg's implicit weights are {bias:.2f} from equal (L1, exact)"
            )
        lines += [
            f'         {line}' for line in expected.of_links(links, most_work=most_work)
        ]
    return '\n'.join(lines)


def text(links: configured_links.ConfiguredLinks, record: base.MaskLinks) -> str:
    """The screen.

    Args:
      links: a pattern of an experiment.
      record: the same, simulated by the first seed, leaves [T, ...].

    Returns:
      Lines of at most 80 columns: for how long links remember, rates, effective weights, FedAvg's
      bias, gossip, what is special to the pattern, and the participation report of the record.
    """
    law, active = links.law, np.asarray(base.participants(record))
    source: Any = (
        {'masks': active} if law.weights is None else {'selection_law': law.weights}
    )
    weights = analysis.effective_weights(**source)
    known = evaluation.attainable_text(links.problem)
    name = (links.experiment.config or {})['problem']['name']
    lines = [f'problem  {name}: {links.problem.num_clients:,} clients']
    lines += [f"best     {known} (the population's best model, exact)"] if known else []
    lines += _described(links, f'{links.name}: {law.description}')
    lines.append(f'memory   {_memory(law, links.participation.cycle)}')
    lines = [links.experiment.title, *(line[:80] for line in lines)]
    if base.tells_directions(record):
        lines.append(
            '         taking part = hearing the server, training and delivering'
        )
    lines.append(
        f'{"Rates per client":<20}' + ''.join(f'{k:>10}' for k in (*_QUANTILES, 'mean'))
    )
    name, stated = stated_rates(law, record)
    lines += [] if stated is None else [_row(name, stated)]
    lines.append(_row('realised', active.mean(axis=0)))
    lines += _weights(law, weights, len(active))
    lines += _bias(links.problem, law, weights, active)
    lines += [f'  {line}' for line in expected.of_links(links)]
    lines += _known(law)
    lines.append(
        f'As simulated ({len(active):,} rounds of seed {links.experiment.seeds[0]})'
    )
    report = analysis.participation_report(active).text().splitlines()
    return '\n'.join([*lines, *(f'  {line}' for line in report)])


def _memory(law: LinkLaw, cycle: int | None) -> str:
    """For how long links are as they were."""
    if cycle is not None and cycle > 1:
        return f'links repeat every {cycle:,} rounds'
    if law.memoryless:
        return 'none: rounds are independent'
    if (rates := chain(law)) is None:
        return 'not known'
    rise, fall = rates
    kept = 1 - (rise + fall)  # the correlation of a round with the next
    times = np.where(kept >= 1, np.inf, -1 / np.log(np.clip(kept, 1e-300, 1 - 1e-16)))
    shares = rise / np.where(
        rise + fall > 0, rise + fall, 1
    )  # of rounds in which each takes part
    if not shares.any():
        return 'none: nobody ever takes part'
    median = _weighted_median(times, shares)
    said = 'less than a round' if median < 1 else f'{median:.3g} rounds'
    least, most = (
        'below 1' if time < 1 else f'{time:.3g}' for time in (times.min(), times.max())
    )
    if least == most:
        return f'{said} (every client)'
    return f'{said} (median participation), clients: {reprs.span(least, most)}'


def _weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    """The value at which half of the weight is reached."""
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, reached[-1] / 2)])


def _described(links: configured_links.ConfiguredLinks, text: str) -> list[str]:
    """A pattern, and at which point of the grid all that follows holds."""
    where = [f'         at {links.where}'] if links.where else []
    return [f'links    {text}', *where]


def _weights(
    law: LinkLaw, found: analysis.EffectiveWeights, num_rounds: int
) -> list[str]:
    num_clients, noise = found.weights.size, ''
    source = (
        f'exact: {law.weights_source}'
        if found.exact
        else f'estimated, {num_rounds:,} rounds'
    )
    lines = [
        f'Effective weights E[1{{i in A}}/|A| | A nonempty], {source}',
        _row('weight x N', found.weights * num_clients),
    ]
    if not found.exact:
        lines.append(_row('standard error x N', found.standard_errors * num_clients))
        noise = _noise(found.standard_errors)
    distance = _number(np.abs(found.weights - 1 / num_clients).sum())
    effective = f'effective clients {1 / np.sum(found.weights**2):.4g} of {num_clients}'
    return [*lines, f'  L1 from uniform {distance}{noise}, {effective}']


def _bias(
    problem: base.Problem,
    law: LinkLaw,
    found: analysis.EffectiveWeights,
    active: np.ndarray,
) -> list[str]:
    shares = partition_of(problem).class_mix
    if shares.size:
        wanted, implicit = shares.mean(axis=0), found.weights @ shares
        lines = [
            "FedAvg's bias: the label mix that it trains on, against the clients' mean mix"
        ]
        if wanted.size <= _MAX_LISTED_LABELS:
            labels = ''.join(f'{label:>6}' for label in range(wanted.size))
            lines.append(f'  {"label":<18}{labels}')
            for name, mix in (('mean of clients', wanted), ('FedAvg', implicit)):
                lines.append(
                    f'  {name:<18}' + ''.join(f'{share:>6.3f}' for share in mix)
                )
        noise = (
            '' if found.exact else _noise(0.5 * batch_means(active, values=shares)[1])
        )
        return [
            *lines,
            f'  total variation {0.5 * np.abs(implicit - wanted).sum():.4g}{noise}',
        ]
    data = problem.data
    if not (hasattr(data, 'ndim') and data.ndim == 2 and problem.max_examples == 1):
        return []
    targets = np.asarray(data, np.float64)
    bias = np.linalg.norm(found.weights @ targets - targets.mean(axis=0))
    if not found.exact:
        off = np.linalg.norm(batch_means(active, values=targets)[1])
        how = f'estimated (noise alone: {off:.2g})'
    elif law.memoryless or law.never_empty:
        how = 'exact for every step size'
    elif law.probs is None:
        how = 'exact for small steps'
    else:
        how = f'exact but for empty rounds ({np.prod(1 - law.probs):.2g})'
    return [f"FedAvg's bias ||E x - x*|| = {_number(bias, 6)}, {how}"]


def _known(law: LinkLaw) -> list[str]:
    """What else has a closed form: how gossip contracts, how often separated clients are chosen."""
    lines = []
    if law.probs is not None and 2 <= law.probs.size <= _MAX_MATRIX_CLIENTS:
        rate, bound = (
            analysis.mixing_rate(law.probs),
            analysis.mixing_rate_bound(law.probs),
        )
        known = f'{1 - rate:.4g}, exact; published lower bound {1 - bound:.2g}'
        lines.append(f'Gossip: 1 - lambda_2(E[W]) = {known}')
        if law.edges is not None and law.edges[0].size <= _MAX_NEIGHBOURS:
            gap = 1 - analysis.semi_decentralised_rate(law.probs, *law.edges)
            lines.append(
                f'  with links between clients: 1 - lambda_2(E[M W M]) = {gap:.4g}, exact'
            )
    if law.separation is not None:
        shares, size = (
            law.separation.law[law.separation.law > 0],
            law.separation.group_size,
        )
        unit = 'clients' if size is None else f'groups of {size}'
        distance = _number(np.abs(shares - 1 / shares.size).sum())
        scale = _range(analysis.debiasing_weights(shares))
        lines += [
            f'pi_R over {shares.size} {unit}: {_range(shares)}, L1 from uniform {distance}',
            f'  debiasing weights 1/(M pi_R): {scale}; {law.weights_source}',
        ]
    return lines


def _row(label: str, values: Any) -> str:
    known = np.asarray(values, np.float64)
    known = known[~np.isnan(known)]
    cells = [*np.quantile(known, [*_QUANTILES.values()]), known.mean()]
    return f'  {label:<18}' + ''.join(f'{cell:>10.4g}' for cell in cells)


def _range(values: np.ndarray, digits: int = 4) -> str:
    return reprs.span(f'{values.min():.{digits}g}', f'{values.max():.{digits}g}')


def _noise(errors: np.ndarray) -> str:
    """The expected L1 norm of normal errors: what no difference would seem to be off."""
    return f' (noise alone: {np.sqrt(2 / np.pi) * errors.sum():.2g})'


def _number(value: Any, digits: int = 4) -> str:
    """Digits that mean something: rounding errors of float64 are printed as zero."""
    return '0' if abs(value) < 1e-12 else f'{value:.{digits}g}'
