"""From config to objects, and one line for every mistake."""

import jax
import numpy as np
import pytest
from ml_collections import ConfigDict

from fedjax_links import experiment, local_training, partition, problems
from fedjax_links.config import link_sections, resolver
from fedjax_links.participation.probabilities import label_dependent_probs
from fedjax_links.problems import owners
from tests.experiment.configs import values


def build(**changes):
    return experiment.build(values(**changes))


def test_a_config_file_s_quick_section_is_left_out_or_put_in():
    config = {**values(), 'quick': {'num_seeds': 1}}
    assert len(experiment.build(config).seeds) == values()['num_seeds'] > 1
    assert len(experiment.build(ConfigDict(config), quick=True).seeds) == 1
    with pytest.raises(ValueError, match="with a config that has a section 'quick'"):
        experiment.build(values(), quick=True)


def test_links_follow_the_labels_that_clients_hold():
    planned = build(
        links={'name': 'bernoulli', 'probs': {'name': 'label_dependent', 'seed': 4}}
    )
    problem = planned.problem_at('links', {})
    mix = partition.class_mix(owners(problem), np.asarray(problem.data.labels))
    links = planned.config['links']
    probs = link_sections.bind_links(links, problem).options['schedule'].args[0]
    np.testing.assert_array_equal(probs, label_dependent_probs(mix, seed=4))
    _, sample = planned.pattern_at('links', {}).sample(
        (), jax.random.key(0), np.int32(0)
    )
    np.testing.assert_array_equal(sample.prob, np.float32(probs))


@pytest.mark.parametrize('name', ['bernoulli', 'cyclic'])
@pytest.mark.parametrize(
    'probs, expected',
    [
        (0.25, [0.25] * 3),
        ((0.1, 0.5, 0.9), [0.1, 0.5, 0.9]),
        (np.float64(0.25), [0.25] * 3),
        (np.array([0.1, 0.5, 0.9]), [0.1, 0.5, 0.9]),
    ],
)
def test_probabilities_may_be_a_number_or_a_list(name, probs, expected):
    problem = problems.quadratic([[0.0], [1.0], [2.0]])
    section = {'name': name, 'probs': probs}
    if name == 'cyclic':
        section['cycle_length'] = 20
    bound = link_sections.bind_links(section, problem)
    pattern = bound.build()
    options = bound.options
    bound_probs = options.get('probs')
    if bound_probs is None:
        bound_probs = options['schedule'].args[0]
    np.testing.assert_array_equal(bound_probs, expected)
    _, sample = pattern.sample(
        pattern.init(jax.random.key(0)), jax.random.key(1), np.int32(0)
    )
    np.testing.assert_array_equal(sample.prob, np.float32(expected))


@pytest.mark.parametrize('options, expected', [({}, 0.25), ({'probs': 0.5}, 0.5)])
@pytest.mark.parametrize('name', ['cycles', 'forwarded'])
def test_a_pattern_of_ones_own_keeps_its_default(name, options, expected):
    problem = problems.quadratic([[0.0], [1.0], [2.0]])
    section = {'name': f'tests.experiment.parts:{name}', **options}
    pattern = link_sections.bind_links(section, problem).build()
    _, sample = pattern.sample(
        pattern.init(jax.random.key(0)), jax.random.key(1), np.int32(0)
    )
    np.testing.assert_array_equal(sample.prob, np.full(3, expected, np.float32))


@pytest.mark.parametrize('up, expected', [('rarely', 0.1), ('often', 0.9)])
def test_a_pattern_of_ones_own_may_name_its_options_like_ours(up, expected):
    problem = problems.quadratic([[0.0], [1.0], [2.0]])
    section = {'name': 'tests.experiment.parts:steered', 'up': up, 'step': 'slow'}
    pattern = link_sections.bind_links(section, problem).build()
    _, sample = pattern.sample(
        pattern.init(jax.random.key(0)), jax.random.key(1), np.int32(0)
    )
    np.testing.assert_array_equal(sample.prob, np.full(3, expected, np.float32))


