"""Views the finished part of a run, with its links and clients, as pages need it."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import runs
from fedjax_links.core import checks, errors
from fedjax_links.experiment import Experiment
from fedjax_links.planning import trials, tuning_uncertainty
from fedjax_links.planning.tuning_uncertainty import Choice
from fedjax_links.report import client_stats, completion
from fedjax_links.report.client_stats import Clients
from fedjax_links.report.comparisons import (
    FinalKey,
    FinalMetrics,
    PairedDifference,
    Verdicts,
    judge,
)
from fedjax_links.results import dataset, recorded
from fedjax_links.results.metric import Metric


class FirstSeedLinks(NamedTuple):
    """The realised links of the first seed.

    Attributes:
      mask: bool[T, N], which clients took part.
      mean_prob: float[N], the mean reported probability; NaN where unknown.
    """

    mask: np.ndarray
    mean_prob: np.ndarray


@dataclasses.dataclass(frozen=True)
class RunView:
    """Holds all that tables and pictures need.

    Attributes:
      title: one line.
      caption: what was reported elsewhere, and all deviations; may be empty.
      data: the finished series in the order of their names (`results.dataset`).
      tuning: by tuned series, what was tried, on each pattern that it was tuned on.
      missing: labels of algorithms that are not finished, those in tuning with how far it is.
      links: realised links by pattern; empty if none were recorded.
      clients: what needs the experiment itself, by pattern; empty if nothing was recorded.
      diverged: phrases that say which simulations diverged, and in which round.
      folder: of the run; None for results in memory.
      experiment: what ran or will run, if it is at hand.
      run: its metrics, of which those of near ties are used; None without any.
      allow_imports: whether the folder's config may name code outside the package.
    """

    title: str
    caption: str
    data: dataset.LabelledResults
    tuning: Mapping[str, Sequence[trials.TuningTrials]] = dataclasses.field(
        default_factory=dict
    )
    missing: Sequence[str] = ()
    links: Mapping[str, FirstSeedLinks] = dataclasses.field(default_factory=dict)
    clients: Mapping[str, Clients] = dataclasses.field(default_factory=dict)
    diverged: Sequence[str] = ()
    folder: Path | None = None
    experiment: Experiment | None = None
    run: runs.Results | None = None
    allow_imports: bool = False

    @functools.cached_property
    def patterns(self) -> list[str]:
        """Returns the labels of the patterns."""
        return list(self.data['pattern'].values.tolist())

    @functools.cached_property
    def members(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """Returns the algorithm and the point of each series, by label."""
        return dataset.points(self.data)

    @functools.cached_property
    def algorithms(self) -> list[str]:
        """Returns the labels of the algorithms."""
        return list(dict.fromkeys(algorithm for algorithm, _ in self.members.values()))

    @functools.cached_property
    def models(self) -> dict[str, list[str]]:
        """Returns the candidate models by series, the server's first."""
        has_model = self.data['begun'].any(('pattern', 'seed')).values
        names = self.data['model'].values
        return {
            label: names[has_model[series]].tolist()
            for series, label in enumerate(self.members)
        }

    @functools.cached_property
    def main_models(self) -> dict[str, str]:
        """Returns the model that papers evaluate, by series."""
        models = self.data['main_model'].values.tolist()
        return dict(zip(self.members, models, strict=True))

    @functools.cached_property
    def _names(self) -> dict[str, str]:
        return dataset.names(self.data)

    @property
    def baseline(self) -> str:
        """Returns the label of the algorithm to compare with."""
        return str(self.data.attrs.get('baseline'))

    @property
    def metrics(self) -> list[str]:
        """Returns the metrics that were recorded of the candidate models."""
        return [
            name for name, values in self.data.items() if values.dims == dataset.DIMS
        ]

    @property
    def rounds(self) -> np.ndarray:
        """Returns int[E], the rounds completed at each evaluation."""
        return np.asarray(self.data['round'])

    @property
    def num_seeds(self) -> int:
        """Returns S."""
        return int(self.data.sizes['seed'])

    @property
    def seeds(self) -> str:
        """Writes the number of seeds: ``5 seeds``, or ``3 to 5 seeds``."""
        least = f'{self.until["least"]} to ' if self.until else ''
        return '1 seed' if self.num_seeds == 1 else f'{least}{self.num_seeds} seeds'

    def name(self, label: str) -> str:
        """Returns what to call a pattern, an algorithm or a series."""
        return self._names.get(label, label)

    def rows(self, *, every_model: bool = False) -> list[FinalKey]:
        """Lists the rows of most tables: patterns, series, and main models or all models."""
        keys = []
        for pattern in self.patterns:
            for label, main_model in self.main_models.items():
                models = self.models[label] if every_model else [main_model]
                keys += [(pattern, label, model) for model in models]
        return keys

    def metric(self, name: str | None = None, argument: str = 'metric') -> Metric:
        """Returns a metric with its direction; that of the run by default.

        Raises:
          ValueError: for one that was not recorded, naming the nearest.
        """
        chosen = self.data.attrs['metric'] if name is None else name
        checks.choice(argument, chosen, self.metrics)
        directions = dataset.read_attribute(self.data, 'directions')
        return Metric(chosen, directions.get(chosen))

    def curve(self, metric: str, key: FinalKey) -> np.ndarray:
        """Returns float[S, E], of the seeds that the lane has.

        They are the first seeds if other lanes have more.
        """
        pattern, series, model = key
        labels = {'series': series, 'model': model, 'pattern': pattern}
        index = tuple(
            self.data.indexes[dim].get_loc(label) for dim, label in labels.items()
        )
        has_seed = self.data['begun'].values[index]
        return np.asarray(self.data[metric].values[index][has_seed])

    def tail(self, share: float | None = None) -> float:
        """Returns the share of the evaluations that each seed is averaged over.

        By default it is that of seeds until decided, or a tenth.

        Raises:
          ValueError: for a share outside [0, 1].
        """
        chosen = self.until.get('tail', 0.1) if share is None else share
        checks.within('tail', chosen, 0, 1)
        return float(chosen)

    def ends(
        self, metric: str | None = None, tail: float | None = None
    ) -> FinalMetrics:
        """Returns the final metrics of all series and models.

        Args:
          metric: which metric; that of the run by default.
          tail: see `tail`.

        Raises:
          ValueError: for an unknown metric, or a share outside [0, 1].
        """
        shown_metric = self.metric(metric)
        share = self.tail(tail)
        choices = {}
        for key in self.rows(every_model=True):
            pattern, label, model = key
            values = dataset.tail(self.curve(shown_metric.name, key), share)
            choices[key] = tuning_uncertainty.of_series(values)
            if any(tried.ties.size for tried in self.tuning.get(label, ())):
                algorithm, point = self.members[label]
                ties = self._near_ties(
                    algorithm, metric=shown_metric.name, model=model, tail=share
                )
                seeds = self.data['seed'].values.tolist()
                by_seed = dict(zip(seeds, values, strict=False))
                choices[key] = ties.choice(by_seed, pattern, point)
        return FinalMetrics(shown_metric, choices, self.span(share))

    @functools.cached_property
    def _near_ties(self) -> Callable[..., tuning_uncertainty.NearTies]:
        """Returns a function that reads `tuning_uncertainty.NearTies` of the run, once each."""
        near_ties: Any = tuning_uncertainty.NearTies
        return functools.cache(functools.partial(near_ties, self.run))

    def span(self, tail: float | None) -> str:
        """Says what is averaged: ``mean of the last 3 evaluations over 5 seeds``."""
        count = dataset.num_last(len(self.rounds), self.tail(tail))
        last = 'last evaluation' if count == 1 else f'last {count} evaluations'
        return f'mean of the {last} over {self.seeds}'

    def baseline_of(self, label: str) -> str | None:
        """Returns the baseline's series at the point of a series; None if it has not run."""
        return dataset.counterpart(self.members, label, self.baseline)

    def paired(
        self,
        ends: FinalMetrics,
        key: FinalKey,
        base: str | None,
        margin: float | None = None,
    ) -> PairedDifference | None:
        """Returns the difference to another series under the same pattern, seed by seed.

        Args:
          ends: the final metrics.
          key: of one.
          base: label of the other series, whose main model counts.
          margin: up to which differences are equivalent; that of the run by default.

        Returns:
          None if there is no other series, or if it is the same.
        """
        if base is None:
            return None
        base_key = key[0], base, self.main_models[base]
        if key == base_key:
            return None
        choice = ends.choices[key]
        base_choice = ends.choices[base_key]
        difference = self.difference(ends.metric, choice, base_choice, margin)
        compared = key[0], _content(choice), _content(base_choice)
        return difference._replace(compared=compared)

    def difference(
        self, metric: Metric, choice: Choice, base: Choice, margin: float | None = None
    ) -> PairedDifference:
        """Compares two choices over the seeds that both have; see `paired`."""
        rows, shares = choice.minus(base)
        return self.judged(metric, rows, shares, margin)

    def judged(
        self,
        metric: Metric,
        rows: np.ndarray,
        shares: np.ndarray,
        margin: float | None = None,
    ) -> PairedDifference:
        """Judges differences by seed, see `comparisons.judge`."""
        margin = self.margin if margin is None else margin
        return judge(metric, rows, shares, margin=margin, until=self.until)

    def verdicts(
        self,
        differences: Sequence[PairedDifference | None],
        margin: float | None = None,
    ) -> Verdicts:
        """Corrects the differences of a page for each other; see `paired`."""
        margin = self.margin if margin is None else margin
        return Verdicts(differences, margin, self.until)

    @property
    def until(self) -> Mapping[str, Any]:
        """Returns how seeds went on until decided; empty if their number was fixed."""
        return dict(dataset.read_attribute(self.data, 'until') or {})

    @property
    def margin(self) -> float:
        """Returns up to which differences are equivalent, in the unit of the metric."""
        return float(self.until.get('margin', 0.0))

    def best_series(
        self, ends: FinalMetrics, patterns: Sequence[str] | None = None
    ) -> dict[str, str]:
        """Returns the series of each algorithm that ends best; the first if all diverged.

        Args:
          ends: the final metrics, of which those of the main models count.
          patterns: labels; the mean over all of them by default.

        Returns:
          Labels; those of first series if it is unknown which way the metric is better.
        """

        def score(label: str) -> float:
            if ends.metric.direction is None:
                return -math.inf
            model = self.main_models[label]
            keys = [(pattern, label, model) for pattern in patterns or self.patterns]
            return float(np.mean([ends.score(key) for key in keys]))

        best: dict[str, str] = {}
        for label, (algorithm, _) in self.members.items():
            best[algorithm] = max(best.get(algorithm, label), label, key=score)
        return best


