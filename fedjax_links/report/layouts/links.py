"""The links that the first seed met, what they did to every client, and that to the models."""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedjax_links import analysis, plot
from fedjax_links.report import clients, tables
from fedjax_links.report.layouts.page import Page, with_panels
from fedjax_links.report.source import Source

_MOST_NAMED = 8
_NOT_KEPT = clients.Clients(np.zeros(0), 'not kept')


def link_maps(source: Source) -> Page:
    """Client x round maps and what they amounted to.

    Args:
      source: what ran, with the links that were kept.

    Returns:
      Maps of the first rounds, and a table over all rounds, with how far FedAvg's weights are from
      equal ones, realised and by their exact law.
    """
    masks = {label: links.mask for label, links in source.links.items()}

    def draw(axes: Any, label: str) -> None:
        plot.link_map(masks[label], ax=axes)
        axes.set_title(source.name(label), fontsize=10)

    rows = []
    for label, mask in masks.items():
        law = source.clients.get(label, _NOT_KEPT)
        equal, active = 1 / mask.shape[1], mask.sum(axis=1)
        distance = analysis.participation_report(mask).distance_to_uniform
        exact = np.abs(law.weights - equal).sum() if law.weights.size else None
        rows.append(
            {
                'pattern': source.name(label),
                'active per round': f'{active.mean():.1f} of {mask.shape[1]}',
                'empty rounds': f'{100 * (active == 0).mean():.1f} %',
                'clients never heard': f'{100 * (~mask.any(axis=0)).mean():.1f} %',
                'distance': '-' if np.isnan(distance) else f'{distance:.3f}',
                'exact': '' if exact is None else f'{exact:.3f}',
                'law': law.source,
            }
        )
    caption = (
        "First seed, all rounds; L1 distance of FedAvg's weights E[1{i in A}/|A|] from equal ones"
    )
    if not source.clients:
        caption += (
            '. Exact weights and losses of clients are kept at the end of a run of the command '
            '`simulate`, or by `report.write(results, experiment)`'
        )
    table = tables.of_rows(rows, f'{caption}.')
    return with_panels(Page('Realised links', [table]), [*masks], draw)


def participation(source: Source) -> Page:
    """Who took part, and who was left behind.

    Args:
      source: what ran, with the links that were kept.

    Returns:
      Participation; losses of clients, drawn too, where they were kept.
    """
    counts = {label: links.mask.sum(axis=0) for label, links in source.links.items()}
    known = {label: source.clients[label] for label in counts if label in source.clients}
    drawn = [label for label, own in known.items() if own.losses]

    def draw(axes: Any, label: str) -> None:
        kept = known[label].losses
        losses = {
            algorithm: kept[algorithm] for algorithm in source.algorithms if algorithm in kept
        }
        names = {algorithm: source.name(algorithm) for algorithm in losses}
        is_last = label == drawn[-1]
        plot.participation_loss(counts[label], losses, names=names, legend=is_last, ax=axes)
        axes.set_title(source.name(label), fontsize=10)

    found = [_participations(source)]
    if any(own.losses or own.missing for own in known.values()):
        found.append(_losses(source, known, counts))
    return with_panels(Page('Participation', found), drawn, draw, panel=(3.6, 2.8))


def _participations(source: Source) -> tables.Table:
    """How often, and after which gaps, clients were heard; a row per pattern."""
    rows = []
    for label, links in source.links.items():
        found = analysis.participation_report(links.mask)
        num_rounds, num_clients = links.mask.shape
        counts, heard = found.counts, links.mask.any(axis=0)
        age = np.where(heard, links.mask[::-1].argmax(axis=0) + 1, num_rounds + 1)
        gaps = found.mean_gaps[~np.isnan(found.mean_gaps)]
        effective = f'{found.effective_sample_size:.1f} of {num_clients}'
        rows.append(
            {
                'pattern': source.name(label),
                'participations': f'{counts.min()}, {np.median(counts):g}, {counts.max()}',
                'mean gap': f'{gaps.mean():.3g}' if gaps.size else '-',
                'longest': f'{np.nanmax(found.max_gaps):.0f}' if gaps.size else '-',
                'age at end': f'{np.median(age):.0f}, {age.max()}',
                'effective': effective if heard.any() else '-',
            }
        )
    return tables.of_rows(
        rows,
        'First seed, by client. Participations: least, median, most. Gaps: rounds from one '
        'participation to the next, mean over the clients with two. Age: rounds since the last '
        'participation when training ended, median and most. Effective: the number of equally '
        "weighted clients with the variance of FedAvg's realised weights.",
    )


def _losses(
    source: Source, known: Mapping[str, clients.Clients], every_count: Mapping[str, np.ndarray]
) -> tables.Table:
    """Who fares worst under the final model of every algorithm; a row per pattern and algorithm."""
    rows = []
    for label, algorithm in itertools.product(known, source.algorithms):
        row = {'pattern': source.name(label), 'algorithm': source.name(algorithm)}
        rows.append(row)
        counts, losses = every_count[label], known[label].losses.get(algorithm)
        if losses is None:
            row['loss'] = known[label].missing.get(algorithm, 'not kept')
            continue
        worst, rest = np.split(np.argsort(-losses, kind='stable'), [-(-losses.size // 10)])
        ranked = losses.size > 2 and np.ptp(counts) > 0 and np.ptp(losses) > 0
        more = ', ...' if worst.size > _MOST_NAMED else ''
        row |= {
            'loss': f'{losses.mean():.4g}',
            'worst tenth': f'{losses[worst].mean():.4g}',
            'heard': f'{counts[worst].mean():.4g}',
            'others': f'{counts[rest].mean():.4g}' if rest.size else '',
            'rank': f'{np.corrcoef(_ranks(counts), _ranks(losses))[0, 1]:+.2f}' if ranked else '',
            'clients': ', '.join(map(str, worst[:_MOST_NAMED].tolist())) + more,
        }
    return tables.of_rows(
        rows,
        'Training losses of the clients at the final model of the first seed (their mean model '
        'where clients keep models; first point of a grid): mean over clients, and over the tenth '
        'with the largest. Heard, others: mean participations of that tenth and of everyone else; '
        "rank: Spearman's correlation of participation and loss over clients, negative where who "
        'is heard less fares worse. Clients: the worst, largest loss first.',
    )


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1, equal values at the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[place])
