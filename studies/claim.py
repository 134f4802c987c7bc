"""Compares a claim of a paper with the archive of a run: differences, intervals, verdicts."""

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
EQUIVALENT = 'equivalent'
DIFFERENT = 'different'
HIDDEN = 'stand-in cannot show it'
MARGIN = 0.01
"""Of what the second reaches: a smaller one, a line in the papers' pictures, counts as none."""
DOUBLING = 1.0
"""The margin of waiting times; the papers call 150 rounds beside 300 similar."""
LEVEL = 0.05
"""Of p-values, and of what may be false among those that survive."""

Statistic = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Evaluated rounds and float[S, T], a row per seed -> float[S]."""


class Side(NamedTuple):
    """Names the lanes of an algorithm on a pattern, and the model to compare."""

    algorithm: str
    pattern: str
    model: str = 'server'


def final(rounds: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Returns the mean of the last tenth of the evaluations."""
    return _last_tenth(values, least=1).mean(axis=1)


def until(last: int) -> Statistic:
    """Returns a statistic: the mean of the evaluations up to a round."""
    return lambda rounds, values: values[:, rounds <= last].mean(axis=1)


def fluctuation(rounds: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Returns log2 of the root mean square step between evaluations of the last tenth."""
    steps = np.diff(_last_tenth(values, least=2), axis=1)
    return 0.5 * np.log2(np.mean(steps**2, axis=1))


def _last_tenth(values: np.ndarray, *, least: int) -> np.ndarray:
    """Returns the last tenth of the columns, and at least so many."""
    count = max(least, round(0.1 * values.shape[1]))
    return values[:, -count:]


class Claim(NamedTuple):
    """Holds one claim of a paper.

    Attributes:
      item: figure or table.
      text: the sentence, in our words.
      run: the archive, named as the config and its words.
      pairs: by label, two sides of which the paper says that the first is ahead; or four sides,
        where the first leads the second by more than the third leads the fourth.
      metric: the metric that is compared.
      statistic: what is computed from its values over rounds.
      target: a value of the metric. If set, the first rounds that reach it are compared in place of
        a statistic.
      part: names the rounds that the statistic is about, unless it is about the end.
      sign: -1 where less is better.
      scale: factor of the printed numbers.
      unit: unit of the printed numbers.
      ordered: whether the first is said to be ahead; otherwise the two are said to be equivalent.
      margin: differences up to it are equivalent, in `unit`; by default `MARGIN` times the value of
        the second side.
      shows: whether the run can show the claim. False where theory puts the effect at zero.
      note: text after the verdict.
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
    """Holds the difference of a pair over its seeds.

    Attributes:
      label: of the pair.
      difference: its mean.
      interval: half of the 95 % interval, Student's t; with tuning where near ties ran.
      p_value: two-sided, of no difference, likewise.
      margin: up to which the two are equivalent.
      note: behind the number.
    """

    label: str
    difference: float
    interval: float
    p_value: float
    margin: float
    note: str = ''

    def verdict(self, ordered: bool) -> str:
        """Returns the sign, if there is one; equivalent within the margin."""
        if ordered and self.p_value < LEVEL:
            return HOLDS if self.difference > 0 else REVERSED
        if abs(self.difference) + self.interval <= self.margin:
            return EQUIVALENT
        apart = abs(self.difference) - self.interval > self.margin
        return DIFFERENT if apart and not ordered else OPEN


@functools.cache
def read(run: str) -> Mapping[str, np.ndarray]:
    """Reads the columns of an archive."""
    return runs.read(ARCHIVES / run).columns


def course(run: str, side: Side, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns the evaluated rounds, and a row of values for each seed."""
    columns = read(run)
    is_side = columns['stage'] == 'main'
    is_side &= columns['algorithm'] == side.algorithm
    is_side &= columns['pattern'] == side.pattern
    seeds = np.unique(columns['seed'][is_side])
    rounds = np.unique(columns['round'][is_side])
    order = np.lexsort((columns['round'][is_side], columns['seed'][is_side]))
    values = columns[f'{side.model}/{metric}'][is_side][order]
    return rounds, values.reshape(len(seeds), len(rounds))


def outcomes(claim: Claim) -> Iterator[Outcome]:
    """Compares each pair of a claim."""
    for label, sides in claim.pairs.items():
        courses = [course(claim.run, side, claim.metric) for side in sides]
        if claim.target is not None:
            yield _waiting(claim, label, courses)
            continue
        values = [claim.scale * claim.statistic(*points) for points in courses]
        margin = claim.margin
        if margin is None:
            margin = MARGIN * abs(values[1].mean())
        differences = values[0] - values[1]
        if len(values) == 4:
            differences = differences - (values[2] - values[3])
        differences = claim.sign * differences
        mean, width = _interval(differences)
        p_value = evaluation.p_value(differences)
        tuned = _with_tuning(claim, sides)
        if tuned:
            assert np.isclose(claim.sign * claim.scale * tuned.mean, mean)
            width = claim.scale * float((tuned.wide or tuned).half_width)
            # As in reports, the interval that includes tuning has to exclude zero too.
            p_value = tuned.p_value if tuned.excludes_zero else 1.0
        yield Outcome(label, mean, width, p_value, margin)


def _with_tuning(claim: Claim, sides: tuple[Side, ...]) -> PairedDifference | None:
    """Compares final metrics, tuning included, if the archive has lanes of near ties."""
    is_of_ends = claim.statistic is final and len(sides) == 2
    if not is_of_ends or dataset.TIE not in read(claim.run)['stage']:
        return None
    view, final_metrics = _final_metrics(claim.run, claim.metric)
    first, second = (
        final_metrics.choices[side.pattern, side.algorithm, side.model]
        for side in sides
    )
    return view.difference(final_metrics.metric, first, second)


@functools.cache
def _final_metrics(
    run: str, metric: str
) -> tuple[run_view.RunView, run_view.FinalMetrics]:
    view = run_view.from_run(runs.read(ARCHIVES / run))
    return view, view.final_metrics(metric)


def _interval(differences: np.ndarray) -> tuple[float, float]:
    interval = evaluation.seed_interval(differences)
    return float(interval.mean), float(interval.half_width)


def first_rounds(rounds: np.ndarray, values: np.ndarray, target: float) -> np.ndarray:
    """Returns the first evaluated round that reaches a target, by row; infinite if none does."""
    reached = values >= target
    return np.where(reached.any(axis=1), rounds[reached.argmax(axis=1)], np.inf)


def _waiting(
    claim: Claim, label: str, courses: list[tuple[np.ndarray, np.ndarray]]
) -> Outcome:
    """Compares waiting times by their ratio, and its sign by ranks.

    A single seed that waits for most of a run would carry a mean difference of rounds, and its
    interval, alone. A seed that never reaches the target counts with the last round.
    """
    sign = claim.sign
    target = claim.sign * claim.target
    first, second = (
        first_rounds(rounds, sign * values, target) for rounds, values in courses
    )
    last = courses[0][0][-1]
    ratios = np.log2(np.minimum(second, last) / np.minimum(first, last))
    p_value = stats.wilcoxon(ratios).pvalue if ratios.any() else 1.0
    numbers_of_means = (
        first_rounds(rounds, sign * values.mean(axis=0)[None], target)[0]
        for rounds, values in courses
    )
    texts = [
        f'{number:.0f}' if np.isfinite(number) else 'never'
        for number in numbers_of_means
    ]
    note = f' ({np.sum(first < second)} of {len(first)} seeds; {", ".join(texts)})'
    margin = DOUBLING if claim.margin is None else claim.margin
    return Outcome(label, *_interval(ratios), float(p_value), margin, note)


def verdict(claim: Claim, pairs: Iterable[Outcome]) -> str:
    """Summarises the verdicts of all pairs: the one word, or how many of each."""
    if not claim.shows:
        return HIDDEN
    words = [outcome.verdict(claim.ordered) for outcome in pairs]
    counts = collections.Counter(words)
    text = words[0]
    if len(counts) > 1:
        text = ', '.join(
            f'{word} {count} of {len(words)}' for word, count in counts.items()
        )
    return text + claim.note


def shown(claim: Claim, pairs: Iterable[Outcome], survive: Iterable[bool]) -> str:
    """Writes the numbers of all pairs, with their unit and a star where they survive."""
    numbers = []
    for pair, survives in zip(pairs, survive, strict=True):
        star = ' *' if survives else ''
        difference = f'{pair.difference:+.2f} ± {pair.interval:.2f}'
        numbers.append(f'{pair.label} {difference}{star}{pair.note}'.strip())
    part = f'{claim.part}: ' if claim.part else ''
    return f'{part}{"; ".join(numbers)} {claim.unit}'


Judged = list[tuple[Claim, list[Outcome]]]


def judged(claims: Iterable[Claim]) -> Judged:
    """Pairs all claims with the outcomes of their pairs."""
    return [(claim, list(outcomes(claim))) for claim in claims]


def survivors(judgements: Judged) -> list[list[bool]]:
    """Returns by claim and pair whether it survives the correction for the table."""
    flags = iter(evaluation.benjamini_hochberg(_p_values(judgements), LEVEL).tolist())
    return [[next(flags) for _ in pairs] for _, pairs in judgements]


def _p_values(judgements: Judged) -> list[float]:
    """Lists the p-values of all pairs."""
    p_values = []
    for _, pairs in judgements:
        p_values += [pair.p_value for pair in pairs]
    return p_values


def rows(judgements: Judged, minutes: Mapping[str, str]) -> Iterator[str]:
    """Yields the lines of the table."""
    yield '| item | the paper says | run | difference here | verdict |'
    yield '| --- | --- | --- | --- | --- |'
    flags = survivors(judgements)
    for (claim, pairs), survive in zip(judgements, flags, strict=True):
        numbers = shown(claim, pairs, survive)
        text = verdict(claim, pairs)
        run = link(claim.run, minutes)
        yield f'| {claim.item} | {claim.text} | {run} | {numbers} | {text} |'


def link(run: str, minutes: Mapping[str, str]) -> str:
    """Links the report of a run, and says what it cost."""
    return f'[{run}](../studies/records/papers/{run}/report.md), {minutes[run]} min'


def summary(judgements: Judged) -> str:
    """Counts the differences of the table, those of chance, and those that survive."""
    p_values = np.array(_p_values(judgements))
    survive = sum(map(sum, survivors(judgements)))
    return (
        f'Of the {len(p_values)} differences, {np.sum(p_values < LEVEL)} have a p-value below '
        f'{LEVEL:g}. If all were zero, {LEVEL * len(p_values):.0f} would have one by chance. '
        f'{survive} survive Benjamini-Hochberg at {100 * LEVEL:.0f} %.'
    )
