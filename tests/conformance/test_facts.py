"""What the table of algorithms shows is what the algorithms do, and what their docstrings say."""

import functools
import re

import pytest

from fedjax_links import base, testing
from fedjax_links.algorithms import ALGORITHMS, common
from fedjax_links.clients import cohorts
from fedjax_links.core import tree
from fedjax_links.core.registry import AlgorithmEntry
from fedjax_links.local_training import sum_updates
from fedjax_links.testing.facts import facts_of
from tests.conformance import shared

NUMBERS = {'one': 1, 'two': 2, 'three': 3, 'four': 4, 'five': 5}
# They divide by p_i.
NEED_PROBABILITIES = {
    'ca_fed',
    'colrel',
    'fedavg_known',
    'fedstale',
    'fedstale_async',
}
# Their clients start from their own models.
BROADCAST_LATE = {
    'ca2fl',
    'fedpbc',
    'fedawe',
    'fedbuff',
    'fedstale_async',
    's2a',
    's2s',
}
CHOOSE_AMONG_THE_ACTIVE = {'ca_fed', 'f3ast'}
EVERYBODY_TRAINS = {'cogc', 'colrel', 'fedpbc', 'gossip', 's2a', 's2s', 'wait_for_all'}
# ColRel with weights does too. The example has none, and no relaying where it would matter.
INACTIVE_CLIENTS_RECEIVE = {'cogc', 's2a'}
LOOK_AT_NO_UPLINK = {'gossip', 'wait_for_all'}
MOVE_BY_MEMORY = {'fedstale', 'fedstale_async', 'focus', 'gossip', 'mifa'}
MOVE_BY_THE_CLOCK = {'amplified_fedavg', 'amplified_scaffold', 'wait_for_all'}


@functools.cache
def facts(name):
    return facts_of(shared.rounds(name))


def stated_memory(docstring):
    """Models, models per client and numbers per client in a ``Memory:`` paragraph."""
    text = ' '.join(
        re.search(r'Memory: (.*?)(?:\n\n|$)', docstring, re.DOTALL)[1].split()
    )
    counts = re.match(r'(.*?) models?\b', text)[1].split(' + ')
    once = [count for count in counts if not count.endswith('N')]
    per_client = [count.removesuffix('N') for count in counts if count.endswith('N')]
    numbers = re.search(r'(\w+) (?:integers?|numbers?|flags?) per client', text)
    return (
        sum(NUMBERS.get(count) or int(count) for count in once),
        sum(int(count.strip() or 1) for count in per_client),
        NUMBERS[numbers[1]] if numbers else 0,
    )


@pytest.mark.parametrize('name', ALGORITHMS)
def test_memory_is_what_the_docstring_says(name):
    result = facts(name)
    stated = stated_memory(ALGORITHMS[name].factory.__doc__)
    assert (result.models, result.client_models, result.client_numbers) == stated


@pytest.mark.parametrize('name', ALGORITHMS)
def test_needs_training_and_receiving_are_as_stated(name):
    result = facts(name)
    assert result.needs_prob == (name in NEED_PROBABILITIES)
    computing = 'active'
    if name in EVERYBODY_TRAINS:
        computing = 'all'
    elif name in CHOOSE_AMONG_THE_ACTIVE:
        computing = 'selected'
    assert result.computing == computing
    receive_at = 'start'
    if name in LOOK_AT_NO_UPLINK:
        receive_at = 'never'
    elif name in BROADCAST_LATE:
        receive_at = 'end'
    assert result.receive_at == receive_at
    assert result.inactive_receive == (name in INACTIVE_CLIENTS_RECEIVE)
    assert result.moves_when_empty == (name in MOVE_BY_MEMORY | MOVE_BY_THE_CLOCK)


def test_facts_of_an_algorithm_that_sends_to_all():
    """All clients train, and all must receive the broadcast."""

    def broadcast(local_train):
        def round_step(state, ctx, problem):
            received = base.receives(ctx.links)
            everyone = cohorts.make_cohort(received)
            total = sum_updates(local_train, everyone, ctx, problem, state.server)
            server = tree.add_scaled(state.server, 0.1, total.value)
            num = cohorts.num_members(everyone)
            metrics = base.RoundMetrics(
                num_active=num, num_computing=num, loss_sum=total.loss, extra={}
            )
            return state._replace(server=server), metrics

        return base.Algorithm(
            lambda params, problem: common.ServerState(params),
            round_step,
            common.server_model,
        )

    result = testing.algorithm_facts(AlgorithmEntry(broadcast))
    assert result == testing.AlgorithmFacts(False, 1, 0, 0, 'all', 'start', True, True)
