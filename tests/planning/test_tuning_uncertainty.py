"""What tuning might have chosen, against Student's t and against planted scores.

A share of the 2,000 draws of a choice has a standard error of at most 0.5 / sqrt(2000); four are
allowed.
"""

import types

import numpy as np
import pytest
from scipy import stats

from fedjax_links import (
    algorithms,
    evaluation,
    experiment,
    local_training,
    participation,
    problems,
)
from fedjax_links.planning import trials, tuning_uncertainty
from fedjax_links.planning.tuning import SearchState
from fedjax_links.report import layouts, run_view
from fedjax_links.results.metric import Metric

SHARE_BOUND = 4 * 0.5 / 2000**0.5


def tuning_trials(by_seed, ties):
    """Trials of values by seed, [K, S], of which tuning chose the first, with near ties."""
    scores = np.array(by_seed, float)
    positions = np.ones(len(scores), bool)
    state = SearchState(np.ones(scores.shape, bool), (0,), positions)
    columns = {'rate': np.arange(len(scores), dtype=float)}
    means = scores.mean(axis=1)
    return trials.TuningTrials(
        'links', {}, columns, means, scores, 0, positions, np.array(ties, int), state
    )


def shares_by_hand(scores, rng, count=200_000):
    """Shares in which each of K values is best if its mean over S seeds has a t law, float[K]."""
    seeds = scores.shape[1]
    shape = np.cov(scores) / seeds
    samples = stats.multivariate_t(
        scores.mean(axis=1), shape, seeds - 1, allow_singular=True
    )
    winners = samples.rvs(count, rng).argmax(axis=1)
    return np.bincount(winners, minlength=len(scores)) / count


def test_shares_are_those_of_students_t(rng):
    scores = np.array(
        [[3.0, 1.0, 2.5, 1.9], [1.0, 3.0, 2.0, 1.5], [0.0, 2.9, 2.9, 1.0]]
    )
    near = {1: np.zeros(4), 2: np.ones(4)}
    result = tuning_uncertainty.of_series(
        np.full(4, 2.0), tuning_trials(scores, [2, 1]), near, 'max'
    )
    expected = shares_by_hand(scores[[0, 2, 1]], rng)
    np.testing.assert_allclose(result.shares, expected, atol=SHARE_BOUND)
    np.testing.assert_array_equal(result.values[:, 0], [2.0, 1.0, 0.0])
    smaller = tuning_uncertainty.of_series(
        np.full(4, 2.0), tuning_trials(-scores, [2, 1]), near, 'min'
    )
    np.testing.assert_array_equal(smaller.picks, result.picks)


@pytest.mark.parametrize('num_seeds', [2, 3, 10])
def test_of_two_equal_values_the_other_has_a_quarter(num_seeds, rng):
    """A one-sided p-value is uniform, and the smaller of both sides a quarter in the mean.

    That smaller one is uniform up to 0.5; its mean over 400 pairs is compared at four deviations.
    """
    shares = []
    for scores in rng.normal(size=(400, 2, num_seeds)):
        scores = scores[np.argsort(-scores.mean(axis=1))]
        result = tuning_uncertainty.of_series(
            np.zeros(2), tuning_trials(scores, [1]), {1: np.ones(2)}, 'max'
        )
        shares.append(result.shares[1])
    assert np.mean(shares) == pytest.approx(0.25, abs=4 * 0.5 / 12**0.5 / 400**0.5)


def test_seeds_of_tuning_that_diverged_are_left_out():
    scores = np.array([[3.0, np.nan, 1.0, 2.5], [1.0, 3.0, 3.0, 2.0]])
    near = {1: np.zeros(2)}
    result = tuning_uncertainty.of_series(
        np.ones(2), tuning_trials(scores, [1]), near, 'max'
    )
    one, other = scores[:, [0, 2, 3]]
    expected = stats.ttest_1samp(one - other, 0.0, alternative='greater').pvalue
    assert result.shares[1] == pytest.approx(expected, abs=SHARE_BOUND)


def test_without_near_ties_nothing_is_added():
    values = np.array([1.0, 2.0, 4.0])
    for entry, near in ((None, {}), (tuning_trials([[1.0, 1.0], [0.0, 0.0]], [1]), {})):
        result = tuning_uncertainty.of_series(values, entry, near, 'max')
        assert result.interval_with_tuning() == evaluation.seed_interval(values)


def test_algorithms_that_share_seeds_of_tuning_choose_together():
    """Both have the same scores, so they always choose the same, and their difference stays."""
    scores = [[2.0, 0.0, 1.1], [0.0, 2.0, 1.0]]
    near = {1: np.array([5.0, 6.0])}
    one = tuning_uncertainty.of_series(
        np.array([1.0, 2.0]), tuning_trials(scores, [1]), near, 'max'
    )
    other = tuning_uncertainty.of_series(
        np.array([11.0, 12.0]), tuning_trials(scores, [1]), near, 'max'
    )
    rows, shares = one.paired_difference(other)
    assert rows.tolist() == [[-10.0, -10.0], [0.0, 0.0]]
    np.testing.assert_allclose(shares, one.shares)


