"""The page of recorded links, and their table by client."""

from pathlib import Path
from typing import Any

import numpy as np

from fedjax_links import analysis, base, plot
from fedjax_links.participation.laws import LinkLaw
from fedjax_links.plot.links import MAP_ROUNDS
from fedjax_links.report import style, tables
from fedjax_links.report.screens import link_statistics
from fedjax_links.report.screens.recording import LinkRecord

_MOST_MAP_ROUNDS = 600
_LAGS, _MOST_LAGS = 40, 300


def picture(path: Path, title: str, record: LinkRecord, law: LinkLaw) -> None:
    """The page: map, rates, gaps, memory and number of participants.

    Args:
      path: where the PNG goes.
      title: above everything.
      record: the links.
      law: what is known exactly.
    """
    style.save_page(
        path, lambda figure: _draw(figure, record, law), title=title, caption='', size=(12, 7.5)
    )


def _draw(figure, record: LinkRecord, law: LinkLaw) -> None:
    grid = figure.add_gridspec(2, 6, height_ratios=[1.15, 1])
    active = record.participates
    rates = None if law.up_rate is None else (law.up_rate, law.down_rate)
    period = link_statistics.foldable(law, record.num_rounds)
    rounds = min(max(MAP_ROUNDS, 2 * (period or 0)), _MOST_MAP_ROUNDS)
    links: Any = active
    if record.duplex:
        parts: list[Any] = [record.delivers, record.prob, record.hears, record.computes]
        links = base.DuplexLinkSample(*parts)
    axes = plot.link_map(links, num_rounds=rounds, ax=figure.add_subplot(grid[0, :4]))
    axes.set_title(f'Who takes part in which of the first {rounds:,} rounds', fontsize=10)
    probs, name = record.nominal_rates, 'nominal'
    if law.rates is not None:
        probs, name = law.rates, 'exact'
    axes = plot.participation_rates(active, probs, name=name, ax=figure.add_subplot(grid[0, 4:]))
    axes.set_title(f'Rates over {record.num_rounds:,} rounds', fontsize=10)
    axes = plot.gap_law(active, rates, ax=figure.add_subplot(grid[1, :2]))
    axes.set_title('Rounds from one participation to the next', fontsize=10)
    lags = min(max(_LAGS, 2 * (law.period or 0)), _MOST_LAGS)
    axes = figure.add_subplot(grid[1, 2:4])
    plot.link_memory(active, rates, num_lags=lags, ax=axes)
    axes.set_title('Autocorrelation of participation', fontsize=10)
    expected = None
    if period is not None:
        expected = record.prob[:period].sum(axis=1)
        if np.isnan(expected).any() or np.ptp(expected) == 0:
            expected = None
    axes = plot.participants(
        active,
        period=period,
        expected=expected,
        mean=None if law.probs is None else float(law.probs.sum()),
        ax=figure.add_subplot(grid[1, 4:]),
    )
    folded = '' if period is None else f', folded at {period}'
    axes.set_title(f'Participants by round{folded}', fontsize=10)


def write_csv(path: Path, record: LinkRecord) -> None:
    """One line per client: rates, gaps, staleness and effective weight.

    Args:
      path: where the file goes.
      record: the links.
    """
    report = analysis.participation_report(record.participates)
    values = {
        'client': np.arange(report.counts.size),
        'nominal_rate': record.nominal_rates,
        'realised_rate': report.rates,
        'participations': report.counts,
        'mean_gap': report.mean_gaps,
        'longest_gap': report.max_gaps,
        'least_separation': report.min_separations,
        'mean_staleness': report.mean_staleness,
        'longest_staleness': report.max_staleness,
        'weight': report.weights,
    }
    if record.duplex:
        values['delivery_rate'] = record.delivers.mean(axis=0)
        values['downlink_rate'] = record.hears.mean(axis=0)
        values['compute_rate'] = record.computes.mean(axis=0)
    tables.write_csv(path, values)
