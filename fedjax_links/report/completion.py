"""Reads what reports say of a run: finished series, tuning, captions, what diverged."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import runs
from fedjax_links.core.grids import Point
from fedjax_links.core.records import RunFacts
from fedjax_links.planning import seeding, trials
from fedjax_links.results import dataset, recorded


class FinishedSeries(NamedTuple):
    """Holds the part of a run that pages are made of.

    Attributes:
      series: labels; algorithms that the config's ``names`` lists come first, see `in_order`.
      tuning: the trials of tuning, by label of a tuned series.
      missing: labels of algorithms that are not finished; those in tuning with their progress.
    """

    series: list[str]
    tuning: dict[str, list[trials.TuningTrials]]
    missing: list[str]


def finished_series(run: runs.Results, *, so_far: bool = False) -> FinishedSeries:
    """Returns the series of all algorithms that are finished.

    Args:
      run: the run's metrics.
      so_far: whether to return unfinished series too.
    """
    data = run.dataset
    members = dataset.points(data)
    complete = set(data['series'].values[data['complete'].values].tolist())
    series: list[str] = []
    tuning: dict[str, list[trials.TuningTrials]] = {}
    missing: list[str] = []
    names = dict(run.facts['names'])
    for algorithm in in_order(run.facts['algorithms'], names):
        points = {
            label: point
            for label, (owner, point) in members.items()
            if owner == algorithm
        }
        is_done = bool(points) and points.keys() <= complete
        if not is_done:
            progress = trials.progress(run.columns, run.facts, algorithm)
            missing.append(f'{algorithm} ({progress})' if progress else algorithm)
        if is_done or so_far:
            series += points
            for label, tried in _tuning_of(run, algorithm, points):
                tuning.setdefault(label, []).append(tried)
    return FinishedSeries(series, tuning, missing)


def _tuning_of(
    run: runs.Results, algorithm: str, points: Mapping[str, Point]
) -> Iterator[tuple[str, trials.TuningTrials]]:
    """Yields the trials of tuning, with the label of each series that they were for."""
    for tried in trials.read_trials(run.columns, run.facts, algorithm):
        tuned_at = {name: dataset.as_tuple(value) for name, value in tried.at.items()}
        for label, point in points.items():
            if tuned_at.items() <= point.items():
                yield label, tried


def caption(facts: RunFacts) -> str:
    """Returns the caption, with the origin of a fork and the metrics of the best model."""
    paragraphs = [str(facts['caption'])]
    if 'forked_from' in facts:
        origin = f'Forked from {facts["forked_from"]} at round {facts["at_round"]}.'
        paragraphs.insert(0, origin)
    if 'attainable' in facts:
        best = f"The population's best model, exactly: {facts['attainable']}."
        paragraphs.append(best)
    return '\n\n'.join(paragraph for paragraph in paragraphs if paragraph)


def in_order(labels: Sequence[str], names: Mapping[str, str]) -> list[str]:
    """Sorts labels in the order of ``names``; labels without a name come last."""
    position = {label: index for index, label in enumerate(names)}
    return sorted(labels, key=lambda label: position.get(label, len(position)))


def diverged(run: runs.Results, data: Any) -> list[str]:
    """Says which simulations are not finite any more, and since which round.

    Args:
      run: the run's metrics.
      data: the series to report on, as an ``xarray.Dataset``.

    Returns:
      A phrase for each series, pattern and first bad round, with the seeds that diverged then.
    """
    if 'first_bad_round' not in run.columns:
        return []
    import pandas

    rows = recorded.rows_of(run.columns, run.facts, dataset.MAIN)
    _, rows, series_of_row = recorded.by_series(rows, run.facts, dataset.MAIN)
    names = dataset.names(data)
    series = run.dataset['series'].values[series_of_row]
    is_bad = ~rows['finite'].astype(bool) & np.isin(series, data['series'].values)
    lanes = pandas.DataFrame(
        {name: rows[name] for name in ('pattern', 'first_bad_round', 'seed')}
    )
    lanes = lanes.assign(series=series)[is_bad].drop_duplicates()
    groups = lanes.groupby(['series', 'pattern', 'first_bad_round'], sort=False)
    phrases = []
    for (label, pattern, round), seeds in groups['seed']:
        noun = 'seeds' if len(seeds) > 1 else 'seed'
        listed = ', '.join(map(str, seeds))
        phrases.append(
            f'{names[label]}, {names[pattern]}, {noun} {listed} in round {round:.0f}'
        )
    return phrases


def redrawn_streams(run: runs.Results | None) -> list[str]:
    """Returns the streams of data and link probabilities that each seed of a run redraws.

    Args:
      run: the run's metrics; None for data without a run, whose streams are unknown.
    """
    facts: RunFacts = {} if run is None else run.facts
    modes = facts.get('redraw', {})
    return [
        stream for stream in seeding.COLUMNS if modes.get(stream) == seeding.BY_SEED
    ]
