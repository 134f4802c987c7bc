"""A mistake in a part of links, or in the problem of one pattern, costs one line."""

import re

import pytest

from fedjax_links import experiment
from fedjax_links.core import errors
from tests import refusals
from tests.experiment.configs import values

TIMES = {
    'name': 'devices',
    'step': 0.1,
    'uplink': 1e6,
    'downlink': 1e6,
    'local_steps': 2,
}


@pytest.mark.parametrize('field', ['step', 'uplink', 'downlink'])
@pytest.mark.parametrize('speeds', [[0.1, 0.1], [], [[0.1] * 8]])
def test_speeds_are_one_or_one_for_each_client(field, speeds):
    links = {'name': 'quorum', 'times': TIMES | {field: speeds}, 'quorum': 3}
    message = (
        f'`config.links.times.{field}` must be a number or have one for each of the 8'
    )
    with pytest.raises(errors.InvalidError, match=re.escape(message)):
        experiment.build(values(links=links))
    each = {'name': 'quorum', 'times': TIMES | {field: [0.1] * 8}, 'quorum': 3}
    experiment.build(values(links=each))


EQUL = {'name': 'equl', 'value': 0.5}
BERNOULLI = {'name': 'bernoulli', 'probs': EQUL}
CAP = {'name': 'cap', 'size': 2, 'pattern': BERNOULLI}
SWITCH = {'name': 'switch', 'patterns': [BERNOULLI, BERNOULLI], 'at_rounds': [1]}


@pytest.mark.parametrize(
    'links, path',
    [
        ({'links': BERNOULLI}, 'links.probs'),
        ({'links': CAP}, 'links.pattern.probs'),
        ({'links': SWITCH}, 'links.patterns[0].probs'),
        ({'links': None, 'patterns': {'coins': BERNOULLI}}, 'patterns.coins.probs'),
    ],
)
def test_a_mistake_in_a_part_is_found_where_it_stands(links, path):
    with refusals.names(f'config.{path}.name', "'equl'", "'equal'"):
        experiment.build(values(**links))


@pytest.mark.parametrize(
    'changes, path',
    [
        ({'alpha': '1'}, 'problems.links.alpha'),
        ({'seed': -1}, 'problems.links.seed'),
        ({'alhpa': 1}, 'problems.links'),
        ({'name': 'digts'}, 'problems.links.name'),
    ],
)
def test_a_mistake_in_a_problem_of_one_pattern_names_the_pattern(changes, path):
    with refusals.names(f'config.{path}'):
        experiment.build(values(problems={'links': changes}))


def test_a_mistake_in_the_common_problem_names_the_problem():
    problem = {'name': 'digits', 'num_clients': 8, 'alpha': '1'}
    with refusals.names('config.problem.alpha'):
        experiment.build(values(problem=problem, problems={'links': {'seed': 3}}))
