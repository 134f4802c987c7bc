"""Final levels: all metrics, algorithms beside printed levels, best points, bars, their spread."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedjax_links import plot
from fedjax_links.core import errors
from fedjax_links.experiment.plan import redraws
from fedjax_links.plot import panels
from fedjax_links.plot.levels import LETTERS_PER_INCH
from fedjax_links.report import tables
from fedjax_links.report.layouts.page import Page, labels
from fedjax_links.report.layouts.rates import edge, mark_edges
from fedjax_links.report.published import Level, printed
from fedjax_links.report.source import Ends, Key, Source
from fedjax_links.report.tables import Table
from fedjax_links.results.metric import numbers_of

_COLUMNS = 3
_MOST_ROWS = 40
_MOST_INCHES = 15.0

Paper = Mapping[tuple[str, str], Level]


def metrics(source: Source, *, tail: float = 0.1) -> Page:
    """One row per pattern, algorithm and model, one column per metric.

    Args:
      source: what ran.
      tail: share of the evaluations, the last ones, that each seed is averaged over.

    Returns:
      The table.

    Raises:
      ValueError: for a share that is none.
    """
    every = [source.ends(name, tail) for name in source.metrics]
    span = every[0].span
    columns = labels(source, model=True) | {ends.metric.title: ends.level for ends in every}
    if len(source.patterns) == 1:
        del columns['pattern']
    table = tables.fill(
        source.rows(every_model=True),
        columns,
        f'{span[0].upper()}{span[1:]}; ± is the 95 % interval over seeds (Student t).',
    )
    return Page('All metrics', [table])


def levels(
    source: Source,
    *,
    metric: str | None = None,
    tail: float = 0.1,
    published: Mapping[str, Any] | None = None,
) -> Page:
    """One row per pattern, algorithm and model: paper, ours with interval, paired difference.

    Args:
      source: what ran.
      metric: which metric; that of the run by default.
      tail: share of the evaluations, the last ones, that each seed is averaged over.
      published: a ``module:factory`` that returns a `Level` by (pattern, algorithm), and its
        options; no such columns by default.

    Returns:
      The table of levels, and the differences as a picture where they fit into one; with printed
      levels a second table that compares the orderings.

    Raises:
      ValueError: for an unknown metric or printed table, or a share that is none.
    """
    ends, paper = source.ends(metric, tail), printed(published)
    keys, baseline = source.rows(every_model=True), source.name(source.baseline)
    bases = {label: source.baseline_of(label) for label in source.members}
    compared = any(bases.values()) and len(keys) > len(source.patterns)
    marks = {label: mark_edges(source, label) for label in source.members}

    def level_of_paper(key: Key) -> str:
        level = _printed(source, paper, key, key[1])
        if level is None:
            return ''
        shown = ends.metric.number(level.mean)
        spread = level.deviation
        return shown if spread is None else f'{shown} (sd {ends.metric.number(spread)})'

    def difference_of_paper(key: Key) -> str:
        level, base = (_printed(source, paper, key, k) for k in (key[1], source.baseline))
        if level is None or base is None or key[1] == source.baseline:
            return ''
        gap = level.mean - base.mean
        return ('+' if gap >= 0 else '') + ends.metric.number(gap)

    def difference(key: Key) -> str:
        found = source.paired(ends, key, bases[key[1]])
        return '' if found is None else ends.metric.difference(found)

    arrow = (
        ' An arrow: the rate was tuned and lies at the upper (↑) or lower (↓) edge of what was '
        'tried, so that a better one may lie outside.'
    )
    table = tables.fill(
        keys,
        {
            **labels(source, model=True),
            'algorithm': lambda key: source.name(key[1]) + marks[key[1]],
            'paper': level_of_paper if paper else None,
            f'paper, minus {baseline}': difference_of_paper if paper else None,
            'ours': ends.level,
            f'ours, minus {baseline}': difference if compared else None,
        },
        f'{ends.caption()}, and behind a difference that of differences between runs with the '
        f'same links and batches; * where zero is outside.{arrow if any(marks.values()) else ""}',
    )
    found = [table]
    if paper:
        found.append(_orderings(source, ends, paper))
        if any(model != 'server' for model in source.main_models.values()):
            found.append(_orderings(source, ends, paper, by_server=True))
    against = [label for label, base in bases.items() if base not in (None, label)]
    heading = f'Final {ends.metric.words}'
    if not 0 < len(against) <= _MOST_ROWS:
        return Page(heading, found)
    models, rows = source.main_models, -(-len(source.patterns) // _COLUMNS)
    columns = -(-len(source.patterns) // rows)
    letters = max(len(panels.named(source.name(label), models[label])) for label in against)
    width = max(2.6 * columns + 0.08 * letters + 0.2, 5.0)
    size = (width, (0.24 * len(against) + 0.6) * rows + 0.7)

    def draw(figure: Any) -> None:
        grid = panels.grid(figure, len(source.patterns), columns, sharey=True)
        plot.paired_differences(source.data, metric=ends.metric.name, tail=tail, ax=grid)
        figure.supxlabel(grid[0].get_xlabel(), fontsize=10)
        for axes, pattern in zip(grid, source.patterns, strict=True):
            axes.set_xlabel('')
            axes.set_title(source.name(pattern), fontsize=10)
            axes.locator_params(axis='x', nbins=4)
            axes.ticklabel_format(axis='x', scilimits=(-3, 4), useMathText=True)

    return Page(heading, found, draw, size)


def _printed(source: Source, paper: Paper, key: Key, label: str) -> Level | None:
    """What is printed of a series, beside the model that papers evaluate."""
    if key[2] != source.main_models[key[1]]:
        return None
    return paper.get((source.name(key[0]), source.name(label)))


def _orderings(source: Source, ends: Ends, paper: Paper, by_server: bool = False) -> Table:
    """Best to worst here and in the paper, and how far they agree."""
    from scipy import stats  # 0.3 s, and only this table needs it

    sign = ends.metric.sign
    rows = []
    for pattern in source.patterns:
        names = {label: (source.name(pattern), source.name(label)) for label in source.members}
        theirs = {label: paper[name].mean for label, name in names.items() if name in paper}
        if len(theirs) < 2:
            continue
        models = {label: 'server' if by_server else source.main_models[label] for label in theirs}
        ours = {
            label: sign * float(ends.values[pattern, label, model].mean())
            for label, model in models.items()
        }
        ours = {label: -np.inf if np.isnan(score) else score for label, score in ours.items()}
        tau = stats.kendalltau(list(ours.values()), list(theirs.values())).statistic
        orders = [
            ', '.join(map(source.name, sorted(scores, key=lambda label: -scores[label])))
            for scores in (theirs, ours)
        ]
        rows.append([source.name(pattern), *orders, '' if np.isnan(tau) else f'{tau:+.2f}'])
    whose = 'server models' if by_server else 'client means where clients keep models'
    caption = (
        f'Best to worst by the mean, {whose}; who diverged is last. '
        "Kendall's tau is 1 for the same order and -1 for the reverse."
    )
    return Table(['pattern', 'order in the paper', 'order here', 'tau'], rows, caption)


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
        found = source.paired(ends, key, winners[key[0]].get(source.baseline))
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


def bars(source: Source, *, metric: str | None = None, tail: float = 0.1) -> Page:
    """Bars with 95 % intervals over seeds.

    Args:
      source: what ran.
      metric: which metric; that of the run by default.
      tail: share of the evaluations, the last ones, that each seed is averaged over.

    Returns:
      The bars, and their heights as a table.

    Raises:
      ValueError: for an unknown metric or a share that is none.
    """
    ends, models = source.ends(metric, tail), source.main_models
    names = {label: panels.named(source.name(label), models[label]) for label in models}
    words = ' '.join(source.name(pattern) for pattern in source.patterns).split()
    longest = max(map(len, words)) / LETTERS_PER_INCH
    inches = len(source.patterns) * max(0.28 * len(names), longest + 0.2)
    inches = min(max(7.0, inches), _MOST_INCHES)

    def draw(figure: Any) -> None:
        plot.level_bars(
            {
                label: np.array([ends.values[p, label, models[label]] for p in source.patterns])
                for label in models
            },
            [source.name(pattern) for pattern in source.patterns],
            ends.metric.name,
            names=names,
            legend=False,
            ax=figure.add_subplot(),
        )
        panels.legend_below(figure, list(names.values()), inches)

    heights = {
        source.name(pattern): lambda k, pattern=pattern: ends.level((pattern, k, models[k]))
        for pattern in source.patterns
    }
    table = tables.fill(models, {'algorithm': source.name, **heights}, f'{ends.caption()}.')
    return Page(f'Final {ends.metric.words} as bars', [table], draw, (inches, 4.2))


def spread(source: Source, *, metric: str | None = None, tail: float = 0.1) -> Page:
    """One row per pattern and algorithm, one column per stream that alone followed the seed.

    For runs with a column ``redraw`` in their grid, see `redraws`.

    Args:
      source: what ran.
      metric: which metric; that of the run by default.
      tail: share of the evaluations, the last ones, that each seed is averaged over.

    Returns:
      A table of standard deviations over seeds.

    Raises:
      ValueError: for an unknown metric, a share that is none, or results of one seed, or without
        such a grid.
    """
    ends = source.ends(metric, tail)
    if source.num_seeds < 2:
        raise errors.invalid('num_seeds', 'be at least 2 to show a spread', source.num_seeds)
    found: dict[str, dict[str, str]] = {}
    for label, (algorithm, point) in source.members.items():
        if redraws.GRID not in point:
            streams = ', '.join((*redraws.STREAMS, redraws.BY_SEED))
            raise errors.invalid('grid', f"have a column 'redraw' of several of {streams}", point)
        rest = [f'{k.rsplit(".", 1)[-1]} {v}' for k, v in point.items() if k != redraws.GRID]
        shown = ', '.join([source.name(algorithm), *rest])
        found.setdefault(shown, {})[point[redraws.GRID]] = label
    order = dict.fromkeys(stream for own in found.values() for stream in own)

    def deviation(row: tuple[str, str], stream: str) -> str:
        if (label := found[row[1]].get(stream)) is None:
            return ''
        width = float(np.std(ends.values[row[0], label, source.main_models[label]], ddof=1))
        if np.isnan(width):
            return ends.metric.number(width)
        return f'{100 * width:.2f}' if ends.metric.is_share else f'{width:.3g}'

    cells: dict[str, Any] = {_word(k): lambda row, k=k: deviation(row, k) for k in order}
    error = 1 / np.sqrt(2 * (source.num_seeds - 1))
    table = tables.fill(
        [(pattern, name) for pattern in source.patterns for name in found],
        {
            'pattern': lambda row: source.name(row[0]),
            'algorithm': lambda row: row[1],
            **cells,
        },
        f'Standard deviation over seeds of {ends.metric.title}: {ends.span}. In each column '
        'that stream alone follows the seed and all others are those of the first seed; under '
        f'{_word(redraws.BY_SEED)}, all do. The relative standard error of a column is {error:.0%} '
        'for normal values; squares add up only where streams do not interact.',
    )
    return Page('Spread by stream of draws', [table])


def _word(stream: str) -> str:
    return stream.replace('_', ' ')
