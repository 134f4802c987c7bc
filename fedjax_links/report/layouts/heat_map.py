"""Who is ahead where: differences to the baseline over two columns of the grid."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedjax_links import evaluation, plot
from fedjax_links.plot import heat, panels
from fedjax_links.report import cells
from fedjax_links.report.cells import ROUND, Cells
from fedjax_links.report.layouts.page import Page
from fedjax_links.report.source import Source
from fedjax_links.report.tables import Table
from fedjax_links.results.metric import numbers_of

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
    drawn = _Map(source, found)
    width = min(max(_CELL * len(found.x[1]), _NARROWEST), _WIDEST)
    rows, columns = _arrange(len(found.panels), 1 + len(drawn.compared), width)
    height = rows * (_HEIGHT * len(found.y[1]) + 0.35) + 1.3
    return Page(
        'Who is ahead where',
        drawn.tables(_caption(source, found, best_over, tail)),
        lambda figure: drawn.draw(figure, width / len(found.x[1]), columns),
        (columns * (width + _BETWEEN) + _BESIDE, max(height, _LOWEST)),
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


def _short(name: str) -> str:
    return name.rsplit('.', 1)[-1].replace('_', ' ')


class _Map:
    """A map as tables and as a picture: levels, differences, and who is best."""

    def __init__(self, source: Source, found: Cells) -> None:
        """Compares with the baseline, and with the second: clear is whose lead excludes zero."""
        self.source, self.metric = source, found.metric
        self.names = [source.name(algorithm) for algorithm in found.values]
        self.faces = np.array([look.face for look in plot.looks(found.values).values()])
        self.x, self.y = ((_short(k), list(map(numbers_of, v))) for k, v in (found.x, found.y))
        self.panels: list[dict[str, str]] = [{} for _ in found.panels]
        for words, (pattern, third) in zip(self.panels, found.panels, strict=True):
            words |= {'pattern': source.name(pattern)} if len(source.patterns) > 1 else {}
            words |= {_short(found.third): numbers_of(third)} if found.third else {}
        one = source.num_seeds == 1
        self.undecided = 'one seed decides nothing' if one else '{} includes zero'
        by_seed = {label: np.moveaxis(values, -1, 0) for label, values in found.values.items()}
        self.compared = {
            label: evaluation.paired_interval(values, by_seed[source.baseline])
            for label, values in by_seed.items()
            if source.baseline in by_seed and label != source.baseline
        }
        values = np.stack([*by_seed.values()])  # [A, S, K, Y, X]
        means = found.metric.sign * values.mean(axis=1)
        order = np.argsort(np.where(np.isnan(means), np.inf, -means), axis=0, kind='stable')
        ranked = np.take_along_axis(values, order[:, None], axis=0)
        self.leader, self.level = order[0], ranked[0].mean(axis=0)
        self.clear = ~np.isnan(self.level)
        if len(values) > 1:
            lead = evaluation.paired_interval(ranked[0], ranked[1])
            self.clear &= (np.isnan(lead.mean) & (lead.num_seeds > 1)) | lead.excludes_zero

    def tables(self, caption: str) -> list[Table]:
        """Who is best at every cell, and the differences to the baseline."""

        def best(_: str, at: tuple[int, int, int]) -> str:
            level, mark = float(self.level[at]), '' if self.clear[at] else ' ~'
            number = self.metric.number(level)
            return '' if np.isnan(level) else f'{self.names[self.leader[at]]} {number}{mark}'

        def difference(label: str, at: tuple[int, int, int]) -> str:
            found = self.compared[label]
            pair = found.mean[at], found.half_width[at]
            return self.metric.difference(evaluation.Interval(*pair, found.num_seeds))

        lead = self.undecided.format('the paired 95 % interval of its lead over the second')
        caption += f' ~ where {lead}. Empty where all diverged or nothing ran.'
        tables = [self._table([''], [], best, caption)]
        if self.compared:
            caption = (
                f'Difference to {self.source.name(self.source.baseline)} at the same cell; ± is '
                'the 95 % interval over seeds (Student t) of differences between runs with the '
                'same links and batches; * where zero is outside.'
            )
            tables.append(self._table([*self.compared], ['algorithm'], difference, caption))
        return tables

    def _table(self, labels: Sequence[str], title: list[str], cell: Any, caption: str) -> Table:
        """A row per label, panel and value of y; ``cell`` is a function of label and place."""
        rows = [
            [*([self.source.name(label)] if title else []), *words.values(), y]
            + [cell(label, (panel, row, column)) for column in range(len(self.x[1]))]
            for label in labels
            for panel, words in enumerate(self.panels)
            for row, y in enumerate(self.y[1])
        ]
        start, *others = self.x[1]
        return Table(
            [*title, *self.panels[0], self.y[0], f'{self.x[0]} {start}', *others], rows, caption
        )

    def draw(self, figure: Any, cell: float, columns: int) -> None:
        """Who is best, and all differences on one scale; cells are ``cell`` inches wide."""
        scale, baseline = self.metric.scale, self.source.name(self.source.baseline)
        shown = list(itertools.product(range(len(self.panels)), [None, *self.compared]))
        if len(self.panels) == columns:
            shown.sort(key=lambda pair: [None, *self.compared].index(pair[1]))
        grid = panels.grid(figure, len(shown), columns, sharex=True, sharey=True)
        means = [scale * difference.mean for difference in self.compared.values()]
        most = np.nanmax(np.abs([0.0, *np.ravel(means)]))
        form = '+.1f' if self.metric.is_share else '+.2g'
        image = None
        for place, (axes, (panel, algorithm)) in enumerate(zip(grid, shown, strict=True)):
            if algorithm is None:
                self._draw_leaders(axes, panel, cell)
                title = 'best'
            else:
                values = scale * self.compared[algorithm].mean[panel]
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
                title = f'{self.source.name(algorithm)} - {baseline}'
            heads = self.panels[panel].items()
            words = [word if name == 'pattern' else f'{name} {word}' for name, word in heads]
            axes.set_title(', '.join([title, *words]), fontsize=9)
            bottom, left = place + columns >= len(shown), place % columns == 0
            heat.label_axes(axes, (self.x[0] if bottom else '', self.x[1]), ('', self.y[1]))
            axes.tick_params(labelbottom=bottom, labelleft=left)
        figure.supylabel(self.y[0], fontsize=9)
        if image is not None:
            figure.colorbar(
                image,
                ax=[axes for axes in figure.axes if axes.get_subplotspec().is_last_col()],
                label=self.metric.difference_title(f'difference, {self.metric.words}'),
                fraction=0.06,
            )
        self._draw_legend(figure)

    def _draw_leaders(self, axes: Any, panel: int, cell: float) -> None:
        """The best algorithm's colour in every cell where that is clear, and its level."""
        levels, clear = self.level[panel], self.clear[panel]
        missing = np.isnan(levels)
        texts = [['' if np.isnan(v) else self.metric.number(v) for v in line] for line in levels]
        colours = np.where(clear[..., None], self.faces[self.leader[panel]], 1.0)
        heat.draw_colours(
            axes, colours, missing, texts if heat.fits(texts, cell) else None, unclear=~clear
        )

    def _draw_legend(self, figure: Any) -> None:
        """The colours of the best, and who is shown at another model than the server's."""
        from matplotlib.patches import Patch

        source = self.source
        seen = sorted(set(self.leader[self.clear].tolist()))
        models = {owner: source.main_models[label] for label, (owner, _) in source.members.items()}
        other = [
            f'{source.name(algorithm)} at its {model.replace("_", " ")}'
            for algorithm, model in models.items()
            if model != 'server'
        ]
        undecided = self.undecided.format('a 95 % interval')
        open_ = Patch(facecolor='white', hatch='////', edgecolor='#00000060', linewidth=0.5)
        patches = [Patch(facecolor=self.faces[k], edgecolor='black', linewidth=0.5) for k in seen]
        figure.legend(
            [*patches, open_],
            [*(self.names[k] for k in seen), 'not decided'],
            loc='outside lower center',
            title='; '.join(['best', f'hatched where {undecided}', *other]),
            title_fontsize=9,
            fontsize=9,
            ncols=len(seen) + 1,
            frameon=False,
        )
