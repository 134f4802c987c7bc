"""Who is ahead where: differences to the baseline over two columns of the grid."""

import functools
import itertools
import operator
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fedjax_links import evaluation, plot
from fedjax_links.core import student
from fedjax_links.pages import tables
from fedjax_links.pages.tables import Table
from fedjax_links.planning.tuning_uncertainty import Choice
from fedjax_links.plot import heat, panels
from fedjax_links.report import cells
from fedjax_links.report.cells import ROUND, Cells
from fedjax_links.report.comparisons import PairedDifference
from fedjax_links.report.layouts.page import Page, with_panels
from fedjax_links.report.run_view import RunView
from fedjax_links.results.metric import numbers_of

_NARROWEST, _WIDEST = 1.7, 5.5  # inches: of a panel's width
_BETWEEN, _BESIDE = (
    0.25,
    1.6,
)  # inches: of panels, of the colours' scale and the axes' words
_PAGE = 11.0  # inches: of a picture whose numbers can be read on a page
_CELL, _HEIGHT = 0.46, 0.3  # inches: of a cell
_LETTERS = 16  # of a title, in an inch
_TITLE_LINE = 0.17  # inches


@np.errstate(invalid='ignore')  # where all diverged
def heat_map(
    source: RunView,
    *,
    x: str,
    y: str,
    best_over: Sequence[str] = (),
    metric: str | None = None,
    tail: float | None = None,
    margin: float | None = None,
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
        cell by its mean over seeds. Where two have unlike numbers of values to take from, their
        difference is shown with an interval that has no end.
      metric: which metric; that of the run by default.
      tail: share of the evaluations, the last ones, that each seed is averaged over, a
        tenth by default; not with rounds as an axis.
      margin: differences up to it count as alike, in the unit of the metric; by default that of
        seeds until decided, else none.

    Returns:
      The picture, a table of the best, one of differences, and one with a line for each algorithm.

    Raises:
      ValueError: for an unknown column or metric, a grid of more than one column beside all these,
        or a metric that nothing says which way is better.
    """
    found = cells.of_source(
        source, x=x, y=y, best_over=best_over, metric=metric, tail=tail
    )
    drawn = _Map(source, found, margin)
    heads, count = [None, *drawn.compared], len(found.panels)
    shown = list(itertools.product(range(count), heads))
    width = min(max(_CELL * len(found.x[1]), _NARROWEST), _WIDEST)
    columns = min(count, len(heads))  # whatever is more stands below each other
    if count == 1:  # as many columns as a page is wide
        columns = max(1, int((_PAGE - _BESIDE) // (width + _BETWEEN)))
    elif columns == count:
        shown.sort(key=lambda pair: heads.index(pair[1]))
    form: dict[str, Any] = {'columns': columns, 'around': (_BESIDE, 1.3)}
    letters = int(_LETTERS * width)
    title_lines = max(len(textwrap.wrap(drawn.title(*pair), letters)) for pair in shown)
    height = _HEIGHT * len(found.y[1]) + _TITLE_LINE * title_lines
    form['panel'] = width + _BETWEEN, height + 0.2
    caption = _caption(source, found, best_over, tail)
    page = Page('Who is ahead where', drawn.tables(caption), caption=caption)
    draw = functools.partial(drawn.draw, cell=width / len(found.x[1]), letters=letters)
    return with_panels(
        page, shown, draw, **form, finish=drawn.explain, sharex=True, sharey=True
    )


def _caption(
    source: RunView, found: Cells, best_over: Sequence[str], tail: float | None
) -> str:
    over_rounds = ROUND in (found.x[0], found.y[0])
    when = f'mean over {source.seeds}' if over_rounds else source.span(tail)
    caption = f'{found.metric.title}: {when}'
    if best_over:
        shown = ' and '.join(map(_short, best_over))
        caption += f'. Every algorithm has the {shown} that is best at the cell, by the same seeds'
    if found.at_edge is not None:
        count = sum(cells_of.size for cells_of in found.choices.values())
        caption += (
            f'; in {found.at_edge} of {count} cells that is an edge of what was tried'
        )
    return f'{caption}.'


def _short(name: str) -> str:
    return name.rsplit('.', 1)[-1].replace('_', ' ')


_means = np.vectorize(operator.attrgetter('mean'), otypes=[float])
_words = np.vectorize(operator.attrgetter('word'), otypes=[object])
"""Of choices or differences, and of differences."""


class _Map:
    """A map as tables and as a picture: levels, differences, and who is best."""

    def __init__(self, source: RunView, found: Cells, margin: float | None) -> None:
        """Compares with the baseline, and with the second: clear is whose lead excludes zero."""
        self.source, self.cells, self.metric, self.margin = (
            source,
            found,
            found.metric,
            margin,
        )
        self.names = list(map(source.name, found.choices))
        self.baseline = source.name(source.baseline)
        self.faces = np.array(
            [look.face for look in plot.looks(found.choices).values()]
        )
        self.x, self.y = (
            (_short(k), list(map(numbers_of, v))) for k, v in (found.x, found.y)
        )
        self.panels: list[dict[str, str]] = []
        for pattern, third in found.panels:
            words = (
                {'pattern': source.name(pattern)} if len(source.patterns) > 1 else {}
            )
            more = {_short(found.third): numbers_of(third)} if found.third else {}
            self.panels.append({**words, **more})
        one = source.num_seeds == 1
        self.undecided = 'one seed decides nothing' if one else '{} includes zero'
        self.margin_used = source.margin if margin is None else margin
        base, compare = (
            found.choices.get(source.baseline),
            np.frompyfunc(self._difference, 3, 1),
        )
        others = {k: v for k, v in found.choices.items() if k != source.baseline}
        self.compared: dict[str, np.ndarray] = {
            label: compare(own, base, found.is_fair(label, source.baseline))
            for label, own in others.items()
            if base is not None
        }
        self.differences = [each for own in self.compared.values() for each in own.flat]
        self.verdicts = source.verdicts(self.differences, margin)
        stacked = np.stack([*found.choices.values()])  # [A, K, Y, X]
        order = np.argsort(-found.metric.sign * _means(stacked), axis=0, kind='stable')
        ranked = np.take_along_axis(stacked, order, axis=0)
        num_values = np.take_along_axis(
            np.stack([*found.num_values.values()]), order, axis=0
        )
        self.leader, self.level = order[0], _means(ranked[0])
        self.second = _means(ranked[min(1, len(ranked) - 1)])
        self.leads = np.full(self.level.shape, evaluation.AHEAD, object)
        if len(ranked) > 1:
            for cell in np.ndindex(self.leads.shape):
                at = slice(None), *cell
                self.leads[cell] = self._lead(ranked[at], num_values[at])
        self.clear = ~np.isnan(self.level) & (self.leads == evaluation.AHEAD)

    def _difference(
        self, one: Choice, other: Choice, is_fair: bool
    ) -> PairedDifference:
        found = self.source.difference(self.metric, one, other, self.margin)
        return found if is_fair else found.unclaimed()

    def _lead(self, ranked: np.ndarray, num_values: np.ndarray) -> str:
        """Judges the lead of the best; others that diverged are behind if they did so often.

        Args:
          ranked: object[A], `Choice`s of a cell, the best first.
          num_values: int[A], of how many values each is the best.
        """
        best, *others = ranked
        found = self._difference(best, others[0], num_values[0] == num_values[1])
        if found.mean == found.mean:
            return found.word
        lanes = [np.isnan(other.values[0]) for other in others]
        is_told = all(
            student.divergence_tells(int(own.sum()), len(own)) for own in lanes
        )
        return evaluation.AHEAD if is_told else evaluation.UNDECIDED

    def tables(self, caption: str) -> list[Table]:
        """Who is best at every cell, the differences to the baseline, and these in one number."""

        def best(leader: int, level: float, clear: bool) -> str:
            shown = f'{self.names[leader]} {self.metric.number(level)}{"" if clear else " ~"}'
            return '' if np.isnan(level) else shown

        def text(found: PairedDifference, choice: Choice) -> str:
            shown = self.verdicts.text(self.metric, found)
            return f'{shown} ({self.metric.number(choice.mean)})' if shown else ''

        lead = self.undecided.format('the paired interval of its lead over the second')
        if (np.isnan(self.second) & (self.leads == evaluation.UNDECIDED)).any():
            lead += ', or too few lanes of all others diverged to tell'
        caption += f' ~ where {lead}. Empty where all diverged or nothing ran.'
        texts = np.vectorize(best, otypes=[object])(self.leader, self.level, self.clear)
        pages = [tables.of_rows([*self._rows(texts)], caption)]
        rows: list[dict[str, str]] = []
        for label, compared in self.compared.items():
            texts = np.vectorize(text, otypes=[object])(
                compared, self.cells.choices[label]
            )
            rows += self._rows(texts, algorithm=self.source.name(label))
        caption = (
            f'Difference to {self.baseline} at the same cell, behind it the level; ± is '
            f'{self.verdicts.interval}; {self.verdicts.caption(self.metric)}'
        )
        if any(
            not self.cells.is_fair(k, self.source.baseline).all() for k in self.compared
        ):
            caption += (
                ' [inf]: one of both is the best of more values by the same seeds, which makes it '
                'better by chance, so that nothing is claimed.'
            )
        return (
            [*pages, tables.of_rows(rows, caption), self._in_one_number()]
            if rows
            else pages
        )

    def _rows(self, texts: np.ndarray, **heads: str) -> Iterator[dict[str, str]]:
        """A row per panel and value of y, of texts [K, Y, X]."""
        start, *others = self.x[1]
        titles = [f'{self.x[0]} {start}', *others]
        for words, panel in zip(self.panels, texts, strict=True):
            for y, line in zip(self.y[1], panel, strict=True):
                yield {
                    **heads,
                    **words,
                    self.y[0]: y,
                    **dict(zip(titles, line, strict=True)),
                }

    def _in_one_number(self) -> Table:
        """A row for every algorithm: verdicts, extremes, and the mean over all cells by seed."""
        rows = []
        for label, compared in self.compared.items():
            every = [each for each in compared.flat if each.mean == each.mean]
            row = {'algorithm': self.source.name(label)}
            for word in (evaluation.AHEAD, evaluation.BEHIND, evaluation.ALIKE):
                number = sum(each.word == word for each in every)
                row[word] = f'{number} of {compared.size}'
            row['survive'] = str(sum(map(self.verdicts.survives, every)))
            ends = sorted(every, key=lambda each: each.mean)
            reach = (
                self.metric.interval(end, signed=True) for end in (ends[:1] + ends[-1:])
            )
            row['from, to'], row['all cells'] = ' to '.join(reach), ''
            over_all = self.cells.minus(label, self.source.baseline)
            if over_all is not None:
                judged = self.source.judged(
                    self.metric, over_all.values, over_all.shares
                )
                if not self.cells.is_fair(label, self.source.baseline).all():
                    judged = judged.unclaimed()
                row['all cells'] = self.metric.difference(judged)
            rows.append(row)
        caption = (
            f'Minus {self.baseline}. Ahead and behind: each cell by itself; survive: after '
            'Benjamini-Hochberg. All cells: the mean difference over all of them by seed; ± is '
            f'{self.verdicts.interval}, in brackets with tuning; * where zero is outside. '
            'Cells share their seeds, so that their counts say less than their size.'
        )
        return tables.of_rows(rows, caption)

    @np.errstate(invalid='ignore')
    def draw(
        self, axes: Any, shown: tuple[int, str | None], cell: float, letters: int
    ) -> None:
        """Who is best, or an algorithm's differences, on one scale for all.

        Args:
          axes: of the panel.
          shown: which panel, and the algorithm of the differences; None for the best.
          cell: inches of a cell's width.
          letters: of a line of the title.
        """
        panel, algorithm = shown
        scale, is_share = self.metric.scale, self.metric.is_share
        look: dict[str, Any] = {'x': self.x, 'y': ('', self.y[1]), 'colorbar': False}
        if algorithm is None:
            form = '.1f' if is_share else '.4g'
            values, words = scale * self.level[panel], self.leads[panel]
            faces = self.faces[self.leader[panel]]
            look['colours'] = np.where(self.clear[panel][..., None], faces, 1.0)
        else:
            form = '+.1f' if is_share else '+.2g'
            means = [scale * _means(own) for own in self.compared.values()]
            look |= {'most': np.nanmax(np.abs([0.0, *np.ravel(means)]))}
            values = scale * _means(self.compared[algorithm][panel])
            look['reverse'] = self.metric.sign < 0
            words = _words(self.compared[algorithm][panel])
        look['unclear'] = words == evaluation.UNDECIDED
        look['alike'] = words == evaluation.ALIKE
        plot.heat_map(values, texts=heat.texts_of(values, form, cell), **look, ax=axes)
        title = textwrap.fill(self.title(panel, algorithm), letters)
        axes.set_title(panels.literal(title), fontsize=9)

    def title(self, panel: int, algorithm: str | None) -> str:
        """Names a panel; see `draw`."""
        title = (
            'best'
            if algorithm is None
            else f'{self.source.name(algorithm)} - {self.baseline}'
        )
        heads = self.panels[panel].items()
        words = [
            word if name == 'pattern' else f'{name} {word}' for name, word in heads
        ]
        return ', '.join([title, *words])

    def explain(self, figure: Any) -> None:
        """What holds for all panels: the scale of differences, and the colours of the best."""
        from matplotlib.patches import Patch

        figure.supylabel(self.y[0], fontsize=9)
        images = [axes.images[0] for axes in figure.axes if axes.images]
        if self.compared:
            beside = [
                axes for axes in figure.axes if axes.get_subplotspec().is_last_col()
            ]
            label = self.metric.difference_title(f'difference, {self.metric.words}')
            figure.colorbar(images[-1], ax=beside, label=label, fraction=0.06)
        at_models = {
            owner: f'{self.source.name(owner)} at its {model.replace("_", " ")}'
            for label, (owner, _) in self.source.members.items()
            if (model := self.source.main_models[label]) != 'server'
        }
        line: dict[str, Any] = {'edgecolor': 'black', 'linewidth': 0.5}
        seen = np.unique(self.leader[self.clear]).tolist()
        patches = {self.names[k]: Patch(facecolor=self.faces[k], **line) for k in seen}
        line |= {'edgecolor': '#00000060', 'facecolor': 'white'}
        patches['not decided'] = Patch(hatch=heat.UNDECIDED_HATCH, **line)
        hatched = f'hatched where {self.undecided.format("an interval")}'
        if evaluation.ALIKE in [
            *self.leads.flat,
            *(each.word for each in self.differences),
        ]:
            unit = ' points' if self.metric.is_share else ''
            patches['alike'] = Patch(hatch=heat.ALIKE_HATCH, **line)
            within = f'{self.metric.number(self.margin_used)}{unit}'
            hatched += f', dotted where it lies within {within}'
        look: dict[str, Any] = {'fontsize': 9, 'title_fontsize': 9, 'frameon': False}
        look |= {'ncols': len(patches), 'loc': 'outside lower center'}
        look['title'] = panels.literal(
            '; '.join(['best', hatched, *at_models.values()])
        )
        figure.legend(patches.values(), map(panels.literal, patches), **look)
