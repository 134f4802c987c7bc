"""What a finished folder could not be read with is refused before a run begins."""

import pytest

import fedjax_links as fl
from fedjax_links import local_training, participation, problems
from tests import refusals

CONTROL = 'red\x1b[31m'

WRONG = [
    ('title', 3),
    ('title', CONTROL),
    ('caption', 3),
    ('caption', CONTROL),
    ('evaluate_start', 1),
    ('metric', 3),
    ('names', 3),
    ('names', [('fedavg', CONTROL)]),
    ('reports', 3),
    ('reports.comparison', {'comparison': 3}),
    ('seeds', {0, 1}),
    ('eval_fn', 3),
    ('eval_fn', lambda params, key, problem: {}),
    ('eval_fn', lambda params, key, problem: {'m': 1j * params.sum()}),
    ('eval_fn', lambda params, key, problem: {CONTROL: params.sum()}),
]


def planned(**changes):
    settings = {'title': 'plain', 'seeds': [0], **changes}
    client = local_training.local_sgd(0.1, local_steps=1)
    return fl.Experiment(
        problem=problems.quadratic([[0.0], [1.0]]),
        patterns={'links': participation.bernoulli([0.5, 0.3])},
        algorithms={'fedavg': fl.ALGORITHMS['fedavg'](client)},
        num_rounds=2,
        eval_every=2,
        **settings,
    )


@pytest.mark.parametrize('path, value', WRONG)
def test_what_cannot_be_read_again_is_refused(path, value):
    with refusals.names(path):
        planned(**{path.partition('.')[0]: value}).plan.facts()


def test_plain_values_are_accepted():
    names = [('fedavg', 'FedAvg')]
    facts = planned(title='one\ntwo', names=names, evaluate_start=True).plan.facts()
    assert facts['title'] == 'one\ntwo'


@pytest.mark.parametrize('field', ['margin', 'level', 'tail'])
def test_a_field_of_one_number_takes_no_vector(field):
    with refusals.names(f'seeds.{field}', 'one number'):
        fl.experiment.UntilDecided(**{field: [0.1, 0.2]})
