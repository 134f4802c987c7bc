"""Shows final metrics: all of them, best points, bars, and their spread over seeds."""

import itertools

import numpy as np

from fedjax_links import plot
from fedjax_links.core import errors
from fedjax_links.core.grids import Point
from fedjax_links.pages import tables
from fedjax_links.planning import seeding
from fedjax_links.plot import panels
from fedjax_links.plot.bars import LETTERS_PER_INCH
from fedjax_links.plot.panels import Figure
from fedjax_links.report.comparisons import FinalKey
from fedjax_links.report.layouts.page import (
    MOST_LEGEND_ROWS,
    PAPER_SCALE,
    Page,
    labels,
    models_text,
)
from fedjax_links.report.layouts.rates import edge
from fedjax_links.report.run_view import RunView
from fedjax_links.results import dataset
from fedjax_links.results.metric import Metric, format_values

_MOST_INCHES = 15.0
"""Width of a picture whose letters can still be read on a page."""


def metrics(view: RunView, *, tail: float | None = None) -> Page:
    """Shows all metrics: a row per pattern, algorithm and model, a column per metric.

    Args:
      view: what ran.
      tail: fraction of the evaluations, the last ones, that each seed is averaged over; a
        tenth by default.

    Returns:
      The table.

    Raises:
      ValueError: for a ``tail`` out of range.
    """
    all_final_metrics = [view.final_metrics(name, tail) for name in view.metrics]
    rows = []
    for key in view.rows(every_model=True):
        row = labels(view, key, model=True)
        if len(view.patterns) == 1:
            del row['pattern']
        for final_metrics in all_final_metrics:
            row[final_metrics.metric.title] = final_metrics.text(key)
        rows.append(row)
    span = all_final_metrics[0].span
    caption = f'{span[0].upper()}{span[1:]}; {all_final_metrics[0].intervals}.'
    return Page('All metrics', [tables.from_rows(rows, caption)])


def best(
    view: RunView, *, metric: str | None = None, tail: float | None = None
) -> Page:
    """Shows the best point of each algorithm, and the difference to the baseline's best.

    Args:
      view: what ran.
      metric: which metric; the run's metric by default.
      tail: fraction of the evaluations, the last ones, that each seed is averaged over; a
        tenth by default.

    Returns:
      A table with a row per pattern and algorithm; values at an edge of the grid are marked.

    Raises:
      ValueError: for an unknown metric, or one whose direction is unknown.
    """
    final_metrics = view.final_metrics(metric, tail)
    shown_metric = final_metrics.metric
    _ = shown_metric.sign  # raises if no point is best
    difference_title = f"minus {view.name(view.baseline)}'s best"
    rows = []
    for pattern in view.patterns:
        winners = view.best_series(final_metrics, [pattern])
        base = winners.get(view.baseline)
        for algorithm, label in winners.items():
            key = FinalKey(pattern, label, view.main_models[label])
            difference = view.paired_difference(final_metrics, key, base)
            difference_text = ''
            if difference is not None:
                difference_text = shown_metric.interval(
                    difference, signed=True, wide=difference.wide
                )
            row = {
                'pattern': view.name(pattern),
                'algorithm': view.name(algorithm),
                'best point': _point(view, label),
                shown_metric.words: final_metrics.text(key),
                difference_title: difference_text,
            }
            rows.append(row)
    caption = f'{final_metrics.caption()}.'
    if view.until:
        caption += f' ± of a difference is {view.verdicts([]).interval}.'
    if view.num_seeds > 1:
        caption += ' No interval includes the choice of the best point.'
    caption += ' An arrow marks a value at the upper (↑) or lower (↓) edge of the grid.'
    caption += models_text(view)
    return Page('Best points of the grid', [tables.from_rows(rows, caption)])


def _point(view: RunView, label: str) -> str:
    """Writes the values of a series' point, marked at an edge of the algorithm's values."""
    algorithm, point = view.members[label]
    points = [at for owner, at in view.members.values() if owner == algorithm]
    texts = []
    for name, value in point.items():
        column = [other[name] for other in points]
        arrow = edge(value, column)
        texts.append(f'{name} = {format_values(column)[column.index(value)]}{arrow}')
    return ', '.join(texts)


