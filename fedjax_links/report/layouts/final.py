"""Final levels: all metrics, algorithms beside printed levels, best points, bars, their spread."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fedjax_links import evaluation, plot
from fedjax_links.core import errors
from fedjax_links.pages import tables
from fedjax_links.planning import seeding
from fedjax_links.plot import panels
from fedjax_links.plot.bars import LETTERS_PER_INCH
from fedjax_links.report.comparisons import SEED_INTERVAL, FinalKey, FinalMetrics
from fedjax_links.report.layouts.page import Page, labels, with_panels
from fedjax_links.report.layouts.rates import edge, mark_edges
from fedjax_links.report.run_view import RunView
from fedjax_links.results import dataset
from fedjax_links.results.metric import Metric, numbers_of

_MOST_ROWS = 40
_MOST_INCHES = 15.0

Paper = Mapping[tuple[str, str], tables.Level]


def metrics(source: RunView, *, tail: float | None = None) -> Page:
    """One row per pattern, algorithm and model, one column per metric.

    Args:
      source: what ran.
      tail: share of the evaluations, the last ones, that each seed is averaged over; a
        tenth by default.

    Returns:
      The table.

    Raises:
      ValueError: for a share that is none.
    """
    every = [source.ends(name, tail) for name in source.metrics]
    rows = [
        labels(source, key, model=True)
        | {ends.metric.title: ends.level(key) for ends in every}
        for key in source.rows(every_model=True)
    ]
    if len(source.patterns) == 1:
        rows = [
            {title: row[title] for title in row if title != 'pattern'} for row in rows
        ]
    span = every[0].span
    caption = f'{span[0].upper()}{span[1:]}; ± is {SEED_INTERVAL}.'
    return Page('All metrics', [tables.of_rows(rows, caption)])


def levels(
    source: RunView,
    *,
    metric: str | None = None,
    tail: float | None = None,
    margin: float | None = None,
    published: Mapping[str, Any] | None = None,
) -> Page:
    """One row per pattern, algorithm and model: paper, ours with interval, paired difference.

    Args:
      source: what ran.
      metric: which metric; that of the run by default.
      tail: share of the evaluations, the last ones, that each seed is averaged over; a
        tenth by default.
      margin: differences up to it count as alike, in the unit of the metric; by default that of
        seeds until decided, else none.
      published: a ``module:factory`` that returns a `pages.tables.Level` by (pattern, algorithm),
        and its options; no such columns by default.

    Returns:
      The table of levels, and the differences as a picture where they fit into one; with printed
      levels a second table that compares the orderings.

    Raises:
      ValueError: for an unknown metric or printed table, or a share that is none.
    """
    ends, paper = source.ends(metric, tail), tables.load_levels(published)
    keys, baseline = source.rows(every_model=True), source.name(source.baseline)
    bases = {label: source.baseline_of(label) for label in source.members}
    compared = any(bases.values()) and len(keys) > len(source.patterns)
    marks = {key: mark_edges(source, key[1], key[0]) for key in keys}
    found = {key: source.paired(ends, key, bases[key[1]], margin) for key in keys}
    verdicts = source.verdicts([*found.values()], margin)
    rows = []
    for key in keys:
        row = labels(source, key, model=True)
        row['algorithm'] += marks[key]
        if paper:
            row |= _printed(source, ends.metric, paper, key)
        row['ours'] = ends.level(key)
        if compared:
            gained = found[key]
            row[f'ours, minus {baseline}'] = verdicts.text(ends.metric, gained)
            row['verdict'] = verdicts.word(gained)
        rows.append(row)
    caption = (
        f'{ends.caption()}, and behind a difference {verdicts.interval}; '
        f'{verdicts.caption(ends.metric)}'
    )
    if any(marks.values()):
        caption += (
            ' An arrow: the rate was tuned and lies at the upper (↑) or lower (↓) edge of what was '
            'tried, so that a better one may lie outside.'
        )
    pages = [tables.of_rows(rows, caption)]
    if paper:
        pages += _orderings(source, ends, paper)
    drawn = (
        f'Points: mean differences between the same seeds, {ends.span}. '
        f'Bars: {verdicts.interval}; dashed where it has no end. '
        f'{"Thin lines include tuning. " if any(v and v.wide for v in found.values()) else ""}'
        'Filled where zero lies outside of all of them.'
    )
    page = Page(f'Final {ends.metric.words}', pages, caption=drawn)
    against = [label for label, base in bases.items() if base not in (None, label)]
    if not 0 < len(against) <= _MOST_ROWS:
        return page

    def draw(axes: Any, pattern: str) -> None:
        data = source.data.sel(pattern=[pattern])
        of_main = {k: found[pattern, k, source.main_models[k]] for k in source.members}
        wide = {k: float(v.wide.half_width) for k, v in of_main.items() if v and v.wide}
        plot.paired_differences(
            data, metric=ends.metric.name, tail=source.tail(tail), wide=wide, ax=axes
        )
        axes.set_title(panels.literal(source.name(pattern)), fontsize=10)
        axes.figure.supxlabel(axes.get_xlabel(), fontsize=10)
        axes.set_xlabel('')
        axes.locator_params(axis='x', nbins=4)
        axes.ticklabel_format(axis='x', scilimits=(-3, 4), useMathText=True)

    letters = max(
        len(panels.name_of(source.name(k), source.main_models[k])) for k in against
    )
    panel, around = (2.6, 0.24 * len(against) + 0.6), (0.08 * letters + 0.2, 0.7)
    return with_panels(
        page, source.patterns, draw, panel=panel, around=around, sharey=True
    )


def _printed(
    source: RunView, metric: Metric, paper: Paper, key: FinalKey
) -> dict[str, str]:
    """What is printed of a row, and its difference to the baseline's, if that is another one."""
    pattern, label, model = key
    shown, gap, names = '', '', (source.name(pattern), source.name(label))
    if names in paper and model == source.main_models[label]:
        mean, deviation = paper[names]
        shown = metric.number(mean)
        shown += '' if deviation is None else f' (sd {metric.number(deviation)})'
        base = paper.get((names[0], source.name(source.baseline)))
        if base is not None and label != source.baseline:
            gap = metric.interval(
                evaluation.seed_interval([mean - base.mean]), signed=True
            )
    return {'paper': shown, f'paper, minus {source.name(source.baseline)}': gap}


