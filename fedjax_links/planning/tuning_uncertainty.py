"""Estimates what tuning might have chosen with other seeds, and how much that moves results.

A near tie is a value that tuning could not tell from the value that it chose. A series is the lanes
(`planning.lanes.Lane`) that differ in their seed alone.
"""

import itertools
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import evaluation, runs
from fedjax_links.core import student
from fedjax_links.core.grids import Point
from fedjax_links.planning import sequential_seeds, trials
from fedjax_links.results import dataset, recorded
from fedjax_links.results.metric import Metric

_DRAWS = 2000
"""Draws of what tuning might choose. Fractions of draws have a standard error of at most 1.1 %."""


class Choice(NamedTuple):
    """Holds final metrics of a series at the value that tuning chose, and at its near ties.

    Attributes:
      values: float[K, S], a row for the chosen value, then a row for each near tie; a column for
        each seed.
      picks: int[B], the row that tuning would choose in each of B draws of other tuning seeds. All
        series have the same draws. So picks of two series that were tuned with the same seeds can
        be compared draw by draw.
    """

    values: np.ndarray
    picks: np.ndarray

    @property
    def shares(self) -> np.ndarray:
        """Returns float[K], the fraction of draws in which each row is chosen."""
        return np.bincount(self.picks, minlength=len(self.values)) / len(self.picks)

    @property
    def mean(self) -> float:
        """Returns the mean over seeds at the chosen value; NaN if a seed diverged."""
        return float(self.values[0].mean())

    def interval_with_tuning(self) -> evaluation.Interval:
        """Returns the mean at the chosen value, with the interval including tuning."""
        over_seeds = evaluation.seed_interval(self.values[0])
        with_tuning = evaluation.chosen_interval(self.values, self.shares)
        half_width = np.maximum(with_tuning.half_width, over_seeds.half_width)
        return with_tuning._replace(half_width=half_width)

    def text(self, metric: Metric, *, signed: bool = False) -> str:
        """Writes the mean with its interval over seeds, and with its interval including tuning."""
        wide = self.interval_with_tuning() if len(self.values) > 1 else None
        return metric.interval(
            evaluation.seed_interval(self.values[0]), signed=signed, wide=wide
        )

    def paired_difference(self, other: 'Choice') -> tuple[np.ndarray, np.ndarray]:
        """Returns paired differences to another choice, over the first seeds that both have.

        Returns:
          float[J, S], a row for each pair of picks that occurs in a draw. The pair of chosen values
          comes first. And float[J], the fraction of draws with each pair.
        """
        num_seeds = min(self.values.shape[1], other.values.shape[1])
        # The pair of chosen values comes first, even if no draw has it.
        pairs = Counter({(0, 0): 0})
        pairs.update(zip(self.picks.tolist(), other.picks.tolist(), strict=True))
        rows = [
            student.paired(self.values[i, :num_seeds], other.values[j, :num_seeds])
            for i, j in pairs
        ]
        return np.array(rows), np.array([*pairs.values()]) / len(self.picks)


def of_series(
    values: np.ndarray,
    tried: trials.TuningTrials | None = None,
    near: Mapping[int, np.ndarray] = MappingProxyType({}),
    direction: str | None = None,
) -> Choice:
    """Makes the choice of one series.

    Args:
      values: float[S], final metrics by seed at the chosen value.
      tried: the trials of the tuning that chose the value; None without tuning.
      near: for each near tie, by its index in ``tried``, its final metrics, float[S].
      direction: ``'max'`` or ``'min'``, which way scores of trials are better.
    """
    certain = Choice(values[None], np.zeros(_DRAWS, int))
    if tried is None or tried.best is None:
        return certain
    ties = [index for index in tried.ties.tolist() if index in near]
    if not ties:
        return certain
    sign = 1 if direction == 'max' else -1
    scores = sign * tried.by_seed[[tried.best, *ties]]
    picks = _redrawn_means(scores).argmax(axis=0)
    return Choice(np.stack([values, *(near[index] for index in ties)]), picks)


def _redrawn_means(scores: np.ndarray) -> np.ndarray:
    """Draws means that other seeds of tuning might have had: float[K, B].

    Differences of two means follow Student's t distribution around the measured difference. A seed
    has the same draws for all values and algorithms. One seed says nothing about other seeds, so
    with only one seed each draw has the measured scores.

    Args:
      scores: float[K, S], by value and seed; seeds with a NaN are left out.
    """
    known = ~np.isnan(scores).any(axis=0)
    scores = scores[:, known]
    count = int(known.sum())
    means = scores.mean(axis=1, keepdims=True)
    if count < 2:
        return np.broadcast_to(means, (len(scores), _DRAWS))
    draws = np.random.default_rng(0).standard_normal((len(known), 2, _DRAWS))[known]
    # sum_s z_s (x_s - mean) is normal with variance (S - 1) s^2 for independent normal z_s.
    moved = (scores - means) @ draws[:, 0]
    chi_square = (draws[1:, 1] ** 2).sum(axis=0)
    return means + moved / np.sqrt(count * chi_square)


