"""What is known before a run starts."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import (
    algorithms,
    base,
    experiment,
    local_training,
    participation,
    problems,
)
from fedjax_links.core import errors, memory
from fedjax_links.runner import lane_batch
from tests import refusals
from tests.experiment.configs import tuned, values
from tests.runner.made_in_python import in_python

CLIENT = {'learning_rate': 0.1, 'local_steps': 2, 'batch_size': 4}


def broken(local_train):
    """FedAvg whose state changes its shape in the first round."""
    plain = algorithms.fedavg(local_train)

    def round_step(state, ctx, problem):
        state, metrics = plain.round_step(state, ctx, problem)
        return jax.tree.map(lambda a: a[None], state), metrics

    return plain._replace(round_step=round_step)


def test_a_broken_algorithm_is_named_before_anything_compiles():
    config = tuned(algorithms={'mine': {'name': f'{__name__}:broken'}, 'fedavg': {}})
    planned = experiment.build(config)
    message = (
        r'`config\.algorithms\.mine` must return the state that `round_step` was given'
    )
    with pytest.raises(errors.InvalidError, match=message):
        planned.check()


def test_a_bug_of_the_package_stays_what_it_is(monkeypatch):
    planned = experiment.build(tuned())
    monkeypatch.setattr(lane_batch.LaneBatch, 'advance_args', lambda self: 1 + 'x')
    with pytest.raises(TypeError) as caught:
        planned.check()
    assert caught.value.__notes__ == ['config.algorithms.fedavg on pattern bernoulli']


def test_what_cannot_fit_is_refused(monkeypatch):
    planned = in_python()
    planned.check()
    monkeypatch.setattr(memory, 'available_bytes', lambda: 100)
    with pytest.raises(
        ValueError, match=r'must fit into memory: fedpbc needs .* would fit\.'
    ):
        planned.check()


def replayed(mask, **changes):
    """Two clients under a recorded mask bool[T, 2]."""
    options = {
        'title': 'recorded',
        'problem': problems.quadratic([[0.0], [10.0]]),
        'patterns': {'log': participation.replay(mask)},
        'algorithms': {
            'fedavg': algorithms.fedavg(local_training.local_sgd(0.1, local_steps=1))
        },
        'seeds': range(1),
        'num_rounds': len(mask),
        'eval_every': 5,
    }
    return experiment.Experiment(**{**options, **changes})


AMPLIFIED = {'period': 4, 'amplification': 2.0}
SWITCH = {'name': 'switch', 'patterns': ['always', 'always'], 'at_rounds': [8]}


@pytest.mark.parametrize(
    'changes, path',
    [
        (
            {
                'algorithms': {
                    'a': {'name': 'amplified_fedavg', **AMPLIFIED, 'period': 9}
                }
            },
            'algorithms.a.period',
        ),
        (
            {'algorithms': {'amplified_fedavg': {**AMPLIFIED, 'start_round': 9}}},
            'algorithms.amplified_fedavg.start_round',
        ),
        (
            {
                'algorithms': {'amplified_fedavg': AMPLIFIED},
                'grid': {'algorithms': {'amplified_fedavg': {'period': [2, 9]}}},
            },
            'algorithms.amplified_fedavg.period',
        ),
        (
            {'links': {'name': 'outage', 'pattern': 'always', 'start': 8, 'stop': 9}},
            'links.start',
        ),
        (
            {
                'links': {'name': 'outage', 'pattern': 'always', 'start': 1, 'stop': 9},
                'grid': {'links': {'start': [1, 8]}},
            },
            'links.start',
        ),
        ({'links': SWITCH}, 'links.at_rounds'),
        (
            {'links': {'name': 'cap', 'pattern': SWITCH, 'size': 2}},
            'links.pattern.at_rounds',
        ),
    ],
)
def test_what_would_begin_after_the_last_round_is_refused(changes, path):
    config = values(client=CLIENT, num_rounds=8, eval_every=4, **changes)
    planned = experiment.build(config)
    with refusals.names(f'config.{path}'):
        planned.check()


def test_what_ends_with_the_last_round_runs():
    settings = {**AMPLIFIED, 'period': 8}
    links = {'name': 'outage', 'pattern': 'always', 'start': 7, 'stop': 900}
    config = values(
        client=CLIENT,
        algorithms={'amplified_fedavg': settings},
        links=links,
        num_rounds=8,
        eval_every=4,
    )
    experiment.build(config).check()


def test_a_run_without_participants_is_refused_beforehand():
    with refusals.names('patterns.log', 'nobody in 20 rounds', "origin='first'"):
        replayed(np.zeros((20, 2), bool)).check()


@pytest.mark.parametrize(
    'changes, words',
    [
        ({'prob': 3.0}, 'must draw probabilities in [0, 1], or NaN, got 3.0'),
        ({'prob': -0.5}, 'must draw probabilities in [0, 1], or NaN, got -0.5'),
        ({'duration': -1.0}, 'must draw durations that are not negative, got -1.0'),
        ({'edge_prob': 1.5}, 'must draw probabilities of edges in [0, 1], or NaN'),
        ({'prob': np.nan}, None),
    ],
)
def test_values_of_a_caller_s_pattern_are_refused_beforehand(changes, words):
    neighbours = jnp.array([[1], [0]])

    def sample(carry, key, round):
        prob = jnp.full(2, changes.get('prob', 0.5))
        links = {
            'mask': jnp.array([True, False]),
            'prob': prob,
            'duration': jnp.asarray(changes.get('duration', 1.0)),
            'neighbours': neighbours,
            'edges': jnp.ones((2, 1), bool),
            'edge_prob': jnp.full((2, 1), changes.get('edge_prob', 0.5)),
        }
        return carry, base.PeerLinkSample(**links)

    pattern = base.Participation(lambda key: (), sample, num_clients=2)
    planned = replayed(np.ones((20, 2), bool), patterns={'own': lambda: pattern})
    if words is None:
        planned.check()
        return
    with refusals.names('patterns.own', words):
        planned.check()


def test_chances_of_a_caller_s_cohort_are_refused_beforehand():
    def sample(carry, key, round):
        ids = jnp.array([0], jnp.int32)
        return carry, base.CohortLinkSample(ids, jnp.array([3.0]), num_clients=2)

    pattern = base.Participation(lambda key: (), sample, num_clients=2)
    planned = replayed(np.ones((20, 2), bool), patterns={'own': lambda: pattern})
    with refusals.names('patterns.own', '3'):
        planned.check()


@pytest.mark.parametrize(
    'first, warns', [(0, False), (4, False), (5, True), (17, True)]
)
def test_a_run_in_which_nobody_takes_part_for_long_is_warned_of(first, warns):
    mask = np.arange(20)[:, None] >= np.array([first, first])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        replayed(mask).check()
    texts = [str(warning.message) for warning in caught]
    about_participants = [text for text in texts if 'takes part' in text]
    assert len(about_participants) == int(warns)
    expected = f'nobody takes part in the first {first} rounds under log; '
    assert all(text.startswith(expected) for text in about_participants)
