"""Final levels, their differences, and verdicts of all of a page: which chance would give."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import evaluation
from fedjax_links.planning.tuning_uncertainty import Choice
from fedjax_links.results.metric import Metric

FinalKey = tuple[str, str, str]
"""Labels of a pattern and a series, and a candidate model."""
SEED_INTERVAL = 'the 95 % interval over seeds (Student t)'
BY_ITSELF = ', by itself'
_LEVEL = 0.05


class FinalMetrics(NamedTuple):
    """Final levels.

    Attributes:
      metric: what they are.
      choices: by pattern, series and model, one for each seed, beside what tuning might have
        chosen.
      span: ``mean of the last 3 evaluations over 5 seeds``.
    """

    metric: Metric
    choices: Mapping[FinalKey, Choice]
    span: str

    def level(self, key: FinalKey) -> str:
        """A level with its interval over seeds, and in brackets what tuning adds."""
        return self.choices[key].text(self.metric)

    def score(self, key: FinalKey) -> float:
        """The mean of a level, the larger the better; minus infinity where it diverged."""
        mean = self.choices[key].mean
        return -math.inf if math.isnan(mean) else self.metric.sign * mean

    def caption(self) -> str:
        """Says what levels with ± are."""
        text = f'{self.metric.title}: {self.span}; ± is {SEED_INTERVAL}'
        if any(len(choice.values) > 1 for choice in self.choices.values()):
            text += (
                ', in brackets its half width where tuning too is drawn again: near ties ran with '
                'the same seeds, and draws of what other seeds of tuning would give choose '
                'between them'
            )
        return text


class PairedDifference(NamedTuple):
    """A paired difference of levels.

    Attributes:
      mean: of the first minus the second.
      half_width: of its interval over seeds; where seeds go on until decided, of one that holds
        at whatever number of them it is looked at.
      wide: the interval that allows for tuning too; None where no near ties ran.
      p_value: of a difference of zero, tuning included; it too holds at any number of seeds where
        seeds go on until decided.
      word: `evaluation.AHEAD` and the like, by the wider one; or '' where nothing says which way
        the metric is better.
      compared: the pattern and all levels of both; equal where two labels are of the same numbers,
        which are one comparison. None: one of its own.
    """

    mean: float
    half_width: float
    wide: evaluation.Interval | None
    p_value: float
    word: str
    compared: tuple[str, bytes, bytes] | None = None

    @property
    def excludes_zero(self) -> bool:
        """Whether zero lies outside of the wider interval."""
        width = self.half_width if self.wide is None else float(self.wide.half_width)
        return abs(self.mean) > width

    def unclaimed(self) -> 'PairedDifference':
        """Returns the same mean with an interval that has no end, so that it says nothing."""
        endless = evaluation.Interval(np.asarray(self.mean), np.asarray(math.inf), 0)
        word = self.word and evaluation.UNDECIDED
        return self._replace(wide=endless, p_value=1.0, word=word)


def judge(
    metric: Metric,
    rows: np.ndarray,
    shares: np.ndarray,
    *,
    margin: float,
    until: Mapping[str, Any],
) -> PairedDifference:
    """Judges differences by seed.

    Args:
      metric: of which they are.
      rows: float[J, S], for what tuning chose and then for what it might have.
      shares: float[J], how often each row comes out.
      margin: up to which differences make none.
      until: how seeds go on until decided; empty where their number is fixed.

    Returns:
      The mean of the first row. Intervals and p-value hold at whatever number of seeds a pair
      ends, where seeds go on until decided.
    """
    over_seeds = evaluation.seed_interval(rows[0])
    mean, half_width = float(over_seeds.mean), float(over_seeds.half_width)
    p_value = evaluation.p_value(rows, shares)
    if 'level' in until:
        half_width = evaluation.decide(rows[0], level=until['level']).half_width
        p_value = max(p_value, evaluation.anytime_p_value(rows[0]))
    wide, word, width = None, '', half_width
    if len(rows) > 1:
        both = evaluation.chosen_interval(rows, shares)
        width += max(0.0, float(both.half_width - over_seeds.half_width))
        wide = over_seeds._replace(half_width=np.asarray(width))
    if metric.direction is not None and mean == mean:
        word = evaluation.word(metric.sign * mean, width, margin)
    return PairedDifference(mean, half_width, wide, p_value, word)


def _identity(found: PairedDifference) -> Any:
    """Names a comparison; rows of the same numbers have one name."""
    return id(found) if found.compared is None else found.compared


class Verdicts:
    """Comparisons that stand on one page."""

    def __init__(
        self,
        found: Sequence[PairedDifference | None],
        margin: float,
        until: Mapping[str, Any],
    ) -> None:
        """Marks those that survive.

        Args:
          found: all differences of the page; None where there is none.
          margin: up to which they are alike.
          until: how seeds went on until decided; empty where their number was fixed.
        """
        known = [each for each in found if each is not None and each.mean == each.mean]
        by_identity = {_identity(each): each for each in known}
        self._known = [*by_identity.values()]
        self._num_equal = len({id(each) for each in known}) - len(by_identity)
        self._margin, self._until = margin, until
        survive = evaluation.benjamini_hochberg(
            [each.p_value for each in self._known], _LEVEL
        )
        pairs = zip(by_identity.items(), survive.tolist(), strict=True)
        left = {
            name for (name, each), is_left in pairs if is_left and each.excludes_zero
        }
        self._survivors = left if len(self._known) > 1 else set()

    def survives(self, found: PairedDifference) -> bool:
        """Whether a difference of the page does."""
        return _identity(found) in self._survivors

    def text(self, metric: Metric, found: PairedDifference | None) -> str:
        """Writes ``+1.2 ± 0.4 **``; nothing where there is none."""
        return metric.difference(found, survives=self.survives(found)) if found else ''

    def word(self, found: PairedDifference | None) -> str:
        """Writes a verdict; nothing where there is none.

        Who is ahead or behind only without a correction for the other comparisons of the page is
        so by itself.
        """
        if found is None:
            return ''
        is_sided = found.word in (evaluation.AHEAD, evaluation.BEHIND)
        alone = is_sided and len(self._known) > 1 and not self.survives(found)
        return f'{found.word}{BY_ITSELF}' if alone else found.word

    @property
    def interval(self) -> str:
        """What stands behind the ± of a difference."""
        if not self._until:
            return f'{SEED_INTERVAL} of differences between runs with the same links and batches'
        return (
            f'the {100 * self._until["level"]:g} % interval of differences between runs with the '
            'same links and batches, of a confidence sequence, which holds at whatever number of '
            'seeds a pair ends'
        )

    def caption(self, metric: Metric) -> str:
        """Says what stars and words are, and how much of it chance would give."""
        tuned = any(each.wide is not None for each in self._known)
        parts = [f'* where zero is outside{" of both intervals" if tuned else ""}']
        count = len(self._known)
        if count > 1:
            clear = sum(each.excludes_zero for each in self._known)
            parts[0] += (
                f', as it would be by chance in {_LEVEL * count:.2g} of {count} comparisons '
                f'(here {clear}); ** what survives Benjamini-Hochberg at {_LEVEL:.0%} '
                f'({len(self._survivors)})'
            )
            if self._num_equal:
                parts.append('rows of the same numbers are one comparison')
        if any(self.word(each).endswith(BY_ITSELF) for each in self._known):
            parts.append('by itself: not corrected for the other comparisons')
        if any(each.half_width != each.half_width for each in self._known):
            parts.append(
                'no ± where there is one seed, or where fewer than six have equal differences'
            )
        if self._margin:
            unit = ' points' if metric.is_share else ''
            within = (
                f'alike: the interval lies within {metric.scale * self._margin:g}{unit}'
            )
            parts.append(
                within + ', not corrected for the other comparisons' * (count > 1)
            )
        if self._until:
            parts.append(
                f'every pair has as many seeds as its verdict needs, {self._until["least"]} at '
                'least'
            )
        return f'{"; ".join(parts)}.'
