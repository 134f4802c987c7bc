"""Who is ahead where: differences to the baseline over two columns of the grid."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import evaluation, plot
from fedjax_links.plot import heat, panels
from fedjax_links.report import cells
from fedjax_links.report.cells import ROUND, Cells
from fedjax_links.report.layouts.page import Page
from fedjax_links.report.source import Source
from fedjax_links.report.tables import Table
from fedjax_links.results.metric import Metric, numbers_of

_NARROWEST, _WIDEST, _LOWEST = 1.7, 5.5, 3.6  # inches: of a panel's width, of the picture
_BETWEEN, _BESIDE = 0.25, 1.6  # inches: of panels, of the colours' scale and the axes' words
_PAGE = 11.0  # inches: of a picture whose numbers can be read on a page
_CELL, _HEIGHT = 0.46, 0.3  # inches: of a cell


def heat_map(
    source: Source,
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
      source: what ran, over a grid.
      x: the column along the horizontal axis; the last one by default. ``'round'`` for rounds: the
        last evaluation, that at half its round, at a quarter, ... as long as there are any.
      y: the column along the vertical axis, or ``'round'``; the last of the others by default.
      best_over: columns, such as rates, of which every algorithm takes the value that is best at a
        cell by its mean over seeds.
      metric: which metric; that of the run by default.
      tail: share of the evaluations, the last ones, that each seed is averaged over; not with
        rounds as an axis.

    Returns:
      The picture, a table of the best and one of differences.

    Raises:
      ValueError: for an unknown column or metric, a grid of other than two or three columns beside
        `best_over`, or a metric that nothing says which way is better.
    """
    found = cells.of_source(source, x=x, y=y, best_over=best_over, metric=metric, tail=tail)
    drawn = _Map(source, found, _differences(found, source.baseline), _leaders(found))
    width = min(max(_CELL * len(found.x[1]), _NARROWEST), _WIDEST)
    rows, columns = _arrange(len(found.panels), 1 + len(drawn.compared), width)
    height = rows * (_HEIGHT * len(found.y[1]) + 0.35) + 1.3
    size = (columns * (width + _BETWEEN) + _BESIDE, max(height, _LOWEST))
    tables = [drawn.best_table(_caption(source, found, best_over, tail))]
    tables += [drawn.difference_table()] if drawn.compared else []
    return Page(
        'Who is ahead where',
        tables,
        lambda figure: drawn.draw(figure, width / len(found.x[1]), columns),
        size,
    )


def _caption(source: Source, found: Cells, best_over: Sequence[str], tail: float) -> str:
    over_rounds = ROUND in (found.x[0], found.y[0])
    when = f'mean over {source.seeds}' if over_rounds else source.span(tail)
    if not best_over:
        return f'{found.metric.title}: {when}.'
    at_edge = ''
    if found.at_edge is not None:
        count = sum(int(np.prod(values.shape[:-1])) for values in found.values.values())
        at_edge = f'; in {found.at_edge} of {count} cells that is an edge of what was tried'
    shown = ' and '.join(map(_short, best_over))
    return (
        f'{found.metric.title}: {when}. Every algorithm has the {shown} that is best at the cell, '
        f'by the same seeds{at_edge}.'
    )


