"""Runs whose algorithms all have the same law: whatever their reports claim is false.

Final metrics are drawn in place of being trained. All else is what a run does: tuning chooses
rates, near ties run, pairs get seeds until they are decided, lanes diverge.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import runs
from fedjax_links.planning import sequential_seeds, trials
from fedjax_links.planning.tuning import BEST, FIRST_TUNING_SEED
from fedjax_links.report import run_view
from fedjax_links.results import recorded

RATE = 'client.learning_rate'
RATES = (0.1, 0.2, 0.4)
PATTERN = 'links'
BASELINE = 'fedavg'


class Accuracies(NamedTuple):
    """Accuracies on a test set; all algorithms are about as good with the same seed.

    Attributes:
      examples: of the test set.
      independent_fraction: fraction of the examples on which an algorithm is right or wrong
        independently of the others; on the rest all are right or all are wrong.
      level: mean of all accuracies.
      by_seed: standard deviation of what a seed's accuracy is expected to be.
    """

    examples: int
    independent_fraction: float
    level: float = 0.8
    by_seed: float = 0.02

    def draw(self, rng: np.random.Generator, *shape: int) -> np.ndarray:
        """Draws binomial means float[*shape], the last axis over seeds, as kept: float32."""
        chances = np.clip(rng.normal(self.level, self.by_seed, shape[-1]), 0.0, 1.0)
        num_independent = max(1, round(self.independent_fraction * self.examples))
        num_right_together = rng.binomial(self.examples - num_independent, chances)
        num_right_alone = rng.binomial(num_independent, chances, shape)
        accuracies = (num_right_together + num_right_alone) / self.examples
        return accuracies.astype(np.float32).astype(float)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Null:
    """A run in which no algorithm, and no rate of any, is truly better.

    Attributes:
      law: of final metrics.
      num_seeds: of every lane; where pairs get seeds until they are decided, the most of a pair.
      num_algorithms: with the baseline.
      tuning_seeds: with which every algorithm chooses between rates; 0 for one rate, untuned.
      min_seeds: of a pair, where pairs get seeds until they are decided; 0 where all get
        ``num_seeds``.
      margin: up to which differences make none.
      diverging: chance that a lane diverges.
      grid: columns and their values.
      baseline_lacks: columns of the grid that only the other algorithms have.
      gain: by how much the last algorithm is better after all, to see what is found.
    """

    law: Accuracies
    num_seeds: int
    num_algorithms: int = 5
    tuning_seeds: int = 0
    min_seeds: int = 0
    margin: float = 0.0
    diverging: float = 0.0
    grid: Mapping[str, tuple[Any, ...]] = dataclasses.field(default_factory=dict)
    baseline_lacks: tuple[str, ...] = ()
    gain: float = 0.0

    @property
    def facts(self) -> dict[str, Any]:
        """Returns what the folder of such a run says of it."""
        labels = [BASELINE, *(f'other {k}' for k in range(1, self.num_algorithms))]
        tuning = {
            'grid': {RATE: list(RATES)},
            'given': {RATE: [0, len(RATES)]},
            'num_rounds': 1,
            'num_seeds': self.tuning_seeds,
            'ties': 2,
            'model': BEST,
        }
        facts = {
            'title': 'Nothing differs',
            'caption': '',
            'patterns': [PATTERN],
            'algorithms': labels,
            'names': [],
            'baseline': BASELINE,
            'metric': 'eval_accuracy',
            'directions': {'eval_accuracy': 'max'},
            'models': {label: ['server'] for label in labels},
            'num_rounds': 1,
            'eval_every': 1,
            'seeds': list(range(self.num_seeds)),
            'grid': dict(self.grid),
            'grid_mode': 'cross',
            'tuning': tuning if self.tuning_seeds else None,
        }
        if self.min_seeds:
            until = {
                'least': self.min_seeds,
                'margin': self.margin,
                'level': 0.95,
                'tail': 0.1,
            }
            facts['until'] = until
        return facts

    def source(self, rng: np.random.Generator) -> run_view.RunView:
        """Draws a run; returns what its report is made of."""
        facts = self.facts
        labels = facts['algorithms']
        points = [
            dict(zip(self.grid, values, strict=True))
            for values in itertools.product(*self.grid.values())
        ]
        lines = _Lines(rng, self.diverging)
        num_rates = len(RATES) if self.tuning_seeds else 1
        shape = (len(points), len(labels), num_rates)
        if self.tuning_seeds:
            scores = self.law.draw(rng, *shape, self.tuning_seeds)
            for p, a, r in np.ndindex(shape):
                point = {**points[p], RATE: RATES[r]}
                lines.add(
                    'tuning', labels[a], point, scores[p, a, r], FIRST_TUNING_SEED
                )
        tuning_columns = lines.columns
        tuned = {
            label: trials.read_trials(tuning_columns, facts, label) for label in labels
        }
        final_metrics = self.law.draw(rng, *shape, self.num_seeds)
        final_metrics[:, -1] += self.gain
        baseline_points = list(map(self._of_baseline, points))
        for p, a in np.ndindex(shape[:2]):
            point = points[p]
            if a == 0:
                point = baseline_points[p]
                if point in baseline_points[:p]:
                    continue  # The baseline ran there already.
            if not self.tuning_seeds:
                lines.add('main', labels[a], point, final_metrics[p, a, 0])
                continue
            chosen = trials.trials_for(tuned[labels[a]], PATTERN, points[p])
            for stage, r in _chosen_rates(chosen):
                at_rate = {**point, RATE: RATES[r]}
                lines.add(stage, labels[a], at_rate, final_metrics[p, a, r])
        columns = lines.columns
        if self.min_seeds:
            columns = _until_decided(columns, facts)
        return run_view.from_run(runs.Results(columns, facts))

    def _of_baseline(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """Leaves out the columns that the baseline lacks."""
        return {
            name: value
            for name, value in point.items()
            if name not in self.baseline_lacks
        }


def _chosen_rates(tuned: Any) -> list[tuple[str, int]]:
    """Lists the stages that run after tuning, each with its rate; two ties at most."""
    best = RATES.index(tuned.values_at(tuned.best)[RATE])
    ties = [RATES.index(tuned.values_at(k)[RATE]) for k in tuned.ties.tolist()]
    return [('main', best), *(('tie', r) for r in ties[:2])]


def max_false_rate(pages: int) -> float:
    """Returns the largest rate of false claims to accept: 5 % and three standard errors."""
    return 0.05 + 3 * (0.05 * 0.95 / pages) ** 0.5


def fraction(flags: Iterable[bool]) -> float:
    """Returns how many are true, of all; 0 of none."""
    values = list(flags)
    return sum(values) / max(len(values), 1)


class _Lines:
    """Lines of metrics, each the only evaluation of a lane."""

    def __init__(self, rng: np.random.Generator, diverging: float) -> None:
        """Starts with none.

        Args:
          rng: which lanes diverge.
          diverging: chance that one does.
        """
        self._rng = rng
        self._diverging = diverging
        self._rows: list[dict[str, Any]] = []

    def add(
        self,
        stage: str,
        label: str,
        point: Mapping[str, Any],
        values: np.ndarray,
        first_seed: int = 0,
    ) -> None:
        """Adds a lane for each of some seeds."""
        finite = self._rng.random(len(values)) >= self._diverging
        for seed, (value, is_finite) in enumerate(
            zip(values, finite, strict=True), first_seed
        ):
            row = {
                'stage': stage,
                'algorithm': label,
                'pattern': PATTERN,
                'seed': seed,
                'round': 1,
            }
            row |= {**point, 'finite': bool(is_finite)}
            row['server/eval_accuracy'] = float(value) if is_finite else None
            self._rows.append(row)

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """The lines by column."""
        names = list(dict.fromkeys(itertools.chain(*self._rows)))
        return {
            name: runs.folder.as_column([row.get(name) for row in self._rows])
            for name in names
        }


def _until_decided(columns: Any, facts: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Drops the seeds that a run until decided, which draws them in turn, does not reach."""
    needed = sequential_seeds.seeds_needed(columns, facts)
    selected = columns['stage'] == 'tuning'
    for row in np.flatnonzero(~selected):
        point = {name: columns[name][row] for name in facts['grid']}
        cell = recorded.cell_key(PATTERN, point)
        num_seeds = needed[columns['algorithm'][row]].get(cell, facts['until']['least'])
        selected[row] = columns['seed'][row] < num_seeds
    return {name: column[selected] for name, column in columns.items()}
