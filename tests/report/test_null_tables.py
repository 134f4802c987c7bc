"""Printed tables of levels without any true difference: how often each guarantee fails."""

import itertools
import re

import numpy as np
import pytest

from fedjax_links import evaluation
from fedjax_links.report import layouts
from tests.report.null_runs import BASELINE, Accuracies, Null, fraction, max_false_rate

PAGES = 1000
SOME = 60  # of the default tier
MOST = 12  # seeds of a pair where they go on until decided
SIDED = evaluation.AHEAD, evaluation.BEHIND
NUMBERS = re.compile(
    r'(?P<mean>[+-]?[\d.]+) ± (?P<half>[\d.]+|inf)(?: \[(?P<wide>[\d.]+|inf)\])?'
)
OF_A_RELEASE = pytest.mark.release('test_a_fixed_number_of_seeds')
CASES = [*itertools.product((100, 10_000), (2, 3, 4, 5))]


def with_pages(cases, *default):
    """Makes parameters with a number of pages: few for default cases, all for all cases."""
    params = [pytest.param(*case, SOME) for case in default]
    for case in cases:
        marks = (pytest.mark.slow, OF_A_RELEASE)
        params.append(pytest.param(*case, PAGES, marks=marks))
    return params


def table(null, rng):
    """Draws a page; returns the printed level, difference and verdict of each algorithm."""
    printed, *_ = layouts.comparison(null.source(rng)).tables
    titles = 'eval accuracy', f'minus {BASELINE}', 'verdict'
    columns = [printed.header.index(title) for title in titles]
    return [tuple(row[column] for column in columns) for row in printed.rows]


def covers(text, truth):
    """Whether the widest printed interval holds the truth, in per cent; None without any."""
    match = NUMBERS.match(text)
    if not match:
        return None
    half_width = float(match['wide'] or match['half'])
    return abs(float(match['mean']) - 100 * truth) <= half_width


def claim_rates(null, pages, seed):
    """Measures how often what is printed is false, though nothing differs.

    Returns:
      By claim: ``starred`` and ``bare``, pages with a ``**``, and with a sided word that is not by
      itself; ``sided`` and ``starred by itself``, pairs with a sided word, and with a star;
      ``missed``, levels whose interval does not hold the truth.
    """
    rng = np.random.default_rng(seed)
    claims = []
    for _ in range(pages):
        levels, differences, verdicts = zip(*table(null, rng), strict=True)
        pairs = [text for text in differences if text]
        covered = [covers(text, null.law.level) for text in levels]
        sided = sum(verdict.startswith(SIDED) for verdict in verdicts)
        page = {
            'starred': any('**' in text for text in pairs),
            'bare': any(verdict in SIDED for verdict in verdicts),
            'sided': sided / max(len(pairs), 1),
            'starred by itself': fraction('*' in text for text in pairs),
            'missed': fraction(not each for each in covered if each is not None),
        }
        claims.append(page)
    return {
        claim: float(np.mean([page[claim] for page in claims])) for claim in claims[0]
    }


def check(rates, pages):
    """A false claim is as rare as 5 % may come out, and words say what stars do."""
    assert rates['bare'] == rates['starred']
    assert rates['sided'] == pytest.approx(rates['starred by itself'])
    assert max(rates.values()) <= max_false_rate(pages), rates


@pytest.mark.parametrize('examples, num_seeds, pages', with_pages(CASES, (100, 3)))
def test_a_fixed_number_of_seeds(examples, num_seeds, pages):
    null = Null(law=Accuracies(examples, 0.2), num_seeds=num_seeds)
    check(claim_rates(null, pages, seed=num_seeds), pages)


@pytest.mark.parametrize('examples, least, pages', with_pages(CASES, (100, 2)))
def test_seeds_until_decided(examples, least, pages):
    null = Null(law=Accuracies(examples, 0.2), num_seeds=MOST, min_seeds=least)
    check(claim_rates(null, pages, seed=least), pages)


@pytest.mark.parametrize('examples, num_seeds, pages', with_pages(CASES, (10_000, 3)))
def test_rates_tuned_with_other_seeds(examples, num_seeds, pages):
    law = Accuracies(examples, 0.2)
    null = Null(law=law, num_seeds=num_seeds, num_algorithms=3, tuning_seeds=2)
    check(claim_rates(null, pages, seed=num_seeds), pages)


@pytest.mark.parametrize('examples, least, pages', with_pages(CASES))
@pytest.mark.release('test_rates_tuned_with_other_seeds')
def test_rates_tuned_and_seeds_until_decided(examples, least, pages):
    law = Accuracies(examples, 0.2)
    null = Null(
        law=law, num_seeds=MOST, min_seeds=least, num_algorithms=3, tuning_seeds=3
    )
    check(claim_rates(null, pages, seed=least), pages)


@pytest.mark.parametrize('tuning_seeds, pages', with_pages([(0,), (2,)], (0,)))
def test_lanes_that_diverge_by_chance(tuning_seeds, pages):
    null = Null(
        law=Accuracies(100, 0.2), num_seeds=4, tuning_seeds=tuning_seeds, diverging=0.02
    )
    check(claim_rates(null, pages, seed=1), pages)


EFFECTS = {
    'five seeds': {'num_seeds': 5},
    'two or more seeds until decided': {'num_seeds': MOST, 'min_seeds': 2},
    'tuned': {'num_seeds': 5, 'tuning_seeds': 3},
}


@pytest.mark.parametrize(
    'name, pages', with_pages([(name,) for name in EFFECTS], ('five seeds',))
)
def test_a_difference_of_five_deviations_is_found_and_no_other(name, pages):
    law = Accuracies(10_000, 0.2)
    rng = np.random.default_rng(2)
    deviation = (
        2 * law.independent_fraction * law.level * (1 - law.level) / law.examples
    ) ** 0.5
    null = Null(law=law, num_algorithms=4, gain=5 * deviation, **EFFECTS[name])
    results = []
    false = []
    held = []
    for _ in range(pages):
        *others, (_, difference, word) = table(null, rng)
        starred = difference.endswith('**')
        assert starred == (word == evaluation.AHEAD)
        # A pair that gets seeds until it is decided stops there: few are left for others' sake.
        results.append(word.startswith(evaluation.AHEAD) if null.min_seeds else starred)
        num_false = sum('**' in text for _, text, _ in others)
        false.append(num_false / max(num_false + starred, 1))
        held.append(covers(difference, null.gain))
    assert np.mean(results) >= 0.9
    assert np.mean(false) <= max_false_rate(pages)
    assert 1 - np.mean(held) <= max_false_rate(pages)


@pytest.mark.parametrize('least, pages', with_pages([(2,), (3,), (4,), (5,)], (3,)))
def test_what_differs_by_the_margin_is_rarely_alike(least, pages):
    law = Accuracies(10_000, 0.2)
    rng = np.random.default_rng(least)
    null = Null(
        law=law, num_algorithms=2, num_seeds=20, min_seeds=least, margin=0.01, gain=0.01
    )
    words = [table(null, rng)[-1][-1] for _ in range(pages)]
    assert fraction(word == evaluation.EQUIVALENT for word in words) <= max_false_rate(
        pages
    )
    same = Null(law=law, num_algorithms=2, num_seeds=20, min_seeds=least, margin=0.01)
    words = [table(same, rng)[-1][-1] for _ in range(SOME)]
    assert fraction(word == evaluation.EQUIVALENT for word in words) >= 0.9
