"""Compares final metrics: paired differences, and verdicts corrected for all of a page's tests."""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fedjax_links import evaluation
from fedjax_links.core import checks
from fedjax_links.core.records import Section
from fedjax_links.planning.tuning_uncertainty import Choice
from fedjax_links.results.metric import Metric

SEED_INTERVAL = 'the 95 % interval over seeds (Student t)'
BY_ITSELF = ', by itself'
_LEVEL = 0.05


class FinalKey(NamedTuple):
    """Identifies a final metric.

    Attributes:
      pattern: the pattern's label.
      series: the label of the series: an algorithm at a grid point.
      model: the candidate model.
    """

    pattern: str
    series: str
    model: str


class FinalMetrics(NamedTuple):
    """Holds the final metrics of all series and models.

    Attributes:
      metric: which metric.
      choices: final metrics by seed, also at other values that tuning might have chosen.
      span: what is averaged: ``mean of the last 3 evaluations over 5 seeds``.
    """

    metric: Metric
    choices: Mapping[FinalKey, Choice]
    span: str

    def text(self, key: FinalKey) -> str:
        """Writes a metric with its interval over seeds, and in brackets that including tuning."""
        return self.choices[key].text(self.metric)

    def score(self, key: FinalKey) -> float:
        """Returns the mean, the larger the better; minus infinity if the series diverged."""
        mean = self.choices[key].mean
        return -math.inf if math.isnan(mean) else self.metric.sign * mean

    def caption(self) -> str:
        """Says what the numbers and their ± are."""
        return f'{self.metric.title}: {self.span}; {self.intervals}'

    @property
    def intervals(self) -> str:
        """Says what ± and the numbers in brackets are."""
        shapes = [choice.values.shape for choice in self.choices.values()]
        if all(num_seeds == 1 for _, num_seeds in shapes):
            return 'one seed has no interval'
        text = f'± is {SEED_INTERVAL}'
        if any(num_rows > 1 for num_rows, _ in shapes):
            text += (
                '. The number in brackets is half the width of the interval that includes tuning: '
                'the choice among near ties, which ran with the same seeds, is drawn again'
            )
        return text


class PairedDifference(NamedTuple):
    """Holds a paired difference of final metrics.

    Attributes:
      mean: the mean of the first minus the second.
      half_width: half the width of its interval over seeds. If seeds are added until decided, the
        interval holds at any number of seeds.
      wide: the interval that includes tuning; None if no near ties ran.
      p_value: the p-value of a difference of zero, tuning included. If seeds are added until
        decided, it holds at any number of seeds, too.
      word: `evaluation.AHEAD` and the like, by the wider interval; '' if it is unknown which way
        the metric is better, or if a run diverged.
      compared: the pattern and the metrics of both sides. Comparisons with equal ``compared``, as
        of two labels with the same numbers, count as one. None for a comparison that equals no
        other.
    """

    mean: float
    half_width: float
    wide: evaluation.Interval | None
    p_value: float
    word: str
    compared: tuple[str, bytes, bytes] | None = None

    @property
    def excludes_zero(self) -> bool:
        """Returns whether zero lies outside of the wider interval."""
        width = self.half_width if self.wide is None else float(self.wide.half_width)
        return abs(self.mean) > width

    def without_claim(self) -> 'PairedDifference':
        """Returns the same mean with an infinite interval, so that nothing is claimed."""
        infinite = evaluation.Interval(
            np.asarray(self.mean), half_width=np.asarray(math.inf), num_seeds=0
        )
        word = evaluation.UNDECIDED if self.word else ''
        return self._replace(wide=infinite, p_value=1.0, word=word)


def checked_margin(margin: float | None, default: float) -> float:
    """Returns a margin, the run's margin by default; refuses a margin below zero."""
    if margin is None:
        return default
    checks.number_within('margin', margin, 0, math.inf)
    return float(margin)


def judge(
    metric: Metric,
    rows: np.ndarray,
    shares: np.ndarray,
    *,
    margin: float,
    until: Section,
) -> PairedDifference:
    """Judges the difference of two algorithms from their paired differences by seed.

    Args:
      metric: which metric.
      rows: float[J, S], the paired differences: a row for the values that tuning chose. Then
        follows a row for each pair of values that tuning might have chosen.
      shares: float[J], the probability of each row if tuning were repeated.
      margin: up to which differences are equivalent.
      until: the rule by which seeds are added until comparisons are decided; empty if their number
        is fixed.

    Returns:
      The difference; its mean is the mean of the first row. If seeds are added until decided,
      intervals and p-value hold at any number of seeds.
    """
    over_seeds = evaluation.seed_interval(rows[0])
    mean = float(over_seeds.mean)
    half_width = float(over_seeds.half_width)
    p_value = evaluation.p_value(rows, shares)
    if 'level' in until:
        half_width = evaluation.decide(rows[0], level=until['level']).half_width
        p_value = max(p_value, evaluation.anytime_p_value(rows[0]))
    wide = None
    width = half_width
    if len(rows) > 1:
        with_tuning = evaluation.chosen_interval(rows, shares)
        added = float(with_tuning.half_width - over_seeds.half_width)
        width += max(0.0, added)
        wide = over_seeds._replace(half_width=np.asarray(width))
    word = ''
    if metric.direction is not None and not math.isnan(mean):
        word = evaluation.word(metric.sign * mean, width, margin)
    return PairedDifference(mean, half_width, wide, p_value, word)


