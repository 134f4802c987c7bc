"""From config to objects, and one line for every mistake."""

import numpy as np
import pytest
from ml_collections import ConfigDict

from fedjax_links import experiment, local_training
from fedjax_links.participation.probabilities import label_dependent_probs
from fedjax_links.problems import owners, partition


def values(**changes):
    base = {
        'title': 'test',
        'problem': {'name': 'digits', 'num_clients': 10, 'alpha': 0.5},
        'links': {'name': 'bernoulli', 'probs': {'name': 'equal', 'value': 0.5}},
        'client': {'learning_rate': 0.1, 'local_steps': 2, 'batch_size': 4},
        'algorithms': {'fedavg': {}},
        'num_rounds': 4,
        'eval_every': 2,
        'num_seeds': 2,
    }
    return {**base, **changes}


def build(**changes):
    return experiment.build(experiment.parse(values(**changes)))


def test_links_follow_the_labels_that_clients_hold():
    plan = build(links={'name': 'bernoulli', 'probs': {'name': 'label_dependent', 'seed': 4}})
    mix = partition.class_mix(owners(plan.problem), np.asarray(plan.problem.data.labels))
    np.testing.assert_array_equal(plan.probs, label_dependent_probs(mix, seed=4))


def test_an_algorithm_can_appear_twice_with_its_own_client_program():
    plan = build(
        algorithms={
            'fedpbc': {},
            'paused': {'name': 'fedpbc', 'compute': 'active', 'client': {'learning_rate': 0.2}},
        }
    )
    assert list(plan.algorithms) == ['fedpbc', 'paused']


def test_the_rate_of_a_config_may_be_any_schedule(monkeypatch):
    programs = []
    make = local_training.local_sgd
    monkeypatch.setattr(
        local_training, 'local_sgd', lambda *a, **k: programs.append(make(*a, **k)) or programs[-1]
    )
    client = {'learning_rate': 0.05, 'local_steps': 2}
    warm = {'name': 'warmup', 'initial': 0.1, 'rounds': 2}
    build(
        client={**client, 'decay': warm},
        algorithms={'fedavg': {}, 'fedpbc': {'client': {'decay': 'inverse'}}},
    )
    build(client=client)
    rates = [[float(program.learning_rate(np.int32(t))) for t in range(4)] for program in programs]
    np.testing.assert_allclose(
        rates, [[0.1, 0.1, 0.05, 0.05], [0.05, 0.025, 0.05 / 3, 0.0125], [0.05] * 4], rtol=1e-6
    )


def test_a_named_data_set_with_nested_options_passes_through_a_config():
    section = {
        'name': 'images',
        'dataset': 'synthetic_images',
        'data': {'num_train': 40, 'num_test': 9, 'shape': (8, 6, 3), 'num_classes': 4},
        'num_clients': 5,
        'model': 'cnn',
        'normalise': 'cifar10',
        'augment': ('crop', 'mirror'),
        'store': 'float32',
        'partition': 'iid',
    }
    problem = build(problem=ConfigDict(section).to_dict()).problem
    assert problem.data.features.shape == (40, 8, 6, 3)
    assert problem.eval_data.labels.shape == (9,)
    assert problem.num_clients == 5
    assert problem.random_loss_fn is not None


