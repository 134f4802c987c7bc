"""What a layout returns, and what several layouts say alike."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_links.experiment.plan import choosing
from fedjax_links.report.source import Ends, Source
from fedjax_links.report.tables import Table


class Page(NamedTuple):
    """One layout of one run.

    Attributes:
      heading: a few words.
      tables: to read.
      draw: draws on an empty matplotlib figure; None without a picture.
      size: inches, width and height of the picture.
    """

    heading: str
    tables: Sequence[Table]
    draw: Callable[[Any], None] | None = None
    size: tuple[float, float] = (10.0, 5.0)


MOST_SERIES = 24


def limit_series(
    source: Source, heading: str, ends: Ends, patterns: Sequence[str] | None = None
) -> tuple[Source, str]:
    """The series that a picture of curves can tell apart.

    Args:
      source: what ran.
      heading: of the page.
      ends: levels by which points are judged, of a metric that the page draws.
      patterns: under which patterns; all by default.

    Returns:
      All, or of each algorithm the best point where there are more than 24 series (the first one if
      nothing says which way the metric is better); the heading, which then says so, and by what.
    """
    if len(source.members) <= MOST_SERIES:
        return source, heading
    if ends.metric.direction:
        chosen, which = source.best_series(ends, patterns), 'best'
        by = f' by {ends.metric.words}, {ends.span}'
    else:
        chosen, which = {owner: k for k, (owner, _) in [*source.members.items()][::-1]}, 'first'
        by = ''
    kept = [label for label in source.members if label in chosen.values()]
    if len(kept) == len(source.members):
        return source, heading
    fewer = dataclasses.replace(source, data=source.data.sel(series=kept))
    return fewer, f'{heading}, every algorithm at the {which} point of its grid{by}'


def mark_edges(source: Source, label: str) -> str:
    """Arrows for a tuned series whose best values lie at an edge of what was tried."""
    columns = source.tuning.get(label)
    if columns is None:
        return ''
    best = choosing.best_of(columns['score'], source.metric().direction)
    if best is None:
        return ''
    tried = {name: values.tolist() for name, values in columns.items() if name != 'score'}
    return ''.join(dict.fromkeys(edge(values[best], values) for values in tried.values()))


def edge(value: Any, values: Sequence[Any]) -> str:
    """`` ↑`` or `` ↓`` for the largest or smallest of several numbers, else nothing."""
    numbers = [v for v in values if isinstance(v, int | float | np.number)]
    if len(set(numbers)) < 2 or value not in numbers:
        return ''
    return ' ↑' if value == max(numbers) else ' ↓' if value == min(numbers) else ''
