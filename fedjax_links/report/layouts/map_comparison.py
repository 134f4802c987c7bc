"""Compares algorithms over a map: differences to the baseline, and who is best, as tables."""

import operator
from collections.abc import Iterator, Sequence

import numpy as np

from fedjax_links import evaluation, plot
from fedjax_links.core import student
from fedjax_links.pages import tables
from fedjax_links.pages.tables import Table
from fedjax_links.planning.tuning_uncertainty import Choice
from fedjax_links.report.cells import Cells
from fedjax_links.report.comparisons import PairedDifference, checked_margin
from fedjax_links.report.run_view import RunView
from fedjax_links.results.metric import format_values

means = np.vectorize(operator.attrgetter('mean'), otypes=[float])
"""Means of choices or differences."""
words = np.vectorize(operator.attrgetter('word'), otypes=[object])
"""Verdicts of differences."""


class ComparedMap:
    """Holds final metrics over a map, their differences to the baseline, and who is best.

    Attributes:
      view: the run.
      cells: final metrics at the cells.
      metric: which metric.
      margin: up to which differences are equivalent.
      names: the names of all algorithms.
      baseline: name of the baseline.
      faces: float[A, 3], the colours of all algorithms.
      x: name and values of the horizontal axis, as texts.
      y: likewise of the vertical axis.
      panels: for each panel, the table cells that identify the panel, by title of their column.
      undecided: what undecided means, with ``{}`` for the interval.
      compared: differences to the baseline, object[K, Y, X] by algorithm.
      differences: all differences of ``compared``, in a list.
      verdicts: on all differences.
      leader: int[K, Y, X], the index of the best algorithm.
      leader_mean: float[K, Y, X], the mean of the best algorithm.
      second_mean: float[K, Y, X], the mean of the second best.
      leads: object[K, Y, X], the verdict on the lead of the best.
      is_clear: bool[K, Y, X], where the lead excludes zero.
    """

    def __init__(self, view: RunView, map_cells: Cells, margin: float | None) -> None:
        """Compares all algorithms with the baseline, and the best with the second."""
        self.view = view
        self.cells = map_cells
        self.metric = map_cells.metric
        self.margin = checked_margin(margin, view.margin)
        self.names = list(map(view.name, map_cells.choices))
        self.baseline = view.name(view.baseline)
        all_styles = plot.assign_styles(map_cells.choices).values()
        self.faces = np.array([style.face for style in all_styles])
        self.x = _axis_texts(*map_cells.x)
        self.y = _axis_texts(*map_cells.y)
        self.panels = [self._panel_cells(*panel) for panel in map_cells.panels]
        self.undecided = '{} includes zero'
        if view.num_seeds == 1:
            self.undecided = 'one seed decides nothing'
        self.compared: dict[str, np.ndarray] = {}
        compare = np.vectorize(self._difference, otypes=[object])
        base = map_cells.choices.get(view.baseline)
        for label, choices in map_cells.choices.items():
            if base is not None and label != view.baseline:
                is_fair = map_cells.is_fair(label, view.baseline)
                self.compared[label] = compare(choices, base, is_fair)
        self.differences = [
            difference for cells in self.compared.values() for difference in cells.flat
        ]
        self.verdicts = view.verdicts(self.differences, self.margin)
        self._rank()

    def _panel_cells(self, pattern: str, third_value: object) -> dict[str, str]:
        """Returns what identifies a panel: its pattern and its value of the third column."""
        cells = {}
        if len(self.view.patterns) > 1:
            cells['pattern'] = self.view.name(pattern)
        if self.cells.third:
            third_values = [value for _, value in self.cells.panels]
            index = third_values.index(third_value)
            cells[short_name(self.cells.third)] = format_values(third_values)[index]
        return cells

    def _rank(self) -> None:
        """Finds the best and the second best at each cell, and judges the lead."""
        choices = np.stack([*self.cells.choices.values()])  # [A, K, Y, X]
        num_values = np.stack([*self.cells.num_values.values()])
        scores = self.metric.sign * means(choices)
        order = np.argsort(-scores, axis=0, kind='stable')
        ranked = np.take_along_axis(choices, order, axis=0)
        num_values = np.take_along_axis(num_values, order, axis=0)
        self.leader = order[0]
        self.leader_mean = means(ranked[0])
        self.second_mean = means(ranked[min(1, len(ranked) - 1)])
        self.leads = np.full(self.leader_mean.shape, evaluation.AHEAD, object)
        if len(ranked) > 1:
            for cell in np.ndindex(self.leads.shape):
                index = (slice(None), *cell)
                self.leads[cell] = self._lead(ranked[index], num_values[index])
        self.is_clear = ~np.isnan(self.leader_mean) & (self.leads == evaluation.AHEAD)

    def _difference(
        self, choice: Choice, other: Choice, is_fair: bool
    ) -> PairedDifference:
        """Compares two choices; an unfair comparison claims nothing."""
        difference = self.view.difference(self.metric, choice, other, self.margin)
        return difference if is_fair else difference.without_claim()

    def _lead(self, ranked: np.ndarray, num_values: np.ndarray) -> str:
        """Judges the lead of the best over the second.

        If the second diverged, the best leads if each other algorithm diverged with enough seeds.

        Args:
          ranked: object[A], `Choice`s of a cell, the best first.
          num_values: int[A], of how many values each algorithm's choice is the best.
        """
        best, *others = ranked
        is_fair = bool(num_values[0] == num_values[1])
        difference = self._difference(best, others[0], is_fair)
        if not np.isnan(difference.mean):
            return difference.word
        for other in others:
            has_diverged = np.isnan(other.values[0])  # By seed, at the chosen value.
            num_diverged = int(has_diverged.sum())
            if not student.divergence_suffices(num_diverged, len(has_diverged)):
                return evaluation.UNDECIDED
        return evaluation.AHEAD

    def tables(self, caption: str) -> list[Table]:
        """Shows who is best at each cell, the differences to the baseline, and their summary."""
        shown = [self._table_of_best(caption)]
        if self.compared:
            shown += [self._table_of_differences(), self._table_of_algorithms()]
        return shown

    def _table_of_best(self, caption: str) -> Table:
        """Shows the best algorithm and its metric at each cell."""

        def text(leader: int, mean: float, is_clear: bool) -> str:
            if np.isnan(mean):
                return ''
            mark = '' if is_clear else ' ~'
            return f'{self.names[leader]} {self.metric.number(mean)}{mark}'

        lead = self.undecided.format('the paired interval of the lead over the second')
        diverged_second = ~np.isnan(self.leader_mean) & np.isnan(self.second_mean)
        if (diverged_second & (self.leads == evaluation.UNDECIDED)).any():
            lead += ', or too few lanes of all others diverged to tell'
        caption += f' ~: {lead}. Empty where all diverged or nothing ran.'
        texts = np.vectorize(text, otypes=[object])(
            self.leader, self.leader_mean, self.is_clear
        )
        return tables.from_rows([*self._rows(texts)], caption)

    def _table_of_differences(self) -> Table:
        """Shows the differences to the baseline at each cell, with the algorithm's metric."""

        def text(difference: PairedDifference, choice: Choice) -> str:
            shown = self.verdicts.text(self.metric, difference)
            return f'{shown} ({self.metric.number(choice.mean)})' if shown else ''

        rows: list[dict[str, str]] = []
        is_any_unfair = False
        has_diverged = any(np.isnan(difference.mean) for difference in self.differences)
        for label, differences in self.compared.items():
            choices = self.cells.choices[label]
            texts = np.vectorize(text, otypes=[object])(differences, choices)
            rows += self._rows(texts, algorithm=self.view.name(label))
            is_fair = self.cells.is_fair(label, self.view.baseline)
            is_any_unfair = is_any_unfair or not is_fair.all()
        caption = f'Difference to {self.baseline} at the same cell, in parentheses the final metric'
        if self.view.num_seeds == 1:
            caption += '.'
        else:
            caption += (
                f'; ± is {self.verdicts.interval}; '
                f'{self.verdicts.caption(self.metric, has_verdicts=False)}'
            )
        if has_diverged:
            caption += (
                f' Empty where a run of the algorithm or of {self.baseline} diverged, or nothing '
                'ran.'
            )
        if is_any_unfair:
            caption += (
                ' [inf]: one of the two is the best of more values by the same seeds, which makes '
                'it better by chance, so that nothing is claimed.'
            )
        return tables.from_rows(rows, caption)

    def _rows(self, texts: np.ndarray, **first_cells: str) -> Iterator[dict[str, str]]:
        """Yields a row per panel and value of y.

        Args:
          texts: object[K, Y, X].
          **first_cells: of all rows.
        """
        x_name, x_values = self.x
        y_name, y_values = self.y
        titles = [f'{x_name} {x_values[0]}', *x_values[1:]]
        for panel_cells, panel_texts in zip(self.panels, texts, strict=True):
            for y_value, row_texts in zip(y_values, panel_texts, strict=True):
                row = {**first_cells, **panel_cells, y_name: y_value}
                yield row | dict(zip(titles, row_texts, strict=True))

    def _table_of_algorithms(self) -> Table:
        """Shows verdicts, extremes, and the mean over all cells by seed; a row per algorithm."""
        rows = []
        for label, cells in self.compared.items():
            differences = [
                difference for difference in cells.flat if not np.isnan(difference.mean)
            ]
            row = {'algorithm': self.view.name(label)}
            for word in (evaluation.AHEAD, evaluation.BEHIND, evaluation.EQUIVALENT):
                count = sum(difference.word == word for difference in differences)
                row[word] = f'{count} of {cells.size}'
            row['survive'] = str(sum(map(self.verdicts.survives, differences)))
            row['from, to'] = self._range(differences)
            row['all cells'] = self._over_all_cells(label)
            rows.append(row)
        caption = (
            f'Minus {self.baseline}. Ahead and behind: each cell by itself; survive: after '
            'Benjamini-Hochberg. All cells: the mean difference, by seed, over the cells where '
            'both converged'
        )
        if self.view.num_seeds > 1:
            caption += f'; ± is {self.verdicts.interval}'
            if any('[' in row['all cells'] for row in rows):
                caption += ', in brackets with tuning'
            caption += '; *: zero lies outside'
        caption += '. Cells share their seeds, so their counts are not independent.'
        return tables.from_rows(rows, caption)

    def _range(self, differences: Sequence[PairedDifference]) -> str:
        """Writes the smallest and the largest difference; nothing for none."""
        if not differences:
            return ''
        ordered = sorted(differences, key=lambda difference: difference.mean)
        smallest = self.metric.interval(ordered[0], signed=True)
        largest = self.metric.interval(ordered[-1], signed=True)
        return f'{smallest} to {largest}'

    def _over_all_cells(self, label: str) -> str:
        """Writes the mean difference over all cells; nothing if no cell converged."""
        mean = self.cells.paired_difference(label, self.view.baseline)
        if mean is None:
            return ''
        difference = self.view.judge(self.metric, mean.values, mean.shares)
        if not self.cells.is_fair(label, self.view.baseline).all():
            difference = difference.without_claim()
        return self.metric.difference(difference)

    def title(self, panel: int, algorithm: str | None) -> str:
        """Names a panel of an algorithm's differences, or of the best for None."""
        parts = ['best']
        if algorithm is not None:
            parts = [f'{self.view.name(algorithm)} - {self.baseline}']
        for name, value in self.panels[panel].items():
            parts.append(value if name == 'pattern' else f'{name} {value}')
        return ', '.join(parts)

    @property
    def has_equivalent(self) -> bool:
        """Returns whether some lead or difference is equivalent to none."""
        words = [difference.word for difference in self.differences]
        return evaluation.EQUIVALENT in [*self.leads.flat, *words]


def short_name(name: str) -> str:
    """Returns the last part of a column's name, with spaces."""
    return name.rsplit('.', 1)[-1].replace('_', ' ')


def _axis_texts(name: str, values: Sequence[object]) -> tuple[str, list[str]]:
    """Returns the short name of a column and its values as texts."""
    return short_name(name), format_values(values)
