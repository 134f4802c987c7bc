"""How soon each algorithm first reaches a level."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links.core import checks, describing, errors
from fedjax_links.report import tables
from fedjax_links.report.layouts.page import Page
from fedjax_links.report.published import printed
from fedjax_links.report.source import Ends, Key, Source


def first_rounds(
    source: Source,
    *,
    targets: Sequence[float] = (),
    shares: Sequence[float] = (),
    every: int | None = None,
    metric: str | None = None,
    published: Mapping[str, Any] | None = None,
) -> Page:
    """First sampled round at which the mean over seeds reaches each level.

    Args:
      source: what ran.
      targets: levels of the metric.
      shares: levels as shares of the best final level of all algorithms under a pattern, above 1
        for a loss; either these or targets.
      every: rounds between samples; those of the evaluations by default.
      metric: which metric; that of the run by default.
      published: a ``module:factory`` that returns texts by (pattern, algorithm, target), and its
        options; ``paper / ours`` then.

    Returns:
      One row per pattern and algorithm; in brackets the range over seeds.

    Raises:
      ValueError: if both or none of targets and shares are given, ``every`` fits no evaluation, or
        a metric or printed table is unknown.
    """
    ends = source.ends(metric)
    kind, _ = ends.metric, ends.metric.sign
    if bool(targets) == bool(shares):
        raise errors.invalid('targets', 'be given, or `shares`, not both', (targets, shares))
    period, last = int(np.gcd.reduce(source.rounds)), int(source.rounds[-1])
    every = period if every is None else every
    checks.static_int('every', every, maximum=last)
    if every % period:
        raise errors.invalid('every', f'be a multiple of eval_every = {period}', every)
    sampled, paper = source.rounds % every == 0, printed(published)
    best = {pattern: _best(source, ends, pattern) for pattern in source.patterns}

    def first(key: Key, level: float) -> str:
        values = source.curve(kind.name, key)[:, sampled]

        def reached(curve: np.ndarray) -> float:
            there = kind.reached(curve, level)
            return float(source.rounds[sampled][np.argmax(there)]) if there.any() else np.inf

        ours = say_when(reached(values.mean(axis=0)), list(map(reached, values)), _round)
        theirs = paper.get((source.name(key[0]), source.name(key[1]), level))
        return ours if theirs is None else f'{theirs} / {ours}'

    levels: dict[str, Any] = {
        f'{100 * share:g} % of it': lambda key, share=share: first(key, share * best[key[0]])
        for share in shares
    }
    levels |= {
        kind.number(target): lambda key, target=target: first(key, float(target))
        for target in targets
    }
    table = tables.fill(
        source.rows(),
        {
            'pattern': lambda key: source.name(key[0]),
            'algorithm': lambda key: source.name(key[1]),
            'best': (lambda key: kind.number(best[key[0]])) if shares else None,
            **levels,
        },
        f'First multiple of {every} rounds at which {kind.title}, averaged over '
        f'{source.seeds}, reaches the level above; in brackets the range over seeds.'
        f'{f" Best: of all algorithms, {ends.span}." if shares else ""}'
        f'{" Paper / ours." if paper else ""}',
    )
    return Page('First round to reach a level', [table])


def say_when(mean: float, every: Sequence[float], show: Callable[[float], str]) -> str:
    """``300 (150 to 450)``: when the mean arrives, and the range over seeds; no range for one."""
    shown = [
        'never' if np.isinf(value) else show(value) for value in (mean, min(every), max(every))
    ]
    return shown[0] if len(every) == 1 else f'{shown[0]} ({describing.span(*shown[1:])})'


def _round(value: float) -> str:
    return f'{value:.0f}'


def _best(source: Source, ends: Ends, pattern: str) -> float:
    """The best final level of all algorithms; NaN if all diverged."""
    sign = ends.metric.sign
    levels = [ends.values[key].mean() for key in source.rows() if key[0] == pattern]
    finite = [sign * float(level) for level in levels if np.isfinite(level)]
    return sign * max(finite, default=float('nan'))
