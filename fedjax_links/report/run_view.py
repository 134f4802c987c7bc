"""Views the finished part of a run, with its links and clients, for the pages of a report."""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_links import runs
from fedjax_links.core import checks, errors
from fedjax_links.core.grids import Point
from fedjax_links.core.records import Section
from fedjax_links.experiment import Experiment
from fedjax_links.planning import trials, tuning_uncertainty
from fedjax_links.planning.tuning_uncertainty import Choice, NearTies
from fedjax_links.report import client_stats, completion, first_seed_links
from fedjax_links.report.client_stats import Clients
from fedjax_links.report.comparisons import (
    FinalKey,
    FinalMetrics,
    PairedDifference,
    Verdicts,
    checked_margin,
    judge,
)
from fedjax_links.report.first_seed_links import FirstSeedLinks
from fedjax_links.results import dataset, recorded
from fedjax_links.results.metric import Metric


@dataclasses.dataclass(frozen=True)
class RunView:
    """Holds all that tables and pictures need.

    Attributes:
      title: one line.
      caption: what its paper reports, and all deviations; may be empty.
      data: the finished series in the order of their names (`results.dataset`).
      tuning: the trials of each tuned series, for each pattern that it was tuned on.
      missing: labels of algorithms that are not finished; those in tuning with their progress.
      links: realised links by pattern; empty if none were recorded.
      clients: what was recorded of clients by pattern; empty if nothing was.
      diverged: phrases that say which simulations diverged, and in which round.
      experiment: what ran or will run, if it is at hand.
      run: its results, with the metrics of near ties (values that tuning could not tell from the
        best); None for data without a run.
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
    experiment: Experiment | None = None
    run: runs.Results | None = None
    allow_imports: bool = False

    @property
    def folder(self) -> Path | None:
        """Returns the folder of the run; None for results in memory."""
        return None if self.run is None else self.run.folder

    @functools.cached_property
    def patterns(self) -> list[str]:
        """Returns the labels of the patterns."""
        return list(self.data['pattern'].values.tolist())

    @functools.cached_property
    def members(self) -> dict[str, tuple[str, Point]]:
        """Returns the algorithm and the point of each series, by label."""
        return dataset.points(self.data)

    @functools.cached_property
    def algorithms(self) -> list[str]:
        """Returns the labels of the algorithms."""
        return list(dict.fromkeys(algorithm for algorithm, _ in self.members.values()))

    @functools.cached_property
    def models(self) -> dict[str, list[str]]:
        """Returns the candidate models by series, the server's first."""
        has_model = self.data['started'].any(('pattern', 'seed')).values
        names = self.data['model'].values
        return {
            label: names[has_model[index]].tolist()
            for index, label in enumerate(self.members)
        }

    @functools.cached_property
    def main_models(self) -> dict[str, str]:
        """Returns the model that papers evaluate, by series."""
        models = self.data['main_model'].values.tolist()
        return dict(zip(self.members, models, strict=True))

    @functools.cached_property
    def _names(self) -> dict[str, str]:
        """Returns the names that pages show, by label."""
        return dataset.names(self.data)

    @property
    def baseline(self) -> str:
        """Returns the label of the algorithm to compare with."""
        return str(self.data.attrs.get('baseline'))

    @property
    def metrics(self) -> list[str]:
        """Returns the names of the metrics that were recorded for the candidate models."""
        return [
            name for name, values in self.data.items() if values.dims == dataset.DIMS
        ]

    @property
    def rounds(self) -> np.ndarray:
        """Returns int[E], the rounds completed at each evaluation."""
        return np.asarray(self.data['round'])

    @property
    def num_seeds(self) -> int:
        """Returns the largest number of seeds of a series."""
        return int(self.data.sizes['seed'])

    @property
    def seeds(self) -> str:
        """Writes the number of seeds: ``5 seeds``, or ``3 to 5 seeds``."""
        if self.num_seeds == 1:
            return '1 seed'
        counts = np.asarray(self.data['started'].any('model').sum('seed'))
        least = int(counts.min(initial=self.num_seeds, where=counts > 0))
        few = f'{least} to ' if least < self.num_seeds else ''
        return f'{few}{self.num_seeds} seeds'

    def name(self, label: str) -> str:
        """Returns the name that pages show for a pattern, an algorithm or a series."""
        return self._names.get(label, label)

    def rows(self, *, every_model: bool = False) -> list[FinalKey]:
        """Lists the rows of most tables: patterns, series, and main models or all models."""
        keys = []
        for pattern in self.patterns:
            for label, main_model in self.main_models.items():
                models = self.models[label] if every_model else [main_model]
                keys += [FinalKey(pattern, label, model) for model in models]
        return keys

    def metric(self, name: str | None = None, argument: str = 'metric') -> Metric:
        """Returns a metric with its direction; the run's metric by default.

        Raises:
          ValueError: for a metric that was not recorded, naming the nearest one.
        """
        chosen = self.data.attrs['metric'] if name is None else name
        checks.choice(argument, chosen, self.metrics)
        directions = dataset.read_attribute(self.data, 'directions')
        return Metric(chosen, directions.get(chosen))

    def curve(self, metric: str, key: FinalKey) -> np.ndarray:
        """Returns the evaluations of a series and model, float[S, E].

        S counts the seeds of this series: the first ones, if other series have more.
        """
        index = self._index_of(key)
        has_seed = self.data['started'].values[index]
        return np.asarray(self.data[metric].values[index][has_seed])

    def seeds_of(self, key: FinalKey) -> list[int]:
        """Returns the S seeds that a series and model have, in the order of `curve`."""
        has_seed = self.data['started'].values[self._index_of(key)]
        return list(self.data['seed'].values[has_seed].tolist())

    def _index_of(self, key: FinalKey) -> tuple[Any, ...]:
        """Returns the index of a series, model and pattern in arrays of the data."""
        indexes = self.data.indexes
        return (
            indexes['series'].get_loc(key.series),
            indexes['model'].get_loc(key.model),
            indexes['pattern'].get_loc(key.pattern),
        )

    def tail(self, tail: float | None = None) -> float:
        """Returns the fraction of the evaluations, the last ones, that final metrics average.

        Args:
          tail: the fraction, in [0, 1]. By default the fraction in the rule by which seeds were
            added until decided, or a tenth.

        Raises:
          ValueError: for a fraction outside [0, 1].
        """
        chosen = self.until.get('tail', 0.1) if tail is None else tail
        checks.number_within('tail', chosen, 0, 1)
        return float(chosen)

    def final_metrics(
        self, metric: str | None = None, tail: float | None = None
    ) -> FinalMetrics:
        """Returns the final metrics of all series and models.

        Args:
          metric: which metric; the run's metric by default.
          tail: see `tail`.

        Raises:
          ValueError: for an unknown metric, or a fraction outside [0, 1].
        """
        shown_metric = self.metric(metric)
        tail = self.tail(tail)
        choices = {
            key: self._final_choice(shown_metric.name, key, tail)
            for key in self.rows(every_model=True)
        }
        return FinalMetrics(shown_metric, choices, self.span(tail))

    def _final_choice(self, metric: str, key: FinalKey, tail: float) -> Choice:
        """Returns the final metric of a series, also at its near ties in tuning."""
        final_values = dataset.tail(self.curve(metric, key), tail)
        tuning_trials = self.tuning.get(key.series, ())
        if not any(tried.ties.size for tried in tuning_trials):
            return tuning_uncertainty.of_series(final_values)
        algorithm, point = self.members[key.series]
        near_ties = self._near_ties(
            algorithm, metric=metric, model=key.model, tail=tail
        )
        by_seed = dict(zip(self.seeds_of(key), final_values, strict=True))
        return near_ties.choice(by_seed, key.pattern, point)

    @functools.cached_property
    def _near_ties(self) -> Callable[..., NearTies]:
        """Returns a function that reads near ties of the run, once for equal arguments."""
        assert self.run is not None  # as there are trials of tuning
        return functools.cache(functools.partial(NearTies, self.run))

    def span(self, tail: float | None) -> str:
        """Says what is averaged: ``mean of the last 3 evaluations over 5 seeds``."""
        count = dataset.num_last(len(self.rounds), self.tail(tail))
        last = 'last evaluation' if count == 1 else f'last {count} evaluations'
        return f'mean of the {last} over {self.seeds}'

    def baseline_of(self, label: str) -> str | None:
        """Returns the series of the baseline at the same point; None if that series has not run."""
        return dataset.counterpart(self.members, label, self.baseline)

    def paired_difference(
        self,
        final_metrics: FinalMetrics,
        key: FinalKey,
        base: str | None,
        margin: float | None = None,
    ) -> PairedDifference | None:
        """Returns the difference to another series under the same pattern, seed by seed.

        Args:
          final_metrics: the final metrics of all series.
          key: the series and model.
          base: label of the other series, which is compared at its main model.
          margin: up to which differences are equivalent; the run's by default.

        Returns:
          None if there is no other series, or if the other series is the same.
        """
        if base is None:
            return None
        base_key = FinalKey(key.pattern, base, self.main_models[base])
        if key == base_key:
            return None
        choice = final_metrics.choices[key]
        base_choice = final_metrics.choices[base_key]
        difference = self.difference(final_metrics.metric, choice, base_choice, margin)
        # Equal comparisons on a page count once when it is corrected.
        compared = (key.pattern, _content(choice), _content(base_choice))
        return difference._replace(compared=compared)

    def difference(
        self, metric: Metric, choice: Choice, base: Choice, margin: float | None = None
    ) -> PairedDifference:
        """Compares two choices over the seeds that both have; see `paired_difference`."""
        rows, shares = choice.paired_difference(base)
        return self.judge(metric, rows, shares, margin)

    def judge(
        self,
        metric: Metric,
        rows: np.ndarray,
        shares: np.ndarray,
        margin: float | None = None,
    ) -> PairedDifference:
        """Judges differences as `comparisons.judge` does, at the run's margin by default."""
        margin = checked_margin(margin, self.margin)
        return judge(metric, rows, shares, margin=margin, until=self.until)

    def verdicts(
        self,
        differences: Sequence[PairedDifference | None],
        margin: float | None = None,
    ) -> Verdicts:
        """Corrects the differences of a page for each other; see `paired_difference`."""
        return Verdicts(differences, checked_margin(margin, self.margin), self.until)

    @property
    def until(self) -> Section:
        """Returns how seeds were added until decided; empty for a fixed number of seeds."""
        return dict(dataset.read_attribute(self.data, 'until') or {})

    @property
    def margin(self) -> float:
        """Returns the largest difference that counts as equivalent, in the unit of the metric."""
        return float(self.until.get('margin', 0.0))

    def best_series(
        self, final_metrics: FinalMetrics, patterns: Sequence[str] | None = None
    ) -> dict[str, str]:
        """Returns the series of each algorithm with the best final metric of its main model.

        Args:
          final_metrics: the final metrics of all series.
          patterns: labels of the patterns to average over; all by default.

        Returns:
          Labels by algorithm: the label of the first series if all diverged, or if it is unknown
          which way the metric is better.
        """

        def score(label: str) -> float:
            if final_metrics.metric.direction is None:
                return -math.inf
            model = self.main_models[label]
            scores = [
                final_metrics.score(FinalKey(pattern, label, model))
                for pattern in patterns or self.patterns
            ]
            return float(np.mean(scores))

        series: dict[str, list[str]] = {}
        for label, (algorithm, _) in self.members.items():
            series.setdefault(algorithm, []).append(label)
        return {
            algorithm: max(labels, key=score) for algorithm, labels in series.items()
        }


