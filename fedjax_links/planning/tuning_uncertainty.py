"""What tuning might have chosen with other seeds, and what that does to levels and differences."""

import itertools
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import evaluation, runs
from fedjax_links.core import student
from fedjax_links.planning import sequential_seeds, trials
from fedjax_links.results import dataset, recorded
from fedjax_links.results.metric import Metric

_DRAWS = 2000


class Choice(NamedTuple):
    """Final levels of an algorithm under a pattern, at what tuning chose and what it might have.

    Attributes:
      values: float[K, S], a row for what was chosen, then one for each near tie; a column per seed.
      picks: int[B], the row that each draw of other seeds of tuning chooses. All share draws, so
        that picks of algorithms that were tuned with the same seeds belong together.
    """

    values: np.ndarray
    picks: np.ndarray

    @property
    def shares(self) -> np.ndarray:
        """float[K], how often each row is chosen."""
        return np.bincount(self.picks, minlength=len(self.values)) / len(self.picks)

    @property
    def mean(self) -> float:
        """Of what was chosen, over seeds; NaN where one diverged."""
        return float(self.values[0].mean())

    def level(self) -> evaluation.Interval:
        """The mean of what was chosen, with an interval that allows for the choice too."""
        over_seeds = evaluation.seed_interval(self.values[0])
        found = evaluation.chosen_interval(self.values, self.shares)
        return found._replace(
            half_width=np.maximum(found.half_width, over_seeds.half_width)
        )

    def text(self, metric: Metric, *, signed: bool = False) -> str:
        """The mean with its interval over seeds, and in brackets what tuning adds."""
        wide = self.level() if len(self.values) > 1 else None
        return metric.interval(
            evaluation.seed_interval(self.values[0]), signed=signed, wide=wide
        )

    def minus(self, other: 'Choice') -> tuple[np.ndarray, np.ndarray]:
        """Paired differences to another, over the first seeds, as many as both have.

        Returns:
          float[J, S], a row for every pair of choices, first that which was made; and float[J], how
          often each pair comes out.
        """
        count = min(self.values.shape[1], other.values.shape[1])
        pairs = Counter({(0, 0): 0})
        pairs.update(zip(self.picks.tolist(), other.picks.tolist(), strict=True))
        rows = [
            student.paired(self.values[i, :count], other.values[j, :count])
            for i, j in pairs
        ]
        return np.array(rows), np.array([*pairs.values()]) / len(self.picks)


def of_series(
    values: np.ndarray,
    tried: trials.TuningTrials | None = None,
    near: Mapping[int, np.ndarray] = MappingProxyType({}),
    direction: str | None = None,
) -> Choice:
    """Of one series.

    Args:
      values: float[S], final levels by seed.
      tried: what was tuned over; None for nothing.
      near: float[S] of near ties, by their place in what was tried.
      direction: ``'max'`` or ``'min'``, which way scores of tuning are better.
    """
    places = [
        place for place in (tried.ties.tolist() if tried else ()) if place in near
    ]
    if tried is None or tried.best is None or not places:
        return Choice(values[None], np.zeros(_DRAWS, int))
    scores = tried.by_seed[[tried.best, *places]] * (1 if direction == 'max' else -1)
    picks = _drawn_means(scores).argmax(axis=0)
    return Choice(np.stack([values, *(near[place] for place in places)]), picks)


def _drawn_means(scores: np.ndarray) -> np.ndarray:
    """Draws means that other seeds of tuning might have had: float[K, B].

    Differences of two values have Student's t law about what was measured. A seed has the same
    draws for all values and algorithms. One seed tells of no others.

    Args:
      scores: float[K, S], by value and seed; seeds with NaN are left out.
    """
    known = ~np.isnan(scores).any(axis=0)
    scores, count = scores[:, known], int(known.sum())
    means = scores.mean(axis=1, keepdims=True)
    if count < 2:
        return np.broadcast_to(means, (len(scores), _DRAWS))
    draws = np.random.default_rng(0).standard_normal((len(known), 2, _DRAWS))[known]
    # sum_s z_s (x_s - mean) is normal with variance (S - 1) s^2 for independent normal z_s.
    moved = (scores - means) @ draws[:, 0]
    chi_square = (draws[1:, 1] ** 2).sum(axis=0)
    return means + moved / np.sqrt(count * chi_square)


