"""Verdicts and p-values that hold whenever they are looked at, after any number of seeds."""

import functools

import jax
import numpy as np
import pytest
from scipy import integrate, special, stats

import fedjax_links as fl
from fedjax_links import evaluation, local_training, participation, problems
from tests import refusals


def ratio_by_quadrature(values):
    """The mixture likelihood over that of mean zero, both integrated over the scale.

    Effects, means in units of the scale, have the normal prior of deviation 2 that `decide` takes.
    """

    def density(log_scale, effect):
        scale = np.exp(log_scale)
        return np.exp(stats.norm.logpdf(values, effect * scale, scale).sum())

    at_zero = integrate.quad(lambda u: density(u, 0.0), -8, 8)[0]
    prior = stats.norm(0, 2.0).pdf
    mixed = integrate.dblquad(lambda u, d: prior(d) * density(u, d), -12, 12, -8, 8)[0]
    return mixed / at_zero


@pytest.mark.slow
@pytest.mark.parametrize('count', [4, 7])
def test_the_interval_ends_where_the_mixture_refuses_a_mean(count, rng):
    values = rng.normal(0.3, 1.0, count)
    result = evaluation.decide(values)
    for end in (result.mean - result.half_width, result.mean + result.half_width):
        # A mean is refused at a ratio of 1 / 0.05.
        np.testing.assert_allclose(ratio_by_quadrature(values - end), 20, rtol=1e-5)


def verdicts(sequences, least, most, **options):
    """The last verdict of each sequence that is looked at after every seed until it has one."""
    results = []
    for values in sequences:
        for count in range(least, most + 1):
            word = evaluation.decide(values[:count], **options).word
            if word != evaluation.UNDECIDED:
                break
        results.append(word)
    return np.array(results)


DRAWS = {
    'normal': lambda rng, size: rng.normal(size=size),
    'heavy tails': lambda rng, size: rng.standard_t(4, size=size),
    'skewed': lambda rng, size: rng.gamma(4.0, size=size) - 4.0,
}


def num_sided(sequences, least, most):
    """How many of the sequences end ahead or behind, which is false where nothing differs."""
    sided = (evaluation.AHEAD, evaluation.BEHIND)
    return np.isin(verdicts(sequences, least, most), sided).sum()


def exceeds_chance(count, num_trials, rate):
    """Whether a count is above what chance exceeds one time in a thousand."""
    return count > stats.binom.isf(1e-3, num_trials, rate)


@pytest.mark.slow
@pytest.mark.parametrize('law', DRAWS)
def test_a_thousand_nulls_give_few_false_verdicts(law):
    sequences = DRAWS[law](np.random.default_rng(7), (1000, 50))
    num_false = num_sided(sequences, 5, 50)
    assert num_false <= 50
    if law == 'normal':  # where the bound is a theorem
        assert not exceeds_chance(num_false, 1000, 0.05)


def test_looking_often_with_a_fixed_interval_would_not_do():
    """The test above would see it: Student's t after each of 5 to 50 seeds."""
    sequences = DRAWS['normal'](np.random.default_rng(7), (1000, 50))
    counts = np.arange(5, 51)
    quantiles = special.stdtrit(counts - 1, 0.975)
    num_false = 0
    for values in sequences:
        means = np.cumsum(values)[4:] / counts
        squares = np.cumsum(values**2)[4:] - counts * means**2
        errors = np.sqrt(squares / (counts - 1) / counts)
        num_false += (abs(means) > quantiles * errors).any()
    assert exceeds_chance(num_false, 1000, 0.05)


def test_within_a_margin_differences_are_found_alike(rng):
    """At a mean that is the margin itself, 5 % are falsely so; at zero, nearly all are."""
    at_margin = verdicts(rng.normal(1.0, 1.0, (300, 60)), 5, 60, margin=1.0)
    assert (at_margin == evaluation.EQUIVALENT).sum() <= 15
    at_zero = verdicts(rng.normal(0.0, 0.3, (50, 60)), 5, 60, margin=1.0)
    assert (at_zero == evaluation.EQUIVALENT).sum() >= 48


