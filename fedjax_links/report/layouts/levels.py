"""Final levels of every algorithm on every pattern, beside printed ones."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fedjax_links import evaluation
from fedjax_links.plot import panels
from fedjax_links.plot.levels import difference_label, draw_differences
from fedjax_links.report import tables
from fedjax_links.report.layouts.page import Page, mark_edges
from fedjax_links.report.published import Level, printed
from fedjax_links.report.source import Ends, Key, Source
from fedjax_links.report.tables import Table

_COLUMNS = 3
_MOST_ROWS = 40

Paper = Mapping[tuple[str, str], Level]


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
        difference = evaluation.Interval(np.array(level.mean - base.mean), np.array(np.nan), 1)
        return ends.metric.interval(difference, signed=True)

    def difference(key: Key) -> str:
        base = bases[key[1]]
        found = ends.paired(key, None if base is None else (key[0], base, source.main_models[base]))
        return '' if found is None else ends.metric.difference(found)

    arrow = (
        ' An arrow: the rate was tuned and lies at the upper (↑) or lower (↓) edge of what was '
        'tried, so that a better one may lie outside.'
    )
    table = tables.fill(
        keys,
        {
            'pattern': lambda key: source.name(key[0]),
            'algorithm': lambda key: source.name(key[1]) + marks[key[1]],
            'model': lambda key: key[2].replace('_', ' '),
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
    against = {label: base for label, base in bases.items() if base not in (None, label)}
    heading = f'Final {ends.metric.words}'
    if not 0 < len(against) <= _MOST_ROWS:
        return Page(heading, found)
    return Page(heading, found, *_picture(source, ends, against))


def _printed(source: Source, paper: Paper, key: Key, label: str) -> Level | None:
    """What is printed of a series, beside the model that papers evaluate."""
    if key[2] != source.main_models[key[1]]:
        return None
    return paper.get((source.name(key[0]), source.name(label)))


def _picture(
    source: Source, ends: Ends, against: Mapping[str, str]
) -> tuple[Callable[[Any], None], tuple[float, float]]:
    """Draws the differences to the baseline, one panel per pattern; and inches."""
    models, rows = source.main_models, -(-len(source.patterns) // _COLUMNS)
    columns = -(-len(source.patterns) // rows)
    names = {label: panels.named(source.name(label), models[label]) for label in models}
    letters = max(len(names[label]) for label in against)
    of_base = panels.named(source.name(source.baseline), models[next(iter(against.values()))])
    width = max(2.6 * columns + 0.08 * letters + 0.2, 5.0)
    size = (width, (0.24 * len(against) + 0.6) * rows + 0.7)

    def draw(figure: Any) -> None:
        grid = panels.grid(figure, len(source.patterns), columns, sharey=True)
        for axes, pattern in zip(grid, source.patterns, strict=True):
            found = {label: ends.values[pattern, label, models[label]] for label in models}
            draw_differences(axes, found, against, ends.metric, names)
            axes.set_title(source.name(pattern), fontsize=10)
            axes.locator_params(axis='x', nbins=4)
            axes.ticklabel_format(axis='x', scilimits=(-3, 4), useMathText=True)
        figure.supxlabel(difference_label(ends.metric, of_base), fontsize=10)

    return draw, size


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
