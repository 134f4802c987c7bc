"""What a finished folder could not be read with is refused before a run begins."""

import jax
import jax.numpy as jnp
import pytest

import fedjax_links as fl
from fedjax_links import local_training, participation, problems
from tests import refusals

CONTROL = 'red\x1b[31m'

WRONG = [
    ('title', CONTROL),
    ('caption', 3),
    ('caption', CONTROL),
    ('metric', 3),
    ('names', [('fedavg', CONTROL)]),
    ('reports.comparison', {'comparison': 3}),
    ('seeds', {0, 1}),
    ('eval_fn', lambda params, key, problem: {}),
    ('eval_fn', lambda params, key, problem: {'m': 1j * params.sum()}),
    ('eval_fn', lambda params, key, problem: {CONTROL: params.sum()}),
    ('eval_fn', lambda params, key, problem: {'m': {'n': params.sum()}}),
    ('eval_fn', lambda params, key, problem: {'m': [params.sum()]}),
    ('eval_fn', lambda params, key, problem: {'m': params.sum(), 'n': None}),
    ('eval_fn', lambda params, key, problem: {'m': key}),
]
ZERO = jnp.zeros(())
WRONG_EXTRA = [
    (ZERO,),
    {'m': {'n': ZERO}},
    {'m': [ZERO]},
    {'m': None},
    {'m': jnp.zeros(3)},
    {'m': 1j * ZERO},
    {'m': jax.random.key(0)},
    {CONTROL: ZERO},
    {1: ZERO},
    {'num_active': ZERO},
]


def fedavg():
    return fl.ALGORITHMS['fedavg'](local_training.local_sgd(0.1, local_steps=1))


def planned(*, algorithm=None, **changes):
    settings = {'title': 'plain', 'seeds': [0], **changes}
    return fl.Experiment(
        problem=problems.quadratic([[0.0], [1.0]]),
        patterns={'links': participation.bernoulli([0.5, 0.3])},
        algorithms={'fedavg': algorithm or fedavg()},
        num_rounds=2,
        eval_every=2,
        **settings,
    )


@pytest.mark.parametrize('path, value', WRONG)
def test_what_cannot_be_read_again_is_refused(path, value):
    with refusals.names(path):
        planned(**{path.partition('.')[0]: value}).plan.facts()


@pytest.mark.parametrize('extra', WRONG_EXTRA)
def test_metrics_that_no_folder_can_hold_are_refused(extra):
    def round_step(state, ctx, problem):
        state, metrics = fedavg().round_step(state, ctx, problem)
        return state, metrics._replace(extra=extra)

    algorithm = fedavg()._replace(round_step=round_step)
    with refusals.names('algorithm', 'RoundMetrics.extra'):
        planned(algorithm=algorithm).run()


def test_plain_values_are_accepted():
    names = [('fedavg', 'FedAvg')]
    facts = planned(title='one\ntwo', names=names, evaluate_start=True).plan.facts()
    assert facts['title'] == 'one\ntwo'


@pytest.mark.parametrize('field', ['margin', 'level', 'tail'])
def test_a_field_of_one_number_takes_no_vector(field):
    with refusals.names(f'seeds.{field}', 'one number'):
        fl.experiment.UntilDecided(**{field: [0.1, 0.2]})
