"""Label noise: rates in standard errors, and what is left alone."""

import re

import jax
import numpy as np
import pytest

from fedjax_links import analysis, problems

LIMIT = 4.5
DRAWS = 60_000

LABELS = np.random.default_rng(0).integers(4, size=DRAWS)
OWNERS = np.arange(DRAWS) % 3


def assert_rate(hits, rate):
    """A frequency within `LIMIT` standard errors of its probability."""
    assert abs(np.mean(hits) - rate) <= LIMIT * np.sqrt(rate * (1 - rate) / len(hits))


@pytest.mark.statistical
@pytest.mark.parametrize('rate', [0.3, 0, 1])
def test_labels_follow_the_confusion(rate):
    table = analysis.symmetric_confusion(rate, 4)
    noisy = problems.label_noise(jax.random.key(0), LABELS, num_classes=4, rate=rate)
    assert noisy.dtype == np.int32
    for true in range(4):
        for label in range(4):
            assert_rate(noisy[true == LABELS] == label, table[true, label])


@pytest.mark.statistical
def test_rates_by_client():
    rates = [0.0, 0.5, 0.2]
    noisy = problems.label_noise(
        jax.random.key(0), LABELS, num_classes=4, clients=OWNERS, rate=rates
    )
    for client, rate in enumerate(rates):
        own = client == OWNERS
        assert_rate(noisy[own] != LABELS[own], rate)
        assert_rate(noisy[own] == (LABELS[own] + 1) % 4, rate / 3)


def test_it_is_a_function_of_the_key_and_grows_with_the_rate():
    def noisy(seed, rate):
        return problems.label_noise(jax.random.key(seed), LABELS, num_classes=4, rate=rate)

    low, high = noisy(0, 0.1), noisy(0, 0.4)
    np.testing.assert_array_equal(low, noisy(0, 0.1))
    assert not np.array_equal(low, noisy(1, 0.1))
    np.testing.assert_array_equal(high[low != LABELS], low[low != LABELS])


def shared(**noise):
    """Every kind of classification problem, clean and noisy."""
    images = {'dataset': 'synthetic_images', 'num_clients': 4, 'model': 'softmax', 'alpha': 10.0}
    images['data'] = {'num_train': 400, 'num_test': 200}
    return {
        'digits': problems.digits(num_clients=4, alpha=10.0, **noise),
        'images': problems.images(**images, **noise),
        'gaussians': problems.gaussians(num_clients=4, examples_per_client=300, **noise),
        'synthetic': problems.synthetic(num_clients=4, max_examples=400, **noise),
    }


@pytest.mark.statistical
def test_every_classification_problem_takes_the_same_section():
    clean, train, both = (
        shared(),
        shared(label_noise={'rate': 0.4}),
        shared(label_noise={'rate': np.linspace(0.2, 0.4, 4).tolist(), 'test': True}),
    )
    for name, problem in clean.items():
        for noisy, rate in ((train[name], 0.4), (both[name], 0.3)):
            np.testing.assert_array_equal(problem.data.features, noisy.data.features)
            if name != 'images':  # equal volumes, so that the mean rate is the clients' mean
                changed = np.asarray(problem.data.labels != noisy.data.labels)
                weights = np.asarray(problem.counts) / len(changed)
                mean = rate if noisy is train[name] else np.linspace(0.2, 0.4, 4) @ weights
                assert_rate(changed, mean)
        unchanged = np.asarray(problem.eval_data.labels)
        np.testing.assert_array_equal(unchanged, train[name].eval_data.labels)
        assert_rate(unchanged != np.asarray(both[name].eval_data.labels), 0.3)
    known = both['gaussians'].attainable
    np.testing.assert_allclose(float(known['clean_accuracy']), 0.75, atol=1e-12)
    np.testing.assert_allclose(float(known['accuracy']), 0.75 * 0.7 + 0.25 * 0.3 / 9, atol=1e-12)
    assert train['gaussians'].attainable['accuracy'] == pytest.approx(0.75, abs=1e-12)


@pytest.mark.parametrize(
    'section, message',
    [
        ({'rat': 0.1}, "`label_noise` has no 'rat'; did you mean 'rate'?"),
        ({'rate': 1.2}, '`label_noise.rate` must lie in [0, 1], got 1.2.'),
        (
            {'rate': [0.1, 0.2]},
            '`label_noise.rate` must be a number, or one for each of 4 clients, got [0.1, 0.2].',
        ),
        ({'test': True}, '`label_noise.rate` must be given, got None.'),
        ({'rate': 0.1, 'test': 1}, '`label_noise.test` must be True or False, got 1.'),
    ],
)
def test_sections_that_say_no_noise_are_refused(section, message):
    with pytest.raises(ValueError, match=f'^{re.escape(message)}$'):
        problems.digits(num_clients=4, label_noise=section)
