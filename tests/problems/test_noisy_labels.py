"""Label noise: rates in standard errors, and what is left alone."""

import re

import jax
import numpy as np
import pytest

from fedjax_links import problems

LIMIT = 4.5
DRAWS = 60_000

LABELS = np.random.default_rng(0).integers(4, size=DRAWS)


def assert_rate(hits, rate):
    """A frequency within `LIMIT` standard errors of its probability."""
    assert abs(np.mean(hits) - rate) <= LIMIT * np.sqrt(rate * (1 - rate) / len(hits))


@pytest.mark.statistical
@pytest.mark.parametrize('rate', [0.3, 0, 1])
def test_labels_follow_the_confusion(rate):
    table = np.where(np.eye(4, dtype=bool), 1 - rate, rate / 3)
    noisy = problems.label_noise(jax.random.key(0), LABELS, num_classes=4, rate=rate)
    assert noisy.dtype == np.int32
    for true in range(4):
        for label in range(4):
            assert_rate(noisy[true == LABELS] == label, table[true, label])


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
    clean, noisy = shared(), shared(label_noise={'rate': 0.4})
    for name, problem in clean.items():
        np.testing.assert_array_equal(problem.data.features, noisy[name].data.features)
        assert_rate(np.asarray(problem.data.labels != noisy[name].data.labels), 0.4)
        np.testing.assert_array_equal(problem.eval_data.labels, noisy[name].eval_data.labels)
    assert noisy['gaussians'].attainable['accuracy'] == pytest.approx(0.75, abs=1e-12)


@pytest.mark.parametrize(
    'section, message',
    [
        ({'rat': 0.1}, "`label_noise` has no 'rat'; did you mean 'rate'?"),
        ({'rate': 1.2}, '`label_noise.rate` must lie in [0, 1], got 1.2.'),
        ({'rate': [0.1, 0.2]}, '`label_noise.rate` must be a number, got [0.1, 0.2].'),
        ({}, '`label_noise.rate` must be given, got None.'),
    ],
)
def test_sections_that_say_no_noise_are_refused(section, message):
    with pytest.raises(ValueError, match=f'^{re.escape(message)}$'):
        problems.digits(num_clients=4, label_noise=section)
