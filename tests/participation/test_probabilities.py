"""Label-dependent link probabilities: the formula, its symmetries, its typical figures.

Statistical tests use fixed seeds; had these been drawn afresh, each would raise a false alarm with
probability 7e-6 per comparison (z = 4.5, two-sided).
"""

import ast
import importlib
from pathlib import Path

import numpy as np
import pytest

import fedjax_links
from fedjax_links import partition
from fedjax_links.participation import probabilities
from tests.refusals import refuses

Z = 4.5
MIX = np.random.default_rng(0).dirichlet(np.full(10, 0.1), 50)


def test_formula_in_a_plain_loop():
    weights = probabilities.class_weights(10, sigma=3.0, seed=7)
    probs = probabilities.label_dependent_probs(MIX, sigma=3.0, minimum=0.05, seed=7)
    expected = []
    for row in MIX:
        product = sum(weight * part for weight, part in zip(weights, row, strict=True))
        expected.append(max(0.05, product))
    np.testing.assert_allclose(probs, expected, rtol=1e-14)
    assert probs.dtype == np.float64
    assert 0.05 in probs
    assert (probs > 0.05).any()


def test_defaults_are_the_papers():
    np.testing.assert_array_equal(
        probabilities.label_dependent_probs(MIX, seed=1),
        probabilities.label_dependent_probs(MIX, sigma=10.0, minimum=0.02, seed=1),
    )


@pytest.mark.statistical
@pytest.mark.parametrize('sigma', [1.0, 10.0])
def test_sigma_is_the_sd_of_the_logarithm(sigma):
    # Normalising removes the common factor, so contrasts of logarithms are N(0, 2 sigma^2), and
    # the sample variance of v = n contrasts has relative standard error sqrt(2 / n).
    contrasts = np.array(
        [
            np.diff(np.log(probabilities.class_weights(2, sigma=sigma, seed=s)))
            for s in range(2000)
        ]
    )
    assert abs(np.mean(contrasts**2) / (2 * sigma**2) - 1) < Z * np.sqrt(2 / 2000)
    assert abs(np.mean(contrasts)) < Z * np.sqrt(2 / 2000) * sigma


def test_weights_are_a_distribution_at_any_scale():
    for sigma in (0.0, 1.0, 10.0, 1e3, 1e300):
        weights = probabilities.class_weights(10, sigma=sigma, seed=0)
        assert np.all(weights >= 0)
        assert abs(weights.sum() - 1) < 1e-12
    np.testing.assert_allclose(
        probabilities.class_weights(10, sigma=0.0, seed=0), 0.1, rtol=1e-14
    )
    np.testing.assert_array_equal(np.sort(weights), [0.0] * 9 + [1.0])


@pytest.mark.statistical
def test_every_class_is_favoured_equally():
    # Classes are exchangeable: without a clip E p = 1 / C for every mix, however skewed.
    mix = np.array([[1.0, 0, 0, 0], [0.7, 0.2, 0.1, 0], [0, 0, 0.5, 0.5]])
    probs = np.array(
        [
            probabilities.label_dependent_probs(mix, minimum=0.0, seed=s)
            for s in range(2000)
        ]
    )
    error = probs.std(axis=0) / np.sqrt(2000)
    assert np.all(np.abs(probs.mean(axis=0) - 0.25) < Z * error)


@pytest.mark.statistical
def test_typical_figures_of_the_journal_setting():
    # 100 clients, 10 classes, alpha 0.1: over 400 draws mean p .109, 59 % at the clip and 76 %
    # below .1, rounded. Those figures have the sampling error of 400 draws themselves.
    draws = 300
    figures = []
    for seed in range(draws):
        shares = partition.dirichlet_shares(100, 10, alpha=0.1, seed=seed)
        probs = probabilities.label_dependent_probs(shares, seed=seed)
        figures.append([probs.mean(), np.mean(probs == 0.02), np.mean(probs < 0.1)])
    error = np.std(figures, axis=0) * np.sqrt(1 / draws + 1 / 400)
    rounding = np.array([0.0005, 0.005, 0.005])
    difference = np.abs(np.mean(figures, axis=0) - [0.109, 0.59, 0.76])
    assert np.all(difference < Z * error + rounding)
    # The bounds tell sigma 10 from 3.
    assert np.all(Z * error + rounding < [0.01, 0.05, 0.03])


