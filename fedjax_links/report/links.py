"""Pictures of links: who took part when, how often, after which gaps, with what memory."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_links import analysis
from fedjax_links.report import columns, link_statistics, style
from fedjax_links.report.laws import LinkLaw
from fedjax_links.report.recording import LinkRecord

_MAP_ROUNDS, _MOST_MAP_ROUNDS = 200, 600
_GAP_BINS = 30
_LAGS, _MOST_LAGS = 40, 300
_BARS = '#9a9a9a'
_STATES = (
    ('takes part', '#1a1a1a'),
    ('delivers without having heard', style.COLOURS[1]),
    ('hears only', style.COLOURS[5]),
)


def draw_link_map(
    axes: Any, mask: np.ndarray, order: Sequence[int] | None = None, num_rounds: int = _MAP_ROUNDS
) -> None:
    """Client x round map of the first rounds: dark where the uplink delivers.

    Args:
      axes: matplotlib axes.
      mask: bool[T, N].
      order: clients from top to bottom; by how often they deliver by default.
      num_rounds: rounds shown, from the first.
    """
    by_rate = np.argsort(-mask.mean(axis=0), kind='stable')
    shown = mask[:num_rounds, by_rate if order is None else order].T
    axes.imshow(shown, aspect='auto', cmap='Greys', interpolation='nearest', vmin=0, vmax=1.2)
    axes.set_xlabel('round')
    axes.set_ylabel('client, best link first')


def draw_rates(axes: Any, mask: np.ndarray, probs: np.ndarray, name: str = 'nominal') -> None:
    """Share of rounds in which each client delivered, against its nominal probability.

    Args:
      axes: matplotlib axes.
      mask: bool[T, N].
      probs: float[N], nominal mean probability; NaN where unknown.
      name: what to call it.
    """
    rates = mask.mean(axis=0)
    order = np.argsort(-rates, kind='stable')
    clients = np.arange(mask.shape[1])
    axes.barh(clients, rates[order], height=1.0, color=_BARS, label='realised')
    if not np.isnan(probs).all():
        axes.plot(probs[order], clients, '.', color=style.COLOURS[4], markersize=4, label=name)
    most = np.nanmax(np.append(rates, probs))
    axes.set_xlim(0, 1 if most > 0.5 else 1.1 * most)
    axes.set_ylim(len(clients) - 0.5, -0.5)
    axes.set_xlabel('share of rounds')
    axes.legend(frameon=False, fontsize=8, loc='lower right')


def picture(path: Path, title: str, record: LinkRecord, law: LinkLaw) -> None:
    """The page: map, rates, gaps, memory and number of participants.

    Args:
      path: where the PNG goes.
      title: above everything.
      record: the links.
      law: what is known exactly.
    """
    pyplot = style.pyplot()
    figure = pyplot.figure(figsize=(12, 7.5), layout='constrained')
    grid = figure.add_gridspec(2, 6, height_ratios=[1.15, 1])
    period = link_statistics.foldable(law, record.num_rounds)
    rounds = min(max(_MAP_ROUNDS, 2 * (period or 0)), _MOST_MAP_ROUNDS)
    map_axes = figure.add_subplot(grid[0, :4])
    if record.duplex:
        _draw_state_map(map_axes, record, rounds)
    else:
        draw_link_map(map_axes, record.participates, num_rounds=rounds)
    map_axes.set_title(f'Who takes part in which of the first {rounds:,} rounds', fontsize=10)
    rate_axes = figure.add_subplot(grid[0, 4:])
    if law.rates is not None:
        draw_rates(rate_axes, record.participates, law.rates, 'exact')
    elif record.duplex:
        draw_rates(rate_axes, record.participates, np.full(record.participates.shape[1], np.nan))
    else:
        draw_rates(rate_axes, record.participates, record.nominal_rates)
    rate_axes.set_title(f'Rates over {record.num_rounds:,} rounds', fontsize=10)
    _draw_gaps(figure.add_subplot(grid[1, :2]), record.participates, law)
    _draw_memory(figure.add_subplot(grid[1, 2:4]), record.participates, law)
    _draw_sizes(figure.add_subplot(grid[1, 4:]), record, law, period)
    figure.suptitle(title)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _draw_state_map(axes: Any, record: LinkRecord, num_rounds: int) -> None:
    """The map of links whose directions differ, one colour per state."""
    from matplotlib import colors, patches

    state = np.select([record.participates, record.delivers, record.hears], [1, 2, 3], 0)
    order = np.argsort(-record.participates.mean(axis=0), kind='stable')
    axes.imshow(
        state[:num_rounds, order].T,
        aspect='auto',
        cmap=colors.ListedColormap(['white', *(colour for _, colour in _STATES)]),
        interpolation='nearest',
        vmin=-0.5,
        vmax=3.5,
    )
    axes.legend(
        handles=[patches.Patch(color=colour, label=label) for label, colour in _STATES],
        fontsize=8,
        loc='upper center',
        bbox_to_anchor=(0.5, -0.12),
        ncols=3,
        frameon=False,
    )
    axes.set_xlabel('round', loc='right')
    axes.set_ylabel('client, most rounds first')


def _draw_gaps(axes: Any, active: np.ndarray, law: LinkLaw) -> None:
    counts = link_statistics.gap_counts(active)
    axes.set_title('Rounds from one participation to the next', fontsize=10)
    if not counts.any():
        axes.text(0.5, 0.5, 'nobody took part twice', ha='center', transform=axes.transAxes)
        return
    longest = int(np.flatnonzero(counts)[-1])
    edges = np.arange(1, longest + 2)
    if longest > _GAP_BINS:
        edges = np.unique(np.rint(np.geomspace(1, longest + 1, _GAP_BINS)).astype(int))
    widths = np.diff(edges)
    realised = np.add.reduceat(counts[: longest + 1], edges[:-1]) / counts.sum()
    axes.bar(edges[:-1], realised / widths, widths, align='edge', color=_BARS, label='realised')
    expected = link_statistics.expected_gap_counts(law, len(active), longest)
    if expected is not None:
        whole = expected.sum()
        shares = np.add.reduceat(expected, edges[:-1]) / whole / widths
        centres = (edges[:-1] + edges[1:]) / 2
        axes.plot(centres, shares, '.-', color=style.COLOURS[4], markersize=4, label='exact mean')
    seen = realised[realised > 0] / widths[realised > 0]
    axes.set_yscale('log')
    axes.set_ylim(seen.min() / 3, seen.max() * 3)
    if longest > _GAP_BINS:
        axes.set_xscale('log')
    axes.set_xlabel('gap in rounds')
    axes.set_ylabel('share of gaps per round of length')
    axes.legend(frameon=False, fontsize=8)


def _draw_memory(axes: Any, active: np.ndarray, law: LinkLaw) -> None:
    period = law.period or 0
    lags = min(max(_LAGS, 2 * period), _MOST_LAGS, len(active) // 2)
    axes.set_title('Autocorrelation of participation', fontsize=10)
    measured = link_statistics.autocorrelation(active, lags)
    if np.isnan(measured).all():
        axes.text(0.5, 0.5, 'nobody ever changes', ha='center', transform=axes.transAxes)
        return
    axes.axhline(0, color='#cccccc', linewidth=0.8)
    axes.plot(np.arange(lags + 1), measured, color=_BARS, linewidth=3, label='realised')
    exact = link_statistics.expected_autocorrelation(law, lags)
    if exact is not None:
        axes.plot(np.arange(lags + 1), exact, '--', color=style.COLOURS[4], label='exact')
    axes.set_xlabel('lag in rounds')
    axes.legend(frameon=False, fontsize=8)


def _draw_sizes(axes: Any, record: LinkRecord, law: LinkLaw, period: int | None) -> None:
    sizes = record.participates.sum(axis=1)
    if period is None:
        shown = sizes[:_MAP_ROUNDS]
        axes.step(np.arange(len(shown)), shown, where='mid', color=_BARS, label='realised')
        axes.set_title('Participants by round', fontsize=10)
        axes.set_xlabel('round')
    else:
        folded = link_statistics.fold(sizes, period)
        phase = np.arange(period)
        axes.plot(phase, folded.mean, color=_BARS, linewidth=2.5, label='realised mean')
        axes.fill_between(
            phase, folded.low, folded.high, color=_BARS, alpha=0.3, linewidth=0, label='5 to 95 %'
        )
        axes.set_title(f'Participants by round, folded at {period}', fontsize=10)
        axes.set_xlabel(f'round modulo {period}')
        expected = record.prob[:period].sum(axis=1)
        if not (record.duplex or np.isnan(expected).any() or np.ptp(expected) == 0):
            axes.plot(phase, expected, '--', color=style.COLOURS[4], label='sum of probabilities')
    if law.probs is not None:
        mean = law.probs.sum()
        axes.axhline(mean, linestyle='--', color=style.COLOURS[4], label='exact mean')
    axes.set_ylim(0, None)
    axes.legend(frameon=False, fontsize=8)


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
    columns.write_csv(path, values)
