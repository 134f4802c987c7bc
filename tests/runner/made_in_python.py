"""Builds experiments from Python objects, without a config."""

import numpy as np

import fedjax_links as fl
from fedjax_links import local_training, participation, problems


def in_python(**changes):
    """FedAvg, and FedPBC at two rates, on quadratics of six clients."""
    targets = np.random.default_rng(0).normal(size=(6, 3))

    def fedpbc(learning_rate, compute='all'):
        client = fl.local_training.local_sgd(learning_rate, local_steps=2)
        return fl.ALGORITHMS['fedpbc'](client, compute=compute)

    base = {
        'title': 'Made in Python',
        'problem': problems.quadratic(targets),
        'patterns': {'some': participation.bernoulli(np.linspace(0.2, 0.9, 6))},
        'algorithms': {
            'fedavg': fl.ALGORITHMS['fedavg'](
                fl.local_training.local_sgd(0.1, local_steps=2)
            ),
            'fedpbc': fedpbc,
        },
        'num_rounds': 40,
        'eval_every': 4,
        'seeds': (0, 3),
        'grid': {'learning_rate': [0.1, 0.2]},
    }
    return fl.Experiment(**{**base, **changes})


def quadratic(rate=0.1, rounds=4, seeds=(0,), **more):
    """FedAvg on the quadratics of two clients."""
    client = local_training.local_sgd(rate, local_steps=2)
    return fl.Experiment(
        title='cell',
        problem=problems.quadratic(np.array([[0.0], [10.0]])),
        patterns={'links': participation.bernoulli(np.array([0.5, 0.3]))},
        algorithms={'fedavg': fl.ALGORITHMS['fedavg'](client)},
        num_rounds=rounds,
        eval_every=2,
        seeds=list(seeds),
        **more,
    )