def test_an_algorithm_can_appear_twice_with_other_clients():
    planned = build(
        algorithms={
            'fedpbc': {},
            'paused': {
                'name': 'fedpbc',
                'compute': 'active',
                'client': {'learning_rate': 0.2},
            },
        }
    )
    makers = planned.plan.algorithms
    rates = {label: makers[label].columns['client.learning_rate'] for label in makers}
    assert rates == {'fedpbc': 0.1, 'paused': 0.2}


def test_sections_are_resolved_once_and_never_in_a_trace(monkeypatch):
    resolved = []
    bind = resolver.bind

    def bind_and_record(where, *args):
        resolved.append(where)
        return bind(where, *args)

    monkeypatch.setattr(resolver, 'bind', bind_and_record)
    planned = build(
        problem={'name': 'quadratic', 'targets': [[0.0], [1.0]]},
        client={'local_steps': 1},
        grid={'client': {'learning_rate': [0.1, 0.2]}},
    )
    assert resolved.count('config.algorithms.fedavg') == 1
    resolved.clear()
    results = planned.run()
    losses = [
        results['server/loss'][results['client.learning_rate'] == rate]
        for rate in (0.1, 0.2)
    ]
    assert not np.array_equal(*losses)
    assert resolved == []


def test_a_grid_may_vary_a_rate_that_an_algorithm_has_of_its_own():
    algorithms = {'fedavg': {'client': {'learning_rate': 0.5}}}
    grid = {'algorithms': {'fedavg': {'client': {'learning_rate': [0.1, 0.2]}}}}
    planned = build(algorithms=algorithms, grid=grid)
    maker = planned.plan.algorithms['fedavg']
    rates = []
    for point in map(maker.at, planned.plan.points):
        client = maker.bound_at(point).args[0]
        schedule = client.options['learning_rate'].build(point)
        rates.append(float(schedule(0)))
    assert rates == pytest.approx([0.1, 0.2])


def test_a_grid_may_name_the_client_program_of_an_algorithm():
    grid = {'algorithms': {'fedavg': {'client': ['local_sgd']}}}
    planned = build(client={'learning_rate': 0.3, 'local_steps': 2}, grid=grid)
    maker = planned.plan.algorithms['fedavg']
    values = maker.at(planned.plan.points[0])
    schedule = maker.bound_at(values).args[0].options['learning_rate']
    assert float(schedule.build(values)(0)) == pytest.approx(0.3)


def test_the_rate_of_a_config_may_be_any_schedule(monkeypatch):
    programs = []
    make = local_training.local_sgd

    def make_and_record(*args, **kwargs):
        programs.append(make(*args, **kwargs))
        return programs[-1]

    monkeypatch.setattr(local_training, 'local_sgd', make_and_record)
    client = {'learning_rate': 0.05, 'local_steps': 2}
    warm = {'name': 'warmup', 'initial': 0.1, 'rounds': 2}
    build(
        client={**client, 'decay': warm},
        algorithms={'fedavg': {}, 'fedpbc': {'client': {'decay': 'inverse'}}},
    )
    build(client=client)
    rates = {
        tuple(float(program.learning_rate(np.int32(t))) for t in range(4))
        for program in programs
    }
    expected = [[0.1, 0.1, 0.05, 0.05], [0.05, 0.025, 0.05 / 3, 0.0125], [0.05] * 4]
    np.testing.assert_allclose(sorted(rates), sorted(expected), rtol=1e-6)


def test_a_named_data_set_takes_nested_options_from_a_config():
    section = {
        'name': 'images',
        'dataset': 'synthetic_images',
        'data': {'num_train': 40, 'num_test': 9, 'shape': (8, 6, 3), 'num_classes': 4},
        'num_clients': 5,
        'model': 'cnn',
        'normalise': 'cifar10',
        'augment': ('crop', 'mirror'),
        'partition': 'iid',
    }
    problem = build(problem=ConfigDict(section).to_dict()).problem_at('links', {})
    assert problem.data.features.shape == (40, 8, 6, 3)
    assert problem.eval_data.labels.shape == (9,)
    assert problem.num_clients == 5
    assert problem.random_loss_fn is not None
