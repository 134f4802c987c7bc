"""The theorems beside a configured run."""

import re

import pytest

from fedjax_links import experiment
from fedjax_links.preview import configured_links, theorems
from tests.report import plans

QUADRATIC = {'name': 'quadratic', 'targets': [[0.0], [4.0], [9.0]]}
LINEAR = {'num_clients': 3, 'examples_per_client': 6}


def config(links, client=None, **problem):
    problem = problem if 'name' in problem else QUADRATIC | problem
    return {
        'title': 'Theorems',
        'problem': problem,
        'links': links,
        'client': {'learning_rate': 0.01, 'local_steps': 2, **(client or {})},
        'algorithms': {'fedpbc': {}},
        'num_rounds': 40,
        'eval_every': 40,
        'num_seeds': 1,
    }


def screen(links, client=None, **problem):
    built = experiment.build(config(links, client, **problem))
    result = configured_links.from_experiment(built)
    return theorems.text(result, result.record(64))


def coin_screen(client=None, **problem):
    """The theorems beside three clients whose uploads arrive by fair coins."""
    links = {'name': 'bernoulli', 'probs': [0.5, 0.5, 0.5]}
    built = experiment.build(config(links, client, **problem))
    result = configured_links.from_experiment(built)
    return theorems.text(result, plans.coins(3))


def test_turns_are_regular_and_some_theorems_cover_them():
    lines = screen({'name': 'regularized', 'cohort_size': 1})
    assert 'with: P = 3' in lines
    assert 'wang2022: covers this run' in lines
    assert 'xiang2024: does not cover this run' in lines
    assert max(map(len, lines.splitlines())) <= 80


@pytest.mark.parametrize('num_rounds', [1, 5, 40])
def test_rho_is_estimated_with_its_error_from_any_rounds(num_rounds):
    values = config({'name': 'uniform_cohort', 'cohort_size': 2})
    values |= {'num_rounds': num_rounds, 'eval_every': 1}
    links = configured_links.from_experiment(experiment.build(values))
    lines = theorems.text(links, links.record(64)).splitlines()
    (source,) = [line for line in lines if 'rho estimated' in line]
    has_error = re.fullmatch(r'  rho estimated, standard error [0-9.e-]+', source)
    assert bool(has_error) == (num_rounds > 1)
    assert lines[0].endswith('with: no P up to half the rounds')


@pytest.mark.parametrize('label', ['amplified_fedavg', 'mine'])
def test_amplified_fedavg_has_its_period_whatever_its_label(label):
    values = config({'name': 'regularized', 'cohort_size': 1})
    section = {'name': 'amplified_fedavg', 'period': 6, 'amplification': 1.5}
    values['algorithms'] |= {label: section}
    links = configured_links.from_experiment(experiment.build(values))
    lines = theorems.text(links, links.record(64))
    assert 'FedAvg with P = 6, eta = 1.5' in lines


def test_algorithms_may_be_their_names_alone():
    values = config({'name': 'regularized', 'cohort_size': 1})
    values['algorithms'] = {
        'mine': 'fedpbc',
        'amplified_fedavg': {'period': 6, 'amplification': 1},
    }
    links = configured_links.from_experiment(experiment.build(values))
    assert 'FedAvg with P = 6, eta = 1:' in theorems.text(links, links.record(64))


def test_the_first_point_of_the_grid_is_checked():
    values = config({'name': 'regularized', 'cohort_size': 1})
    values['algorithms'] |= {'amplified_fedavg': {'period': 2, 'amplification': 1.5}}
    grid = {
        'client': {'local_steps': [1, 3]},
        'algorithms': {'amplified_fedavg': {'period': [5, 10]}},
    }
    at_point = {
        **values,
        'client': {'learning_rate': 0.01, 'local_steps': 1},
        'algorithms': {
            'fedpbc': {},
            'amplified_fedavg': {'period': 5, 'amplification': 1.5},
        },
    }
    texts = []
    for changed in ({**values, 'grid': grid}, at_point):
        links = configured_links.from_experiment(experiment.build(changed))
        texts.append(theorems.text(links, links.record(64)))
    assert texts[0] == texts[1]
    assert 'FedAvg with P = 5' in texts[0]


