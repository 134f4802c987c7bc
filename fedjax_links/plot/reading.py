"""What pictures are made of: seeds and evaluations of results of every kind, by label and model."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import checks, errors, runs, series
from fedjax_links.simulation import SimulationResult

ALL = 'all'
_USUAL = (
    *('eval_accuracy', 'accuracy', 'train_accuracy'),
    *('eval_loss', 'loss', 'train_loss', 'distance'),
)

Models = Mapping[str, np.ndarray]


class Panel(NamedTuple):
    """One metric under one pattern.

    Attributes:
      title: the pattern; '' where there is only one.
      rounds: float[E], rounds completed at each evaluation.
      curves: float[S, E] by label and candidate model; NaN where a run diverged.
    """

    title: str
    rounds: np.ndarray
    curves: Mapping[str, Models]


class Read(NamedTuple):
    """What a picture shows.

    Attributes:
      metric: its name; '' for arrays that were given without.
      panels: one per pattern.
      names: what to show instead of a label or a title.
      members: what each label stands for.
    """

    metric: str
    panels: list[Panel]
    names: Mapping[str, str]
    members: series.Members


def read(
    data: Any,
    metric: str | None = None,
    *,
    model: str | None = None,
    rounds: Any = None,
    names: Mapping[str, str] | None = None,
) -> Read:
    """Any results as panels of curves.

    Args:
      data: `runs.read(...)`; a `SimulationResult` of one lane, of seeds [S] or of a sweep [G, S];
        an array float[E] or float[S, E]; or a mapping from labels to the latter two, or to such
        arrays by candidate model.
      metric: which of the recorded metrics; that of the run, or a usual one, by default.
      model: a candidate model, ``'all'``, or None for the one that the papers evaluate.
      rounds: float[E], for arrays; 1, 2, ... by default.
      names: what to show instead of labels.

    Raises:
      ValueError: naming what is unknown, or of the wrong shape.
    """
    if isinstance(data, runs.Results):
        found = _of_run(data, metric)
    else:
        found = _of_mapping(*_labelled(data), metric, rounds)
    panels = [
        panel._replace(curves={k: _chosen(models, model) for k, models in panel.curves.items()})
        for panel in found.panels
    ]
    every = {**found.names, **(names or {})}
    for label, (algorithm, point) in found.members.items():
        if label not in (names or {}) and algorithm in every:
            every[label] = series.label(every[algorithm], point)
    return found._replace(panels=panels, names=every)


def _labelled(data: Any) -> tuple[Mapping[str, Any], series.Members]:
    """All that is not a run as entries by label; several points of a sweep each their own."""
    given = data if isinstance(data, Mapping) else {'simulation': data}
    if not given:
        raise errors.invalid('data', 'hold at least one label', given)
    found: dict[str, Any] = {}
    members: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for label, entry in given.items():
        if isinstance(entry, SimulationResult) and np.ndim(entry.state.round) == 2:
            count = len(np.asarray(entry.state.round))
            for place in range(count):
                point = {'point': place} if count > 1 else {}
                name = series.label(str(label), point)
                found[name], members[name] = _at_point(entry, place), (str(label), point)
        else:
            found[str(label)], members[str(label)] = entry, (str(label), {})
    return found, members


def _at_point(result: SimulationResult, point: int) -> SimulationResult:
    def row(values: Any) -> Any:
        if isinstance(values, Mapping):
            return {name: row(value) for name, value in values.items()}
        return np.asarray(values)[point]

    round, finite, bad = (
        row(part)
        for part in (result.state.round, result.state.finite, result.state.first_bad_round)
    )
    state = result.state._replace(round=round, finite=finite, first_bad_round=bad)
    active = result.rounds._replace(num_active=row(result.rounds.num_active))
    return SimulationResult(state, active, row(result.evals))


def _of_mapping(
    entries: Mapping[str, Any], members: series.Members, metric: str | None, rounds: Any
) -> Read:
    curves: dict[str, Models] = {}
    metric, when = metric or '', None if rounds is None else np.asarray(rounds, float)
    for label, entry in entries.items():
        if isinstance(entry, SimulationResult):
            metric, own, curves[label] = _of_simulation(entry, metric)
            when = own if when is None else when
        else:
            given = entry if isinstance(entry, Mapping) else {'server': entry}
            curves[label] = {model: _seeds(label, values) for model, values in given.items()}
    lengths = {label: _length(models) for label, models in curves.items()}
    if len(set(lengths.values())) > 1:
        raise errors.invalid('data', 'have as many evaluations for every label', lengths)
    count = next(iter(lengths.values()))
    when = np.arange(1.0, count + 1) if when is None else when
    if when.shape != (count,):
        raise errors.invalid('rounds', f'have {count} entries', f'shape {when.shape}')
    return Read(metric, [Panel('', when, curves)], {}, members)


def _length(models: Models) -> int:
    return len(next(iter(models.values()))[0])


def _seeds(label: str, values: Any) -> np.ndarray:
    array = checks.numbers('data', values).astype(np.float64)
    if array.ndim not in (1, 2) or not array.size:
        requirement = 'be of shape [E] or [S, E], seeds by evaluations'
        raise errors.invalid('data', requirement, f'shape {list(array.shape)} for {label!r}')
    return np.atleast_2d(array)


def _of_simulation(result: SimulationResult, metric: str) -> tuple[str, np.ndarray, Models]:
    """Metric, rounds [E] and curves [S, E] of one lane or of one lane per seed."""
    if not result.evals:
        raise errors.invalid('data', 'have evaluations (`eval_every`)', 'a result without any')
    last = np.atleast_1d(np.asarray(result.state.round))
    length = np.shape(result.rounds.num_active)[-1]
    curves, recorded = {}, _metrics(result)
    if not metric:
        metric = next((name for name in _USUAL if name in recorded), next(iter(recorded)))
    checks.choice('metric', metric, recorded)
    bad = np.atleast_1d(np.asarray(result.state.first_bad_round))
    for model, measured in result.evals.items():
        values = np.asarray(measured[metric] if isinstance(measured, Mapping) else measured)
        curves[model] = np.atleast_2d(values.astype(np.float64))
    count = _length(curves)
    rounds = last[0] - length + length // count * np.arange(1, count + 1)
    lost = (bad[:, None] >= 0) & (rounds > bad[:, None])  # a model of NaN has an accuracy too
    return metric, rounds, {k: np.where(lost, np.nan, v) for k, v in curves.items()}


def _metrics(result: SimulationResult) -> list[str]:
    measured = next(iter(result.evals.values()))
    return list(measured) if isinstance(measured, Mapping) else ['value']


def _of_run(run: runs.Results, metric: str | None) -> Read:
    facts = run.facts
    metric = facts['metric'] if metric is None else metric
    checks.choice('metric', metric, facts['directions'])
    main = series.where(run.columns, stage='main')
    if not series.num_rows(main):
        raise errors.invalid('data', 'hold at least one evaluation', run.folder)
    rounds, panels = np.unique(main['round']), []
    members: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for pattern in facts['patterns']:
        found: dict[str, Models] = {}
        axes = [pattern], facts['seeds'], rounds
        for algorithm in dict.fromkeys(main['algorithm'].tolist()):  # as they ran
            rows = series.where(main, algorithm=algorithm, pattern=pattern)
            for point in series.points(rows, facts):
                own = series.at(rows, point)
                if series.num_rows(own):
                    label = series.label(algorithm, point)
                    members[label] = algorithm, point
                    found[label] = {
                        model: series.array(own, f'{model}/{metric}', *axes)[0]
                        for model in series.models(facts, algorithm)
                    }
        if found:
            panels.append(Panel(pattern if len(facts['patterns']) > 1 else '', rounds, found))
    return Read(metric, panels, dict(facts['names']), members)


def _chosen(models: Models, model: str | None) -> Models:
    if model == ALL:
        return models
    if model is None:
        model = main_model(models)
    checks.choice('model', model, [*models, ALL])
    return {model: models[model]}


def main_model(models: Iterable[str]) -> str:
    """The model that the papers evaluate: the clients' mean where clients keep models."""
    models = list(models)
    return 'client_mean' if 'client_mean' in models else models[0]


def ends(values: np.ndarray, tail: float) -> np.ndarray:
    """float[S], each seed's mean over the last share of its evaluations, at least one.

    Args:
      values: float[S, E].
      tail: the share.
    """
    count = max(1, round(tail * values.shape[1]))
    mean: np.ndarray = values[:, -count:].mean(axis=1)
    return mean


def masks(data: Any, argument: str = 'mask', ndim: Iterable[int] = (2,)) -> np.ndarray:
    """A mask of rounds by clients.

    Args:
      data: bool[T, N], or numbers 0 and 1.
      argument: its name, for errors.
      ndim: how many axes it may have.

    Raises:
      ValueError: for other values or shapes.
    """
    array = np.asarray(data)
    if array.ndim not in ndim or not array.size:
        shape = ' or '.join(('', '[N]', '[T, N]')[n] for n in ndim)
        raise errors.invalid(argument, f'be a mask of shape {shape}', f'shape {list(array.shape)}')
    if array.dtype != bool and not np.isin(array, (0, 1)).all():
        raise errors.invalid(argument, 'hold truth values', errors.shown(data))
    return array.astype(bool)
