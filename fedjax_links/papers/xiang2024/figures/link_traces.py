"""Example traces of single links under several patterns."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedjax_links import plot, problems
from fedjax_links.config import sections
from fedjax_links.report.figure import FigureResult, stack
from fedjax_links.report.screens import recording
from fedjax_links.report.tables import Table


def link_traces(
    *, panels: Mapping[str, Mapping[str, Any]], probs: Any, seed: int = 0
) -> FigureResult:
    """One link per probability and pattern, over time.

    Args:
      panels: by label, ``links`` (a section that `sections.bind_links` accepts) and ``rounds``.
        The section is given the probabilities.
      probs: float[K], base probabilities, best link first or last as listed.
      seed: seed of the links.

    Returns:
      Columns ``pattern``, ``base_prob``, ``round``, ``prob`` (as the pattern reports it) and
      ``up``.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.

    References:
      Xiang et al. 2024, Figure 6.
    """
    base = np.array(probs, np.float64)
    problem = problems.quadratic(np.zeros((base.size, 1)))
    records = {}
    for label, panel in panels.items():
        where = f'config.figure.panels.{label}'
        section = {**panel['links'], 'probs': {'name': 'listed', 'values': list(base)}}
        pattern = sections.bind_links(section, problem, f'{where}.links').build()
        records[label] = recording.record_links(pattern, num_rounds=panel['rounds'], seed=seed)

    def draw(figure: Any) -> None:
        rows = -(-len(records) // 2)
        for axes, (label, record) in zip(
            figure.subplots(rows, 2, squeeze=False).flat, records.items(), strict=False
        ):
            _draw_panel(axes, label, record, base)

    parts = [
        {
            'pattern': label,
            'base_prob': p,
            'round': np.arange(record.num_rounds),
            'prob': record.prob[:, k],
            'up': record.delivers[:, k].astype(int),
        }
        for label, record in records.items()
        for k, p in enumerate(base)
    ]
    rows = [
        [label, str(record.num_rounds), *(f'{share:.3f}' for share in record.delivers.mean(axis=0))]
        for label, record in records.items()
    ]
    return FigureResult(
        columns=stack(parts),
        table=Table(
            ['pattern', 'rounds', *(f'p = {p:g}' for p in base)],
            rows,
            f'Share of the rounds in which each link was up; seed {seed}, one link each.',
        ),
        draw=draw,
    )


def _draw_panel(axes: Any, label: str, record: recording.LinkRecord, base: np.ndarray) -> None:
    """Rows of blocks where the link is up, with the course of its probability behind them."""
    rounds = np.arange(record.num_rounds)
    for row in range(base.size):
        colour = plot.COLOURS[row % len(plot.COLOURS)]
        up = record.delivers[:, row]
        edges = np.flatnonzero(np.diff(np.concatenate([[0], up.astype(int), [0]])))
        starts, stops = edges[::2], edges[1::2]
        spans = list(zip(starts - 0.5, stops - starts, strict=True))
        axes.broken_barh(spans, (row - 0.4, 0.8), color=colour, alpha=0.75, linewidth=0)
        axes.plot(rounds, row - 0.4 + 0.8 * record.prob[:, row], color=plot.EXACT, linewidth=1)
        axes.axhline(row - 0.4, color='#dddddd', linewidth=0.6, zorder=0)
        axes.axhline(row + 0.4, color='#dddddd', linewidth=0.6, zorder=0)
    axes.set_yticks(range(base.size), [f'p = {p:g}' for p in base])
    axes.set_xlim(-0.5, record.num_rounds - 0.5)
    axes.set_ylim(-0.6, base.size - 0.4)
    axes.set_title(label, fontsize=10)
    axes.set_xlabel('round', fontsize=9)