def _orderings(
    source: RunView, ends: FinalMetrics, paper: Paper
) -> Iterator[tables.Table]:
    """Best to worst here, at main models and at the servers', and in the paper; how far alike."""
    from scipy import stats  # 0.3 s, and only this table needs it

    every = {'client means where clients keep models': source.main_models}
    if any(model != 'server' for model in source.main_models.values()):
        every['server models'] = dict.fromkeys(source.main_models, 'server')
    for whose, models in every.items():
        rows = []
        for pattern in source.patterns:
            names = {
                label: (source.name(pattern), source.name(label)) for label in models
            }
            theirs = {
                label: paper[name].mean
                for label, name in names.items()
                if name in paper
            }
            ours = {k: ends.score((pattern, k, models[k])) for k in theirs}
            if len(theirs) < 2:
                continue
            row = {'pattern': source.name(pattern)}
            for title, scores in (('order in the paper', theirs), ('order here', ours)):
                best_first = sorted(scores, key=scores.__getitem__, reverse=True)
                row[title] = ', '.join(map(source.name, best_first))
            tau = stats.kendalltau(list(ours.values()), list(theirs.values())).statistic
            rows.append({**row, 'tau': '' if np.isnan(tau) else f'{tau:+.2f}'})
        caption = (
            f'Best to worst by the mean, {whose}; who diverged is last. '
            "Kendall's tau is 1 for the same order and -1 for the reverse."
        )
        if rows:
            yield tables.of_rows(rows, caption)


def best(
    source: RunView, *, metric: str | None = None, tail: float | None = None
) -> Page:
    """One row per pattern and algorithm: its best point, and the difference to the baseline's.

    Args:
      source: what ran.
      metric: which metric; that of the run by default.
      tail: share of the evaluations, the last ones, that each seed is averaged over; a
        tenth by default.

    Returns:
      The table; a value at an edge of the grid is marked.

    Raises:
      ValueError: for an unknown metric, or one whose direction is unknown.
    """
    ends = source.ends(metric, tail)
    _ = ends.metric.sign  # or nothing is best
    baseline = f"ours, minus {source.name(source.baseline)}'s best"
    rows = []
    for pattern in source.patterns:
        winners = source.best_series(ends, [pattern])
        for algorithm, label in winners.items():
            key = pattern, label, source.main_models[label]
            found = source.paired(ends, key, winners.get(source.baseline))
            gained = (
                ends.metric.interval(found, signed=True, wide=found.wide)
                if found
                else ''
            )
            row = {'pattern': source.name(pattern), 'algorithm': source.name(algorithm)}
            row |= {
                'best point': _point(source, label),
                'ours': ends.level(key),
                baseline: gained,
            }
            rows.append(row)
    caption = (
        f'{ends.caption()}, which does not know that the best was picked. An arrow marks a value '
        'at the upper (↑) or lower (↓) edge of the grid.'
    )
    return Page('Best points of the grid', [tables.of_rows(rows, caption)])