class NearTies:
    """Reads the near ties of an algorithm's tuning, with their final metrics."""

    def __init__(
        self, run: runs.Results, label: str, *, metric: str, model: str, tail: float
    ) -> None:
        """Reads the trials and the lanes of near ties.

        Args:
          run: the metrics of the run.
          label: the algorithm.
          metric: as in `recorded.final_metrics`.
          model: as in `recorded.final_metrics`.
          tail: as in `recorded.final_metrics`.
        """
        self._final_metrics = recorded.final_metrics(
            run.columns,
            run.facts,
            label,
            stage=dataset.TIE,
            metric=metric,
            model=model,
            tail=tail,
        )
        self._trials = trials.read_trials(run.columns, run.facts, label)
        self._direction = run.facts['directions'][run.facts['metric']]

    def choice(self, by_seed: Mapping[int, float], pattern: str, point: Any) -> Choice:
        """Makes the choice of a series, with the near ties that have run with all its seeds.

        Args:
          by_seed: final metrics of the series at the chosen value, by seed.
          pattern: label.
          point: of the grid, or the items of such a point.
        """
        point = dict(point)
        near: dict[int, np.ndarray] = {}
        tried = trials.trials_for(self._trials, pattern, point)
        if tried is not None:
            for index in tried.ties.tolist():
                key = recorded.cell_key(pattern, {**point, **tried.values_at(index)})
                tie_metrics = self._final_metrics.get(key, {})
                if by_seed.keys() <= tie_metrics.keys():
                    near[index] = np.array([tie_metrics[seed] for seed in by_seed])
        values = np.array([*by_seed.values()])
        return of_series(values, tried, near, self._direction)


class PairwiseRanking(NamedTuple):
    """Holds how often one algorithm would end ahead of another if both were tuned again.

    Attributes:
      pattern: label.
      point: the columns of the grid that the first algorithm takes.
      first: label of an algorithm.
      second: label of another.
      ahead: fraction of the draws of other tuning seeds in which ``first`` has the better mean over
        the seeds of the experiment. A mean with a diverged seed is behind all other means. If both
        means have a diverged seed, neither is ahead.
    """

    pattern: str
    point: Point
    first: str
    second: str
    ahead: float


def tuning_noise(
    run: runs.Results, *, metric: str | None = None, tail: float = 0.1
) -> list[PairwiseRanking]:
    """Estimates how often each algorithm would end ahead of another if all were tuned again.

    Scores that other tuning seeds might give are drawn around the measured scores, by Student's t
    distribution. In each draw, an algorithm chooses between the value that tuning chose and the
    near ties that ran (`Tuning.ties`). Without near ties all orders are certain.

    Args:
      run: the metrics of the run.
      metric: name of the metric; by default the run's.
      tail: fraction of the evaluations, the last ones, that each seed is averaged over.

    Returns:
      An entry for each pair of algorithms, at each pattern and point of the grid.

    Raises:
      ValueError: if nothing says which way the metric is better.
    """
    facts = run.facts
    name = metric or facts['metric']
    sign = Metric(name, facts['directions'].get(name)).sign
    choices: dict[str, dict[Any, Choice]] = {}
    for label, model in recorded.main_models(facts).items():
        options: dict[str, Any] = {'metric': name, 'model': model, 'tail': tail}
        ties = NearTies(run, label, **options)
        cells = recorded.final_metrics(run.columns, facts, label, **options)
        choices[label] = {
            key: _diverged_last(ties.choice(dict(sorted(by_seed.items())), *key), sign)
            for key, by_seed in cells.items()
        }
    rankings: list[PairwiseRanking] = []
    for first, second in itertools.combinations(facts['algorithms'], 2):
        for key, choice in choices[first].items():
            other_key = sequential_seeds.counterpart(key, choices[second])
            if other_key is None:
                continue
            pattern, point = key
            rows, shares = choice.paired_difference(choices[second][other_key])
            with np.errstate(invalid='ignore'):  # Where both diverged, inf - inf.
                means = rows.mean(axis=1)
            ahead = float(shares @ (sign * means > 0))
            rankings.append(PairwiseRanking(pattern, dict(point), first, second, ahead))
    return rankings


def _diverged_last(choice: Choice, sign: int) -> Choice:
    """Replaces NaN, the metric of diverged seeds, by the worst value.

    Args:
      choice: of an algorithm.
      sign: 1 if larger values are better, -1 if smaller ones are.
    """
    has_diverged = np.isnan(choice.values)
    return choice._replace(values=np.where(has_diverged, -sign * np.inf, choice.values))
