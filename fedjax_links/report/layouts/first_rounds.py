"""How soon each algorithm first reaches a level."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links import checks, errors, evaluation
from fedjax_links.report import published as papers
from fedjax_links.report.layouts.page import Page, number, unit
from fedjax_links.report.results import Results
from fedjax_links.report.tables import Table


def first_rounds(
    results: Results,
    *,
    targets: Sequence[float] = (),
    shares: Sequence[float] = (),
    every: int | None = None,
    metric: str | None = None,
    published: Mapping[str, Any] | None = None,
) -> Page:
    """First sampled round at which the mean over seeds reaches each level.

    Args:
      results: what ran.
      targets: levels of the metric.
      shares: levels as shares of the best final level of all algorithms; either these or targets.
      every: rounds between samples; those of the evaluations by default.
      metric: which metric; that of the results by default.
      published: options of `published.first_rounds` with its ``table``; ``paper / ours`` then.

    Returns:
      One row per pattern and algorithm; in brackets the range over seeds.

    Raises:
      ValueError: if both or none of targets and shares are given, or ``every`` fits no evaluation.
    """
    metric = metric or results.metric
    if bool(targets) == bool(shares):
        raise errors.invalid('targets', 'be given, or `shares`, not both', (targets, shares))
    period = int(results.rounds[0])
    every = every or period
    checks.static_int('every', every)
    if every % period:
        raise errors.invalid('every', f'be a multiple of eval_every = {period}', every)
    sampled = results.rounds % every == 0
    printed = {} if published is None else papers.first_rounds(**published)
    rows, header = [], ['pattern', 'algorithm']
    for place, pattern in enumerate(results.patterns):
        levels = [float(target) for target in targets] or _levels(results, metric, place, shares)
        if place == 0 or not targets:
            header = ['pattern', 'algorithm', *(f'{number(metric, level)}' for level in levels)]
        for label, models in results.curves.items():
            values = models[results.main_model(label)][metric][place][:, sampled]
            row = [results.name(pattern), results.name(label)]
            for level in levels:
                ours = _first(values, results.rounds[sampled], level, metric)
                paper = printed.get((results.name(label), level))
                row.append(f'{paper} / {ours}' if paper is not None else ours)
            rows.append(row)
    caption = (
        f'First multiple of {every} rounds at which {unit(metric)}, averaged over '
        f'{results.num_seeds} seeds, reaches the level above; in brackets the range over seeds.'
        f'{" Paper / ours." if printed else ""}'
    )
    return Page('First round to reach a level', [Table(header, rows, caption)])


def _levels(results: Results, metric: str, place: int, shares: Sequence[float]) -> list[float]:
    ends = [
        results.tail(label, results.main_model(label), metric, 0.1)[place].mean()
        for label in results.curves
    ]
    best = np.nanmax(ends) if evaluation.higher_is_better(metric) else np.nanmin(ends)
    return [float(share * best) for share in shares]


def _first(values: np.ndarray, rounds: np.ndarray, level: float, metric: str) -> str:
    """``300 (150-450)`` for float[S, E]."""

    def reached(curve: np.ndarray) -> str:
        there = curve >= level if evaluation.higher_is_better(metric) else curve <= level
        return str(rounds[np.argmax(there)]) if there.any() else 'never'

    seeds = [reached(curve) for curve in values]
    in_time = sorted((seed for seed in seeds if seed != 'never'), key=int)
    ordered = in_time + ['never'] * (len(seeds) - len(in_time))
    span = ordered[0] if ordered[0] == ordered[-1] else f'{ordered[0]} to {ordered[-1]}'
    return f'{reached(values.mean(axis=0))} ({span})'
