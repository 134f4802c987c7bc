"""What is drawn anew by every seed where a config does not say."""

import numpy as np
import pytest

from fedjax_links import datasets, experiment
from fedjax_links.planning import seeding
from tests.planning.redrawn import PROBLEMS, PROBS, config


def default_of(problem, probs, **changes):
    """Ways of a comparison that says nothing of them, of the streams whose sections have seeds."""
    settings = config(
        problem=problem, links={'name': 'bernoulli', 'probs': probs}, **changes
    )
    del settings['redraw']
    ways = experiment.build(settings).plan.draws.modes()
    return {stream for stream in seeding.COLUMNS if ways[stream] == 'by_seed'}


def test_what_no_section_gives_a_seed_is_redrawn_by_default():
    free = {'name': 'label_dependent', 'minimum': 0.2}
    problem = PROBLEMS['gaussians']
    assert default_of(problem, free) == {'data', 'partition', 'links_quality'}
    assert default_of(problem, PROBS) == {'data', 'partition'}
    assert default_of({**problem, 'seed': 1}, free) == {'links_quality'}
    assert default_of({**problem, 'data_seed': 1}, free) == {
        'partition',
        'links_quality',
    }
    assert default_of({**problem, 'partition_seed': 1}, free) == {
        'data',
        'links_quality',
    }
    equal = {'name': 'equal', 'value': 0.5}
    assert default_of({'name': 'counterexample', 'num_clients': 4}, equal) == {'data'}
    # So too where the grid has the seed.
    for path, left in (
        ({'problem': {'data_seed': [1, 2]}}, {'partition', 'links_quality'}),
        ({'problem': {'seed': [1, 2]}}, {'links_quality'}),
        ({'links': {'probs': {'seed': [1, 2]}}}, {'data', 'partition'}),
        ({'redraw': ['data']}, set()),
    ):
        assert default_of(problem, free, grid=path) == left
    # The theory is that of the first seed.
    silent = {
        name: value for name, value in config(first_seed=5).items() if name != 'redraw'
    }
    assert experiment.build(silent).plan.draws.columns() == {
        'data_seed': 5,
        'partition_seed': 5,
    }


@pytest.mark.parametrize('name', ['digits', 'images'])
def test_a_seed_of_the_loader_fixes_the_data(name):
    section = {
        'name': name,
        'num_clients': 4,
        'model': 'softmax',
        'data': {'seed': 3},
    }
    if name == 'images':
        section['dataset'] = 'synthetic_images'
        section['data'] |= {'num_train': 40, 'num_test': 10, 'shape': (4, 4, 1)}
    loader = datasets.DATASETS[section.get('dataset', name)]
    equal = {'name': 'equal', 'value': 0.5}
    assert default_of(section, equal) == {'partition'}
    settings = config(problem=section, num_seeds=2)
    del settings['redraw']
    planned = experiment.build(settings)
    expected = loader(**section['data']).train_features
    for seed in (0, 1):
        features = planned.problem_at('links', {}, seed).data.features
        np.testing.assert_array_equal(sorted_rows(features), sorted_rows(expected))


def sorted_rows(images):
    """Returns images as rows of pixels, in an order that their owners do not change."""
    rows = np.asarray(images).reshape(len(images), -1)
    return rows[np.lexsort(rows.T)]


def test_the_number_of_algorithms_changes_no_draw():
    free = {'name': 'label_dependent', 'minimum': 0.2}
    problem = PROBLEMS['gaussians']
    both = {'fedavg': {}, 'fedpbc': {}}
    alone = {'fedpbc': {}}
    for settings in (problem, {**problem, 'seed': 1}, PROBLEMS['digits']):
        assert default_of(settings, free, algorithms=both) == default_of(
            settings, free, algorithms=alone
        )


def test_with_seeds_in_all_sections_only_runs_are_redrawn():
    settings = config(num_seeds=2, problem={**PROBLEMS['gaussians'], 'seed': 1})
    del settings['redraw']
    planned = experiment.build(settings)
    assert planned.plan.draws.modes() == seeding.DEFAULTS
    assert 'redraw' not in planned.plan.facts()
    assert planned.problem_at('links', {}, 0) is planned.problem_at('links', {}, 1)
    assert planned.pattern_at('links', {}, 0) is planned.pattern_at('links', {}, 1)
