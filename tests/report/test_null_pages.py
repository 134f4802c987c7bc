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

NUM_PAGES = 1000
NUM_PAIRS = 4
MAX_SEEDS = 12
METRIC = Metric('eval_accuracy', 'max')


def accuracies(rng, examples, spread):
    """Draws the accuracies of a baseline and of other algorithms, all by one law.

    Args:
      rng: of NumPy.
      examples: the number of examples on which they are measured.
      spread: standard deviation of an algorithm about the mean of its seed, in units of
        ``1 / examples``.

    Returns:
      float[algorithms, seeds], the baseline first.
    """
    common = rng.normal(0.7, 0.03, MAX_SEEDS)
    deviations = rng.normal(0.0, spread / examples, (1 + NUM_PAIRS, MAX_SEEDS))
    return (
        (np.rint(examples * (common + deviations)) / examples)
        .astype(np.float32)
        .astype(float)
    )


def seeds_until_decided(values, baseline, until):
    """Counts the seeds after which a pair is decided; all of them if it never is."""
    for num_seeds in looks(until['least'], len(values)):
        paired = student.paired(values[:num_seeds], baseline[:num_seeds])
        if evaluation.decide(paired).word != evaluation.UNDECIDED:
            return num_seeds
    return len(values)


def page_of(algorithms, until):
    """Makes the differences and verdicts of a page, as reports make them."""
    page = run_view.RunView('title', '', types.SimpleNamespace(attrs={'until': until}))
    baseline, *others = algorithms
    differences = []
    for values in others:
        num_seeds = len(values)
        if until:
            num_seeds = seeds_until_decided(values, baseline, until)
        choice = tuning_uncertainty.of_series(values[:num_seeds])
        of_baseline = tuning_uncertainty.of_series(baseline[:num_seeds])
        differences.append(page.difference(METRIC, choice, of_baseline))
    return differences, page.verdicts(differences)


def false_rates(pages):
    """Measures how often pages claim a difference.

    Returns:
      The fraction of pages with a ``**``; the fraction of verdicts that say "ahead" or "behind",
      "by itself" included; the fraction of pages with such a verdict that is corrected.
    """
    sides = evaluation.AHEAD, evaluation.BEHIND
    starred = []
    sided = []
    corrected = []
    for differences, verdicts in pages:
        starred.append(any(map(verdicts.survives, differences)))
        words = [verdicts.word(difference) for difference in differences]
        corrected.append(any(word in sides for word in words))
        sided += [word.startswith(sides) for word in words]
    return np.mean(starred), np.mean(sided), np.mean(corrected)


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
    starred, sided, corrected = false_rates(
        page_of(accuracies(rng, examples, spread), until) for _ in range(NUM_PAGES)
    )
    assert starred <= 0.05
    assert corrected == starred
    assert sided <= 0.05


@pytest.mark.parametrize('examples, spread, num_seeds', CASES)
def test_fixed_seeds_stars_and_verdicts_are_rarely_false(examples, spread, num_seeds):
    rng = np.random.default_rng(num_seeds)
    starred, sided, corrected = false_rates(
        page_of(accuracies(rng, examples, spread)[:, :num_seeds], {})
        for _ in range(NUM_PAGES)
    )
    # For independent normal differences, both have a probability of 5 %: a page has stars by
    # Benjamini-Hochberg, a verdict is ahead or behind by Student's t. Allow for the scatter.
    most = stats.binom.isf(1e-3, NUM_PAGES, 0.05) / NUM_PAGES
    assert starred <= most
    assert corrected == starred
    assert sided <= most
