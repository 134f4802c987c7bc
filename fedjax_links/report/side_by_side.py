"""The levels of several runs in one table, paired where seeds and links agree."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import NamedTuple

import numpy as np

from fedjax_links import evaluation, runs
from fedjax_links.core import errors
from fedjax_links.report import source
from fedjax_links.report.source import Ends, Key, Source
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
    """A run with its letter, and its links by pattern and seed from some round on."""

    letter: str
    path: str
    source: Source
    ends: Ends
    seeds: list[int]
    links: runs.Links

    def values(self, key: Key) -> np.ndarray | None:
        """float[S], in the order of sorted seeds; None where the run has no such lanes."""
        found = self.ends.values.get(key)
        return None if found is None else found[np.argsort(self.seeds)]

    def level(self, key: Key) -> str:
        """A level with its interval; empty where the run has no such lanes."""
        return self.ends.level(key) if key in self.ends.values else ''


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
    members: list[_Run] = []
    for letter, path in zip(ascii_uppercase, paths, strict=False):
        kept = runs.read(path)
        found = source.of_run(kept)
        metric = found.metric(metric).name
        ends, seeds = found.ends(metric, tail), list(kept.facts['seeds'])
        members.append(_Run(letter, str(path), found, ends, seeds, runs.links(path)))
    first, *others = members
    refused = {
        (run.letter, pattern): refusal(first, run, pattern)
        for run in others
        for pattern in first.source.patterns
        if pattern in run.source.patterns
    }

    def name(label: str) -> str:
        """What the first run that has a pattern or a series calls it."""
        having = (r.source for r in members if label in {*r.source.members, *r.source.patterns})
        return next(having).name(label)

    def difference(run: _Run, key: Key) -> str:
        """With a star where zero is outside; empty where a run diverged or has no such lanes."""
        values, base = run.values(key), first.values(key)
        if values is None or base is None:
            return ''
        unpaired = refused.get((run.letter, key[0])) is not None
        interval = evaluation.unpaired_interval if unpaired else evaluation.paired_interval
        shown = run.ends.metric.difference(interval(values, base))
        return shown + _UNPAIRED if shown and unpaired else shown

    found_keys = [run.source.rows(every_model=True) for run in members]
    every = dict.fromkeys(key for keys in found_keys for key in keys)
    patterns = list(dict.fromkeys(key[0] for key in every))
    series = list(dict.fromkeys(key[1:] for key in every))
    keys = [(pattern, *rest) for pattern in patterns for rest in series]
    rows = []
    for key in (key for key in keys if key in every):
        row = [name(key[0]), name(key[1]), key[2].replace('_', ' '), first.level(key)]
        for run in others:
            row += [run.level(key), difference(run, key)]
        rows.append(row)
    header = ['pattern', 'algorithm', 'model', first.letter]
    for run in others:
        header += [run.letter, f'{run.letter} minus {first.letter}']
    return SideBySide(Table(header, rows, _caption(members, tail)), _lines(refused))


def refusal(first: _Run, other: _Run, pattern: str) -> str | None:
    """Why two runs cannot be paired seed by seed on a pattern that both have; None if they can."""
    if sorted(first.seeds) != sorted(other.seeds):
        return f'seeds differ ({_listed(first.seeds)} | {_listed(other.seeds)})'
    ours, theirs = (run.links.masks.get(pattern, {}) for run in (first, other))
    common = sorted(ours.keys() & theirs.keys())
    if not common:
        return 'no links kept that both met with one seed'
    begins = first.links.first_round, other.links.first_round
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


def _caption(members: Sequence[_Run], tail: float) -> str:
    runs_ = [
        f'{run.letter} is {run.path} ({run.source.rounds[-1]} rounds, {run.source.seeds})'
        for run in members
    ]
    return (
        f'{members[0].ends.metric.title}: mean of the last {100 * tail:g} % of the evaluations, '
        f'at least one. {"; ".join(runs_)}. ± is the 95 % interval over seeds (Student t); behind '
        'a difference that of differences seed by seed where both runs have the same seeds and the '
        'links that both kept are equal, and that of independent samples (Welch) where it says '
        'unpaired; '
        '* where zero is outside.'
    )


def _listed(seeds: Sequence[int]) -> str:
    shown = [*map(str, seeds[:5]), *(['...'] if len(seeds) > 5 else [])]
    return ', '.join(shown)
