"""From config to objects, and one line for every mistake."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from fedjax_links import comparison, experiment
from fedjax_links.participation.probabilities import label_dependent_probs
from fedjax_links.problems import owners, partition
from fedjax_links.report import figures

CONFIGS = Path(__file__).parent.parent / 'configs'


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
            '`learning_rate` must be positive, got -0.1.',
        ),
        (
            {'client': {'learning_rate': 0.1, 'local_steps': 1, 'decay': 'sqrt'}},
            "`config.algorithms.fedavg.client.decay` has no 'sqrt'; did you mean 'inverse_sqrt'?",
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


@pytest.mark.parametrize('path', sorted(CONFIGS.glob('*.py')), ids=lambda path: path.stem)
def test_every_shipped_config_builds(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.__doc__
    assert f'--config=configs/{path.name} ' in module.__doc__
    values = module.get_config().to_dict()
    if 'figure' in values:
        assert figures.parse(values).caption
        return
    if 'patterns' in values:
        assert comparison.build(values).patterns
        return
    config = experiment.parse(values)
    plan = experiment.build(config)
    assert plan.algorithms.keys() == config.algorithms.keys()
    assert plan.participation.num_clients == plan.problem.num_clients