def _point(source: RunView, label: str) -> str:
    """The values of a series, marked where they are at an edge of its algorithm's."""
    algorithm, point = source.members[label]
    others = [at for owner, at in source.members.values() if owner == algorithm]
    return ', '.join(
        f'{name} = {numbers_of(value)}{edge(value, [at[name] for at in others])}'
        for name, value in point.items()
    )


def bars(
    source: RunView, *, metric: str | None = None, tail: float | None = None
) -> Page:
    """Bars with 95 % intervals over seeds.

    Args:
      source: what ran.
      metric: which metric; that of the run by default.
      tail: share of the evaluations, the last ones, that each seed is averaged over; a
        tenth by default.

    Returns:
      The bars, and their heights as a table.

    Raises:
      ValueError: for an unknown metric or a share that is none.
    """
    ends, models = source.ends(metric, tail), source.main_models
    names = {
        label: panels.name_of(source.name(label), models[label]) for label in models
    }
    patterns = {pattern: source.name(pattern) for pattern in source.patterns}
    longest = max(map(len, ' '.join(patterns.values()).split())) / LETTERS_PER_INCH
    inches = len(patterns) * max(0.28 * len(names), longest + 0.2)
    inches = min(max(7.0, inches), _MOST_INCHES)
    rows, heights = [], {}
    for label, model in models.items():
        heights[label] = np.array(
            [ends.choices[p, label, model].values[0] for p in patterns]
        )
        own = {name: ends.level((p, label, model)) for p, name in patterns.items()}
        rows.append({'algorithm': source.name(label), **own})

    def draw(figure: Any) -> None:
        options = {'names': names, 'legend': False, 'ax': figure.add_subplot()}
        plot.level_bars(heights, [*patterns.values()], ends.metric.name, **options)
        panels.legend_below(figure, list(names.values()), inches)

    table = tables.of_rows(rows, f'{ends.caption()}.')
    drawn = (
        f'Bars: {ends.metric.title}, {ends.span}. '
        + 'Whiskers: the 95 % intervals over seeds (Student t).'
        * (source.num_seeds > 2)
        + 'Dots: the two seeds, which tell no interval.' * (source.num_seeds == 2)
    )
    heading = f'Final {ends.metric.words} as bars'
    return Page(heading, [table], draw, (inches, 4.2), drawn)


def spread(
    source: RunView, *, metric: str | None = None, tail: float | None = None
) -> Page:
    """One row per pattern and algorithm, one column per stream that alone followed the seed.

    For runs with a column ``redraw`` in their grid, see `seeding`.

    Args:
      source: what ran.
      metric: which metric; that of the run by default.
      tail: share of the evaluations, the last ones, that each seed is averaged over; a
        tenth by default.

    Returns:
      A table of standard deviations over seeds.

    Raises:
      ValueError: for an unknown metric, a share that is none, or results of one seed, or without
        such a grid.
    """
    ends = source.ends(metric, tail)
    if source.num_seeds < 2:
        raise errors.invalid(
            'num_seeds', 'be at least 2 to show a spread', source.num_seeds
        )
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for pattern, label, model in source.rows():
        algorithm, point = source.members[label]
        if seeding.GRID not in point:
            streams = ', '.join((*seeding.STREAMS, seeding.BY_SEED))
            raise errors.invalid(
                'grid', f"have a column 'redraw' of several of {streams}", point
            )
        rest = {name: value for name, value in point.items() if name != seeding.GRID}
        names = source.name(pattern), dataset.label(source.name(algorithm), rest)
        row = rows.setdefault(names, {'pattern': names[0], 'algorithm': names[1]})
        width = np.std(ends.choices[pattern, label, model].values[0], ddof=1)
        shown = f'{100 * width:.2f}' if ends.metric.is_share else f'{width:.3g}'
        row[point[seeding.GRID].replace('_', ' ')] = (
            'diverged' if np.isnan(width) else shown
        )
    error, by_seed = (
        1 / np.sqrt(2 * (source.num_seeds - 1)),
        seeding.BY_SEED.replace('_', ' '),
    )
    caption = (
        f'Standard deviation over seeds of {ends.metric.title}: {ends.span}. In each column '
        'that stream alone follows the seed and all others are those of the first seed; under '
        f'{by_seed}, all do. The relative standard error of a column is {error:.0%} '
        'for normal values; squares add up only where streams do not interact.'
    )
    return Page(
        'Spread by stream of draws', [tables.of_rows([*rows.values()], caption)]
    )