def _content(choice: Choice) -> bytes:
    """Returns the numbers of a choice, equal for equal ones."""
    return choice.values.tobytes() + choice.picks.tobytes()


def of_run(
    run: runs.Results,
    experiment: Experiment | None = None,
    *,
    so_far: bool = False,
    allow_imports: bool = False,
) -> RunView:
    """Views what is finished of a run.

    Args:
      run: its metrics, from `runs.read` or `Experiment.run`.
      experiment: what ran, if it is at hand.
      so_far: whether to include unfinished series, as far as they are; perhaps there are none.
      allow_imports: as in `RunView`.

    Raises:
      ValueError: if no algorithm is done.
    """
    facts = run.facts
    finished = completion.finished_series(run, so_far=so_far)
    if not finished.series and not so_far:
        value = f'{run.folder}; not finished: {", ".join(finished.missing)}'
        raise errors.invalid('workdir', 'hold at least one finished algorithm', value)
    patterns = completion.in_order(facts['patterns'], dict(facts['names']))
    rounds = recorded.rounds_of(facts)
    data = run.dataset.sel(series=finished.series, pattern=patterns)
    data = data.reindex(round=rounds) if so_far else data.sel(round=rounds)
    links: Mapping[str, FirstSeedLinks] = {}
    clients: Mapping[str, Clients] = {}
    if run.folder is not None:
        links = _first_links(run.folder, facts['seeds'][0], patterns)
        clients = client_stats.read(run.folder)
    return RunView(
        title=facts['title'],
        caption=completion.caption(facts),
        data=data,
        tuning=finished.tuning,
        missing=finished.missing,
        links=links,
        clients=clients,
        diverged=completion.diverged(run, data),
        folder=run.folder,
        experiment=experiment,
        run=run,
        allow_imports=allow_imports,
    )