def test_a_pair_has_the_seeds_that_both_have():
    one = tuning_uncertainty.of_series(np.arange(5.0), None, {}, 'max')
    other = tuning_uncertainty.of_series(np.ones(3), None, {}, 'max')
    np.testing.assert_array_equal(one.paired_difference(other)[0], [[-1.0, 0.0, 1.0]])


@pytest.mark.parametrize('count', [3, 8])
def test_an_interval_covers_the_draw_of_a_choice_as_claimed(count, rng):
    """Rows drawn by their shares, and means about them by Student's t law."""
    shares = np.array([0.6, 0.3, 0.1])
    rows = rng.normal(size=(3, count)) + np.array([[0.0], [1.0], [-2.5]])
    result = evaluation.chosen_interval(rows, shares, level=0.9)
    samples = rng.choice(3, p=shares, size=200_000)
    errors = stats.sem(rows, axis=1)
    means = rows.mean(axis=1)[samples] + errors[samples] * rng.standard_t(
        count - 1, size=samples.size
    )
    inside = np.abs(means - rows[0].mean()) <= result.half_width
    assert inside.mean() == pytest.approx(0.9, abs=4 * 0.3 / samples.size**0.5)
    p_value = 2 * min(np.mean(means <= 0), np.mean(means >= 0))
    assert evaluation.p_value(rows, shares) == pytest.approx(p_value, abs=0.01)


def test_of_one_row_the_p_value_is_that_of_students_t_test(rng):
    values = rng.normal(0.5, 1.0, 6)
    expected = stats.ttest_1samp(values, 0.0).pvalue
    assert evaluation.p_value(values) == pytest.approx(expected)
    assert evaluation.p_value([0.0, 0.0]) == 1.0
    assert evaluation.p_value([0.3, 0.3]) == 0.5
    assert evaluation.p_value([-0.3] * 6) == 1 / 32
    assert evaluation.p_value([3.0]) == 1.0
    assert np.isnan(evaluation.p_value([np.nan, 1.0]))


@pytest.mark.parametrize('diverged', [np.nan, np.inf, -np.inf])
def test_what_may_well_be_chosen_and_diverged_has_no_bound(diverged):
    result = evaluation.chosen_interval([[1.0, 1.1], [diverged, 1.0]], [0.8, 0.2])
    assert result.half_width == np.inf
    rarely = evaluation.chosen_interval([[1.0, 1.1], [diverged, 1.0]], [0.99, 0.01])
    assert 0 < rarely.half_width < np.inf


def test_equal_values_of_all_choices_have_no_interval_width():
    result = evaluation.chosen_interval(np.ones((2, 6)), [0.8, 0.2])
    assert (result.mean, result.half_width) == (1.0, 0.0)


@pytest.mark.parametrize('share', [0.0, 0.01, 0.5])
def test_signs_do_not_matter_where_a_choice_diverged(share):
    rows = np.array([[1.0, 1.1, 0.9, 1.0], [np.nan] * 4])
    shares = [1 - share, share]
    result = evaluation.p_value(rows, shares)
    assert result == pytest.approx(evaluation.p_value(-rows, shares))
    alone = evaluation.p_value(rows[:1])
    assert result == pytest.approx(min(1.0, (1 - share) * alone + 2 * share))


def at_rate(make):
    def maker(learning_rate):
        return make(local_training.local_sgd(learning_rate, local_steps=3))

    return maker


def planted(**options):
    """Two algorithms whose rates three seeds of tuning cannot tell apart."""
    return experiment.Experiment(
        title='Near',
        problem=problems.quadratic(np.array([[0.0], [1.0], [4.0], [9.0]])),
        patterns={'some': participation.bernoulli(np.array([0.4, 0.9, 0.5, 0.7]))},
        algorithms={
            'fedavg': at_rate(algorithms.fedavg),
            'fedpbc': at_rate(algorithms.fedpbc),
        },
        num_rounds=8,
        eval_every=4,
        seeds=range(4),
        metric='distance',
        tuning=experiment.Tuning(
            grid={'learning_rate': [0.1, 0.2, 0.3]}, num_seeds=3, **options
        ),
    )


def test_an_algorithm_that_diverged_is_behind_others():
    """Local steps of rate 30 multiply the distance by 29^3 in each round, beyond float32."""
    rates = {'slow': 0.1, 'fast': 30.0, 'fast again': 30.0, 'slow again': 0.1}
    planned = experiment.Experiment(
        title='Diverged',
        problem=problems.quadratic(np.array([[0.0], [1.0]])),
        patterns={'all': participation.always(2)},
        algorithms={label: at_rate_of(rate) for label, rate in rates.items()},
        num_rounds=12,
        eval_every=12,
        seeds=range(2),
        metric='distance',
    )
    orders = experiment.tuning_noise(planned.run())
    assert {(order.first, order.second): order.ahead for order in orders} == {
        ('slow', 'fast'): 1,
        ('slow', 'fast again'): 1,
        ('slow', 'slow again'): 0,
        ('fast', 'fast again'): 0,
        ('fast', 'slow again'): 0,
        ('fast again', 'slow again'): 0,
    }


