"""The best point of the grid of every algorithm, and whether it lies at an edge."""

from fedjax_links.report import tables
from fedjax_links.report.layouts.page import Page, edge
from fedjax_links.report.source import Key, Source
from fedjax_links.results.metric import numbers_of


def best(source: Source, *, metric: str | None = None, tail: float = 0.1) -> Page:
    """One row per pattern and algorithm: its best point, and the difference to the baseline's.

    Args:
      source: what ran.
      metric: which metric; that of the run by default.
      tail: share of the evaluations, the last ones, that each seed is averaged over.

    Returns:
      The table; a value at an edge of the grid is marked.

    Raises:
      ValueError: for an unknown metric, or one whose direction is unknown.
    """
    ends = source.ends(metric, tail)
    winners = {pattern: source.best_series(ends, [pattern]) for pattern in source.patterns}
    keys = [
        (pattern, label, source.main_models[label])
        for pattern, labels in winners.items()
        for label in labels.values()
    ]

    def paired(key: Key) -> str:
        base = winners[key[0]].get(source.baseline)
        found = ends.paired(key, None if base is None else (key[0], base, source.main_models[base]))
        return '' if found is None else ends.metric.interval(found, signed=True)

    table = tables.fill(
        keys,
        {
            'pattern': lambda key: source.name(key[0]),
            'algorithm': lambda key: source.name(source.members[key[1]][0]),
            'best point': lambda key: _point(source, key[1]),
            'ours': ends.level,
            f"ours, minus {source.name(source.baseline)}'s best": paired,
        },
        f'{ends.caption()}, which does not know that the best was picked. An arrow marks a value '
        'at the upper (↑) or lower (↓) edge of the grid.',
    )
    return Page('Best points of the grid', [table])


def _point(source: Source, label: str) -> str:
    algorithm, point = source.members[label]
    others = [at for owner, at in source.members.values() if owner == algorithm]
    return ', '.join(
        f'{name} = {numbers_of(value)}{edge(value, [at[name] for at in others])}'
        for name, value in point.items()
    )
