"""The page of recorded links, and its numbers as text."""

import textwrap
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_links import analysis, base, plot
from fedjax_links.participation.laws import LinkLaw
from fedjax_links.plot.links import MAP_ROUNDS
from fedjax_links.report import style
from fedjax_links.report.screens.recording import LinkRecord, chain, foldable, stated_rates

_MOST_MAP_ROUNDS = 600
_LAGS, _MOST_LAGS = 40, 300
_WIDTH, _LABEL, _MAP_ROWS = 80, 10, 10
_SHADES = ' ░▒▓█'


def text(title: str, record: LinkRecord, law: LinkLaw) -> str:
    """A map of who takes part when; counts, gaps, staleness and weights, by quantiles over clients.

    Args:
      title: first line.
      record: the links.
      law: what is known exactly.

    Returns:
      Lines of at most 80 columns.
    """
    lines = [title[:_WIDTH], *textwrap.wrap(f'links: {law.description}', _WIDTH)]
    if record.duplex:
        masks = {'takes part': record.participates, 'delivers': record.delivers}
        masks |= {'hears': record.hears, 'can train': record.computes}
        means = (f'{name} {mask.mean():.3f}' for name, mask in masks.items())
        lines.append(f'means: {", ".join(means)}')
    if record.neighbours is not None and record.edge_rates is not None:
        own = np.arange(len(record.neighbours))[:, None]
        there = np.not_equal(record.neighbours, own).sum(axis=1).mean()
        heard = f'{record.edge_rates.sum(axis=1).mean():.3g} of {there:.3g}'
        lines.append(f'peers: {heard} neighbours heard in a round')
    active = record.participates
    lines += _map(active, foldable(law, len(active)))
    return '\n'.join([*lines, analysis.participation_report(active).text()])


def _map(active: np.ndarray, period: int | None) -> list[str]:
    """Clients by rate downwards, rounds to the right, the darker the more take part."""
    most = _WIDTH - _LABEL - 2
    per_cell = max(1, -(-2 * (period or 0) // most))
    columns = min(most, len(active) // per_cell)
    shown = active[: columns * per_cell, np.argsort(-active.mean(axis=0), kind='stable')]
    cells = shown.reshape(columns, per_cell, -1).mean(axis=1)
    bands = np.array_split(np.arange(active.shape[1]), min(_MAP_ROWS, active.shape[1]))
    beside = f', {per_cell} rounds a cell' if per_cell > 1 else ''
    rounds = f'by round 0 to {columns * per_cell - 1}{beside}'
    lines = [f'clients, best first ({len(bands)} bands), {rounds}']
    for band in bands:
        darkness = np.ceil(cells[:, band].mean(axis=1) * (len(_SHADES) - 1)).astype(int)
        label = f'{band[0] + 1}-{band[-1] + 1}' if len(band) > 1 else f'{band[0] + 1}'
        lines.append(f'{label:>{_LABEL}} |{"".join(_SHADES[k] for k in darkness)}'.rstrip())
    return lines


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


def _draw(figure: Any, record: LinkRecord, law: LinkLaw) -> None:
    active, num_rounds = record.participates, len(record.participates)
    rates, period = chain(law), foldable(law, num_rounds)
    rounds = min(max(MAP_ROUNDS, 2 * (period or 0)), _MOST_MAP_ROUNDS)
    titles = {
        'map': f'Who takes part in which of the first {rounds:,} rounds',
        'rates': f'Rates over {num_rounds:,} rounds',
        'gaps': 'Rounds from one participation to the next',
        'memory': 'Autocorrelation of participation',
        'sizes': 'Participants by round' + (f', folded at {period}' if period else ''),
    }
    below = ['gaps'] * 2 + ['memory'] * 2 + ['sizes'] * 2
    if record.edge_rates is not None:
        titles['peers'] = 'Edges by how often they were up'
        below[2:] = ['memory', 'sizes', 'peers', 'peers']
    axes = figure.subplot_mosaic([['map'] * 4 + ['rates'] * 2, below], height_ratios=[1.15, 1])
    for name, title in titles.items():
        axes[name].set_title(title, fontsize=10)
    links: Any = active
    if record.duplex:
        parts: list[Any] = [record.delivers, record.prob, record.hears, record.computes]
        links = base.DuplexLinkSample(*parts)
    plot.link_map(links, num_rounds=rounds, ax=axes['map'])
    name, probs = stated_rates(law, record)
    plot.participation_rates(active, probs, name=name, ax=axes['rates'])
    plot.gap_law(active, rates, ax=axes['gaps'])
    lags = min(max(_LAGS, 2 * (law.period or 0)), _MOST_LAGS)
    plot.link_memory(active, rates, num_lags=lags, ax=axes['memory'])
    expected = record.prob[:period].sum(axis=1) if period else np.zeros(1)
    expected = None if np.isnan(expected).any() or np.ptp(expected) == 0 else expected
    if record.edge_rates is not None:
        plot.peer_graph(
            record.neighbours, record.edge_rates, rates=active.mean(axis=0), ax=axes['peers']
        )
    mean = None if law.probs is None else float(law.probs.sum())
    plot.participants(active, period=period, expected=expected, mean=mean, ax=axes['sizes'])
