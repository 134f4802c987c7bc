"""Who is ahead where: differences to the baseline over two columns of the grid."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import checks, evaluation, plot
from fedjax_links.plot import heat, panels
from fedjax_links.plot.panels import is_share, unit
from fedjax_links.report import cells
from fedjax_links.report.cells import ROUND, Cells
from fedjax_links.report.layouts.page import (
    Page,
    difference,
    metric_of,
    number,
    number_of,
    seeds,
    span,
)
from fedjax_links.report.results import Results
from fedjax_links.report.tables import Table

_NARROWEST, _WIDEST, _LOWEST = 1.7, 5.5, 3.6  # inches: of a panel's width, of the picture
_BETWEEN, _BESIDE = 0.25, 1.6  # inches: of panels, of the colours' scale and the axes' words
_PAGE = 11.0  # inches: of a picture whose numbers can be read on a page
_CELL, _HEIGHT = 0.46, 0.3  # inches: of a cell


def heat_map(
    results: Results,
    *,
    x: str | None = None,
    y: str | None = None,
    best_over: Sequence[str] = (),
    metric: str | None = None,
    tail: float = 0.1,
) -> Page:
    """Paired differences to the baseline over two axes, and who is best; one panel per algorithm.

    Every algorithm at the model that the papers evaluate. A third column of the grid and several
    patterns each have panels beside each other, or below where these are more than algorithms.

    Args:
      results: what ran, over a grid.
      x: the column along the horizontal axis; the last one by default. ``'round'`` for rounds: the
        last evaluation, that at half its round, at a quarter, ... as long as there are any.
      y: the column along the vertical axis, or ``'round'``; the last of the others by default.
      best_over: columns, such as rates, of which every algorithm takes the value that is best at a
        cell by its mean over seeds.
      metric: which metric; that of the results by default.
      tail: share of the evaluations, the last ones, that each seed is averaged over; not with
        rounds as an axis.

    Returns:
      The picture, a table of the best and one of differences.

    Raises:
      ValueError: for an unknown column or metric, a grid of other than two or three columns beside
        `best_over`, or a metric that nothing says which way is better.
    """
    metric = metric_of(results, metric)
    checks.within('tail', tail, 0, 1)
    sign = 1 if results.larger_is_better(metric) else -1
    found = cells.of_results(results, x=x, y=y, best_over=best_over, metric=metric, tail=tail)
    base = found.values.get(results.baseline)
    compared = {} if base is None else _differences(found, results.baseline)
    leaders = _leaders(found, sign)
    when = (
        'mean over ' + seeds(results) if ROUND in (found.x[0], found.y[0]) else span(results, tail)
    )
    caption = f'{unit(metric)}: {when}.'
    if best_over:
        shown = ' and '.join(map(_short, best_over))
        caption += f' Every algorithm has the {shown} that is best at the cell, by the same seeds'
        if found.at_edge is not None:
            caption += (
                f'; in {found.at_edge} of {_count(found)} cells that is an edge of what was tried'
            )
        caption += '.'
    tables = [_best_table(results, found, leaders, metric, caption)]
    if compared:
        tables.append(_difference_table(results, found, compared, metric))
    width = min(max(_CELL * len(found.x[1]), _NARROWEST), _WIDEST)
    rows, columns = _arranged(len(found.panels), 1 + len(compared), width)
    height = rows * (_HEIGHT * len(found.y[1]) + 0.35) + 1.3
    size = (columns * (width + _BETWEEN) + _BESIDE, max(height, _LOWEST))

    def draw(figure: Any) -> None:
        _draw(figure, results, found, compared, leaders, metric, sign, width / len(found.x[1]))

    return Page('Who is ahead where', tables, draw, size)


def _arranged(num_panels: int, algorithms: int, width: float) -> tuple[int, int]:
    """Rows and columns of the picture.

    Of one panel, as many columns as a page is wide. Of several, an algorithm has a row, or a column
    where they are more than algorithms.
    """
    if num_panels == 1:
        columns = min(algorithms, max(1, int((_PAGE - _BESIDE) // (width + _BETWEEN))))
        return -(-algorithms // columns), columns
    return max(num_panels, algorithms), min(num_panels, algorithms)


def _differences(found: Cells, baseline: str) -> dict[str, evaluation.Interval]:
    """Paired differences [K, Y, X] to the baseline by algorithm."""
    base = np.moveaxis(found.values[baseline], -1, 0)
    return {
        algorithm: evaluation.paired_interval(np.moveaxis(values, -1, 0), base)
        for algorithm, values in found.values.items()
        if algorithm != baseline
    }


class _Leaders(NamedTuple):
    """Who is best: place among the algorithms int[K, Y, X], its level, whether it is clear."""

    place: np.ndarray
    level: np.ndarray
    clear: np.ndarray


def _leaders(found: Cells, sign: int) -> _Leaders:
    """The best by the mean; clear where its paired difference to the second excludes zero."""
    values = np.stack(list(found.values.values()))
    means = sign * values.mean(axis=-1)
    order = np.argsort(np.where(np.isnan(means), np.inf, -means), axis=0, kind='stable')
    ranked = np.take_along_axis(values, order[..., None], axis=0)
    level = ranked[0].mean(axis=-1)
    if len(values) == 1:
        return _Leaders(order[0], level, np.ones(level.shape, bool))
    lead = evaluation.paired_interval(*(np.moveaxis(ranked[k], -1, 0) for k in (0, 1)))
    alone = np.isnan(lead.mean) & (lead.num_seeds > 1)
    return _Leaders(order[0], level, ~np.isnan(level) & (alone | lead.excludes_zero))


def _count(found: Cells) -> int:
    return sum(int(np.prod(values.shape[:-1])) for values in found.values.values())


def _short(name: str) -> str:
    return name.rsplit('.', 1)[-1].replace('_', ' ')


def _panel(results: Results, found: Cells, place: int) -> list[str]:
    """What tells panels of an algorithm apart."""
    pattern, third = found.panels[place]
    words = [results.name(pattern)] if len(results.patterns) > 1 else []
    return words if found.third is None else [*words, number_of(third)]


def _heads(results: Results, found: Cells) -> list[str]:
    words = ['pattern'] if len(results.patterns) > 1 else []
    return words if found.third is None else [*words, _short(found.third)]


def _columns(found: Cells) -> list[str]:
    first, *rest = (number_of(value) for value in found.x[1])
    return [f'{_short(found.x[0])} {first}', *rest]


def _undecided(results: Results, interval: str = 'a 95 % interval') -> str:
    """Where nobody is said to be ahead."""
    return 'one seed decides nothing' if results.num_seeds == 1 else f'{interval} includes zero'


def _best_table(
    results: Results, found: Cells, leaders: _Leaders, metric: str, caption: str
) -> Table:
    names = [results.names.get(algorithm, algorithm) for algorithm in found.values]
    rows = [
        [
            *_panel(results, found, panel),
            number_of(value),
            *(
                ''
                if np.isnan(level)
                else f'{names[place]} {number(metric, level)}{"" if clear else " ~"}'
                for place, level, clear in zip(
                    *(part[panel, row].tolist() for part in leaders), strict=True
                )
            ),
        ]
        for panel in range(len(found.panels))
        for row, value in enumerate(found.y[1])
    ]
    caption += (
        f' ~ where {_undecided(results, "the paired 95 % interval of its lead over the second")}. '
        'Empty where all diverged or nothing ran.'
    )
    return Table([*_heads(results, found), _short(found.y[0]), *_columns(found)], rows, caption)


def _difference_table(
    results: Results, found: Cells, compared: Mapping[str, evaluation.Interval], metric: str
) -> Table:
    rows = []
    for algorithm, (means, halves, num_seeds) in compared.items():
        for panel in range(len(found.panels)):
            for row, value in enumerate(found.y[1]):
                line = [results.names.get(algorithm, algorithm)]
                line += [*_panel(results, found, panel), number_of(value)]
                for pair in zip(means[panel, row], halves[panel, row], strict=True):
                    line.append(difference(metric, evaluation.Interval(*pair, num_seeds)))
                rows.append(line)
    baseline = results.names.get(results.baseline, results.baseline)
    caption = (
        f'Difference to {baseline} at the same cell; ± is the 95 % interval over seeds (Student t) '
        'of differences between runs with the same links and batches; * where zero is outside.'
    )
    header = ['algorithm', *_heads(results, found), _short(found.y[0]), *_columns(found)]
    return Table(header, rows, caption)


def _draw(
    figure: Any,
    results: Results,
    found: Cells,
    compared: Mapping[str, evaluation.Interval],
    leaders: _Leaders,
    metric: str,
    sign: int,
    cell: float,
) -> None:
    from matplotlib.patches import Patch

    num_panels, algorithms = len(found.panels), list(found.values)
    rows, columns = _arranged(num_panels, 1 + len(compared), cell * len(found.x[1]))
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    scale = 100 if is_share(metric) else 1
    means = [scale * difference.mean for difference in compared.values()]
    most = np.nanmax(np.abs([0.0, *np.ravel(means)]))
    faces = [look.face for look in plot.looks(algorithms).values()]
    x, y = ((_short(name), [number_of(v) for v in values]) for name, values in (found.x, found.y))
    baseline = results.names.get(results.baseline, results.baseline)
    image = None
    shown = list(itertools.product(range(num_panels), [None, *compared]))
    if num_panels == columns:
        shown.sort(key=lambda pair: [None, *compared].index(pair[1]))
    for place, (axes, (panel, algorithm)) in enumerate(zip(grid.flat, shown, strict=False)):
        if algorithm is None:
            _draw_leaders(axes, leaders, panel, faces, metric, cell)
            title = 'best'
        else:
            values = scale * compared[algorithm].mean[panel]
            form = '+.1f' if is_share(metric) else '+.2g'
            texts = [[heat.formatted(value, form) for value in line] for line in values]
            plot.heat_map(
                values,
                most=most,
                texts=texts if heat.fits(texts, cell) else None,
                unclear=~compared[algorithm].excludes_zero[panel],
                reverse=sign < 0,
                colorbar=False,
                ax=axes,
            )
            image = axes.images[0]
            title = f'{results.names.get(algorithm, algorithm)} - {baseline}'
        heads = zip(_heads(results, found), _panel(results, found, panel), strict=True)
        words = [word if name == 'pattern' else f'{name} {word}' for name, word in heads]
        axes.set_title(', '.join([title, *words]), fontsize=9)
        bottom, left = place + columns >= len(shown), place % columns == 0
        heat.label_axes(axes, (x[0] if bottom else '', x[1]), ('', y[1]))
        axes.tick_params(labelbottom=bottom, labelleft=left)
    for axes in grid.flat[len(shown) :]:
        axes.set_visible(False)
    figure.supylabel(y[0], fontsize=9)
    if image is not None:
        figure.colorbar(
            image,
            ax=list(grid[:, -1]),
            label=panels.in_points(f'difference, {panels.words(metric)}', metric),
            fraction=0.06,
        )
    seen = sorted(set(leaders.place[leaders.clear].tolist()))
    patches = [Patch(facecolor=faces[k], edgecolor='black', linewidth=0.5) for k in seen]
    names = [results.names.get(algorithm, algorithm) for algorithm in algorithms]
    models = {owner: results.main_model(label) for label, (owner, _) in results.members.items()}
    said = ['best', f'hatched where {_undecided(results)}']
    said += [
        f'{name} at its {panels.words(models[algorithm])}'
        for name, algorithm in zip(names, algorithms, strict=True)
        if models[algorithm] != 'server'
    ]
    figure.legend(
        [*patches, Patch(facecolor='white', hatch='////', edgecolor='#00000060', linewidth=0.5)],
        [*(names[k] for k in seen), 'not decided'],
        loc='outside lower center',
        title='; '.join(said),
        title_fontsize=9,
        fontsize=9,
        ncols=len(seen) + 1,
        frameon=False,
    )


def _draw_leaders(
    axes: Any, leaders: _Leaders, panel: int, faces: Sequence[Any], metric: str, cell: float
) -> None:
    """The best algorithm's colour in every cell where that is clear, and its level."""
    levels = leaders.level[panel]
    texts = [['' if np.isnan(v) else number(metric, v) for v in line] for line in levels]
    plot.winners(
        np.where(np.isnan(levels)[..., None], np.nan, np.array(faces)[leaders.place[panel]]),
        texts=texts if heat.fits(texts, cell) else None,
        unclear=~leaders.clear[panel],
        ax=axes,
    )
