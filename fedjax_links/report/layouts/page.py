"""What a layout returns, and what several layouts say alike."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fedjax_links.plot import panels
from fedjax_links.report.source import Ends, Key, Source
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


def labels(source: Source, *, model: bool = False) -> dict[str, Callable[[Key], str]]:
    """The columns that say what a row is about: pattern, algorithm, and candidate model.

    Args:
      source: what ran.
      model: whether rows are of all models.
    """
    columns: dict[str, Callable[[Key], str]] = {
        'pattern': lambda key: source.name(key[0]),
        'algorithm': lambda key: source.name(key[1]),
    }
    return columns | ({'model': lambda key: key[2].replace('_', ' ')} if model else {})


def draw_panels(
    source: Source,
    shown: Sequence[str],
    draw: Callable[[Any, str], None],
    columns: int = 3,
    **options: Any,
) -> Callable[[Any], None]:
    """What draws a panel for each of some labels, under its name.

    Args:
      source: what ran.
      shown: the labels.
      draw: draws on axes what belongs to a label.
      columns: panels side by side, at most.
      **options: of ``figure.subplots``.
    """

    def on(figure: Any) -> None:
        grid = panels.grid(figure, len(shown), columns, **options)
        for axes, label in zip(grid, shown, strict=True):
            draw(axes, label)
            axes.set_title(source.name(label), fontsize=10)

    return on


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
