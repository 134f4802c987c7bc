"""What pages are made of: the finished part of a run, and what is known of it besides."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Mapping, Sequence
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
    """The links that the first seed met.

    Attributes:
      mask: bool[T, N], who took part.
      mean_prob: float[N], the mean reported probability; NaN where unknown.
    """

    mask: np.ndarray
    mean_prob: np.ndarray


@dataclasses.dataclass(frozen=True)
class RunView:
    """Everything that tables and pictures are made of.

    Attributes:
      title: one line.
      caption: what was reported elsewhere, and every deviation; may be empty.
      data: the finished series in the order of their names (`results.dataset`).
      tuning: by tuned series, what was tried, on each pattern that it was tuned on.
      missing: labels of algorithms that are not finished, those in tuning with how far it is.
      links: realised links by pattern; empty if none were kept.
      clients: what only the experiment could tell, by pattern; empty if nothing was kept.
      diverged: phrases that say which simulations are not finite any more, and since which round.
      folder: of the run; None for results in memory.
      experiment: what ran or will run, where it is at hand.
      run: its metrics, of which those of near ties count; None without any.
      allow_imports: whether the folder's config may name code outside the package.
    """

    title: str
    caption: str
    data: Any
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
        """Labels of the patterns."""
        return list(self.data['pattern'].values.tolist())

    @functools.cached_property
    def members(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """Algorithm and point by label of a series."""
        return dataset.points(self.data)

    @functools.cached_property
    def algorithms(self) -> list[str]:
        """Labels of the algorithms."""
        return list(dict.fromkeys(algorithm for algorithm, _ in self.members.values()))

    @functools.cached_property
    def models(self) -> dict[str, list[str]]:
        """Candidate models by series, the server's first."""
        there, names = (
            self.data['begun'].any(('pattern', 'seed')).values,
            self.data['model'].values,
        )
        return {
            label: names[own].tolist()
            for label, own in zip(self.members, there, strict=True)
        }

    @functools.cached_property
    def main_models(self) -> dict[str, str]:
        """By series, the model that the papers evaluate."""
        return dict(
            zip(self.members, self.data['main_model'].values.tolist(), strict=True)
        )

    @functools.cached_property
    def _names(self) -> dict[str, str]:
        return dataset.names(self.data)

    @property
    def baseline(self) -> str:
        """Label of the algorithm to compare with."""
        return str(self.data.attrs.get('baseline'))

    @property
    def metrics(self) -> list[str]:
        """What was recorded of every candidate model."""
        return [
            name for name, values in self.data.items() if values.dims == dataset.DIMS
        ]

    @property
    def rounds(self) -> np.ndarray:
        """int[E], rounds completed at each evaluation."""
        return np.asarray(self.data['round'])

    @property
    def num_seeds(self) -> int:
        """S."""
        return int(self.data.sizes['seed'])

    @property
    def seeds(self) -> str:
        """``5 seeds``."""
        least = f'{self.until["least"]} to ' if self.until else ''
        return '1 seed' if self.num_seeds == 1 else f'{least}{self.num_seeds} seeds'

    def name(self, label: str) -> str:
        """What to call a pattern, an algorithm or a series."""
        return self._names.get(label, label)

    def rows(self, *, every_model: bool = False) -> list[FinalKey]:
        """Patterns, series and their main models, or all models: the rows of most tables."""
        return [
            (pattern, label, model)
            for pattern in self.patterns
            for label in self.members
            for model in (
                self.models[label] if every_model else [self.main_models[label]]
            )
        ]

    def metric(self, name: str | None = None, argument: str = 'metric') -> Metric:
        """The metric asked for, or that of the run.

        Raises:
          ValueError: for one that was not recorded, naming the nearest.
        """
        chosen = self.data.attrs['metric'] if name is None else name
        checks.choice(argument, chosen, self.metrics)
        return Metric(chosen, dataset.attribute(self.data, 'directions').get(chosen))

    def curve(self, metric: str, key: FinalKey) -> np.ndarray:
        """float[S, E], of the seeds that the lane has: the first ones where others have more."""
        pattern, series, model = key
        labels = {'series': series, 'model': model, 'pattern': pattern}
        at = tuple(
            self.data.indexes[dim].get_loc(label) for dim, label in labels.items()
        )
        return np.asarray(self.data[metric].values[at][self.data['begun'].values[at]])

    def tail(self, given: float | None = None) -> float:
        """The share of the evaluations that each seed is averaged over.

        By default that of seeds until decided, or a tenth.

        Raises:
          ValueError: for one that is none.
        """
        share = self.until.get('tail', 0.1) if given is None else given
        checks.within('tail', share, 0, 1)
        return float(share)

    def ends(
        self, metric: str | None = None, tail: float | None = None
    ) -> FinalMetrics:
        """Final levels of every series and model.

        Args:
          metric: which metric; that of the run by default.
          tail: see `tail`.

        Raises:
          ValueError: for an unknown metric, or a share that is none.
        """
        found, share, every = self.metric(metric), self.tail(tail), {}
        for key in self.rows(every_model=True):
            pattern, label, model = key
            values = dataset.tail(self.curve(found.name, key), share)
            every[key] = tuning_uncertainty.of_series(values)
            if any(tried.ties.size for tried in self.tuning.get(label, ())):
                algorithm, point = self.members[label]
                ties = self._near_ties(
                    algorithm, metric=found.name, model=model, tail=share
                )
                levels = dict(
                    zip(self.data['seed'].values.tolist(), values, strict=False)
                )
                every[key] = ties.choice(levels, pattern, point)
        return FinalMetrics(found, every, self.span(share))

    @functools.cached_property
    def _near_ties(self) -> Any:
        """`tuning_uncertainty.NearTies` of the run, found once."""
        find: Any = tuning_uncertainty.NearTies
        return functools.cache(functools.partial(find, self.run))

    def span(self, tail: float | None) -> str:
        """``mean of the last 3 evaluations over 5 seeds``."""
        count = dataset.num_last(len(self.rounds), self.tail(tail))
        last = 'last evaluation' if count == 1 else f'last {count} evaluations'
        return f'mean of the {last} over {self.seeds}'

    def baseline_of(self, label: str) -> str | None:
        """The baseline's series at the point of another one; None if it has not run."""
        return dataset.counterpart(self.members, label, self.baseline)

    def paired(
        self,
        ends: FinalMetrics,
        key: FinalKey,
        base: str | None,
        margin: float | None = None,
    ) -> PairedDifference | None:
        """The difference of levels to another series under the pattern, seed by seed.

        Args:
          ends: the levels.
          key: of one.
          base: label of the other series, whose main model counts.
          margin: up to which differences make none; that of the run by default.

        Returns:
          None to none and to itself.
        """
        if base is None or key == (other := (key[0], base, self.main_models[base])):
            return None
        pair = ends.choices[key], ends.choices[other]
        levels = [each.values.tobytes() + each.picks.tobytes() for each in pair]
        found = self.difference(ends.metric, *pair, margin)
        return found._replace(compared=(key[0], levels[0], levels[1]))

    def difference(
        self, metric: Metric, one: Choice, other: Choice, margin: float | None = None
    ) -> PairedDifference:
        """Compares two levels over the seeds that both have; see `paired`."""
        return self.judged(metric, *one.minus(other), margin)

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
        self, found: Sequence[PairedDifference | None], margin: float | None = None
    ) -> Verdicts:
        """All differences of a page; see `paired`."""
        return Verdicts(found, self.margin if margin is None else margin, self.until)

    @property
    def until(self) -> Mapping[str, Any]:
        """How seeds went on until decided; empty where their number was fixed."""
        return dict(dataset.attribute(self.data, 'until') or {})

    @property
    def margin(self) -> float:
        """Up to which differences make none, in the unit of the metric."""
        return float(self.until.get('margin', 0.0))

    def best_series(
        self, ends: FinalMetrics, patterns: Sequence[str] | None = None
    ) -> dict[str, str]:
        """By algorithm, the series that ends best; the first where all diverged.

        Args:
          ends: the levels, of which those of the main models count.
          patterns: labels; the mean over all of them by default.

        Returns:
          Labels; those of first series if nothing says which way the metric is better.
        """

        def score(label: str) -> float:
            keys = [
                (p, label, self.main_models[label]) for p in patterns or self.patterns
            ]
            known = ends.metric.direction is not None
            return (
                float(np.mean([ends.score(key) for key in keys]))
                if known
                else -math.inf
            )

        best: dict[str, str] = {}
        for label, (algorithm, _) in self.members.items():
            best[algorithm] = max(best.get(algorithm, label), label, key=score)
        return best


