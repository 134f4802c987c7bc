"""What pages are made of: the finished part of a run, and what is known of it besides."""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import evaluation, runs
from fedjax_links.core import checks, errors
from fedjax_links.experiment import Experiment
from fedjax_links.experiment.plan import choosing, lanes
from fedjax_links.report.clients import Clients, kept
from fedjax_links.results import dataset
from fedjax_links.results import metric as metrics_of
from fedjax_links.results.metric import Metric

Key = tuple[str, str, str]
"""Labels of a pattern and a series, and a candidate model."""


class Links(NamedTuple):
    """The links that the first seed met.

    Attributes:
      mask: bool[T, N], who took part.
      mean_prob: float[N], the mean reported probability; NaN where unknown.
    """

    mask: np.ndarray
    mean_prob: np.ndarray


class Ends(NamedTuple):
    """Final levels.

    Attributes:
      metric: what they are.
      values: float[S], one for each seed, by pattern, series and model.
      span: ``mean of the last 3 evaluations over 5 seeds``.
    """

    metric: Metric
    values: Mapping[Key, np.ndarray]
    span: str

    def level(self, key: Key) -> str:
        """A level with its interval over seeds."""
        return self.metric.interval(evaluation.seed_interval(self.values[key]))

    def paired(self, key: Key, base: Key | None) -> evaluation.Interval | None:
        """The difference to another one, seed by seed; None to none and to itself."""
        if base is None or base == key:
            return None
        return evaluation.paired_interval(self.values[key], self.values[base])

    def caption(self) -> str:
        """What levels with ± are."""
        return f'{self.metric.title}: {self.span}; ± is the 95 % interval over seeds (Student t)'


