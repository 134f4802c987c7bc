"""Who is ahead where: differences to the baseline over two columns of the grid."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fedjax_links import evaluation, plot
from fedjax_links.plot import heat
from fedjax_links.report import cells, tables
from fedjax_links.report.cells import ROUND, Cells
from fedjax_links.report.layouts.page import Page, with_panels
from fedjax_links.report.source import Source
from fedjax_links.report.tables import Table
from fedjax_links.results.metric import numbers_of

_NARROWEST, _WIDEST = 1.7, 5.5  # inches: of a panel's width
_BETWEEN, _BESIDE = 0.25, 1.6  # inches: of panels, of the colours' scale and the axes' words
_PAGE = 11.0  # inches: of a picture whose numbers can be read on a page
_CELL, _HEIGHT = 0.46, 0.3  # inches: of a cell


def heat_map(
    source: Source,
    *,
    x: str,
    y: str,
    best_over: Sequence[str] = (),
    metric: str | None = None,
    tail: float = 0.1,
) -> Page:
    """Paired differences to the baseline over two axes, and who is best; one panel per algorithm.

    Every algorithm at the model that the papers evaluate. A third column of the grid and several
    patterns each have panels beside each other, or below where these are more than algorithms.

    Args:
      source: what ran, over a grid.
      x: the column along the horizontal axis, or ``'round'`` for rounds: the last evaluation, that
        at half its round, at a quarter, ... as long as there are any.
      y: the column along the vertical axis, or ``'round'``.
      best_over: columns, such as rates, of which every algorithm takes the value that is best at a
        cell by its mean over seeds.
      metric: which metric; that of the run by default.
      tail: share of the evaluations, the last ones, that each seed is averaged over; not with
        rounds as an axis.

    Returns:
      The picture, a table of the best and one of differences.

    Raises:
      ValueError: for an unknown column or metric, a grid of more than one column beside all these,
        or a metric that nothing says which way is better.
    """
    found = cells.of_source(source, x=x, y=y, best_over=best_over, metric=metric, tail=tail)
    drawn = _Map(source, found)
    shown = list(itertools.product(range(len(found.panels)), [None, *drawn.compared]))
    width = min(max(_CELL * len(found.x[1]), _NARROWEST), _WIDEST)
    if len(found.panels) == 1:  # as many columns as a page is wide
        columns = max(1, int((_PAGE - _BESIDE) // (width + _BETWEEN)))
    else:  # whatever is more stands below each other
        columns = min(len(found.panels), 1 + len(drawn.compared))
        if columns == len(found.panels):
            shown.sort(key=lambda pair: [None, *drawn.compared].index(pair[1]))
    return with_panels(
        Page('Who is ahead where', drawn.tables(_caption(source, found, best_over, tail))),
        shown,
        lambda axes, pair: drawn.draw(axes, pair, width / len(found.x[1])),
        columns=columns,
        panel=(width + _BETWEEN, _HEIGHT * len(found.y[1]) + 0.35),
        around=(_BESIDE, 1.3),
        finish=drawn.explain,
        sharex=True,
        sharey=True,
    )


def _caption(source: Source, found: Cells, best_over: Sequence[str], tail: float) -> str:
    over_rounds = ROUND in (found.x[0], found.y[0])
    when = f'mean over {source.seeds}' if over_rounds else source.span(tail)
    caption = f'{found.metric.title}: {when}'
    if best_over:
        shown = ' and '.join(map(_short, best_over))
        caption += f'. Every algorithm has the {shown} that is best at the cell, by the same seeds'
    if found.at_edge is not None:
        count = sum(int(np.prod(values.shape[:-1])) for values in found.values.values())
        caption += f'; in {found.at_edge} of {count} cells that is an edge of what was tried'
    return f'{caption}.'


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

    @np.errstate(invalid='ignore')  # where all diverged
    def tables(self, caption: str) -> list[Table]:
        """Who is best at every cell, and the differences to the baseline."""
        lead = self.undecided.format('the paired 95 % interval of its lead over the second')
        caption += f' ~ where {lead}. Empty where all diverged or nothing ran.'
        best = np.vectorize(self._best, otypes=[object])(self.leader, self.level, self.clear)
        found = [tables.of_rows([*self._rows(best)], caption)]
        rows = [
            row
            for label, difference in self.compared.items()
            for row in self._rows(self._texts(difference), algorithm=self.source.name(label))
        ]
        caption = (
            f'Difference to {self.source.name(self.source.baseline)} at the same cell; ± is '
            'the 95 % interval over seeds (Student t) of differences between runs with the '
            'same links and batches; * where zero is outside.'
        )
        return [*found, tables.of_rows(rows, caption)] if rows else found

    def _rows(self, texts: np.ndarray, **heads: str) -> Iterator[dict[str, str]]:
        """A row per panel and value of y, of texts [K, Y, X]."""
        start, *others = self.x[1]
        titles = [f'{self.x[0]} {start}', *others]
        for words, panel in zip(self.panels, texts, strict=True):
            for y, line in zip(self.y[1], panel, strict=True):
                yield {**heads, **words, self.y[0]: y, **dict(zip(titles, line, strict=True))}

    def _best(self, leader: int, level: float, clear: bool) -> str:
        shown = f'{self.names[leader]} {self.metric.number(level)}{"" if clear else " ~"}'
        return '' if np.isnan(level) else shown

    def _texts(self, found: evaluation.Interval) -> np.ndarray:
        def text(mean: float, half: float) -> str:
            each = evaluation.Interval(np.asarray(mean), np.asarray(half), found.num_seeds)
            return self.metric.difference(each)

        return np.vectorize(text, otypes=[object])(found.mean, found.half_width)

    def draw(self, axes: Any, shown: tuple[int, str | None], cell: float) -> None:
        """Who is best, or an algorithm's differences, on one scale for all.

        Args:
          axes: of the panel.
          shown: which panel, and the algorithm of the differences; None for the best.
          cell: inches of a cell's width.
        """
        panel, algorithm = shown
        if algorithm is None:
            title, levels, clear = 'best', self.level[panel], self.clear[panel]
            colours = np.where(clear[..., None], self.faces[self.leader[panel]], 1.0)
            texts = [['' if v != v else self.metric.number(v) for v in line] for line in levels]
            written = texts if heat.fits(texts, cell) else None
            heat.draw_colours(axes, colours, np.isnan(levels), written, unclear=~clear)
        else:
            title = f'{self.source.name(algorithm)} - {self.source.name(self.source.baseline)}'
            scale, form = self.metric.scale, '+.1f' if self.metric.is_share else '+.2g'
            difference = self.compared[algorithm]
            means = [each.mean for each in self.compared.values()]
            values = scale * difference.mean[panel]
            texts = [[heat.format_value(value, form) for value in line] for line in values]
            plot.heat_map(
                values,
                most=scale * np.nanmax(np.abs([0.0, *np.ravel(means)])),
                texts=texts if heat.fits(texts, cell) else None,
                unclear=~difference.excludes_zero[panel],
                reverse=self.metric.sign < 0,
                colorbar=False,
                ax=axes,
            )
        heads = self.panels[panel].items()
        words = [word if name == 'pattern' else f'{name} {word}' for name, word in heads]
        axes.set_title(', '.join([title, *words]), fontsize=9)
        heat.label_axes(axes, self.x, ('', self.y[1]))

    def explain(self, figure: Any) -> None:
        """What holds for all panels: the scale of differences, and the colours of the best."""
        from matplotlib.patches import Patch

        figure.supylabel(self.y[0], fontsize=9)
        images = [axes.images[0] for axes in figure.axes if axes.images]
        if self.compared:
            figure.colorbar(
                images[-1],
                ax=[axes for axes in figure.axes if axes.get_subplotspec().is_last_col()],
                label=self.metric.difference_title(f'difference, {self.metric.words}'),
                fraction=0.06,
            )
        models = {
            owner: self.source.main_models[k] for k, (owner, _) in self.source.members.items()
        }
        other = [
            f'{self.source.name(algorithm)} at its {model.replace("_", " ")}'
            for algorithm, model in models.items()
            if model != 'server'
        ]
        seen = sorted(set(self.leader[self.clear].tolist()))
        line: dict[str, Any] = {'edgecolor': 'black', 'linewidth': 0.5}
        patches = {self.names[k]: Patch(facecolor=self.faces[k], **line) for k in seen}
        line['edgecolor'] = '#00000060'
        patches['not decided'] = Patch(facecolor='white', hatch='////', **line)
        undecided = self.undecided.format('a 95 % interval')
        figure.legend(
            patches.values(),
            patches.keys(),
            loc='outside lower center',
            title='; '.join(['best', f'hatched where {undecided}', *other]),
            title_fontsize=9,
            fontsize=9,
            ncols=len(patches),
            frameon=False,
        )