def bars(
    view: RunView, *, metric: str | None = None, tail: float | None = None
) -> Page:
    """Draws final metrics as bars with 95 % intervals over seeds.

    Args:
      view: what ran.
      metric: which metric; the run's metric by default.
      tail: fraction of the evaluations, the last ones, that each seed is averaged over; a
        tenth by default.

    Returns:
      The bars, and their heights as a table.

    Raises:
      ValueError: for an unknown metric or a ``tail`` out of range.
    """
    final_metrics = view.final_metrics(metric, tail)
    models = view.main_models
    names = {
        label: panels.name_of(view.name(label), model)
        for label, model in models.items()
    }
    patterns = {pattern: view.name(pattern) for pattern in view.patterns}
    longest_word = max(map(len, ' '.join(patterns.values()).split()))
    group_inches = max(0.28 * len(names), longest_word / LETTERS_PER_INCH + 0.2)
    width = min(max(7.0, len(patterns) * group_inches), _MOST_INCHES)
    rows = []
    heights: dict[str, list[np.ndarray]] = {}
    for label, model in models.items():
        row = {'algorithm': view.name(label)}
        heights[label] = []
        for pattern, name in patterns.items():
            key = FinalKey(pattern, label, model)
            row[name] = final_metrics.text(key)
            heights[label].append(final_metrics.choices[key].values[0])
        rows.append(row)

    def draw(figure: Figure) -> None:
        plot.metric_bars(
            heights,
            [*patterns.values()],
            final_metrics.metric.name,
            names=names,
            legend=False,
            ax=figure.add_subplot(),
        )
        panels.legend_below(figure, list(names.values()))

    all_values = list(itertools.chain(*heights.values()))
    num_seeds = set(map(len, all_values))
    notes = [f'Bars: {final_metrics.metric.title}, {final_metrics.span}.']
    if max(num_seeds) > 2:
        notes.append('Whiskers: the 95 % intervals over seeds (Student t).')
    if 2 in num_seeds:
        notes.append('Dots: the two seeds, too few for an interval.')
    if np.isnan(np.concatenate(all_values)).any():
        notes.append('Crosses: diverged.')
    table = tables.from_rows(rows, f'{final_metrics.caption()}.')
    heading = f'Final {final_metrics.metric.words} as bars'
    legend = list(names.values())
    height = 4.2 + panels.legend_height(legend, width, has_room_for=MOST_LEGEND_ROWS)
    page = Page(heading, [table], draw, (width, height), ' '.join(notes))

    def resize(paper_width: float) -> Page:
        legend_height = panels.legend_height(legend, paper_width / PAPER_SCALE)
        height = PAPER_SCALE * (2.6 + legend_height)
        return page._replace(size=(paper_width, height))

    return page._replace(resize=resize)


def spread(
    view: RunView, *, metric: str | None = None, tail: float | None = None
) -> Page:
    """Shows how much each stream of random draws spreads the final metrics.

    For runs with a column ``redraw`` in their grid, see `seeding`.

    Args:
      view: what ran.
      metric: which metric; the run's metric by default.
      tail: fraction of the evaluations, the last ones, that each seed is averaged over; a
        tenth by default.

    Returns:
      A table of standard deviations over seeds: a row per pattern and algorithm, a column per
      stream that alone followed the seed.

    Raises:
      ValueError: for an unknown metric, a ``tail`` out of range, or for results of one seed, or
        without a column ``redraw``.
    """
    final_metrics = view.final_metrics(metric, tail)
    shown_metric = final_metrics.metric
    if view.num_seeds < 2:
        raise errors.invalid(
            'num_seeds', 'be at least 2 to show a spread', view.num_seeds
        )
    rows: dict[tuple[str, str], dict[str, str]] = {}
    series_names = _names_without_streams(view)
    for key in view.rows():
        _, point = view.members[key.series]
        if seeding.REDRAW_COLUMN not in point:
            streams = ', '.join((*seeding.STREAMS, seeding.BY_SEED))
            requirement = f"have a column 'redraw' of several of {streams}"
            raise errors.invalid('grid', requirement, point)
        stream = point[seeding.REDRAW_COLUMN].replace('_', ' ')
        pattern_name = view.name(key.pattern)
        series_name = series_names[key.series]
        row = rows.setdefault(
            (pattern_name, series_name),
            {'pattern': pattern_name, 'algorithm': series_name},
        )
        deviation = float(np.std(final_metrics.choices[key].values[0], ddof=1))
        row[stream] = _deviation_text(shown_metric, deviation)
    relative_error = 1 / np.sqrt(2 * (view.num_seeds - 1))
    by_seed = seeding.BY_SEED.replace('_', ' ')
    caption = (
        f'Standard deviation over seeds of {shown_metric.title}: {final_metrics.span}. In each '
        'column that stream alone follows the seed and all others are those of the first seed; '
        f'under {by_seed}, all do. The relative standard error of a column is '
        f'{100 * relative_error:.0f} % for normal values; squares add up only where streams do not '
        'interact.' + models_text(view)
    )
    table = tables.from_rows([*rows.values()], caption)
    return Page('Spread by stream of draws', [table])


def _names_without_streams(view: RunView) -> dict[str, str]:
    """Names each series; series that differ by the redrawn stream alone have one name."""
    member_of = {}
    for label, (algorithm, point) in view.members.items():
        rest = {k: v for k, v in point.items() if k != seeding.REDRAW_COLUMN}
        member_of[label] = (view.name(algorithm), rest)
    distinct: list[tuple[str, Point]] = []
    for member in member_of.values():
        if member not in distinct:
            distinct.append(member)
    names = dataset.labels(distinct)
    return {label: names[distinct.index(member)] for label, member in member_of.items()}


def _deviation_text(metric: Metric, deviation: float) -> str:
    """Writes a standard deviation, in points for fractions."""
    if np.isnan(deviation):
        return 'diverged'
    return f'{100 * deviation:.2f}' if metric.is_fraction else f'{deviation:.3g}'
