"""The links that the first seed met, what they did to every client, and that to the models."""

from typing import Any

import numpy as np

from fedjax_links import analysis, plot
from fedjax_links.report import tables
from fedjax_links.report.clients import Clients
from fedjax_links.report.layouts.page import Page, draw_panels
from fedjax_links.report.source import Source
from fedjax_links.report.tables import Table

_MOST_NAMED = 8
_NARROWEST = 6.4  # inches
_NOT_KEPT = Clients(np.zeros(0), 'not kept')


def link_maps(source: Source) -> Page:
    """Client x round maps and what they amounted to.

    Args:
      source: what ran, with the links that were kept.

    Returns:
      Maps of the first rounds, and a table over all rounds, with how far FedAvg's weights are from
      equal ones, realised and by their exact law.
    """
    masks = {label: links.mask for label, links in source.links.items()}
    known = {label: source.clients.get(label, _NOT_KEPT) for label in masks}

    def draw(axes: Any, label: str) -> None:
        plot.link_map(masks[label], ax=axes)

    def share_without(mask: np.ndarray, axis: int) -> str:
        return f'{100 * (mask.sum(axis=axis) == 0).mean():.1f} %'

    def distance(label: str) -> str:
        found = analysis.participation_report(masks[label]).distance_to_uniform
        return '-' if np.isnan(found) else f'{found:.3f}'

    def exact(label: str) -> str:
        weights = known[label].weights
        return f'{np.abs(weights - 1 / weights.size).sum():.3f}' if weights.size else ''

    caption = (
        "First seed, all rounds; L1 distance of FedAvg's weights E[1{i in A}/|A|] from equal ones"
    )
    if not source.clients:
        caption += (
            '. Exact weights and losses of clients are kept at the end of a run of the command '
            '`simulate`, or by `report.write(results, experiment)`'
        )
    table = tables.fill(
        masks,
        {
            'pattern': source.name,
            'active per round': lambda p: (
                f'{masks[p].sum(axis=1).mean():.1f} of {masks[p].shape[1]}'
            ),
            'empty rounds': lambda p: share_without(masks[p], 1),
            'clients never heard': lambda p: share_without(masks[p], 0),
            'distance': distance,
            'exact': exact,
            'law': lambda p: known[p].source,
        },
        f'{caption}.',
    )
    size = 3.6 * min(3, len(masks)) + 0.4, 2.6 * -(-len(masks) // 3) + 0.4
    return Page('Realised links', [table], draw_panels(source, [*masks], draw), size)


def participation(source: Source) -> Page:
    """Who took part, and who was left behind.

    Args:
      source: what ran, with the links that were kept.

    Returns:
      Participation; losses of clients, drawn too, where they were kept.
    """
    found = [_counts(source)]
    if any(known.losses or known.missing for known in source.clients.values()):
        found.append(_losses(source))
    drawn = [
        label for label in source.links if label in source.clients and source.clients[label].losses
    ]
    if not drawn:
        return Page('Participation', found)

    def draw(axes: Any, label: str) -> None:
        losses, last = source.clients[label].losses, label == drawn[-1]
        names = {k: source.name(k) for k in losses}
        counts = source.links[label].mask.sum(axis=0)
        plot.participation_loss(counts, losses, names=names, legend=last, ax=axes)

    width = max(3.6 * min(3, len(drawn)) + 0.6, _NARROWEST)
    size = width, 2.8 * -(-len(drawn) // 3) + 0.6
    return Page('Participation', found, draw_panels(source, drawn, draw), size)


def _counts(source: Source) -> Table:
    rows = []
    for label, links in source.links.items():
        found = analysis.participation_report(links.mask)
        num_rounds, num_clients = links.mask.shape
        heard = links.mask.any(axis=0)
        age = np.where(heard, links.mask[::-1].argmax(axis=0) + 1, num_rounds + 1)
        gaps = found.mean_gaps[~np.isnan(found.mean_gaps)]
        counts = found.counts
        rows.append(
            [
                source.name(label),
                f'{counts.min()}, {np.median(counts):g}, {counts.max()}',
                f'{gaps.mean():.3g}' if gaps.size else '-',
                f'{np.nanmax(found.max_gaps):.0f}' if gaps.size else '-',
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


def _losses(source: Source) -> Table:
    from scipy import stats  # 0.3 s

    rows = []
    for label in [label for label in source.links if label in source.clients]:
        known, counts = source.clients[label], source.links[label].mask.sum(axis=0)
        for algorithm in source.algorithms:
            name = [source.name(label), source.name(algorithm)]
            if algorithm not in known.losses:
                rows.append([*name, known.missing.get(algorithm, 'not kept'), *[''] * 5])
                continue
            losses = known.losses[algorithm]
            order = np.argsort(-losses, kind='stable')
            worst, rest = np.split(order, [-(-losses.size // 10)])
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
                    named + (', ...' if worst.size > _MOST_NAMED else ''),
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