def test_problems_without_constants_are_named():
    lines = coin_screen(noise=1.0)
    sentence = (
        'Theorems: not checked, their constants are known for quadratics and '
        'for linear models with an intercept only.'
    )
    assert ' '.join(lines.split()).endswith(sentence)
    assert max(map(len, lines.splitlines())) <= 80


@pytest.mark.parametrize(
    'options', [{'client_steps': [1, 2, 2]}, {'local_steps': 2, 'min_steps': 1}]
)
def test_unequal_steps_are_no_assumption_of_theirs(options):
    lines = coin_screen({'local_steps': 2, **options})
    assert lines.endswith('not checked, clients differ in their local steps.')


def test_an_algorithm_with_clients_of_its_own_is_named():
    values = config({'name': 'bernoulli', 'probs': [0.5, 0.5, 0.5]})
    for options, is_checked in (
        ({}, True),
        ({'client': {'learning_rate': 0.02}}, False),
        ({'client': values['client']}, True),
    ):
        values['algorithms'] = {'mine': {'name': 'fedpbc', **options}}
        links = configured_links.from_experiment(experiment.build(values))
        text = ' '.join(theorems.text(links, plans.coins(3)).split())
        reason = '`config.algorithms.mine.client` differs from `config.client`.'
        assert text.endswith(f'not checked, {reason}') != is_checked


@pytest.mark.parametrize(
    'options, named',
    [
        ({'optimizer': {'name': 'sgd', 'momentum': 0.9}}, 'optimizer'),
        ({'name': 'proximal_sgd', 'mu': 0.1}, 'mu'),
    ],
)
def test_other_steps_than_plain_sgd_are_no_assumption_of_theirs(options, named):
    lines = coin_screen({'local_steps': 2, **options})
    reason = f'steps with `config.client.{named}` are not plain SGD.'
    assert lines.endswith(f'not checked, {reason}')


@pytest.mark.parametrize('schedule', ['constant', 'sine'])
def test_rho_of_independent_links_is_exact(schedule):
    options = {'gamma': 0.4, 'period': 8} if schedule == 'sine' else {}
    links = {
        'name': 'bernoulli',
        'probs': [0.5, 0.3, 0.9],
        'schedule': {'name': schedule, **options},
    }
    lines = screen(links)
    assert 'rho exact' in lines
    assert 'NO  no round is empty' in lines


def checks_of(lines):
    """Returns the lines of each theorem, by its name."""
    blocks = {}
    name = None
    for line in lines.splitlines():
        if ': covers' in line or ': does not cover' in line:
            name = line.partition(':')[0]
        if name:
            blocks.setdefault(name, []).append(line)
    return {name: '\n'.join(block) for name, block in blocks.items()}


def test_a_minimum_separation_has_the_theorems_about_it():
    links = {'name': 'minimum_separation', 'weights': [1.0, 1.0, 2.0], 'separation': 1}
    result = checks_of(screen(links))
    for theorem in ('sun2025', 'sun2025_debiased'):
        assert 'yes gradients are full' in result[theorem]
        assert 'yes the chain mixes' in result[theorem]
        assert 'NO  rate at most the cap' in result[theorem]
        assert 'nan' not in result[theorem]


def test_cyclic_participation_does_not_mix():
    links = {'name': 'minimum_separation', 'weights': [1.0, 1.0, 2.0], 'separation': 2}
    assert 'NO  the chain mixes' in checks_of(screen(links))['sun2025']


def test_quadratics_of_unequal_curvature_are_checked():
    result = checks_of(coin_screen(curvature=[1.0, 2.0, 4.0]))
    assert 'NO  gradient differences are bounded' in result['wang2022']
    assert 'nan' not in result['xiang2024']


@pytest.mark.parametrize('batch_size', [None, 0, 2])
def test_linear_models_are_checked(batch_size):
    client = {'batch_size': batch_size}
    result = checks_of(coin_screen(client, name='gaussians', **LINEAR))
    for theorem in ('xiang2023', 'xiang2024', 'wang2022'):
        assert 'yes gradient noise is bounded' in result[theorem]
        assert 'nan' not in result[theorem]
        assert ('sigma = 0' in result[theorem]) == (not batch_size)
    assert 'yes gradient differences are bounded' in result['wang2022']