@dataclasses.dataclass(frozen=True)
class Source:
    """Everything that tables and pictures are made of.

    Attributes:
      title: one line.
      caption: what was reported elsewhere, and every deviation; may be empty.
      data: the finished series in the order of their names (`results.dataset`).
      tuning: by tuned series, the columns that were tried and their ``score``.
      missing: labels of algorithms that are not finished, those in tuning with how far it is.
      links: realised links by pattern; empty if none were kept.
      clients: what only the experiment could tell, by pattern; empty if nothing was kept.
      diverged: phrases that say which simulations are not finite any more, and since which round.
      folder: of the run; None for results in memory.
      experiment: what ran or will run, where it is at hand.
    """

    title: str
    caption: str
    data: Any
    tuning: Mapping[str, Mapping[str, np.ndarray]] = dataclasses.field(default_factory=dict)
    missing: Sequence[str] = ()
    links: Mapping[str, Links] = dataclasses.field(default_factory=dict)
    clients: Mapping[str, Clients] = dataclasses.field(default_factory=dict)
    diverged: Sequence[str] = ()
    folder: Path | None = None
    experiment: Experiment | None = None

    @functools.cached_property
    def patterns(self) -> list[str]:
        """Labels of the patterns."""
        found: list[str] = self.data['pattern'].values.tolist()
        return found

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
        there, names = self.data['begun'].any(('pattern', 'seed')).values, self.data['model'].values
        return {label: names[own].tolist() for label, own in zip(self.members, there, strict=True)}

    @functools.cached_property
    def main_models(self) -> dict[str, str]:
        """By series, the model that the papers evaluate."""
        return dict(zip(self.members, self.data['main_model'].values.tolist(), strict=True))

    @functools.cached_property
    def _names(self) -> dict[str, str]:
        return dataset.names(self.data)

    @property
    def baseline(self) -> str:
        """Label of the algorithm to compare with."""
        return str(self.data.attrs['baseline'])

    @property
    def metrics(self) -> list[str]:
        """What was recorded of every candidate model."""
        return [name for name, values in self.data.items() if values.dims == dataset.DIMS]

    @property
    def rounds(self) -> np.ndarray:
        """int[E], rounds completed at each evaluation."""
        found: np.ndarray = self.data['round'].values
        return found

    @property
    def num_seeds(self) -> int:
        """S."""
        return int(self.data.sizes['seed'])

    @property
    def seeds(self) -> str:
        """``5 seeds``."""
        return '1 seed' if self.num_seeds == 1 else f'{self.num_seeds} seeds'

    def name(self, label: str) -> str:
        """What to call a pattern, an algorithm or a series."""
        return self._names.get(label, label)

    def rows(self, *, every_model: bool = False) -> list[Key]:
        """Patterns, series and their main models, or all models: the rows of most tables."""
        return [
            (pattern, label, model)
            for pattern in self.patterns
            for label in self.members
            for model in (self.models[label] if every_model else [self.main_models[label]])
        ]

    def metric(self, name: str | None = None, argument: str = 'metric') -> Metric:
        """The metric asked for, or that of the run.

        Raises:
          ValueError: for one that was not recorded, naming the nearest.
        """
        chosen = self.data.attrs['metric'] if name is None else name
        checks.choice(argument, chosen, self.metrics)
        return metrics_of.of(chosen, self.data.attrs['directions'])

    def curve(self, metric: str, key: Key) -> np.ndarray:
        """float[S, E]."""
        pattern, label, model = key
        values: np.ndarray = (
            self.data[metric].sel(series=label, model=model, pattern=pattern).values
        )
        return values

    def ends(self, metric: str | None = None, tail: float = 0.1) -> Ends:
        """Final levels of every series and model.

        Args:
          metric: which metric; that of the run by default.
          tail: share of the evaluations, the last ones, that each seed is averaged over.

        Raises:
          ValueError: for an unknown metric, or a share that is none.
        """
        found = self.metric(metric)
        checks.within('tail', tail, 0, 1)
        means = dataset.tail(self.data[found.name].values, tail)
        series, models = list(self.members), self.data['model'].values.tolist()
        values = {
            (pattern, label, model): means[series.index(label), models.index(model), place]
            for place, pattern in enumerate(self.patterns)
            for label in series
            for model in self.models[label]
        }
        return Ends(found, values, self.span(tail))

    def span(self, tail: float) -> str:
        """``mean of the last 3 evaluations over 5 seeds``."""
        count = dataset.num_last(len(self.rounds), tail)
        last = 'last evaluation' if count == 1 else f'last {count} evaluations'
        return f'mean of the {last} over {self.seeds}'

    def baseline_of(self, label: str) -> str | None:
        """The baseline's series at the point of another one; None if it has not run."""
        return dataset.counterpart(self.members, label, self.baseline)

    def best_series(self, ends: Ends, patterns: Sequence[str] | None = None) -> dict[str, str]:
        """By algorithm, the series that ends best; the first where all diverged.

        Args:
          ends: the levels, of which those of the main models count.
          patterns: labels; the mean over all of them by default.

        Raises:
          ValueError: if nothing says which way the metric is better.
        """
        sign, found = ends.metric.sign, dict[str, tuple[float, str]]()
        for label, (algorithm, _) in self.members.items():
            own = [
                ends.values[p, label, self.main_models[label]] for p in patterns or self.patterns
            ]
            mean = sign * float(np.mean(own))
            mean = -math.inf if math.isnan(mean) else mean
            if algorithm not in found or mean > found[algorithm][0]:
                found[algorithm] = mean, label
        return {algorithm: label for algorithm, (_, label) in found.items()}


def of_run(run: runs.Results, experiment: Experiment | None = None) -> Source:
    """What is finished of a run.

    Args:
      run: its metrics, from `runs.read` or `Experiment.run`.
      experiment: what ran, if it is at hand.

    Raises:
      ValueError: if no algorithm is done.
    """
    facts, every, names = run.facts, run.dataset, dict(run.facts['names'])
    complete: dict[str, list[bool]] = {}
    labels: dict[str, list[str]] = {}
    for label, algorithm, is_complete in zip(
        *(every[name].values.tolist() for name in ('series', 'algorithm', 'complete')), strict=True
    ):
        complete.setdefault(algorithm, []).append(is_complete)
        labels.setdefault(algorithm, []).append(label)
    kept_series: list[str] = []
    tuning, missing = {}, []
    members = dataset.points(every)
    for algorithm in _in_order(sorted(facts['algorithms']), names):
        if not all(complete.get(algorithm, [False])):
            progress = choosing.progress(run.columns, facts, algorithm)
            missing.append(f'{algorithm} ({progress})' if progress else algorithm)
            continue
        kept_series += labels[algorithm]
        for entry in choosing.tried(run.columns, facts, algorithm):
            for label in labels[algorithm]:
                point = members[label][1]
                if all(point.get(name) == dataset.as_tuple(v) for name, v in entry.at.items()):
                    tuning[label] = {**entry.columns, 'score': entry.scores}
    if not kept_series:
        value = f'{run.folder}; not finished: {", ".join(missing)}'
        raise errors.invalid('workdir', 'hold at least one finished algorithm', value)
    data = every.sel(
        series=kept_series,
        pattern=_in_order(facts['patterns'], names),
        round=dataset.rounds_of(facts),
    )
    return Source(
        title=facts['title'],
        caption=_caption(facts),
        data=data,
        tuning=tuning,
        missing=missing,
        links={} if run.folder is None else kept_links(run.folder),
        clients={} if run.folder is None else kept(run.folder),
        diverged=_diverged(run.columns, data),
        folder=run.folder,
        experiment=experiment,
    )


