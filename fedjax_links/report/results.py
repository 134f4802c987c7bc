"""What a run holds, finished or not, in the form that tables and pictures are made of."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import checks, errors, runs, series
from fedjax_links.experiment import Experiment, choosing, lanes
from fedjax_links.plot import reading
from fedjax_links.report.clients import Clients, kept

CLIENT_RATE = 'client.learning_rate'

Curves = Mapping[str, Mapping[str, Mapping[str, np.ndarray]]]


class Links(NamedTuple):
    """The links that the first seed met.

    Attributes:
      mask: bool[T, N], who took part.
      mean_prob: float[N], the mean reported probability; NaN where unknown.
    """

    mask: np.ndarray
    mean_prob: np.ndarray


class Results(NamedTuple):
    """Everything that tables and pictures are made of.

    A series is an algorithm at one point of the grid (`fedjax_links.series`).

    Attributes:
      title: one line.
      caption: what was reported elsewhere, and every deviation; may be empty.
      metric: the metric of tables.
      directions: ``'max'``, ``'min'`` or None for unknown, by metric.
      baseline: label of the algorithm to compare with.
      patterns: labels of the P patterns, in order.
      names: what to show instead of a label.
      rounds: int[E], rounds completed at each evaluation.
      curves: float[P, S, E] by series, candidate model and metric; NaN where a run diverged.
      members: the algorithm and the point of each series.
      learning_rates: float[P], the client rate, by series; NaN where there is none.
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
    metric: str
    directions: Mapping[str, str | None]
    baseline: str
    patterns: Sequence[str]
    names: Mapping[str, str]
    rounds: np.ndarray
    curves: Curves
    members: series.Members
    learning_rates: Mapping[str, np.ndarray]
    tuning: Mapping[str, Mapping[str, np.ndarray]]
    missing: Sequence[str]
    links: Mapping[str, Links]
    clients: Mapping[str, Clients] = {}
    diverged: Sequence[str] = ()
    folder: Path | None = None
    experiment: Experiment | None = None

    @property
    def num_seeds(self) -> int:
        """S."""
        return self.curves[next(iter(self.curves))]['server'][self.metric].shape[1]

    @property
    def metrics(self) -> list[str]:
        """What was recorded of every candidate model."""
        return list(self.curves[next(iter(self.curves))]['server'])

    def name(self, label: str) -> str:
        """What to call a pattern, an algorithm or a series."""
        algorithm, point = self.members.get(label, (label, {}))
        return series.label(self.names.get(algorithm, algorithm), point)

    def larger_is_better(self, metric: str) -> bool:
        """Whether a metric is better when larger.

        Raises:
          ValueError: if nothing says so.
        """
        direction = self.directions.get(metric)
        if direction is None:
            requirement = f"be 'max' or 'min', as nothing says which way {metric} is better"
            raise errors.invalid('config.direction', requirement, None)
        return direction == 'max'

    def place_of(self, pattern: str | None) -> int:
        """Where a pattern stands; the first for None.

        Raises:
          ValueError: for an unknown one.
        """
        if pattern is None:
            return 0
        checks.choice('pattern', pattern, self.patterns)
        return list(self.patterns).index(pattern)

    def baseline_of(self, label: str) -> str | None:
        """The baseline's series at the point of another one; None if it has not run."""
        return series.counterpart(self.members, label, self.baseline)

    def count(self, share: float) -> int:
        """A share of the evaluations as their number, at least one."""
        return max(1, round(share * len(self.rounds)))

    def tail(self, label: str, model: str, metric: str, share: float) -> np.ndarray:
        """float[P, S], each seed's mean over the last evaluations.

        Args:
          label: the series.
          model: the candidate model.
          metric: the metric.
          share: share of the evaluations, the last ones, at least one.
        """
        return self.curves[label][model][metric][..., -self.count(share) :].mean(axis=-1)

    def best_series(
        self, metric: str, share: float, patterns: Sequence[int] | None = None
    ) -> dict[str, str]:
        """By algorithm, the series that ends best; the first where all diverged.

        Args:
          metric: of the model that the papers evaluate.
          share: share of the evaluations, the last ones, that counts.
          patterns: where in `patterns`; the mean over all of them by default.

        Raises:
          ValueError: if nothing says which way the metric is better.
        """
        sign = 1 if self.larger_is_better(metric) else -1
        found: dict[str, tuple[float, str]] = {}
        for label, (algorithm, _) in self.members.items():
            ends = self.tail(label, self.main_model(label), metric, share)
            mean = sign * float((ends if patterns is None else ends[list(patterns)]).mean())
            mean = -math.inf if math.isnan(mean) else mean
            if algorithm not in found or mean > found[algorithm][0]:
                found[algorithm] = mean, label
        return {algorithm: label for algorithm, (_, label) in found.items()}

    def main_model(self, label: str) -> str:
        """The model that the papers evaluate: the clients' mean where clients keep models."""
        return reading.main_model(self.curves[label])


