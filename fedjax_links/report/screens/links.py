"""The page of recorded links."""

from pathlib import Path
from typing import Any

import numpy as np

from fedjax_links import base, plot
from fedjax_links.participation.laws import LinkLaw
from fedjax_links.plot.links import MAP_ROUNDS
from fedjax_links.report import style
from fedjax_links.report.screens.link_statistics import chain, foldable, stated_rates
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


def _draw(figure: Any, record: LinkRecord, law: LinkLaw) -> None:
    grid = figure.add_gridspec(2, 6, height_ratios=[1.15, 1])

    def panel(row: int, columns: slice, title: str) -> Any:
        axes = figure.add_subplot(grid[row, columns])
        axes.set_title(title, fontsize=10)
        return axes

    active, num_rounds = record.participates, len(record.participates)
    rates = chain(law)
    period = foldable(law, num_rounds)
    rounds = min(max(MAP_ROUNDS, 2 * (period or 0)), _MOST_MAP_ROUNDS)
    links: Any = active
    if record.duplex:
        parts: list[Any] = [record.delivers, record.prob, record.hears, record.computes]
        links = base.DuplexLinkSample(*parts)
    axes = panel(0, slice(4), f'Who takes part in which of the first {rounds:,} rounds')
    plot.link_map(links, num_rounds=rounds, ax=axes)
    name, probs = stated_rates(law, record)
    axes = panel(0, slice(4, 6), f'Rates over {num_rounds:,} rounds')
    plot.participation_rates(active, probs, name=name, ax=axes)
    axes = panel(1, slice(2), 'Rounds from one participation to the next')
    plot.gap_law(active, rates, ax=axes)
    lags = min(max(_LAGS, 2 * (law.period or 0)), _MOST_LAGS)
    axes = panel(1, slice(2, 4), 'Autocorrelation of participation')
    plot.link_memory(active, rates, num_lags=lags, ax=axes)
    expected, folded = None, ''
    if period is not None:
        sums, folded = record.prob[:period].sum(axis=1), f', folded at {period}'
        if not np.isnan(sums).any() and np.ptp(sums) > 0:
            expected = sums
    mean = None if law.probs is None else float(law.probs.sum())
    axes = panel(1, slice(4, 6), f'Participants by round{folded}')
    plot.participants(active, period=period, expected=expected, mean=mean, ax=axes)