def blank(experiment: Experiment) -> Source:
    """The form of a run that is to come, with zeros for every number that only a run finds.

    Args:
      experiment: the experiment.

    Returns:
      What its pages will be made of; computing it trains nothing.
    """
    lines: list[str] = []
    real = experiment.facts()
    facts = {**real, 'eval_every': real['num_rounds'], 'evaluate_start': False}  # one for all
    for label in experiment.algorithms:
        record = {
            f'{model}/{metric}': 0.0
            for model in facts['models'][label]
            for metric in facts['directions']
        }
        tried = lanes.tuning_lanes(experiment, label)
        lines += [runs.line_of(lane.labels, lane.num_rounds, record) for lane in tried]
        chosen = [entry.chosen for entry in choosing.tried(runs.as_columns(lines), facts, label)]
        for lane in lanes.main_lanes(experiment, label, chosen):
            lines.append(runs.line_of(lane.labels, lane.num_rounds, record))
    found = of_run(runs.Results(runs.as_columns(lines), facts), experiment)
    rounds = dataset.rounds_of(real)
    data = found.data.isel(round=[0] * len(rounds)).assign_coords(round=rounds)
    made_up = Links(np.zeros((1, 1), bool), np.zeros(1))
    return dataclasses.replace(found, data=data, links=dict.fromkeys(found.patterns, made_up))


def kept_links(folder: Path) -> dict[str, Links]:
    """The realised links of the first seed, by pattern; empty if none were kept."""
    found, facts = runs.links(folder), runs.described(folder)[0]
    first = facts['seeds'][0]
    return {
        pattern: Links(by_seed[first], found.mean_probs[pattern][first])
        for pattern, by_seed in found.masks.items()
        if first in by_seed
    }


def _caption(facts: Mapping[str, Any]) -> str:
    """The caption, behind the origin of a forked run, and what is known beforehand."""
    found = [str(facts['caption'])]
    if 'forked_from' in facts:
        found = [f'Goes on from round {facts["at_round"]} of {facts["forked_from"]}.', *found]
    if 'attainable' in facts:
        found.append(f"The population's best model, exactly: {facts['attainable']}.")
    return '\n\n'.join(part for part in found if part)


def _in_order(labels: Sequence[str], names: Mapping[str, str]) -> list[str]:
    """Labels in the order of their names; those without a name come last, as they came."""
    return [
        *(label for label in names if label in labels),
        *(label for label in labels if label not in names),
    ]


def _diverged(columns: Mapping[str, np.ndarray], data: Any) -> list[str]:
    """Which simulations are not finite, seeds with the same round together, as they ran."""
    if 'first_bad_round' not in columns:
        return []
    names = data.attrs['names']
    points = {algorithm: list(point) for algorithm, point in dataset.points(data).values()}
    seeds: dict[tuple[str, int], list[str]] = {}
    chosen = (columns['stage'] == dataset.MAIN) & ~columns['finite'].astype(bool)
    for place in np.flatnonzero(chosen):
        algorithm, pattern, seed = (
            str(columns[name][place]) for name in ('algorithm', 'pattern', 'seed')
        )
        if algorithm in points:
            point = {name: columns[name][[place]].tolist()[0] for name in points[algorithm]}
            label = dataset.label(names.get(algorithm, algorithm), point)
            where = f'{label}, {names.get(pattern, pattern)}'
            own = seeds.setdefault((where, int(columns['first_bad_round'][place])), [])
            own += [seed] if seed not in own else []
    return [
        f'{where}, seed{"s" if len(own) > 1 else ""} {", ".join(own)} in round {round}'
        for (where, round), own in seeds.items()
    ]