def of_run(run: runs.Results) -> Results:
    """The results of a run.

    Args:
      run: its metrics, from `runs.read` or `Experiment.run`.

    Returns:
      The results of the algorithms that are done.

    Raises:
      ValueError: if no algorithm is done.
    """
    facts, columns = run.facts, run.columns
    names = [(label, name) for label, name in facts['names']]
    algorithms = _in_order(sorted(facts['algorithms']), names)
    rounds = _rounds(facts)
    found: dict[str, tuple[str, Mapping[str, Any]]] = {}
    curves: dict[str, Any] = {}
    rates, tuning, missing = {}, {}, []
    for algorithm in algorithms:
        rows = series.where(columns, stage='main', algorithm=algorithm)
        tried = choosing.tried(columns, facts, algorithm)
        points = {series.label(algorithm, at): at for at in series.points(rows, facts)}
        parts = {label: series.at(rows, at) for label, at in points.items()}
        values = {label: _values(part, facts, algorithm) for label, part in parts.items()}
        if not values or any(curve is None for curve in values.values()):
            progress = choosing.progress(columns, facts, algorithm)
            missing.append(f'{algorithm} ({progress})' if progress else algorithm)
            continue
        for label, point in points.items():
            found[label] = algorithm, point
            curves[label] = values[label]
            rates[label] = _rates(parts[label], facts)
            for entry in tried:
                if all(series.plain(point.get(name)) == v for name, v in entry.at.items()):
                    tuning[label] = {**entry.columns, 'score': entry.scores}
    if not curves:
        value = f'{run.folder}; not finished: {", ".join(missing)}'
        raise errors.invalid('workdir', 'hold at least one finished algorithm', value)
    return Results(
        title=facts['title'],
        caption=_caption(facts),
        metric=facts['metric'],
        directions=facts['directions'],
        baseline=facts['baseline'],
        patterns=_in_order(facts['patterns'], names),
        names=dict(names),
        rounds=rounds,
        curves=curves,
        members=found,
        learning_rates=rates,
        tuning=tuning,
        missing=missing,
        links={} if run.folder is None else kept_links(run.folder),
        clients={} if run.folder is None else kept(run.folder),
        diverged=_diverged(columns, dict(names), found),
        folder=run.folder,
    )