def at_rate_of(rate):
    def maker():
        return algorithms.fedavg(local_training.local_sgd(rate, local_steps=3))

    return maker


@pytest.mark.slow
def test_tuning_noise_is_that_of_choices_drawn_by_hand():
    """Shares of 2,000 draws on both sides: 0.05 is 3.2 standard errors of their difference."""
    run = planted().run()
    (order,) = experiment.tuning_noise(run, tail=0.5)
    # By algorithm and rate, in order: the scores of tuning by seed, and the mean final metric of
    # the rates that have one, those that tuning chose and their near ties.
    is_fedavg = []
    scores = []
    means = []
    for label, model in (('fedavg', 'server'), ('fedpbc', 'client_mean')):
        final_metric = run[f'{model}/distance']
        score = np.minimum(run['server/distance'], final_metric)
        rows = (run['algorithm'] == label) & (run['round'] == 8)
        for rate in np.unique(run['learning_rate'][rows]):
            at_rate = rows & (run['learning_rate'] == rate)
            is_tuning = run['stage'] == 'tuning'
            if (at_rate & ~is_tuning).any():
                is_fedavg.append(label == 'fedavg')
                scores.append(score[at_rate & is_tuning])
                means.append(final_metric[at_rate & ~is_tuning].mean())
    assert len(means) > 2
    is_fedavg = np.array(is_fedavg)
    means = np.array(means)
    law = stats.multivariate_t(
        np.mean(scores, axis=1), np.cov(scores) / 3, 2, allow_singular=True, seed=1
    )
    num_ahead = 0
    for samples in law.rvs(2000):
        # Each algorithm takes its rate with the smallest sampled distance.
        fedavg = means[is_fedavg][samples[is_fedavg].argmin()]
        fedpbc = means[~is_fedavg][samples[~is_fedavg].argmin()]
        num_ahead += fedavg < fedpbc
    assert (order.first, order.second, order.pattern) == ('fedavg', 'fedpbc', 'some')
    assert order.ahead == pytest.approx(num_ahead / 2000, abs=0.05)


@pytest.mark.slow
def test_a_report_shows_both_intervals_and_judges_by_the_wider():
    table = layouts.comparison(run_view.from_run(planted().run())).tables[0]
    fedavg, server, clients = (
        dict(zip(table.header, row, strict=True)) for row in table.rows
    )
    assert 'in brackets' in table.caption
    assert all('[' in row['distance'] for row in (fedavg, server))
    assert clients['distance'] == '0'  # in all of four seeds, which tell no spread
    assert fedavg['verdict'] == ''
    known = {'ahead', 'behind', 'ahead, by itself', 'behind, by itself', 'not decided'}
    assert {row['verdict'] for row in (server, clients)} <= known
    without = planted(ties=0).run()
    assert (without['stage'] != 'tie').all()
    plain = layouts.comparison(run_view.from_run(without)).tables[0]
    assert not any('[' in cell for row in plain.rows for cell in row)
    assert 'in brackets' not in plain.caption


def choice(rng, *means):
    """Levels of 5 seeds around some means, the first of which tuning chose half of the times."""
    values = rng.normal(size=(len(means), 5)) * 0.01 + np.array(means)[:, None]
    return tuning_uncertainty.Choice(values, np.arange(2000) % len(means))


def difference(metric, one, other, margin=0.0, **until):
    page = run_view.RunView('title', '', types.SimpleNamespace(attrs={'until': until}))
    return page.difference(metric, one, other, margin)


def test_a_verdict_goes_by_the_wider_interval(rng):
    metric = Metric('eval_accuracy', 'max')
    base = choice(rng, 0.5)
    ahead = choice(rng, 0.6)
    torn = choice(rng, 0.6, 0.4)
    plain = difference(metric, ahead, base)
    assert (plain.word, plain.wide) == ('ahead', None)
    assert plain.excludes_zero
    wide = difference(metric, torn, base)
    assert (wide.word, wide.excludes_zero) == ('not decided', False)
    assert wide.half_width < abs(wide.mean) < wide.wide.half_width
    near = difference(metric, choice(rng, 0.5), base, 0.1)
    assert near.word == 'equivalent'
    loss = difference(Metric('loss', 'min'), ahead, base)
    assert loss.word == 'behind'
    early = difference(
        metric, ahead._replace(values=ahead.values[:, :3]), base, level=0.95
    )
    assert (early.word, early.half_width) == ('not decided', np.inf)
