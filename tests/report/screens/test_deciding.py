"""What the choice of an algorithm depends on is told of a config's links."""

import numpy as np
import pytest

from fedjax_links.report.screens import deciding
from tests.report import plans

PROBS = {'name': 'equal', 'value': 0.2}
GAUSSIANS = {'name': 'gaussians', 'num_clients': 8, 'examples_per_client': 30}


def told(links, rounds=2000, problem=GAUSSIANS):
    """The lines by their first words."""
    found = plans.plan(links, problem)
    lines = deciding.lines(found, plans.record(found, rounds))[1:]
    assert all(len(line) <= 80 for line in lines)
    return {line[2:20].strip(): line[20:] for line in lines}


@pytest.mark.parametrize(
    'links, memory',
    [
        ({'name': 'bernoulli', 'probs': PROBS}, 'nothing: rounds are independent'),
        ({'name': 'markov', 'probs': PROBS, 'correlation_time': 30.0}, 'for 30 rounds'),
        ({'name': 'cyclic', 'probs': PROBS, 'cycle_length': 50}, 'they repeat every 50 rounds'),
    ],
)
def test_how_long_links_remember(links, memory):
    assert told(links)['links remember'].startswith(memory)


def test_an_update_of_a_client_that_is_rarely_heard_is_old():
    text = told({'name': 'bernoulli', 'probs': PROBS}, rounds=20_000)['silence']
    age = float(text.split(' is ')[1].split(' rounds')[0])
    # Geometric: mean 1/p - 1 = 4, standard deviation sqrt(1 - p) / p, correlated over 2 / p rounds.
    assert abs(age - 4) < 4 * np.sqrt(0.8) / 0.2 * np.sqrt(10 / 20_000)


def test_what_is_known_of_probabilities_clients_and_overlap():
    found = told({'name': 'bernoulli', 'probs': PROBS})
    assert found['probabilities'].startswith('known')
    assert found['clients'].startswith('30 examples each, of ')
    assert found['clients'].endswith(' of 10 labels')
    assert found['overlap'] == 'best model: accuracy 0.7500'
    quadratics = told('always', problem={'name': 'counterexample', 'num_clients': 4})
    assert quadratics['clients'] == '1 examples each'
    assert quadratics['overlap'] == 'not known'