def blank(experiment: Experiment) -> Results:
    """Results of the right form with zeros for every number that only a run finds.

    Args:
      experiment: the experiment.

    Returns:
      The results; computing them trains nothing.
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
    results = of_run(runs.Results(runs.as_columns(lines), facts))
    rounds = _rounds(real)
    results = results._replace(
        rounds=rounds,
        curves={
            label: {
                model: {metric: np.repeat(a, len(rounds), axis=2) for metric, a in named.items()}
                for model, named in models.items()
            }
            for label, models in results.curves.items()
        },
    )
    made_up = Links(np.zeros((1, 1), bool), np.zeros(1))
    links = dict.fromkeys(results.patterns, made_up)
    return results._replace(links=links, experiment=experiment)


def kept_links(folder: Path) -> dict[str, Links]:
    """The realised links of the first seed, by pattern; empty if none were kept.

    Args:
      folder: of a run.
    """
    kept = runs.read_links(folder)
    names = [name.removeprefix('mask/') for name in kept if name.startswith('mask/')]
    return {
        name: Links(
            np.unpackbits(kept[f'mask/{name}'], axis=-1, count=int(kept['num_clients'])) > 0,
            kept[f'mean_prob/{name}'],
        )
        for name in names
        if '/' not in name
    }


def _caption(facts: Mapping[str, Any]) -> str:
    """The caption, behind the origin of a forked run, and what is known beforehand."""
    found = [str(facts['caption'])]
    if 'forked_from' in facts:
        found = [f'Goes on from round {facts["at_round"]} of {facts["forked_from"]}.', *found]
    if 'attainable' in facts:
        found.append(f"The population's best model, exactly: {facts['attainable']}.")
    return '\n\n'.join(part for part in found if part)


def _rounds(facts: Mapping[str, Any]) -> np.ndarray:
    """int[E], rounds completed at each evaluation; of a forked run, those after the fork."""
    period, origin = facts['eval_every'], facts.get('at_round', 0)
    first = origin if facts.get('evaluate_start') and not origin else origin + period
    return np.arange(first, facts['num_rounds'] + 1, period)


def _in_order(labels: Sequence[str], names: Sequence[Sequence[str]]) -> list[str]:
    """Labels in the order of their names; those without a name come last, as they came."""
    named = [label for label, _ in names if label in labels]
    return [*dict.fromkeys(named), *(label for label in labels if label not in named)]


def _values(
    rows: series.Rows, facts: Mapping[str, Any], algorithm: str
) -> dict[str, dict[str, np.ndarray]] | None:
    """A series' evaluations [P, S, E] by model and metric; None if not all are there."""
    axes = _in_order(facts['patterns'], facts['names']), facts['seeds'], _rounds(facts)
    if series.num_rows(rows) != math.prod(map(len, axes)):
        return None
    return {
        model: {
            metric: series.array(rows, f'{model}/{metric}', *axes) for metric in facts['directions']
        }
        for model in series.models(facts, algorithm)
    }


def _diverged(
    columns: Mapping[str, np.ndarray],
    names: Mapping[str, str],
    members: series.Members,
) -> list[str]:
    """Which simulations are not finite, seeds with the same round together, as they ran."""
    if 'first_bad_round' not in columns:
        return []
    points = {algorithm: list(point) for algorithm, point in members.values()}
    seeds: dict[tuple[str, int], list[str]] = {}
    chosen = (columns['stage'] == 'main') & ~columns['finite'].astype(bool)
    for place in np.flatnonzero(chosen):
        algorithm, pattern, seed = (
            str(columns[name][place]) for name in ('algorithm', 'pattern', 'seed')
        )
        if algorithm in points:
            point = {name: columns[name][[place]].tolist()[0] for name in points[algorithm]}
            label = series.label(names.get(algorithm, algorithm), point)
            lanes = f'{label}, {names.get(pattern, pattern)}'
            own = seeds.setdefault((lanes, int(columns['first_bad_round'][place])), [])
            own += [seed] if seed not in own else []
    return [
        f'{lanes}, seed{"s" if len(own) > 1 else ""} {", ".join(own)} in round {round}'
        for (lanes, round), own in seeds.items()
    ]


def _rates(rows: series.Rows, facts: Mapping[str, Any]) -> np.ndarray:
    """float[P], a series' client rate."""
    patterns = _in_order(facts['patterns'], facts['names'])
    rates = np.full(len(patterns), np.nan)
    if CLIENT_RATE in rows:
        for place, pattern in enumerate(patterns):
            own = series.where(rows, pattern=pattern)
            rates[place] = own[CLIENT_RATE].astype(np.float64)[0]
    return rates