@pytest.mark.parametrize(
    'changes, message',
    [
        ({'num_ronds': 3}, "`config` has no 'num_ronds'; did you mean 'num_rounds'?"),
        ({'num_rounds': 0}, '`config.num_rounds` must be at least 1, got 0.'),
        ({'eval_every': 3}, '`config.eval_every` must divide num_rounds = 4, got 3.'),
        ({'title': 3}, '`config.title` must be text, got 3.'),
        ({'client': 3}, '`config.client` must be a section, got 3.'),
        (
            {'problem': {'name': 'digts'}},
            "`config.problem.name` has no 'digts'; did you mean 'digits'?",
        ),
        (
            {'links': {'name': 'uniform_cohort', 'cohort_sise': 3}},
            "`config.links` has no 'cohort_sise'; did you mean 'cohort_size'?",
        ),
        (
            {'links': {'name': 'uniform_cohort', 'cohort_size': 11}},
            '`cohort_size` must be at most 10, got 11.',
        ),
        (
            {'links': {'name': 'bernoulli', 'probs': {'name': 'equal', 'value': 1.5}}},
            '`config.links.probs` must lie in [0, 1], got 1.5 at client 0.',
        ),
        (
            {'links': {'name': 'bernoulli', 'probs': {'name': 'equal', 'value': float('nan')}}},
            '`config.links.probs` must lie in [0, 1], got nan at client 0.',
        ),
        (
            {'algorithms': {'fedpcb': {}}},
            "`config.algorithms.fedpcb.name` has no 'fedpcb'; did you mean 'fedpbc'?",
        ),
        (
            {'algorithms': {'fedavg': {'servr_lr': 1.0}}},
            "`config.algorithms.fedavg` has no 'servr_lr'; did you mean 'server_lr'?",
        ),
        (
            {'client': {'learning_rate': -0.1, 'local_steps': 1}},
            '`config.algorithms.fedavg.client.learning_rate` must be positive, got -0.1.',
        ),
        (
            {'client': {'learning_rate': 0.1, 'local_steps': 1, 'decay': 'sqrt'}},
            "`config.algorithms.fedavg.client.decay` has no 'sqrt'; did you mean 'inverse_sqrt'?",
        ),
        (
            {'client': {'learning_rate': 0.1, 'local_steps': 1, 'decay': {'name': 'warm'}}},
            "`config.algorithms.fedavg.client.decay.name` has no 'warm'; did you mean 'warmup'?",
        ),
        (
            {'client': {'learning_rate': 0.1, 'local_steps': 1, 'decay': 'warmup'}},
            '`config.algorithms.fedavg.client.decay` must be complete, got missing a required '
            "argument: 'initial'.",
        ),
        (
            {
                'client': {
                    'learning_rate': 0.1,
                    'local_steps': 1,
                    'decay': {'name': 'warmup', 'initial': 0.1, 'round': 3},
                }
            },
            "`config.algorithms.fedavg.client.decay` has no 'round'; did you mean 'rounds'?",
        ),
        (
            {
                'client': {
                    'learning_rate': 0.1,
                    'local_steps': 1,
                    'decay': {'name': 'warmup', 'initial': -1.0, 'rounds': 3},
                }
            },
            '`initial` must be positive, got -1.0.',
        ),
        (
            {'client': {'learning_rate': 0.0, 'local_steps': 1, 'decay': 'inverse'}},
            '`config.algorithms.fedavg.client.learning_rate` must be positive, got 0.0.',
        ),
        (
            {'client': {'learning_rate': 0.1, 'local_steps': 1, 'decay': 3}},
            '`config.algorithms.fedavg.client.decay` must be a section, got 3.',
        ),
        (
            {'problem': {'name': 'digits', 'alhpa': 0.1}},
            "`digits (dirichlet)` has no 'alhpa'; did you mean 'alpha'?",
        ),
        (
            {'problem': {'name': 'images', 'dataset': 'digits', 'num_clients': 3}},
            "`config.problem` must be complete, got missing a required argument: 'model'.",
        ),
        (
            {'client': {'learning_rate': 0.1}},
            '`config.algorithms.fedavg.client` must be complete, got missing a required '
            "argument: 'local_steps'.",
        ),
        ({'links': {'name': 'bernoulli'}}, "`config.links` must have a section 'probs'"),
    ],
)
def test_a_mistake_costs_one_line_that_names_it(changes, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        build(**changes)
    assert str(caught.value).startswith(message)
    assert '\n' not in str(caught.value)
