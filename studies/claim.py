"""One claim of a paper beside the archive of a run: differences over seeds, intervals, verdicts."""

import collections
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

from fedjax_links import evaluation, runs
from fedjax_links.report import run_view
from fedjax_links.report.comparisons import PairedDifference
from fedjax_links.results import dataset

ARCHIVES = Path(__file__).parent / 'records' / 'papers'
HOLDS = 'holds'
REVERSED = 'reversed'
OPEN = 'cannot be told'
ALIKE = 'alike'
DIFFERENT = 'different'
HIDDEN = 'stand-in cannot show it'
MARGIN = 0.01
"""Of what the second reaches: differences up to it, a line in the papers' pictures, are alike."""
DOUBLING = 1.0
"""The margin of waiting times; the papers call 150 rounds beside 300 similar."""
LEVEL = 0.05
"""Of p-values, and of what may be false among those that survive."""

Statistic = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Evaluated rounds and float[S, T], a row per seed -> float[S]."""


class Side(NamedTuple):
    """The lanes of an algorithm on a pattern, and the model that is looked at."""

    algorithm: str
    pattern: str
    model: str = 'server'


def final(rounds: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Mean of the last tenth of the evaluations."""
    return values[:, -max(1, round(0.1 * len(rounds))) :].mean(axis=1)


def until(last: int) -> Statistic:
    """Mean of the evaluations up to a round."""
    return lambda rounds, values: values[:, rounds <= last].mean(axis=1)


