"""Runs that differ from what predictions, exact limits and theorems assume."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import analysis, base, local_training
from fedjax_links.participation import schedules
from fedjax_links.preview import (
    configured_chains,
    configured_links,
    covered_runs,
    exact_limits,
    mixing,
    theorems,
    theory,
)
from fedjax_links.preview.configured_links import from_experiment
from tests.report import plans
from tests.tiers import cases

GAUSSIANS = {'name': 'gaussians', 'num_clients': 6, 'examples_per_client': 30}
QUADRATIC = {'name': 'quadratic', 'targets': [[0.0], [4.0], [9.0]]}
CLIENT = {'learning_rate': 0.1, 'local_steps': 5}
UPLINKS = {
    'name': 'bernoulli',
    'probs': {'name': 'halves', 'first': 0.2, 'second': 0.9},
}
# Links under which some clients do not train, or upload without receiving.
BIASED = {
    'unavailable': {'name': 'unavailable', 'pattern': UPLINKS},
    'some train': {'name': 'duplex', 'uplink': UPLINKS, 'compute': UPLINKS},
    'some receive': {'name': 'duplex', 'uplink': UPLINKS, 'downlink': UPLINKS},
}


def config(links, problem=QUADRATIC, client=CLIENT, **changes):
    """A config of FedAvg and FedPBC."""
    algorithms = {'fedavg': {}, 'fedpbc': {}}
    return {
        'links': links,
        'problem': problem,
        'client': client,
        'algorithms': algorithms,
        **changes,
    }


def links_of(*args, **changes):
    """The links of such a config."""
    return from_experiment(plans.planned(config(*args, **changes)))


def screen(*args, **changes):
    """All that the command `theory` prints of such a config, in one line."""
    links = links_of(*args, **changes)
    record = plans.coins(links.problem.num_clients)
    lines = [theory.text(links, record), theorems.text(links, record)]
    return ' '.join('\n'.join(lines).split())


def proximal(learning_rate, *, local_steps, batch_size=None):
    """A user's client program with the options of plain SGD."""
    del batch_size
    return local_training.proximal_sgd(learning_rate, mu=5.0, local_steps=local_steps)


def shared_weather(probs):
    """A user's schedule: with probability one half no link of any client is up."""
    values = np.asarray(probs, np.float32)

    def draw(key, round):
        return jnp.where(jax.random.bernoulli(key), 2 * values, 0)

    return schedules.Schedule(
        probs=draw, mean=lambda round: jnp.asarray(values), num_clients=3, cycle=1
    )


def plain_function(probs):
    """A user's schedule that is no more than a function."""
    return lambda key, round: jnp.asarray(probs, jnp.float32)


PROXIMAL = f'{__name__}:proximal'


@pytest.fixture(scope='module')
def plain_screen():
    """All that is printed of plain local SGD over uplinks that lose uploads."""
    return screen(UPLINKS)


def test_the_client_mean_of_fedpbc_is_predicted_where_all_train(plain_screen):
    lines = plans.summary_lines(config(UPLINKS, GAUSSIANS))
    assert any('FedPBC at' in line for line in lines)
    assert not any('no end of FedPBC' in line for line in lines)
    assert 'FedPBC, mean squared' in plain_screen
    assert 'Gossip:' in plain_screen


@pytest.mark.parametrize('name', cases([*BIASED, 'active'], ['some train', 'active']))
def test_a_biased_client_mean_is_neither_predicted_nor_bounded(name):
    links = BIASED.get(name, UPLINKS)
    changes = {}
    if name == 'active':
        changes['algorithms'] = {'fedavg': {}, 'fedpbc': {'compute': 'active'}}
    lines = plans.summary_lines(config(links, GAUSSIANS, **changes))
    assert any('FedAvg is expected to end at' in line for line in lines)
    assert not any('FedPBC at' in line for line in lines)
    assert lines[-1].strip().startswith('no end of FedPBC predicted: ')
    assert 'FedPBC: not checked, ' in screen(links, **changes)


@pytest.mark.parametrize('name', BIASED)
def test_the_client_mean_is_biased_under_these_links(name, x64):
    """FedPBC's client mean on quadratics, over 2,000 rounds, against the optimum."""
    links = links_of(BIASED[name], client={'learning_rate': 0.02, 'local_steps': 1})
    algorithm = fl.ALGORITHMS['fedpbc'](local_training.local_sgd(0.02, local_steps=1))
    result = fl.simulate(
        jax.random.key(0),
        algorithm,
        links.participation,
        links.problem,
        num_rounds=2000,
        eval_every=1,
        eval_fn=lambda params, key, problem: params,
    )
    means = np.asarray(result.evals['client_mean'])[500:, 0]
    optimum = 13 / 3
    error = np.std([part.mean() for part in np.array_split(means, 15)]) / np.sqrt(15)
    assert abs(means.mean() - optimum) > 5 * error


@pytest.mark.parametrize('client', ['adam', 'another program'])
def test_the_end_of_other_local_steps_is_not_predicted(client):
    changed = {**CLIENT, 'optimizer': 'adam'}
    if client == 'another program':
        changed = {**CLIENT, 'name': PROXIMAL}
    lines = plans.summary_lines(config(UPLINKS, GAUSSIANS, changed))
    assert not any('is expected to end' in line for line in lines)
    assert lines[-1].strip().startswith('no end predicted: local steps of ')


