"""A hundred thousand clients with eight neighbours each, in a process whose memory is measured."""

import sys

import pytest

from tests import peak_memory
from tests.tiers import cases

PROGRAM = """
import sys
import numpy as np
import fedjax_links as fl
from fedjax_links import participation, problems
from fedjax_links.experiment import Experiment
from fedjax_links.links import graphs
N = 100_000
targets = np.random.default_rng(0).normal(size=(N, 20)).astype(np.float32)
client = fl.local_training.local_sgd(0.1, local_steps=3)
name = sys.argv[1]
entry = fl.ALGORITHMS[name]
Experiment(
    title=name,
    problem=problems.quadratic(targets),
    patterns={
        'peers': participation.peers(
            participation.bernoulli(np.linspace(0.1, 0.9, N)), graphs.ring(N, 8), prob=0.5
        )
    },
    algorithms={name: lambda: entry(client, **entry.example)},
    num_rounds=20,
    eval_every=10,
).run()
"""


@pytest.mark.skipif(sys.platform != 'linux', reason='asks the kernel of Linux')
@pytest.mark.parametrize(
    'name',
    cases(['colrel', 's2s'], ())
    + cases(
        ['cogc', 'gossip', 's2a'],
        (),
        'test_a_hundred_thousand_clients_fit_into_one_gibibyte',
    ),
)
def test_a_hundred_thousand_clients_fit_into_one_gibibyte(name, monkeypatch):
    monkeypatch.delenv('XLA_FLAGS', raising=False)  # memory is that of users
    _, gibibytes = peak_memory.run(PROGRAM, name)
    assert gibibytes <= 1
