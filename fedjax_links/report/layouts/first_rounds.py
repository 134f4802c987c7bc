"""How soon each algorithm first reaches a level."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links import checks, describing, errors
from fedjax_links.plot.panels import unit
from fedjax_links.report.layouts.page import Page, metric_of, number, seeds, span
from fedjax_links.report.published import printed
from fedjax_links.report.results import Results
from fedjax_links.report.tables import Table

_TAIL = 0.1  # share of the evaluations that make a final level


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
      shares: levels as shares of the best final level of all algorithms under a pattern, above 1
        for a loss; either these or targets.
      every: rounds between samples; those of the evaluations by default.
      metric: which metric; that of the results by default.
      published: a ``module:factory`` that returns texts by (pattern, algorithm, target), and its
        options; ``paper / ours`` then.

    Returns:
      One row per pattern and algorithm; in brackets the range over seeds.

    Raises:
      ValueError: if both or none of targets and shares are given, ``every`` fits no evaluation, or
        a metric or printed table is unknown.
    """
    metric = metric_of(results, metric)
    larger = results.larger_is_better(metric)
    if bool(targets) == bool(shares):
        raise errors.invalid('targets', 'be given, or `shares`, not both', (targets, shares))
    period, last = int(np.gcd.reduce(results.rounds)), int(results.rounds[-1])
    every = period if every is None else every
    checks.static_int('every', every, maximum=last)
    if every % period:
        raise errors.invalid('every', f'be a multiple of eval_every = {period}', every)
    sampled = results.rounds % every == 0
    paper = printed(published)
    rows = []
    for place, pattern in enumerate(results.patterns):
        best = _best(results, metric, place)
        levels = [float(target) for target in targets] or [share * best for share in shares]
        for label, models in results.curves.items():
            values = models[results.main_model(label)][metric][place][:, sampled]
            row = [results.name(pattern), results.name(label)]
            if shares:
                row.append(number(metric, best))
            for level in levels:
                ours = _first(values, results.rounds[sampled], level, larger)
                theirs = paper.get((results.name(pattern), results.name(label), level))
                row.append(ours if theirs is None else f'{theirs} / {ours}')
            rows.append(row)
    if shares:
        columns = ['best', *(f'{100 * share:g} % of it' for share in shares)]
    else:
        columns = [number(metric, target) for target in targets]
    caption = (
        f'First multiple of {every} rounds at which {unit(metric)}, averaged over '
        f'{seeds(results)}, reaches the level above; in brackets the range over seeds.'
        f'{f" Best: of all algorithms, {span(results, _TAIL)}." if shares else ""}'
        f'{" Paper / ours." if paper else ""}'
    )
    table = Table(['pattern', 'algorithm', *columns], rows, caption)
    return Page('First round to reach a level', [table])


def _best(results: Results, metric: str, place: int) -> float:
    """The best final level of all algorithms; NaN if all diverged."""
    ends = [
        results.tail(label, results.main_model(label), metric, _TAIL)[place].mean()
        for label in results.curves
    ]
    finite = [float(end) for end in ends if np.isfinite(end)]
    choose = max if results.larger_is_better(metric) else min
    return choose(finite, default=float('nan'))


def _first(values: np.ndarray, rounds: np.ndarray, level: float, larger: bool) -> str:
    """``300 (150 to 450)`` for float[S, E]; no range for one seed."""

    def reached(curve: np.ndarray) -> str:
        there = curve >= level if larger else curve <= level
        return str(rounds[np.argmax(there)]) if there.any() else 'never'

    mean = reached(values.mean(axis=0))
    if len(values) == 1:
        return mean
    ordered = sorted(map(reached, values), key=lambda r: np.inf if r == 'never' else int(r))
    return f'{mean} ({describing.span(ordered[0], ordered[-1])})'