class NearTies:
    """What tuning of an algorithm could not tell from the best, and how that ended."""

    def __init__(
        self, run: runs.Results, label: str, *, metric: str, model: str, tail: float
    ) -> None:
        """Reads what there is.

        Args:
          run: its metrics.
          label: the algorithm.
          metric: of final levels, as the rest in `recorded.final_metrics`.
          model: likewise.
          tail: likewise.
        """
        options: dict[str, Any] = {'metric': metric, 'model': model, 'tail': tail}
        own = run.columns, run.facts, label
        self._levels = recorded.final_metrics(*own, stage=dataset.TIE, **options)
        self._tries = trials.read_trials(*own)
        self._direction = run.facts['directions'][run.facts['metric']]

    def choice(self, levels: Mapping[int, float], pattern: str, point: Any) -> Choice:
        """Of a pattern and a point, with those near ties that have run with all of its seeds.

        Args:
          levels: final ones by seed.
          pattern: label of the links.
          point: of the grid, or its items.
        """
        point, near = dict(point), {}
        tried = trials.trials_for(self._tries, pattern, point)
        for place in tried.ties.tolist() if tried else ():
            values = {**point, **tried.values_at(place)} if tried else {}
            own = self._levels.get(recorded.cell_key(pattern, values), {})
            if levels.keys() <= own.keys():
                near[place] = np.array([own[seed] for seed in levels])
        return of_series(np.array([*levels.values()]), tried, near, self._direction)


class PairwiseRanking(NamedTuple):
    """How often one algorithm ends ahead of another, were both tuned again.

    Attributes:
      pattern: label of the links.
      point: of the grid, as far as it concerns the first.
      first: label of an algorithm.
      second: that of another.
      ahead: share of draws of other seeds of tuning at whose choices the first has the better mean
        over the seeds of the experiment.
    """

    pattern: str
    point: Mapping[str, Any]
    first: str
    second: str
    ahead: float


def tuning_noise(
    run: runs.Results, *, metric: str | None = None, tail: float = 0.1
) -> list[PairwiseRanking]:
    """How often each order of two algorithms would come out, were all of them tuned again.

    Other seeds of tuning are drawn about the measured scores by Student's t law. Each algorithm
    chooses by them between what tuning chose and the near ties that ran (`Tuning.ties`); without
    any, every order is certain.

    Args:
      run: its metrics.
      metric: that of the run by default.
      tail: share of the evaluations, the last ones, that each seed is averaged over.

    Returns:
      One entry for every pair of algorithms under a pattern at a point of the grid.

    Raises:
      ValueError: if nothing says which way the metric is better.
    """
    facts, name = run.facts, metric or run.facts['metric']
    sign = Metric(name, facts['directions'].get(name)).sign
    every: dict[str, dict[Any, Choice]] = {}
    for label, model in recorded.main_models(facts).items():
        options: dict[str, Any] = {'metric': name, 'model': model, 'tail': tail}
        ties = NearTies(run, label, **options)
        levels = recorded.final_metrics(run.columns, facts, label, **options)
        every[label] = {
            place: ties.choice(dict(sorted(by.items())), *place)
            for place, by in levels.items()
        }
    found = []
    for first, second in itertools.combinations(facts['algorithms'], 2):
        for place, choice in every[first].items():
            other = sequential_seeds.counterpart(place, every[second])
            if other is not None:
                rows, shares = choice.minus(every[second][other])
                ahead = float(shares @ (sign * rows.mean(axis=1) > 0))
                found.append(
                    PairwiseRanking(place[0], dict(place[1]), first, second, ahead)
                )
    return found
