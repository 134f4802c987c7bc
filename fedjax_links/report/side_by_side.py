"""The levels of several runs in one table, paired where seeds and links agree."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import checks, errors, evaluation, runs
from fedjax_links.plot.panels import unit
from fedjax_links.report import folders, results
from fedjax_links.report.layouts import page
from fedjax_links.report.tables import Table

_UNPAIRED = ' (unpaired)'


class SideBySide(NamedTuple):
    """Several runs beside each other.

    Attributes:
      table: one row per pattern, algorithm and model; A is the first run, B the second, ...
      refusals: why a run is not paired with the first, a line for each run and reason.
    """

    table: Table
    refusals: Sequence[str]

    def text(self) -> str:
        """For a terminal."""
        return '\n'.join([self.table.text(), *self.refusals])


class _Run(NamedTuple):
    """A run with its letter, and its links by pattern and seed from round ``begin`` on."""

    letter: str
    path: str
    found: results.Results
    facts: Mapping[str, Any]
    masks: Mapping[str, Mapping[int, np.ndarray]]
    begin: int

    @property
    def seeds(self) -> list[int]:
        return list(self.facts['seeds'])


def table(
    paths: Sequence[str | Path], *, metric: str | None = None, tail: float = 0.1
) -> SideBySide:
    """Sets the final levels of several runs side by side.

    Args:
      paths: run folders; the others are compared with the first.
      metric: which metric; that of the first run by default.
      tail: share of each run's evaluations, the last ones, that each seed is averaged over.

    Returns:
      Levels with their intervals, and differences to the first run: paired where both runs have the
      same seeds and kept equal links of the pattern, else unpaired with the reason.

    Raises:
      ValueError: if a folder holds no finished algorithm, or for an unknown metric or a share that
        is none.
    """
    if not 2 <= len(paths) <= len(ascii_uppercase):
        raise errors.invalid('folders', f'be 2 to {len(ascii_uppercase)}', len(paths))
    checks.within('tail', tail, 0, 1)
    members = [_read(*pair) for pair in zip(ascii_uppercase, paths, strict=False)]
    first, *others = members
    metric = page.metric_of(first.found, metric)
    for other in others:
        checks.choice('metric', metric, other.found.metrics)
    refused = {
        (run.letter, pattern): refusal(first, run, pattern)
        for run in others
        for pattern in _patterns([first])
        if pattern in run.found.patterns
    }
    rows = []
    for pattern in _patterns(members):
        for series, model in _series(members):
            finals = [_final(run, pattern, series, model, metric, tail) for run in members]
            if all(values is None for values in finals):
                continue
            row = [
                _name(members, pattern),
                _name(members, series),
                model.replace('_', ' '),
                _level(metric, finals[0]),
            ]
            for run, values in zip(others, finals[1:], strict=True):
                unpaired = refused.get((run.letter, pattern)) is not None
                row.append(_level(metric, values))
                row.append(_difference(metric, values, finals[0], unpaired=unpaired))
            rows.append(row)
    header = ['pattern', 'algorithm', 'model', first.letter]
    for run in others:
        header += [run.letter, f'{run.letter} minus {first.letter}']
    return SideBySide(Table(header, rows, _caption(members, metric, tail)), _lines(refused))


def refusal(first: _Run, other: _Run, pattern: str) -> str | None:
    """Why two runs cannot be paired seed by seed on a pattern that both have; None if they can."""
    if sorted(first.seeds) != sorted(other.seeds):
        return f'seeds differ ({_listed(first.seeds)} | {_listed(other.seeds)})'
    ours, theirs = (run.masks.get(pattern, {}) for run in (first, other))
    common = sorted(ours.keys() & theirs.keys())
    if not common:
        return 'no links kept that both met with one seed'
    begins = first.begin, other.begin
    for seed in common:
        ends = [begin + len(kept[seed]) for begin, kept in zip(begins, (ours, theirs), strict=True)]
        one, two = (
            kept[seed][max(begins) - begin :]
            for begin, kept in zip(begins, (ours, theirs), strict=True)
        )
        if one.shape != two.shape:
            sizes = [
                f'{n} rounds of {m.shape[1]} clients' for n, m in zip(ends, (one, two), strict=True)
            ]
            return f'links differ ({" | ".join(sizes)})'
        if not np.array_equal(one, two):
            round = max(begins) + int(np.argmax((one != two).any(axis=1)))
            return f'links differ (seed {seed}, for the first time in round {round})'
    return None


def _read(letter: str, path: str | Path) -> _Run:
    run = runs.read(path)
    links = folders.links(Path(path))
    seeds, begin = list(run.facts['seeds']), int(links.get('first_round', 0))
    masks: dict[str, dict[int, np.ndarray]] = {}
    for name, mask in links.items():
        kind, _, label = name.partition('/')
        if kind == 'mask':
            pattern, _, seed = label.partition('/')
            masks.setdefault(pattern, {})[int(seed) if seed else seeds[0]] = mask
    return _Run(letter, str(path), results.of_run(run), run.facts, masks, begin)


def _patterns(members: Sequence[_Run]) -> list[str]:
    return list(dict.fromkeys(label for run in members for label in run.found.patterns))


def _series(members: Sequence[_Run]) -> list[tuple[str, str]]:
    """Series and candidate models of any of the runs."""
    found = [
        (series, model)
        for run in members
        for series, models in run.found.curves.items()
        for model in models
    ]
    return list(dict.fromkeys(found))


def _name(members: Sequence[_Run], label: str) -> str:
    """What the first run that has a pattern or a series calls it."""
    having = [r for r in members if label in r.found.curves or label in r.found.patterns]
    return having[0].found.name(label)


def _final(
    run: _Run, pattern: str, series: str, model: str, metric: str, tail: float
) -> np.ndarray | None:
    """float[S], in the order of sorted seeds; None where the run has no such lanes."""
    if pattern not in run.found.patterns or model not in run.found.curves.get(series, {}):
        return None
    values = run.found.tail(series, model, metric, tail)[run.found.place_of(pattern)]
    return values[np.argsort(run.seeds)]


def _level(metric: str, values: np.ndarray | None) -> str:
    if values is None:
        return ''
    found = evaluation.seed_interval(values)
    return page.interval(metric, float(found.mean), float(found.half_width))


def _difference(
    metric: str, values: np.ndarray | None, base: np.ndarray | None, *, unpaired: bool
) -> str:
    """With a star where zero is outside; empty where a run diverged or has no such lanes."""
    if values is None or base is None:
        return ''
    interval = evaluation.unpaired_interval if unpaired else evaluation.paired_interval
    shown = page.difference(metric, interval(values, base))
    return shown + _UNPAIRED if shown and unpaired else shown


def _lines(refused: Mapping[tuple[str, str], str | None]) -> list[str]:
    """The refusals, patterns with one reason together."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for (letter, pattern), reason in refused.items():
        if reason is not None:
            reasons.setdefault((letter, reason), []).append(pattern)
    return [
        f'{letter} is not paired with A on {", ".join(patterns)}: {reason}.'
        for (letter, reason), patterns in reasons.items()
    ]


def _caption(members: Sequence[_Run], metric: str, tail: float) -> str:
    runs_ = [
        f'{run.letter} is {run.path} ({run.facts["num_rounds"]} rounds, {page.seeds(run.found)})'
        for run in members
    ]
    return (
        f'{unit(metric)}: mean of the last {100 * tail:g} % of the evaluations, at least one. '
        f'{"; ".join(runs_)}. ± is the 95 % interval over seeds (Student t); behind a difference '
        'that of differences seed by seed where both runs have the same seeds and the links that '
        'both kept are equal, and that of independent samples (Welch) where it says unpaired; '
        '* where zero is outside.'
    )


def _listed(seeds: Sequence[int]) -> str:
    shown = [*map(str, seeds[:5]), *(['...'] if len(seeds) > 5 else [])]
    return ', '.join(shown)
