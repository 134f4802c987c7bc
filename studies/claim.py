"""One claim of a paper beside the archive of a run: differences over seeds, intervals, verdicts."""

import collections
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedjax_links import evaluation, runs

ARCHIVES = Path(__file__).parent / 'records' / 'papers'
HOLDS, REVERSED, OPEN = 'holds', 'reversed', 'cannot be told'
ALIKE, DIFFERENT, HIDDEN = 'alike', 'different', 'stand-in cannot show it'
MARGINS = {'points': 0.2, 'doublings of the rounds': 0.25}
"""Up to where differences make none, by unit; of losses it is a share of the second's level."""
SHARE = 0.005

Statistic = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Evaluated rounds and float[S, T], a row per seed -> float[S]."""


class Side(NamedTuple):
    """The lanes of an algorithm on a pattern, and the model that is looked at."""

    algorithm: str
    pattern: str
    model: str = 'server'


class Claim(NamedTuple):
    """One sentence of a paper.

    Attributes:
      item: figure or table.
      text: the sentence, in our words.
      run: the archive, named as the config and its words.
      pairs: by label, who is said to be ahead of whom.
      metric: that is compared.
      statistic: what of its course.
      part: which part of its course that is, where it is not the end.
      sign: -1 where less is better.
      scale: of what is printed.
      unit: of what is printed.
      ordered: whether the first is said to be ahead, and not just alike.
      hidden: whether theory puts the difference at nearly nothing in what was run in its place.
    """

    item: str
    text: str
    run: str
    pairs: Mapping[str, tuple[Side, Side]]
    metric: str = 'eval_accuracy'
    statistic: Statistic | None = None
    part: str = ''
    sign: int = 1
    scale: float = 100.0
    unit: str = 'points'
    ordered: bool = True
    hidden: bool = False


class Outcome(NamedTuple):
    """The mean difference of a pair over its seeds.

    Attributes:
      label: of the pair.
      difference: positive where the first is ahead.
      interval: half of the 95 % interval.
      p_value: of a difference of zero.
      margin: up to where it makes none.
    """

    label: str
    difference: float
    interval: float
    p_value: float = 0.0
    margin: float = 0.0

    def verdict(self, ordered: bool) -> str:
        """Whether the interval lies within the margin, or else on which side of zero."""
        if abs(self.difference) + self.interval <= self.margin:
            return ALIKE
        if not abs(self.difference) > self.interval:
            return OPEN
        if not ordered:
            return DIFFERENT
        return HOLDS if self.difference > 0 else REVERSED


def final(rounds: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Mean of the last tenth of the evaluations."""
    return values[:, -max(1, round(0.1 * len(rounds))) :].mean(axis=1)


def until(last: int) -> Statistic:
    """Mean of the evaluations up to a round."""
    return lambda rounds, values: values[:, rounds <= last].mean(axis=1)


