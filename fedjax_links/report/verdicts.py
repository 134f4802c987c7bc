"""Final levels, their differences, and verdicts of all of a page: which chance would give."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fedjax_links import evaluation
from fedjax_links.experiment.looking.choices import Choice
from fedjax_links.results.metric import Metric

Key = tuple[str, str, str]
"""Labels of a pattern and a series, and a candidate model."""
_LEVEL = 0.05


class Ends(NamedTuple):
    """Final levels.

    Attributes:
      metric: what they are.
      choices: by pattern, series and model, one for each seed, beside what tuning might have
        chosen.
      span: ``mean of the last 3 evaluations over 5 seeds``.
    """

    metric: Metric
    choices: Mapping[Key, Choice]
    span: str

    def level(self, key: Key) -> str:
        """A level with its interval over seeds, and in brackets what tuning adds."""
        return self.choices[key].text(self.metric)

    def score(self, key: Key) -> float:
        """The mean of a level, the larger the better; minus infinity where it diverged."""
        mean = self.choices[key].mean
        return -math.inf if math.isnan(mean) else self.metric.sign * mean

    def caption(self) -> str:
        """What levels with ± are."""
        said = f'{self.metric.title}: {self.span}; ± is the 95 % interval over seeds (Student t)'
        if any(len(choice.values) > 1 for choice in self.choices.values()):
            said += (
                ', in brackets its half width where tuning too is drawn again: near ties ran with '
                'the same seeds, and resamples of the seeds of tuning choose between them'
            )
        return said


class Difference(NamedTuple):
    """A paired difference of levels.

    Attributes:
      mean: of the first minus the second.
      half_width: of its interval over seeds; where seeds go on until decided, of one that holds
        at whatever number of them it is looked at.
      wide: the interval that allows for tuning too; None where no near ties ran.
      p_value: of a difference of zero, tuning included.
      word: `evaluation.AHEAD` and the like, by the wider one; or '' where nothing says which way
        the metric is better.
    """

    mean: float
    half_width: float
    wide: evaluation.Interval | None
    p_value: float
    word: str

    @property
    def excludes_zero(self) -> bool:
        """Whether zero lies outside of the wider interval."""
        width = self.half_width if self.wide is None else float(self.wide.half_width)
        return abs(self.mean) > width


class Verdicts:
    """Comparisons that stand on one page."""

    def __init__(
        self, found: Sequence[Difference | None], margin: float, until: Mapping[str, Any]
    ) -> None:
        """Marks those that survive.

        Args:
          found: all differences of the page; None where there is none.
          margin: up to which they are alike.
          until: how seeds went on until decided; empty where their number was fixed.
        """
        self._known = [each for each in found if each is not None and each.mean == each.mean]
        self._margin, self._until = margin, until
        survive = evaluation.benjamini_hochberg([each.p_value for each in self._known], _LEVEL)
        pairs = zip(self._known, survive.tolist(), strict=True)
        left = {id(each) for each, is_left in pairs if is_left and each.excludes_zero}
        self._survivors = left if len(self._known) > 1 else set()

    def survives(self, found: Difference) -> bool:
        """Whether a difference of the page does."""
        return id(found) in self._survivors

    def text(self, metric: Metric, found: Difference | None) -> str:
        """``+1.2 ± 0.4 **``; nothing where there is none."""
        return metric.difference(found, survives=self.survives(found)) if found else ''

    def caption(self, metric: Metric) -> str:
        """What stars and words are, and how much of it chance would give."""
        tuned = any(each.wide is not None for each in self._known)
        said = f'* where zero is outside{" of both intervals" if tuned else ""}'
        count = len(self._known)
        if count > 1:
            clear = sum(each.excludes_zero for each in self._known)
            said += (
                f', as it would be by chance in {_LEVEL * count:.2g} of {count} comparisons '
                f'(here {clear}); ** what survives Benjamini-Hochberg at {_LEVEL:.0%} '
                f'({len(self._survivors)})'
            )
        if self._margin:
            unit = ' points' if metric.is_share else ''
            said += f'; alike: certainly within {metric.scale * self._margin:g}{unit}'
        if self._until:
            said += (
                f'; every pair has as many seeds as its verdict needs, {self._until["least"]} at '
                'least, and its interval holds at whatever number it ends'
            )
        return f'{said}.'
