"""What the links did to every client of the first seed, and what that did to the models."""

from typing import Any

import numpy as np

from fedjax_links import analysis, plot
from fedjax_links.plot import panels
from fedjax_links.report.layouts.page import Page
from fedjax_links.report.source import Links, Source
from fedjax_links.report.tables import Table

_NUM_BATCHES, _LEAST_ROUNDS = 32, 320
_ENOUGH = 25
_MOST_NAMED = 8
_NARROWEST = 6.4  # inches


def participation(source: Source) -> Page:
    """Who took part, how FedAvg's weights agree with their law, and who was left behind.

    Args:
      source: what ran, with the links that were kept.

    Returns:
      Participation and weights; losses of clients, drawn too, and agreement with exact theory where
      they were kept.
    """
    tables = [_counts(source), _weights(source)]
    if any(known.losses or known.missing for known in source.clients.values()):
        tables.append(_losses(source))
    if any(known.agreement for known in source.clients.values()):
        tables.append(_agreement(source))
    drawn = [
        (label, links.mask, source.clients[label].losses)
        for label, links in _patterns(source)
        if label in source.clients and source.clients[label].losses
    ]
    if not drawn:
        return Page('Participation', tables)

    def draw(figure: Any) -> None:
        grid = panels.grid(figure, len(drawn))
        for axes, (label, mask, losses) in zip(grid, drawn, strict=True):
            last = label == drawn[-1][0]
            plot.participation_loss(
                mask, losses, names={k: source.name(k) for k in losses}, legend=last, ax=axes
            )
            axes.set_title(source.name(label), fontsize=10)

    width = max(3.6 * min(3, len(drawn)) + 0.6, _NARROWEST)
    size = width, 2.8 * -(-len(drawn) // 3) + 0.6
    return Page('Participation', tables, draw, size)


def _patterns(source: Source) -> list[tuple[str, Links]]:
    return [(label, source.links[label]) for label in source.patterns if label in source.links]


def _counts(source: Source) -> Table:
    rows = []
    for label, links in _patterns(source):
        found = analysis.participation_report(links.mask)
        num_rounds, num_clients = links.mask.shape
        heard = links.mask.any(axis=0)
        age = np.where(heard, links.mask[::-1].argmax(axis=0) + 1, num_rounds + 1)
        gaps = found.mean_gaps[~np.isnan(found.mean_gaps)]
        rows.append(
            [
                source.name(label),
                _three(found.counts),
                '-' if not gaps.size else f'{gaps.mean():.3g}',
                '-' if not gaps.size else f'{np.nanmax(found.max_gaps):.0f}',
                f'{np.median(age):.0f}, {age.max()}',
                f'{found.effective_sample_size:.1f} of {num_clients}' if heard.any() else '-',
            ]
        )
    header = ['pattern', 'participations', 'mean gap', 'longest', 'age at end', 'effective']
    caption = (
        'First seed, by client. Participations: least, median, most. Gaps: rounds from one '
        'participation to the next, mean over the clients with two. Age: rounds since the last '
        'participation when training ended, median and most. Effective: the number of equally '
        "weighted clients with the variance of FedAvg's realised weights."
    )
    return Table(header, rows, caption)


def _weights(source: Source) -> Table:
    rows = []
    for label, links in _patterns(source):
        realised = analysis.participation_report(links.mask).distance_to_uniform
        row = [source.name(label), '-' if np.isnan(realised) else f'{realised:.3f}']
        known = source.clients.get(label)
        if known is None:
            rows.append([*row, '', '', '', 'not kept'])
        elif not known.weights.size:
            rows.append([*row, '', '', '', known.source])
        else:
            distance = np.abs(known.weights - 1 / known.weights.size).sum()
            rows.append([*row, f'{distance:.3f}', *_scores(links.mask, known.weights)])
            rows[-1].append(f'exact: {known.source}')
    header = ['pattern', 'realised', 'exact', 'furthest off', '95 % below', 'law']
    caption = (
        "L1 distance of FedAvg's weights E[1{i in A}/|A|] from equal ones. Furthest off: largest "
        'difference of a realised weight to its exact value, in standard errors (batch means), '
        f'of the clients with at least {_ENOUGH} participations, and what 95 % of runs stay below '
        f"where the links' memory is short beside the {_NUM_BATCHES} batches of the run."
    )
    if not source.clients:
        caption += (
            ' Exact weights and losses of clients are kept at the end of a run of the command '
            '`simulate`, or by `report.write(results, experiment)`.'
        )
    return Table(header, rows, caption)


def _scores(mask: np.ndarray, weights: np.ndarray) -> list[str]:
    """The largest deviation in standard errors and its usual bound, or why there is none."""
    from scipy import stats  # 0.3 s

    if len(mask) < _LEAST_ROUNDS:
        return [f'below {_LEAST_ROUNDS} rounds', '']
    if not mask.any():
        return ['nobody ever', '']
    found = analysis.effective_weights(masks=mask, num_batches=_NUM_BATCHES)
    moving = found.standard_errors > 1e-9 / weights.size
    counted = moving & (mask.sum(axis=0) >= _ENOUGH)
    if not moving.any():
        same = np.allclose(found.weights, weights, rtol=1e-9)
        return ['equal' if same else 'not random, and not equal', '']
    if not counted.any():
        return [f'nobody with {_ENOUGH}', '']
    scores = np.abs(found.weights - weights)[counted] / found.standard_errors[counted]
    tail = (1 - 0.95 ** (1 / counted.sum())) / 2
    usual = stats.t.isf(tail, found.degrees_of_freedom)
    return [f'{scores.max():.2f}', f'{usual:.2f}']


def _losses(source: Source) -> Table:
    from scipy import stats

    rows = []
    for label, links in _patterns(source):
        known = source.clients.get(label)
        if known is None:
            continue
        counts = links.mask.sum(axis=0)
        for algorithm in source.algorithms:
            name = [source.name(label), source.name(algorithm)]
            if algorithm not in known.losses:
                rows.append([*name, known.missing.get(algorithm, 'not kept'), *[''] * 5])
                continue
            losses = known.losses[algorithm]
            num_worst = -(-losses.size // 10)
            order = np.argsort(-losses, kind='stable')
            worst, rest = order[:num_worst], order[num_worst:]
            ranked = losses.size > 2 and np.ptp(counts) > 0 and np.ptp(losses) > 0
            rank = stats.spearmanr(counts, losses).statistic if ranked else np.nan
            named = ', '.join(map(str, worst[:_MOST_NAMED].tolist()))
            rows.append(
                [
                    *name,
                    f'{losses.mean():.4g}',
                    f'{losses[worst].mean():.4g}',
                    f'{counts[worst].mean():.4g}',
                    f'{counts[rest].mean():.4g}' if rest.size else '',
                    '' if np.isnan(rank) else f'{rank:+.2f}',
                    named + (', ...' if num_worst > _MOST_NAMED else ''),
                ]
            )
    header = ['pattern', 'algorithm', 'loss', 'worst tenth', 'heard', 'others', 'rank', 'clients']
    caption = (
        'Training losses of the clients at the final model of the first seed (their mean model '
        'where clients keep models; first point of a grid): mean over clients, and over the tenth '
        'with the largest. Heard, others: mean participations of that tenth and of everyone else; '
        "rank: Spearman's correlation of participation and loss over clients, negative where who "
        'is heard less fares worse. Clients: the worst, largest loss first.'
    )
    return Table(header, rows, caption)


def _agreement(source: Source) -> Table:
    rows = []
    for label, _ in _patterns(source):
        known = source.clients.get(label)
        for algorithm, found in known.agreement.items() if known else ():
            error = found.standard_error
            ratio = 'one seed' if np.isnan(error) else 'no spread'
            if error > 0:
                ratio = f'{found.distance / error:.2f}'
            valid = 'every step size' if found.exact else 'small steps'
            name = source.name(algorithm)
            rows.append([source.name(label), name, f'{found.distance:.4g}', ratio, valid])
    caption = (
        "Distance of FedAvg's final model to the exact fixed point sum_i w_i u_i of the data and "
        'links of its seed, mean over seeds, and the same in standard errors: about 1 where they '
        'agree. What training has still to go counts as distance.'
    )
    header = ['pattern', 'algorithm', 'distance', 'standard errors', 'exact for']
    return Table(header, rows, caption)


def _three(values: np.ndarray) -> str:
    return f'{values.min()}, {np.median(values):g}, {values.max()}'