def test_what_does_not_vary_is_decided_by_six_seeds():
    """So many fair signs agree in 1 of 32 cases, five in 1 of 16."""
    assert evaluation.decide([0.0] * 6) == (evaluation.EQUIVALENT, 0.0, 0.0, 6)
    assert evaluation.decide([-2.0] * 6).word == evaluation.BEHIND
    assert evaluation.decide([5.0]) == (evaluation.UNDECIDED, 5.0, np.inf, 1)
    for count in range(2, 6):
        for value in (0.0, -2.0):
            result = evaluation.decide([value] * count)
            assert result == (evaluation.UNDECIDED, value, np.inf, count)
    jitter = [0.01, 0.01 + 1e-9]  # of single precision
    assert evaluation.decide(jitter).half_width == np.inf
    assert evaluation.decide([0.1] * 4, level=0.8).word == evaluation.AHEAD
    assert evaluation.decide([0.1] * 9, level=0.999).word == evaluation.UNDECIDED
    assert evaluation.decide([5.0, 5.1, 5.0]).half_width == np.inf
    assert evaluation.decide([5.0] * 9 + [5.1], level=1.0).word == evaluation.UNDECIDED


@pytest.mark.slow
@pytest.mark.parametrize('count', [4, 7])
def test_the_p_value_is_one_over_the_mixture_ratio(count, rng):
    values = rng.normal(1.0, 1.0, count)
    expected = min(1.0, 1 / ratio_by_quadrature(values))
    assert evaluation.anytime_p_value(values) == pytest.approx(expected, rel=1e-5)


def test_a_verdict_comes_where_the_p_value_is_small(rng):
    for values in rng.normal(0.7, 1.0, (50, 9)):
        is_sided = evaluation.decide(values).word in (
            evaluation.AHEAD,
            evaluation.BEHIND,
        )
        assert is_sided == (evaluation.anytime_p_value(values) < 0.05)
    assert evaluation.anytime_p_value([0.2]) == 1.0
    assert evaluation.anytime_p_value([0.2, 0.2]) == 0.5
    assert evaluation.anytime_p_value([0.0] * 9) == 1.0
    assert np.isnan(evaluation.anytime_p_value([0.2, np.nan]))


@pytest.mark.parametrize('diverged', [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize('indices', [[0], [3], slice(None)])
@pytest.mark.filterwarnings('error')
def test_a_run_that_diverged_decides_nothing(diverged, indices):
    """Infinity is no value that six seeds could agree on, and warns of nothing."""
    values = np.full(6, 0.3)
    values[indices] = diverged
    baseline = np.full(6, 0.2)
    paired = evaluation.paired_interval(values, baseline)
    assert np.isnan(paired.half_width)
    assert not paired.excludes_zero
    assert np.isnan(evaluation.seed_interval(values).half_width)
    assert evaluation.decide(values).word == evaluation.UNDECIDED
    assert np.isnan(evaluation.anytime_p_value(values))
    assert np.isnan(evaluation.p_value(values))


def test_looked_at_after_every_seed_a_p_value_is_rarely_small():
    """However small a level, with which corrections for many comparisons compare."""
    least = np.ones(1000)
    for index, values in enumerate(np.random.default_rng(3).normal(size=(1000, 15))):
        p_values = [evaluation.anytime_p_value(values[:n]) for n in range(2, 16)]
        least[index] = min(p_values)
    for level in (0.05, 0.01, 0.002):
        assert not exceeds_chance((least <= level).sum(), 1000, level)


@pytest.mark.parametrize('steps', [0.5, 1.0])
def test_coarse_metrics_give_few_false_verdicts(steps):
    """Differences of accuracies move in steps of one test example, so that some are equal."""
    draws = np.random.default_rng(11).normal(0.0, steps, (1000, 12))
    assert num_sided(np.rint(draws), 2, 12) <= 50


@pytest.mark.parametrize(
    'field, arguments',
    [
        ('differences', {'differences': []}),
        ('differences', {'differences': [[1.0, 2.0]]}),
        ('margin', {'margin': -1.0}),
        ('level', {'level': 1.5}),
    ],
)
def test_refused(field, arguments):
    with refusals.names(field):
        evaluation.decide(**{'differences': [1.0, 2.0], **arguments})


@pytest.mark.slow
@pytest.mark.optimised
def test_a_thousand_null_sweeps_give_few_false_verdicts():
    """Two runs of one algorithm with seeds of their own differ by chance alone."""
    probs = np.array([0.5, 0.3])
    targets = np.array([[0.0], [100.0]])
    client = local_training.local_sgd(learning_rate=0.02, local_steps=2)
    run = functools.partial(
        fl.sweep,
        lambda: fl.ALGORITHMS['fedavg'](client),
        lambda: participation.bernoulli(probs),
        problems.quadratic(targets),
        num_rounds=30,
        eval_fn=lambda params, key, problem: params[0],
        batching='vmap',
    )
    ends = run(seeds=range(100_000)).evals['server'][0, :, -1]
    one, other = np.asarray(jax.device_get(ends), float).reshape(2, 1000, 50)
    assert num_sided(one - other, 5, 50) <= 50