def test_a_client_program_may_be_its_name_alone():
    unequal = {'name': 'digits', 'num_clients': 4, 'alpha': 0.3}
    algorithms = {'fedavg': {'client': 'local_sgd'}, 'fedpbc': {}}
    links = links_of(UPLINKS, unequal, algorithms=algorithms)
    assert links.problem.min_examples < links.problem.max_examples
    assert covered_runs.reason_unpredicted(links) == ''


def test_momentum_changes_no_limit():
    client = {**CLIENT, 'optimizer': {'name': 'sgd', 'momentum': 0.9}}
    assert covered_runs.reason_unpredicted(links_of(UPLINKS, client=client)) == ''


def test_a_users_client_program_has_no_exact_limits():
    markov = {'name': 'markov', 'probs': 0.5}
    lines = exact_limits.describe(links_of(markov, client=CLIENT))
    assert any('fedavg: bias' in line for line in lines)
    lines = exact_limits.describe(links_of(markov, client={**CLIENT, 'name': PROXIMAL}))
    assert not any('bias' in line for line in lines)
    assert '(another client program)' in ' '.join(lines)


@pytest.mark.parametrize(
    'options',
    [{'client_steps': [1, 5, 5]}, {'optimizer': 'adam'}, {'name': PROXIMAL}],
)
def test_no_bias_is_exact_where_clients_step_otherwise(options, plain_screen):
    assert 'exact for every step size' in plain_screen
    text = screen(UPLINKS, client={**CLIENT, **options})
    assert "FedAvg's bias: not known, " in text
    assert 'exact for every step size' not in text


@pytest.mark.parametrize(
    'label, options, line',
    [
        ('fedpbc', {'server_lr': 2.0}, 'FedPBC: not checked, fedpbc has a server rate'),
        (
            'amplified_fedavg',
            {'period': 2, 'amplification': 1.5, 'start_round': 3},
            'FedAvg with amplification: not checked, its blocks start late',
        ),
    ],
)
def test_algorithms_that_differ_from_the_theorems_are_named(label, options, line):
    assert line in screen(UPLINKS, algorithms={label: options})


def test_theorems_are_about_clients_of_equal_weight():
    digits = {
        'name': 'digits',
        'num_clients': 6,
        'alpha': 0.2,
        'partition': 'dirichlet_unequal',
    }
    values = config(UPLINKS, digits, algorithms={'fedavg': {'weights': 'examples'}})
    links = from_experiment(plans.planned(values))
    text = theorems.text(links, links.record(8))
    assert text.endswith('Theorems: not checked, clients weigh by their examples.')


def test_gossip_is_not_exact_where_answers_get_lost():
    assert 'Gossip:' not in screen(BIASED['some receive'])


def test_random_probabilities_may_be_shared_by_clients():
    weather = {'name': f'{__name__}:shared_weather'}
    links = links_of(
        {'name': 'bernoulli', 'probs': [0.5, 0.4, 0.3], 'schedule': weather}
    )
    np.testing.assert_allclose(links.law.rates, [0.5, 0.4, 0.3], rtol=1e-6)
    assert links.law.weights is None
    record = links.record(4000)
    active = np.asarray(base.participants(record))
    rate, source = mixing.rate(links, record, active)
    assert source.startswith('rho estimated')
    # Half of the rounds have no links, the others independent ones.
    exact = (1 + analysis.mixing_rate([1.0, 0.8, 0.6])) / 2
    assert abs(rate - exact) < 0.03
    bound = configured_links.bound_links(links.experiment, links.label)
    with pytest.raises(configured_chains.NotExactError, match='clients share'):
        configured_chains.link_chain(bound)


def test_a_schedule_may_be_a_function():
    schedule = {'name': f'{__name__}:plain_function'}
    text = screen({'name': 'bernoulli', 'probs': 0.5, 'schedule': schedule})
    assert 'rho estimated' in text


@pytest.mark.parametrize(
    ('seed', 'num_seeds', 'is_first'),
    [({}, 3, True), ({}, 1, False), ({'seed': 3}, 3, False)],
)
def test_a_prediction_for_the_first_seed_says_so(seed, num_seeds, is_first):
    """Without a seed of its own the problem is another one for each seed."""
    links = {'name': 'bernoulli', 'probs': [0.2, 0.2, 0.2, 0.9, 0.9, 0.9]}
    problem = {**GAUSSIANS, **seed}
    lines = plans.summary_lines(config(links, problem, num_seeds=num_seeds))
    assert any('is expected to end at' in line for line in lines)
    ends = [line for line in lines if 'in the long run' in line or 'rounds of' in line]
    assert {line.endswith(', for the first seed') for line in ends} == {is_first}


def test_a_first_seed_is_named_if_seeds_redraw_the_pattern():
    fixed = {'name': 'bernoulli', 'probs': [0.2, 0.2, 0.2, 0.9, 0.9, 0.9]}
    redrawn = {
        'name': 'bernoulli',
        'probs': {'name': 'label_dependent', 'minimum': 0.2},
    }
    settings = config(fixed, {**GAUSSIANS, 'seed': 3}, num_seeds=3)
    del settings['links']
    settings['patterns'] = {'fixed': fixed, 'redrawn': redrawn}
    planned = plans.planned(settings)
    links = {label: from_experiment(planned, label) for label in planned.patterns}
    assert not links['fixed'].differs_by_seed
    assert links['redrawn'].differs_by_seed
    # At the first point of a grid of streams, one stream is by seed.
    for streams, is_redrawn in (
        (['data', 'batches'], True),
        (['batches', 'data'], False),
    ):
        grid = {'redraw': streams}
        swept = plans.planned(config(fixed, GAUSSIANS, num_seeds=3, grid=grid))
        assert from_experiment(swept).differs_by_seed == is_redrawn