def _content(choice: Choice) -> bytes:
    """Returns the bytes of a choice, which are equal for choices of equal numbers."""
    return choice.values.tobytes() + choice.picks.tobytes()


def from_run(
    run: runs.Results,
    experiment: Experiment | None = None,
    *,
    so_far: bool = False,
    allow_imports: bool = False,
) -> RunView:
    """Views the finished series of a run.

    Args:
      run: the run's metrics, from `runs.read` or `Experiment.run`.
      experiment: what ran, if it is at hand.
      so_far: whether to include unfinished series. Then the view may be empty.
      allow_imports: as in `RunView`.

    Raises:
      ValueError: if no algorithm is done.
    """
    if not isinstance(run, runs.Results):
        raise errors.invalid('run', 'be results of a run', errors.text_of(run))
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
        links = first_seed_links.read(run.folder, facts['seeds'][0], patterns)
        clients = client_stats.read(run.folder, facts['num_rounds'])
        client_stats.check_sizes(run.folder, clients, links)
    return RunView(
        title=facts['title'],
        caption=completion.caption(facts),
        data=data,
        tuning=finished.tuning,
        missing=finished.missing,
        links=links,
        clients=clients,
        diverged=completion.diverged(run, data),
        experiment=experiment,
        run=run,
        allow_imports=allow_imports,
    )