def of_run(
    run: runs.Results,
    experiment: Experiment | None = None,
    *,
    so_far: bool = False,
    allow_imports: bool = False,
) -> RunView:
    """What is finished of a run.

    Args:
      run: its metrics, from `runs.read` or `Experiment.run`.
      experiment: what ran, if it is at hand.
      so_far: whether what has begun is taken too, as far as it is; perhaps nothing.
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
    """The form of a run that is to come, with zeros for every number that only a run finds.

    Args:
      experiment: the experiment.

    Returns:
      What its pages will be made of; computing it trains nothing.
    """
    lines: list[str] = []
    real = experiment.plan.facts()
    facts = {
        **real,
        'eval_every': real['num_rounds'],
        'evaluate_start': False,
    }  # one for all
    for label in experiment.algorithms:
        names = map(
            '/'.join, itertools.product(facts['models'][label], facts['directions'])
        )
        record = dict.fromkeys(names, 0.0)
        schedule = experiment.plan.schedule
        lanes = schedule.first_trials(label) + schedule.first_main(label)
        lines += [runs.line_of(lane.labels, lane.num_rounds, record) for lane in lanes]
    found = of_run(runs.Results(runs.as_columns(lines), facts), experiment)
    rounds = recorded.rounds_of(real)
    data = found.data.isel(round=[0] * len(rounds)).assign_coords(round=rounds)
    made_up = FirstSeedLinks(np.zeros((1, 1), bool), np.zeros(1))
    return dataclasses.replace(
        found, data=data, links=dict.fromkeys(found.patterns, made_up)
    )