def _arrange(num_panels: int, algorithms: int, width: float) -> tuple[int, int]:
    """Rows and columns of the picture.

    Of one panel, as many columns as a page is wide. Of several, an algorithm has a row, or a column
    where they are more than algorithms.
    """
    if num_panels == 1:
        columns = min(algorithms, max(1, int((_PAGE - _BESIDE) // (width + _BETWEEN))))
        return -(-algorithms // columns), columns
    return max(num_panels, algorithms), min(num_panels, algorithms)


def _differences(found: Cells, baseline: str) -> dict[str, evaluation.Interval]:
    """Paired differences [K, Y, X] to the baseline by algorithm; none without it."""
    by_seed = {label: np.moveaxis(values, -1, 0) for label, values in found.values.items()}
    return {
        label: evaluation.paired_interval(values, by_seed[baseline])
        for label, values in by_seed.items()
        if baseline in by_seed and label != baseline
    }


class _Leaders(NamedTuple):
    """Who is best: place among the algorithms int[K, Y, X], its level, whether it is clear."""

    place: np.ndarray
    level: np.ndarray
    clear: np.ndarray


def _leaders(found: Cells) -> _Leaders:
    """The best by the mean; clear where its paired difference to the second excludes zero."""
    values = np.stack(list(found.values.values()))
    means = found.metric.sign * values.mean(axis=-1)
    order = np.argsort(np.where(np.isnan(means), np.inf, -means), axis=0, kind='stable')
    ranked = np.take_along_axis(values, order[..., None], axis=0)
    level = ranked[0].mean(axis=-1)
    if len(values) == 1:
        return _Leaders(order[0], level, np.ones(level.shape, bool))
    lead = evaluation.paired_interval(*(np.moveaxis(ranked[k], -1, 0) for k in (0, 1)))
    alone = np.isnan(lead.mean) & (lead.num_seeds > 1)
    return _Leaders(order[0], level, ~np.isnan(level) & (alone | lead.excludes_zero))


def _short(name: str) -> str:
    return name.rsplit('.', 1)[-1].replace('_', ' ')


class _Map(NamedTuple):
    """A map as tables and as a picture."""

    source: Source
    cells: Cells
    compared: Mapping[str, evaluation.Interval]
    leaders: _Leaders

    @property
    def metric(self) -> Metric:
        return self.cells.metric

    @property
    def heads(self) -> list[str]:
        """Titles of what tells panels of an algorithm apart."""
        words = ['pattern'] if len(self.source.patterns) > 1 else []
        return words if self.cells.third is None else [*words, _short(self.cells.third)]

    def panel(self, place: int) -> list[str]:
        """What tells panels of an algorithm apart."""
        pattern, third = self.cells.panels[place]
        words = [self.source.name(pattern)] if len(self.source.patterns) > 1 else []
        return words if self.cells.third is None else [*words, numbers_of(third)]

    def undecided(self, interval: str = 'a 95 % interval') -> str:
        """Where nobody is said to be ahead."""
        alone = self.source.num_seeds == 1
        return 'one seed decides nothing' if alone else f'{interval} includes zero'

    def table(self, first: Sequence[str], caption: str, lines: Any) -> Table:
        """A row per line and value of y; ``lines`` yields words, panel, row and cells."""
        rows = [
            [*words, *self.panel(panel), numbers_of(self.cells.y[1][row]), *shown]
            for words, panel, row, shown in lines
        ]
        start, *others = map(numbers_of, self.cells.x[1])
        columns = [f'{_short(self.cells.x[0])} {start}', *others]
        return Table([*first, *self.heads, _short(self.cells.y[0]), *columns], rows, caption)

    @property
    def _rows(self) -> list[tuple[int, int]]:
        return list(itertools.product(range(len(self.cells.panels)), range(len(self.cells.y[1]))))

    def best_table(self, caption: str) -> Table:
        """Who is best at every cell."""
        names = [self.source.name(algorithm) for algorithm in self.cells.values]

        def cell(place: int, level: float, clear: bool) -> str:
            if np.isnan(level):
                return ''
            return f'{names[place]} {self.metric.number(level)}{"" if clear else " ~"}'

        lines: Any = [
            ([], at[0], at[1], list(map(cell, *(part[at].tolist() for part in self.leaders))))
            for at in self._rows
        ]
        lead = self.undecided('the paired 95 % interval of its lead over the second')
        caption += f' ~ where {lead}. Empty where all diverged or nothing ran.'
        return self.table([], caption, lines)

    def difference_table(self) -> Table:
        """Differences to the baseline at every cell."""
        lines = [
            (
                [self.source.name(algorithm)],
                *at,
                [
                    self.metric.difference(evaluation.Interval(*pair, found.num_seeds))
                    for pair in zip(found.mean[at], found.half_width[at], strict=True)
                ],
            )
            for algorithm, found in self.compared.items()
            for at in self._rows
        ]
        caption = (
            f'Difference to {self.source.name(self.source.baseline)} at the same cell; ± is the '
            '95 % interval over seeds (Student t) of differences between runs with the same links '
            'and batches; * where zero is outside.'
        )
        return self.table(['algorithm'], caption, lines)

    def draw(self, figure: Any, cell: float, columns: int) -> None:
        """Who is best, and all differences on one scale; cells are ``cell`` inches wide."""
        from matplotlib.patches import Patch

        found, source, scale = self.cells, self.source, self.metric.scale
        shown = list(itertools.product(range(len(found.panels)), [None, *self.compared]))
        if len(found.panels) == columns:
            shown.sort(key=lambda pair: [None, *self.compared].index(pair[1]))
        grid = panels.grid(figure, len(shown), columns, sharex=True, sharey=True)
        means = [scale * difference.mean for difference in self.compared.values()]
        most = np.nanmax(np.abs([0.0, *np.ravel(means)]))
        faces = [look.face for look in plot.looks(found.values).values()]
        x, y = ((_short(k), list(map(numbers_of, v))) for k, v in (found.x, found.y))
        image = None
        for place, (axes, (panel, algorithm)) in enumerate(zip(grid, shown, strict=True)):
            if algorithm is None:
                self._draw_leaders(axes, panel, faces, cell)
                title = 'best'
            else:
                values = scale * self.compared[algorithm].mean[panel]
                form = '+.1f' if self.metric.is_share else '+.2g'
                texts = [[heat.formatted(value, form) for value in line] for line in values]
                plot.heat_map(
                    values,
                    most=most,
                    texts=texts if heat.fits(texts, cell) else None,
                    unclear=~self.compared[algorithm].excludes_zero[panel],
                    reverse=self.metric.sign < 0,
                    colorbar=False,
                    ax=axes,
                )
                image = axes.images[0]
                title = f'{source.name(algorithm)} - {source.name(source.baseline)}'
            heads = zip(self.heads, self.panel(panel), strict=True)
            words = [word if name == 'pattern' else f'{name} {word}' for name, word in heads]
            axes.set_title(', '.join([title, *words]), fontsize=9)
            bottom, left = place + columns >= len(shown), place % columns == 0
            heat.label_axes(axes, (x[0] if bottom else '', x[1]), ('', y[1]))
            axes.tick_params(labelbottom=bottom, labelleft=left)
        figure.supylabel(y[0], fontsize=9)
        if image is not None:
            figure.colorbar(
                image,
                ax=[axes for axes in figure.axes if axes.get_subplotspec().is_last_col()],
                label=self.metric.difference_title(f'difference, {self.metric.words}'),
                fraction=0.06,
            )
        seen = sorted(set(self.leaders.place[self.leaders.clear].tolist()))
        names = [source.name(algorithm) for algorithm in found.values]
        open_ = Patch(facecolor='white', hatch='////', edgecolor='#00000060', linewidth=0.5)
        figure.legend(
            [*(Patch(facecolor=faces[k], edgecolor='black', linewidth=0.5) for k in seen), open_],
            [*(names[k] for k in seen), 'not decided'],
            loc='outside lower center',
            title='; '.join(['best', f'hatched where {self.undecided()}', *self._models()]),
            title_fontsize=9,
            fontsize=9,
            ncols=len(seen) + 1,
            frameon=False,
        )

    def _models(self) -> list[str]:
        """Who is shown at another model than the server's."""
        source = self.source
        models = {owner: source.main_models[label] for label, (owner, _) in source.members.items()}
        return [
            f'{source.name(algorithm)} at its {models[algorithm].replace("_", " ")}'
            for algorithm in self.cells.values
            if models[algorithm] != 'server'
        ]

    def _draw_leaders(self, axes: Any, panel: int, faces: Sequence[Any], cell: float) -> None:
        """The best algorithm's colour in every cell where that is clear, and its level."""
        levels = self.leaders.level[panel]
        texts = [['' if np.isnan(v) else self.metric.number(v) for v in line] for line in levels]
        best = np.array(faces)[self.leaders.place[panel]]
        plot.winners(
            np.where(np.isnan(levels)[..., None], np.nan, best),
            texts=texts if heat.fits(texts, cell) else None,
            unclear=~self.leaders.clear[panel],
            ax=axes,
        )