def _identity(difference: PairedDifference) -> Hashable:
    """Identifies a comparison; two labels with the same numbers are one comparison."""
    if difference.compared is None:
        return id(difference)
    return difference.compared


class Verdicts:
    """Writes the comparisons of one page, corrected for each other."""

    def __init__(
        self,
        differences: Sequence[PairedDifference | None],
        margin: float,
        until: Section,
    ) -> None:
        """Finds the comparisons that survive a correction for all of them.

        Args:
          differences: all of the page; None for a row without one.
          margin: up to which differences are equivalent.
          until: the rule by which seeds were added until decided; empty if their number was fixed.
        """
        known = [
            difference
            for difference in differences
            if difference is not None and not math.isnan(difference.mean)
        ]
        by_identity = {_identity(difference): difference for difference in known}
        self._compared = [*by_identity.values()]
        self._has_equal_rows = len(known) > len(self._compared)
        self._margin = margin
        self._until = until
        self._survivors: set[Hashable] = set()
        if len(self._compared) < 2:
            return
        p_values = [difference.p_value for difference in self._compared]
        is_survivor = evaluation.benjamini_hochberg(p_values, _LEVEL)
        for difference, survives in zip(self._compared, is_survivor, strict=True):
            if survives and difference.excludes_zero:
                self._survivors.add(_identity(difference))

    def survives(self, difference: PairedDifference) -> bool:
        """Returns whether a difference of the page survives the correction."""
        return _identity(difference) in self._survivors

    def text(self, metric: Metric, difference: PairedDifference | None) -> str:
        """Writes ``+1.2 ± 0.4 **``; nothing if there is no difference."""
        if difference is None:
            return ''
        return metric.difference(difference, survives=self.survives(difference))

    def word(self, difference: PairedDifference | None) -> str:
        """Writes a verdict; nothing if there is no difference.

        A verdict that holds only without the correction gets a remark.
        """
        if difference is None:
            return ''
        is_sided = difference.word in (evaluation.AHEAD, evaluation.BEHIND)
        has_others = len(self._compared) > 1
        if is_sided and has_others and not self.survives(difference):
            return f'{difference.word}{BY_ITSELF}'
        return difference.word

    @property
    def interval(self) -> str:
        """Says what the ± of a difference is."""
        if not self._until:
            return f'{SEED_INTERVAL} of differences between runs with the same links and batches'
        return (
            f'the {100 * self._until["level"]:g} % interval of differences between runs with the '
            'same links and batches, from a confidence sequence that holds at any number of seeds'
        )

    def caption(self, metric: Metric, *, has_verdicts: bool = True) -> str:
        """Explains stars and verdicts, and says how many stars chance would give.

        Args:
          metric: the metric of the differences.
          has_verdicts: whether verdicts stand beside the differences.
        """
        parts = [self._caption_of_stars()]
        compared = self._compared
        if len(compared) > 1 and self._has_equal_rows:
            parts.append('rows of the same numbers are one comparison')
        texts = [*map(self.word, compared)] if has_verdicts else []
        if any(text.endswith(BY_ITSELF) for text in texts):
            parts.append('by itself: not corrected for the other comparisons')
        if any(math.isnan(difference.half_width) for difference in compared):
            parts.append(
                'no ± for one seed, or for fewer than six seeds with equal differences'
            )
        if self._margin:
            parts.append(self._caption_of_margin(metric))
        elif evaluation.EQUIVALENT in texts:
            parts.append('equivalent: the same results for every seed')
        if self._until:
            parts.append(
                f'every pair has as many seeds as its verdict needs, {self._until["least"]} at '
                'least'
            )
        return f'{"; ".join(parts)}.'

    def _caption_of_stars(self) -> str:
        """Says what the stars are, and how many chance would give."""
        text = '*: zero lies outside the interval'
        if any(difference.wide is not None for difference in self._compared):
            text = '*: zero lies outside both intervals'
        count = len(self._compared)
        if count < 2:
            return text
        num_clear = sum(difference.excludes_zero for difference in self._compared)
        by_chance = (1 - self._until.get('level', 1 - _LEVEL)) * count
        return (
            f'{text}, by chance in {by_chance:.2g} of {count} comparisons (here in '
            f'{num_clear}); **: it also survives Benjamini-Hochberg at {100 * _LEVEL:g} % '
            f'(here in {len(self._survivors)})'
        )

    def _caption_of_margin(self, metric: Metric) -> str:
        """Says which differences are equivalent."""
        margin = metric.margin_text(self._margin)
        text = f'equivalent: the interval lies within {margin}'
        if len(self._compared) > 1:
            text += ', not corrected for the other comparisons'
        return text
