"""Depth: the page's tables from the archives, a lane run again, limits by sampling."""

import functools

import numpy as np
import pytest
from scipy import stats

from configs import depth as config
from fedjax_links import analysis, experiment, problems, runs
from studies import depth
from tests import ROOT
from tests.tiers import cases

PAGE = (ROOT / 'studies' / 'depth.md').read_text().splitlines()


@functools.cache
def points(data):
    """The points of an archive by model and size, which tests share."""
    return {(p.model, round(p.examples)): p for p in depth.points(data)}


@pytest.mark.parametrize(
    'data',
    [
        *cases(['gaussians', 'digits'], ['digits']),
        pytest.param(
            'images',
            marks=[
                pytest.mark.slow,
                pytest.mark.release('test_the_page_has_these_rows'),
                # Its models are trained again, and the last digits depend on the compiler.
                pytest.mark.optimised,
            ],
        ),
    ],
)
def test_the_page_has_these_rows(data):
    assert f'| {" | ".join(depth.TITLES)} |' in PAGE
    recorded = [line for line in PAGE if line.startswith(f'| {data} |')]
    assert recorded == list(depth.rows(points(data).values()))


@pytest.mark.parametrize('data', depth.DATA)
def test_no_best_rate_is_at_an_edge(data):
    at_edge = set()
    for (model, size), point in points(data).items():
        for name, level in point.levels.items():
            if '↑' in level.rate or '↓' in level.rate:
                at_edge.add((model, size, name))
    # Classes of images hardly overlap for softmax regression: all large rates do equally well.
    expected = {('softmax', 200, 'server')} if data == 'images' else set()
    assert at_edge == expected


def test_the_page_has_the_long_run():
    titles = f'| {" | ".join(("rounds", *depth.TITLES[1:]))} |'
    index = PAGE.index(titles) + 2
    results = list(depth.long_rows())
    assert PAGE[index : index + len(results)] == results


@pytest.mark.slow
def test_the_page_has_the_limits_of_softmax():
    for point in points('gaussians').values():
        if point.model == 'softmax' and point.examples <= 200:
            assert depth.limit_row(point) in PAGE


def test_a_point_has_the_best_rate_and_its_paired_interval():
    point = points('gaussians')['one', 60]
    columns = runs.read(depth.FOLDER / 'gaussians').columns
    here = (columns['pattern'] == 'one') & (
        columns['problem.examples_per_client'] == 60
    )
    best = []
    for algorithm, model in (('fedavg', 'server'), ('fedpbc', 'client_mean')):
        by_rate = {}
        for rate in np.unique(columns[config.RATE]):
            rows = (
                here
                & (columns['algorithm'] == algorithm)
                & (columns[config.RATE] == rate)
            )
            rows &= columns['round'] > 1200  # the last four of ten
            seeds = columns['seed'][rows]
            values = columns[f'{model}/eval_accuracy'][rows]
            by_rate[rate] = [values[seeds == seed].mean() for seed in range(5)]
        best.append(max(by_rate.values(), key=np.mean))
    low, high = stats.ttest_rel(*best[::-1]).confidence_interval(0.95)
    shown = f'{50 * (low + high):+.1f} ± {50 * (high - low):.1f}'
    assert depth.interval(point.ahead) == shown
    np.testing.assert_allclose(point.levels['FedAvg'].accuracy, best[0], rtol=1e-6)


def test_limits_of_gaussian_classes_are_those_of_bayes_rule(rng):
    point = points('gaussians')['two', 20]
    result = depth.population(point)
    seed = 3
    _, mix, implicit = depth.weights(point, seed)
    labels = rng.integers(10, size=200_000)
    distance = analysis.equidistant_distance(0.7, 10)
    features = (
        rng.normal(size=(labels.size, 10)) + distance / 2**0.5 * np.eye(10)[labels]
    )
    # FedAvg's limit, then FedPBC's.
    for row, weights in enumerate((implicit, np.full(50, 1 / 50))):
        shares = np.log(np.einsum('i,ic->c', weights, mix))
        correct = np.argmax(distance / 2**0.5 * features + shares, axis=1) == labels
        standard_error = correct.std() / labels.size**0.5
        assert abs(result[row, seed] - correct.mean()) < 4 * standard_error


@pytest.mark.slow
@pytest.mark.optimised
def test_a_lane_of_the_archive():
    saved = runs.read(depth.FOLDER / 'gaussians').columns
    at = {'problem.examples_per_client': 20, config.RATE: 0.01}
    rows = (saved['algorithm'] == 'fedavg') & (saved['pattern'] == 'two')
    for name, value in at.items():
        rows &= saved[name] == value
    values = config.get_config().to_dict()
    del values['quick']
    values['grid'] = {
        'problem': {'examples_per_client': (20,)},
        'client': {'learning_rate': (0.01,)},
    }
    values |= {'algorithms': {'fedavg': {}}, 'names': (), 'reports': {}}
    for section in ('patterns', 'problems'):
        values[section] = {'two': values[section]['two']}
    again = experiment.build(values).run().columns
    for name in ('seed', 'round'):
        np.testing.assert_array_equal(again[name], saved[name][rows])
    accuracy = 'server/eval_accuracy'
    np.testing.assert_allclose(again[accuracy], saved[accuracy][rows], atol=0.002)


def test_sizes_are_the_clients():
    assert {size for _, size in points('gaussians')} == set(config.SIZES)
    (digits,) = {point.examples for point in points('digits').values()}
    assert digits == pytest.approx(
        problems.digits(num_clients=20).data.labels.size / 20
    )


def test_flags_are_read_before_anything_is_computed(monkeypatch, capsys):
    def compute(data):
        raise AssertionError

    monkeypatch.setattr(depth, 'points', compute)
    monkeypatch.setattr('sys.argv', ['depth', '--pictures=depth.png'])
    with pytest.raises(SystemExit):
        depth.main()
    assert 'unrecognized arguments: --pictures' in capsys.readouterr().err