def _first_links(
    folder: Path, seed: int, patterns: Sequence[str]
) -> dict[str, FirstSeedLinks]:
    """Returns the recorded links of a seed, by pattern."""
    stored = runs.links(folder)
    return {
        label: FirstSeedLinks(stored.masks[label][seed], stored.mean_probs[label][seed])
        for label in patterns
        if seed in stored.masks.get(label, {})
    }


def blank(experiment: Experiment) -> RunView:
    """Returns the view of a run before it starts, with zeros for all numbers that a run finds.

    Args:
      experiment: the experiment.

    Returns:
      What its pages will show; computing it trains nothing.
    """
    facts = experiment.plan.facts()
    num_rounds = facts['num_rounds']
    # One line per lane, at the end, stands for all of its evaluations.
    facts_of_lines = {**facts, 'eval_every': num_rounds, 'evaluate_start': False}
    schedule = experiment.plan.schedule
    lines: list[str] = []
    for label in experiment.algorithms:
        models = facts['models'][label]
        names = map('/'.join, itertools.product(models, facts['directions']))
        zeros = dict.fromkeys(names, 0.0)
        lanes = schedule.first_trials(label) + schedule.first_main(label)
        lines += [runs.line_of(lane.labels, lane.num_rounds, zeros) for lane in lanes]
    results = runs.Results(runs.as_columns(lines), facts_of_lines)
    view = of_run(results, experiment)
    rounds = recorded.rounds_of(facts)
    data = view.data.isel(round=[0] * len(rounds)).assign_coords(round=rounds)
    no_links = FirstSeedLinks(np.zeros((1, 1), bool), np.zeros(1))
    links = dict.fromkeys(view.patterns, no_links)
    return dataclasses.replace(view, data=data, links=links)