def fluctuation(rounds: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Binary logarithm of the root mean square step between evaluations of the last tenth."""
    steps = np.diff(values[:, -max(2, round(0.1 * len(rounds))) :], axis=1)
    return 0.5 * np.log2(np.mean(steps**2, axis=1))


class Claim(NamedTuple):
    """One sentence of a paper.

    Attributes:
      item: figure or table.
      text: the sentence, in our words.
      run: the archive, named as the config and its words.
      pairs: by label, who is said to be ahead of whom; or four sides, where the lead of the first
        over the second is said to be more than that of the third over the fourth.
      metric: that is compared.
      statistic: what of its course.
      target: the level whose first rounds are compared in place of a statistic, if any.
      part: which part of its course that is, where it is not the end.
      sign: -1 where less is better.
      scale: of what is printed.
      unit: of what is printed.
      ordered: whether the first is said to be ahead, and not just alike.
      margin: up to which two are alike, in `unit`; else a `MARGIN` of what the second reaches.
      shows: whether the run could show it; not where theory puts the effect at zero.
      note: behind the verdict.
    """

    item: str
    text: str
    run: str
    pairs: Mapping[str, tuple[Side, ...]]
    metric: str = 'eval_accuracy'
    statistic: Statistic = final
    target: float | None = None
    part: str = ''
    sign: int = 1
    scale: float = 100.0
    unit: str = 'points'
    ordered: bool = True
    margin: float | None = None
    shows: bool = True
    note: str = ''


class Outcome(NamedTuple):
    """The difference of a pair over its seeds.

    Attributes:
      label: of the pair.
      difference: its mean.
      interval: half of the 95 % interval, Student's t; with tuning where near ties ran.
      p_value: two-sided, of no difference, likewise.
      margin: up to which the two are alike.
      note: behind the number.
    """

    label: str
    difference: float
    interval: float
    p_value: float
    margin: float
    note: str = ''

    def verdict(self, ordered: bool) -> str:
        """A sign where there is one; alike where the whole interval is within the margin."""
        if ordered and self.p_value < LEVEL:
            return HOLDS if self.difference > 0 else REVERSED
        if abs(self.difference) + self.interval <= self.margin:
            return ALIKE
        apart = abs(self.difference) - self.interval > self.margin
        return DIFFERENT if apart and not ordered else OPEN


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
    for label, sides in claim.pairs.items():
        courses = [course(claim.run, side, claim.metric) for side in sides]
        if claim.target is not None:
            yield _waiting(claim, label, courses)
            continue
        levels = [claim.scale * claim.statistic(*found) for found in courses]
        margin = (
            MARGIN * abs(levels[1].mean()) if claim.margin is None else claim.margin
        )
        leads = [
            ahead - behind
            for ahead, behind in zip(levels[::2], levels[1::2], strict=True)
        ]
        differences = claim.sign * (leads[0] - sum(leads[1:]))
        mean, width = _interval(differences)
        p_value = evaluation.p_value(differences)
        if tuned := _with_tuning(claim, sides):
            assert np.isclose(claim.sign * claim.scale * tuned.mean, mean)
            width = claim.scale * float((tuned.wide or tuned).half_width)
            p_value = (
                tuned.p_value if tuned.excludes_zero else 1.0
            )  # as in reports: both ask
        yield Outcome(label, mean, width, p_value, margin)


def _with_tuning(claim: Claim, sides: tuple[Side, ...]) -> PairedDifference | None:
    """The difference of ends where the archive has lanes of near ties, tuning drawn again."""
    if (
        claim.statistic is not final
        or len(sides) != 2
        or dataset.TIE not in read(claim.run)['stage']
    ):
        return None
    found, ends = _ends(claim.run, claim.metric)
    one, other = (
        ends.choices[side.pattern, side.algorithm, side.model] for side in sides
    )
    return found.difference(ends.metric, one, other)


@functools.cache
def _ends(run: str, metric: str) -> tuple[run_view.RunView, run_view.FinalMetrics]:
    found = run_view.of_run(runs.read(ARCHIVES / run))
    return found, found.final_metrics(metric)


def _interval(differences: np.ndarray) -> tuple[float, float]:
    found = evaluation.seed_interval(differences)
    return float(found.mean), float(found.half_width)


def first_rounds(rounds: np.ndarray, values: np.ndarray, target: float) -> np.ndarray:
    """The first evaluated round at a level, by row; infinite where there is none."""
    there = values >= target
    return np.where(there.any(axis=1), rounds[there.argmax(axis=1)], np.inf)


def _waiting(
    claim: Claim, label: str, courses: list[tuple[np.ndarray, np.ndarray]]
) -> Outcome:
    """Waiting times are compared by their ratio, and its sign by ranks.

    A single seed that waits for most of a run would carry a mean difference of rounds, and its
    interval, alone. Who never arrives counts with the last round.
    """
    sign = claim.sign
    target = claim.sign * claim.target
    first, second = (
        first_rounds(rounds, sign * values, target) for rounds, values in courses
    )
    last = courses[0][0][-1]
    ratios = np.log2(np.minimum(second, last) / np.minimum(first, last))
    p_value = stats.wilcoxon(ratios).pvalue if ratios.any() else 1.0
    of_means = (
        first_rounds(rounds, sign * values.mean(axis=0)[None], target)[0]
        for rounds, values in courses
    )
    here, there = (
        f'{number:.0f}' if np.isfinite(number) else 'never' for number in of_means
    )
    note = f' ({np.sum(first < second)} of {len(first)} seeds; {here}, {there})'
    margin = DOUBLING if claim.margin is None else claim.margin
    return Outcome(label, *_interval(ratios), float(p_value), margin, note)


def verdict(claim: Claim, found: Iterable[Outcome]) -> str:
    """Of all pairs: the one word, or how many of each."""
    if not claim.shows:
        return HIDDEN
    words = [outcome.verdict(claim.ordered) for outcome in found]
    counts = collections.Counter(words)
    said = words[0]
    if len(counts) > 1:
        said = ', '.join(
            f'{word} {count} of {len(words)}' for word, count in counts.items()
        )
    return said + claim.note


def shown(claim: Claim, found: Iterable[Outcome], survive: Iterable[bool]) -> str:
    """The numbers of all pairs, with their unit and a star where they survive."""
    numbers = '; '.join(
        f'{o.label} {o.difference:+.2f} ± {o.interval:.2f}{" *" * bool(kept)}{o.note}'.strip()
        for o, kept in zip(found, survive, strict=True)
    )
    return f'{claim.part}{": " * bool(claim.part)}{numbers} {claim.unit}'


Judged = list[tuple[Claim, list[Outcome]]]


def judged(claims: Iterable[Claim]) -> Judged:
    """All claims with the outcomes of their pairs."""
    return [(claim, list(outcomes(claim))) for claim in claims]


def survivors(found: Judged) -> list[list[bool]]:
    """By claim and pair, whether it survives all others of the table."""
    p_values = [outcome.p_value for _, pairs in found for outcome in pairs]
    kept = iter(evaluation.benjamini_hochberg(p_values, LEVEL).tolist())
    return [[next(kept) for _ in pairs] for _, pairs in found]


def rows(found: Judged, minutes: Mapping[str, str]) -> Iterator[str]:
    """The lines of the table."""
    yield '| item | the paper says | run | difference here | verdict |'
    yield '| --- | --- | --- | --- | --- |'
    for (claim, pairs), kept in zip(found, survivors(found), strict=True):
        numbers = shown(claim, pairs, kept)
        said = verdict(claim, pairs)
        run = link(claim.run, minutes)
        yield f'| {claim.item} | {claim.text} | {run} | {numbers} | {said} |'


def link(run: str, minutes: Mapping[str, str]) -> str:
    """The report of a run, and what it cost."""
    return f'[{run}](../studies/records/papers/{run}/report.md), {minutes[run]} min'


def summary(found: Judged) -> str:
    """Count the differences of the table, those of chance, and those that survive."""
    p_values = np.array([outcome.p_value for _, pairs in found for outcome in pairs])
    survive = sum(map(sum, survivors(found)))
    return (
        f'Of the {len(p_values)} differences, {np.sum(p_values < LEVEL)} have a p-value below '
        f'{LEVEL:g}. If all were zero, {LEVEL * len(p_values):.0f} would have one by chance. '
        f'{survive} survive Benjamini-Hochberg at {100 * LEVEL:.0f} %.'
    )


def rates(
    item: str, run: str, printed: Mapping[str, float], minutes: Mapping[str, str]
) -> str:
    """The line of local rates that tuning chose, beside printed ones, by algorithm.

    An arrow marks a rate at the upper or lower edge of those tried.
    """
    columns = read(run)
    tuning = columns['stage'] == 'tuning'
    chosen = {}
    here = []
    for name in printed:
        own = columns['algorithm'] == name
        chosen[name] = rate = float(columns['client.learning_rate'][own & ~tuning][-1])
        tried = columns['client.learning_rate'][own & tuning]
        edge = ' ↑' if rate == tried.max() else ' ↓' if rate == tried.min() else ''
        here.append(f'{name} {rate:g}{edge}')
    equal = sum(chosen[name] == rate for name, rate in printed.items())
    said = '; '.join(f'{name} {rate:g}' for name, rate in printed.items())
    seeds = len(np.unique(columns['seed'][tuning]))
    verdict = (
        f'equal {equal} of {len(printed)}, by {seeds} seed{"s" if seeds > 1 else ""}'
    )
    report = link(run, minutes)
    return f'| {item} | best local rates: {said} | {report} | {"; ".join(here)} | {verdict} |'
