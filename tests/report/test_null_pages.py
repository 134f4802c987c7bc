"""Pages without any true difference: how often each printed guarantee fails."""

import types

import numpy as np
import pytest
from scipy import stats

from fedjax_links import evaluation
from fedjax_links.core import student
from fedjax_links.planning import tuning_uncertainty
from fedjax_links.planning.sequential_seeds import looks
from fedjax_links.report import run_view
from fedjax_links.results.metric import Metric

PAGES = 1000
PAIRS = 4
MOST = 12
METRIC = Metric('eval_accuracy', 'max')


def accuracies(rng, examples, spread):
    """Accuracies of a baseline and others on a page, by seed: all have the same law.

    Args:
      rng: of NumPy.
      examples: on which they are measured.
      spread: standard deviation of an algorithm about what all have in common, in steps of
        ``1 / examples``.
    """
    common = rng.normal(0.7, 0.03, MOST)
    deviations = rng.normal(0.0, spread / examples, (1 + PAIRS, MOST))
    return (
        (np.rint(examples * (common + deviations)) / examples)
        .astype(np.float32)
        .astype(float)
    )


def page_of(levels, until):
    """Differences and verdicts of a page, as reports make them."""
    page = run_view.RunView('title', '', types.SimpleNamespace(attrs={'until': until}))
    base, *others = levels
    results = []
    for values in others:
        num_seeds = len(values)
        if until:
            for num_seeds in looks(until['least'], len(values)):
                paired = student.paired(values[:num_seeds], base[:num_seeds])
                if evaluation.decide(paired).word != evaluation.UNDECIDED:
                    break
        one = tuning_uncertainty.of_series(values[:num_seeds])
        other = tuning_uncertainty.of_series(base[:num_seeds])
        results.append(page.difference(METRIC, one, other))
    return results, page.verdicts(results)


def rates(pages):
    """Measures how often false claims are made.

    Returns:
      The fraction of pages with a ``**``; the fraction of verdicts with a side, corrected or "by
      itself"; the fraction of pages with a corrected one.
    """
    sides = evaluation.AHEAD, evaluation.BEHIND
    starred = []
    sided = []
    bare = []
    for result, verdicts in pages:
        starred.append(any(map(verdicts.survives, result)))
        words = [verdicts.word(each) for each in result]
        bare.append(any(word in sides for word in words))
        sided += [word.startswith(sides) for word in words]
    return np.mean(starred), np.mean(sided), np.mean(bare)


OF_A_RELEASE = pytest.mark.release(
    'test_fixed_seeds_stars_and_verdicts_are_rarely_false'
)


def of_a_release(*values):
    return pytest.param(*values, marks=(pytest.mark.slow, OF_A_RELEASE))


CASES = [
    (100, 0.7, 3),
    of_a_release(100, 0.3, 2),
    of_a_release(100, 0.5, 2),
    of_a_release(100, 1.0, 4),
    of_a_release(100, 3.0, 5),
    of_a_release(10_000, 0.7, 2),
    of_a_release(10_000, 20.0, 2),
    of_a_release(10_000, 20.0, 3),
    of_a_release(10_000, 20.0, 5),
]


@pytest.mark.slow
@pytest.mark.parametrize('examples, spread, least', CASES)
def test_until_decided_stars_and_verdicts_are_rarely_false(examples, spread, least):
    rng = np.random.default_rng(least)
    until = {'least': least, 'level': 0.95, 'margin': 0.0}
    starred, sided, bare = rates(
        page_of(accuracies(rng, examples, spread), until) for _ in range(PAGES)
    )
    assert starred <= 0.05
    assert bare == starred
    assert sided <= 0.05


@pytest.mark.parametrize('examples, spread, num_seeds', CASES)
def test_fixed_seeds_stars_and_verdicts_are_rarely_false(examples, spread, num_seeds):
    rng = np.random.default_rng(num_seeds)
    starred, sided, bare = rates(
        page_of(accuracies(rng, examples, spread)[:, :num_seeds], {})
        for _ in range(PAGES)
    )
    # Of independent normal differences both are false with a probability of just 5 %: stars by
    # Benjamini-Hochberg of a page without a difference, words by Student's t of one pair.
    most = stats.binom.isf(1e-3, PAGES, 0.05) / PAGES
    assert starred <= most
    assert bare == starred
    assert sided <= most
