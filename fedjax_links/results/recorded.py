"""The lines of a run in the one labelled form of results."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from fedjax_links.core import grids
from fedjax_links.results import dataset
from fedjax_links.results.dataset import MAIN, TIE, TUNING, Columns

_LABELS = ('stage', 'algorithm', 'pattern', 'seed', 'round')
_OF_A_LINE = (*_LABELS, 'finite', 'first_bad_round')
_OF_A_LANE = ('series', 'pattern', 'seed', 'round')


def rounds_of(facts: Mapping[str, Any]) -> np.ndarray:
    """int[E], rounds completed at each evaluation; of a forked run, those after the fork."""
    period, origin = facts['eval_every'], facts.get('at_round', 0)
    first = origin if facts.get('evaluate_start') and not origin else origin + period
    return np.arange(first, facts['num_rounds'] + 1, period)


def place_of(pattern: str, point: Mapping[str, Any]) -> Any:
    """A key for a pattern and what a point gives, however its numbers are written."""
    values = ((name, dataset.as_tuple(value)) for name, value in point.items())
    return pattern, frozenset((k, v) for k, v in values if v is not None and v == v)


def main_models(facts: Mapping[str, Any]) -> dict[str, str]:
    """By algorithm, the model to show: the one whose rate was tuned, else that of the papers."""
    decides = (facts.get('tuning') or {}).get('model')
    named = decides if isinstance(decides, Mapping) else {}
    return {
        label: named[label] if named.get(label) in models else dataset.main_model(models)
        for label, models in facts['models'].items()
    }


def levels(
    columns: Columns,
    facts: Mapping[str, Any],
    label: str,
    *,
    stage: str = MAIN,
    metric: str | None = None,
    model: str | None = None,
    tail: float = 0.1,
) -> dict[Any, dict[int, float]]:
    """Final levels of an algorithm, of lanes that are done.

    Args:
      columns: of the run.
      facts: of the run.
      label: the algorithm.
      stage: `MAIN`; or `TIE`, whose points have the columns that are tuned too.
      metric: that of the run by default.
      model: the one to show by default.
      tail: share of the evaluations, the last ones, that each lane is averaged over.

    Returns:
      A number by seed, by `place_of` the pattern and the point; NaN where a lane diverged.
    """
    rows, rounds = rows_of(columns, {**facts, 'algorithms': [label]}, stage), rounds_of(facts)
    late = rounds[-dataset.num_last(len(rounds), tail) :]
    name = f'{model or main_models(facts)[label]}/{metric or facts["metric"]}'
    tried = (facts.get('tuning') or {}).get('grid', ()) if stage == TIE else ()
    names = (name for name in (*facts['grid'], *tried) if name in rows)
    given = {name: rows[name].tolist() for name in names}
    found: dict[Any, dict[int, list[float]]] = {}
    patterns = rows['pattern'].tolist()
    for row in np.flatnonzero(np.isin(rows['round'], late)).tolist():
        place = place_of(patterns[row], {k: own[row] for k, own in given.items()})
        is_finite = bool(rows['finite'][row]) if 'finite' in rows else True
        own = found.setdefault(place, {}).setdefault(int(rows['seed'][row]), [])
        own.append(float(rows[name][row]) if is_finite else np.nan)
    return {
        place: {seed: float(np.mean(own)) for seed, own in by.items() if len(own) == len(late)}
        for place, by in found.items()
    }


def rows_of(columns: Columns, facts: Mapping[str, Any], stage: str) -> Columns:
    """The rows of a stage of the algorithms that facts name; see `of_run`."""
    columns = columns or dict.fromkeys(_LABELS, np.zeros(0, int))
    chosen = (columns['stage'] == stage) & np.isin(columns['algorithm'], facts['algorithms'])
    return {name: column[chosen] for name, column in columns.items()}


def members_of(
    rows: Columns, facts: Mapping[str, Any], stage: str
) -> tuple[list[tuple[str, grids.Point]], np.ndarray]:
    """The series that have begun.

    Args:
      rows: from `rows_of`.
      facts: of the run.
      stage: of the rows.

    Returns:
      An algorithm and its point each, in the order of algorithms and of the grid; and int[rows],
      the place of the series of every row.
    """
    members: list[tuple[str, grids.Point]] = []
    owner = np.zeros(len(rows['round']), int)
    for algorithm in facts['algorithms']:
        if (chosen := rows['algorithm'] == algorithm).any():
            own = {name: column[chosen] for name, column in rows.items()}
            points = _points(own, facts, stage)
            place = {
                dataset.as_tuple([*at.values()]): k for k, at in enumerate(points, len(members))
            }
            at = zip(own['round'], *(own[name].tolist() for name in points[0]), strict=True)
            owner[chosen] = [place[dataset.as_tuple([*values])] for _, *values in at]
            members += [(algorithm, point) for point in points]
    return members, owner


def _points(rows: Columns, facts: Mapping[str, Any], stage: str) -> list[dict[str, Any]]:
    """The points of the grid, as far as some rows have its columns."""

    def given(names: Iterable[str]) -> list[str]:
        return [name for name in names if name in rows and dataset.is_given(rows[name]).any()]

    own = given(facts['grid'])
    points = grids.project(grids.points(facts['grid'], facts['grid_mode']), own)
    if stage == TUNING:
        tuned = facts['tuning']['grid']
        there = {
            name: set(dataset.as_tuples(rows[name]).tolist())
            for name in given(tuned)
            if name not in own
        }
        tried = {k: [v for v in tuned[k] if dataset.as_tuple(v) in there[k]] for k in there}
        tries = grids.points(tried, 'cross')
        points = [{**point, **at} for point in points for at in tries]
    return points


def of_run(columns: Columns, facts: Mapping[str, Any], stage: str = MAIN) -> Any:
    """The evaluations of a run, or of its tuning, as an ``xarray.Dataset``.

    Args:
      columns: `runs.Results.columns`.
      facts: of the run.
      stage: `MAIN`, or `TUNING`, whose points have the columns that are tuned too.
    """
    rows = rows_of(columns, facts, stage)
    members, owner = members_of(rows, facts, stage)
    patterns, seeds, rounds = [*facts['patterns']], [*facts['seeds']], np.unique(rows['round'])
    if stage == TUNING:
        patterns = [label for label in patterns if label in rows['pattern']]
        seeds = np.unique(rows['seed']).tolist()
    elif 'until' in facts:
        seeds = [seed for seed in seeds if seed in rows['seed']]
    pattern = np.array([patterns.index(label) for label in rows['pattern'].tolist()], int)
    seed = np.array([seeds.index(number) for number in rows['seed'].tolist()], int)
    at = owner, pattern, seed, np.searchsorted(rounds, rows['round'])
    shape = len(members), len(patterns), len(seeds), len(rounds)
    finite = np.asarray(rows.get('finite', True), bool)

    def fill(name: str) -> np.ndarray:
        filled = np.full(shape, np.nan)
        if name in rows:
            filled[at] = np.where(finite, rows[name].astype(np.float64), np.nan)
        return filled

    models = {algorithm: facts['models'][algorithm] for algorithm, _ in members}
    every, metrics = dataset.in_order(models), facts['directions']
    known = {*_OF_A_LINE, *(name for _, point in members for name in point)}
    known |= {f'{model}/{metric}' for model in every for metric in metrics}
    chosen, more = {}, {}
    for name, column in rows.items():
        if name not in known and (given := dataset.is_given(column)).any():
            if '/' in name:
                more[name] = fill(name)
            else:
                kind = np.float64 if column.dtype.kind in 'fi' else object
                chosen[name] = np.full(shape[:2], np.nan, kind)
                chosen[name][owner[given], pattern[given]] = dataset.as_tuples(column)[given]
    ran = np.zeros(shape, bool)
    ran[at] = True
    expected = len(rounds_of(facts)) if stage == MAIN and 'num_rounds' in facts else shape[3]
    begun = np.asarray(ran.any(axis=3))
    whole = np.asarray(ran.sum(axis=3) == expected)
    if 'until' in facts and stage == MAIN:  # pairs that were decided have fewer seeds than others
        complete = np.asarray((whole | ~begun).all(axis=(1, 2)))
        complete &= (whole.sum(axis=2) >= facts['until']['least']).all(axis=1)
    else:
        complete = np.asarray(whole.all(axis=(1, 2)))
        begun = np.asarray(begun.any(axis=(1, 2), keepdims=True))
    values = {}
    for metric in metrics:
        of_models = [fill(f'{model}/{metric}') for model in every]
        values[metric] = np.reshape(of_models, (len(every), *shape)).swapaxes(0, 1)
    attrs = {'metric': facts['metric'], 'baseline': facts['baseline'], 'directions': dict(metrics)}
    attrs |= {'names': dict(facts['names']), 'until': facts.get('until')}
    axes: dict[str, Any] = {'patterns': patterns, 'seeds': seeds, 'rounds': rounds}
    axes |= {'lanes': np.broadcast_to(begun, shape[:3]), 'complete': complete}
    mains = main_models({**facts, 'models': models})
    found = dataset.build(members, models, values, **axes, mains=mains, **attrs)
    found = found.assign({name: (_OF_A_LANE, column) for name, column in more.items()})
    return found.assign_coords({k: (_OF_A_LANE[:2], column) for k, column in chosen.items()})