def test_the_class_mix_of_a_partition_gives_probabilities():
    labels = np.repeat(np.arange(10), 100)
    clients = partition.dirichlet(labels, num_clients=20, alpha=0.1, seed=0)
    mix = partition.class_mix(clients, labels)
    probs = probabilities.label_dependent_probs(mix, seed=0)
    favourite = np.argmax(probabilities.class_weights(10, seed=0))
    assert np.argmax(probs) == np.argmax(mix[:, favourite])
    assert np.all((probs >= 0.02) & (probs <= 1))


PACKAGE = Path(fedjax_links.__file__).parent
BARE = {'problems/vectors.py', 'participation/traces/synthetic_trace.py'}
"""Draw by a seed alone, one of them normals and the other integers."""


def streams_of(path):
    """Yields the stream of each generator of a module: its second seed; None for one seed alone."""
    module = importlib.import_module(
        '.'.join(['fedjax_links', *path.relative_to(PACKAGE).with_suffix('').parts])
    )
    for node in ast.walk(ast.parse(path.read_text())):
        function = ast.unparse(node.func) if isinstance(node, ast.Call) else ''
        if function == 'numpy_random.generator':
            yield int.from_bytes(ast.literal_eval(node.args[1]).encode())
        elif function.endswith('default_rng'):
            (seed,) = node.args
            has_stream = isinstance(seed, ast.List)
            yield getattr(module, seed.elts[1].id) if has_stream else None


def test_equal_seeds_draw_from_different_streams():
    # The same seed for data, partition and links is usual; the draws must not be the same numbers.
    paths = [PACKAGE / 'config' / 'registries.py']
    for folder in ('datasets', 'links', 'participation', 'partition', 'problems'):
        paths += sorted((PACKAGE / folder).rglob('*.py'))
    results = {
        path.relative_to(PACKAGE).as_posix(): set(streams_of(path)) for path in paths
    }
    assert {name for name, streams in results.items() if None in streams} == BARE
    streams = [stream for name in results.keys() - BARE for stream in results[name]]
    assert len(streams) >= 10
    assert len(set(streams)) == len(streams)


@pytest.mark.parametrize(
    'call, message',
    [
        (
            lambda: probabilities.class_weights(0, seed=0),
            '`num_classes` must be at least 1, got 0.',
        ),
        (
            lambda: probabilities.class_weights(10, seed=1.5),
            '`seed` must be a Python integer, got 1.5.',
        ),
        (
            lambda: probabilities.class_weights(10, sigma=-1.0, seed=0),
            '`sigma` must lie in [0, 1e+300], got -1.0.',
        ),
        (
            lambda: probabilities.class_weights(10, sigma=1.7e308, seed=0),
            '`sigma` must lie in [0, 1e+300], got 1.7e+308.',
        ),
        (
            lambda: probabilities.label_dependent_probs(MIX, minimum=1.5, seed=0),
            '`minimum` must lie in [0, 1], got 1.5.',
        ),
        (
            lambda: probabilities.label_dependent_probs(MIX[0], seed=0),
            '`class_mix` must have one row per client, got shape (10,).',
        ),
        (
            lambda: probabilities.label_dependent_probs(
                [[0.5, 0.5], [0.0, 0.0]], seed=0
            ),
            '`class_mix` must have non-negative rows of sum one, got row 1 of sum 0 and minimum 0.',
        ),
        (
            lambda: probabilities.label_dependent_probs([[1.5, -0.5]], seed=0),
            '`class_mix` must have non-negative rows of sum one, '
            'got row 0 of sum 1 and minimum -0.5.',
        ),
    ],
)
def test_probability_errors_name_the_argument(call, message):
    with refuses(message):
        call()