def scatter(rounds: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Standard deviation over the last tenth of the evaluations."""
    return values[:, -max(2, round(0.1 * len(rounds))) :].std(axis=1, ddof=1)


def doublings_to(level: float, sign: int = 1) -> Statistic:
    """Binary logarithm of the first evaluated round at a level; of the last where there is none.

    Waiting times are compared by their ratio: a single seed that waits for most of a run would
    carry a mean difference and its interval alone.
    """

    def first(rounds: np.ndarray, values: np.ndarray) -> np.ndarray:
        there = sign * values >= sign * level
        return np.log2(np.where(there.any(axis=1), rounds[there.argmax(axis=1)], rounds[-1]))

    return first


@functools.cache
def read(run: str) -> Mapping[str, np.ndarray]:
    """The columns of an archive."""
    return runs.read(ARCHIVES / run).columns


def course(run: str, side: Side, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Evaluated rounds, and a row per seed."""
    columns = read(run)
    own = columns['stage'] == 'main'
    for name, value in (('algorithm', side.algorithm), ('pattern', side.pattern)):
        own &= columns[name] == value
    seeds, rounds = (np.unique(columns[name][own]) for name in ('seed', 'round'))
    order = np.lexsort((columns['round'][own], columns['seed'][own]))
    values = columns[f'{side.model}/{metric}'][own][order]
    return rounds, values.reshape(len(seeds), len(rounds))


def outcomes(claim: Claim) -> Iterator[Outcome]:
    """Every pair of a claim."""
    measure = claim.statistic or final
    for label, pair in claim.pairs.items():
        ahead, behind = (measure(*course(claim.run, side, claim.metric)) for side in pair)
        differences = claim.sign * claim.scale * (ahead - behind)
        found = evaluation.seed_interval(differences)
        level = SHARE * abs(claim.scale * behind.mean())
        yield Outcome(
            label,
            float(found.mean),
            float(found.half_width),
            evaluation.p_value(differences),
            MARGINS.get(claim.unit, float(level)),
        )


def verdict(claim: Claim, found: Iterable[Outcome]) -> str:
    """Of all pairs: the one word, or how many of each."""
    words = [outcome.verdict(claim.ordered) for outcome in found]
    if claim.hidden:
        words = [HIDDEN if word in (OPEN, ALIKE) else word for word in words]
    counts = collections.Counter(words)
    if len(counts) == 1:
        return words[0]
    return ', '.join(f'{word} {count} of {len(words)}' for word, count in counts.items())


def shown(claim: Claim, found: Sequence[Outcome], least: float = 0.0) -> str:
    """The numbers of all pairs with their unit, and a star up to some p-value."""
    marks = [' *' if outcome.p_value <= least else '' for outcome in found]
    numbers = '; '.join(
        f'{o.label} {o.difference:+.2f} ± {o.interval:.2f}{mark}'.strip()
        for o, mark in zip(found, marks, strict=True)
    )
    return f'{claim.part}{": " * bool(claim.part)}{numbers} {claim.unit}'


def rows(claims: Iterable[Claim]) -> Iterator[str]:
    """The lines of the table; a star marks what survives Benjamini-Hochberg among all of it."""
    yield '| item | the paper says | run | difference here | verdict |'
    yield '| --- | --- | --- | --- | --- |'
    every = [(claim, list(outcomes(claim))) for claim in claims]
    p_values = np.array([each.p_value for _, found in every for each in found])
    least = p_values[evaluation.benjamini_hochberg(p_values)].max()
    for claim, found in every:
        run = f'[{claim.run}](../studies/records/papers/{claim.run}/report.md)'
        numbers, said = shown(claim, found, least), verdict(claim, found)
        yield f'| {claim.item} | {claim.text} | {run} | {numbers} | {said} |'


def rates(item: str, run: str, printed: Mapping[str, float]) -> str:
    """The line of local rates that tuning chose, beside printed ones, by algorithm.

    An arrow marks a rate at the upper or lower edge of those tried.
    """
    columns = read(run)
    tuning = columns['stage'] == 'tuning'
    chosen, here = {}, []
    for name in printed:
        own = columns['algorithm'] == name
        chosen[name] = rate = float(columns['client.learning_rate'][own & ~tuning][-1])
        tried = columns['client.learning_rate'][own & tuning]
        edge = ' ↑' if rate == tried.max() else ' ↓' if rate == tried.min() else ''
        here.append(f'{name} {rate:g}{edge}')
    equal = sum(chosen[name] == rate for name, rate in printed.items())
    said = '; '.join(f'{name} {rate:g}' for name, rate in printed.items())
    seeds = len(np.unique(columns['seed'][tuning]))
    verdict = f'equal {equal} of {len(printed)}, by {seeds} seed{"s" if seeds > 1 else ""}'
    link = f'[{run}](../studies/records/papers/{run}/report.md)'
    return f'| {item} | best local rates: {said} | {link} | {"; ".join(here)} | {verdict} |'
