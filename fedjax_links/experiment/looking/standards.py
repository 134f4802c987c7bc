"""What is certified: the programs of a config, or every rule, pattern and model of this package."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fedjax_links import algorithms, local_training, participation, problems
from fedjax_links.core.registry import AlgorithmEntry
from fedjax_links.experiment.config import build
from fedjax_links.experiment.definition import Experiment
from fedjax_links.experiment.plan.lanes import Lane
from fedjax_links.problems.datasets import Dataset

NUM_ROUNDS = 4
_NUM_CLIENTS = 12


def lanes_of(experiment: Experiment) -> list[Lane]:
    """The lanes of the main stage at the values that tuning tries first."""
    plan = experiment.plan
    return [lane for label in experiment.algorithms for lane in plan.main_lanes(label)]


def shortened(experiment: Experiment) -> Experiment:
    """The same programs for a few rounds of one seed."""
    short: dict[str, Any] = {'num_rounds': NUM_ROUNDS, 'eval_every': NUM_ROUNDS}
    tuning = experiment.tuning
    if tuning is not None:
        tuning = dataclasses.replace(tuning, num_rounds=NUM_ROUNDS)
    seeds = list(experiment.seeds)[:1]
    return dataclasses.replace(experiment, **short, seeds=seeds, tuning=tuning, config=None)


def experiment_of(source: Mapping[str, Any] | str) -> Experiment:
    """The experiment of a config, or one of `STANDARD`."""
    return STANDARD[source]() if isinstance(source, str) else build(source)


def _rules() -> Experiment:
    found = {name: _algorithm(entry) for name, entry in algorithms.ALGORITHMS.items()}
    return _standard('rules', found, {'bernoulli': participation.PARTICIPATION['bernoulli']})


def _peers() -> Experiment:
    found = {n: _algorithm(e) for n, e in algorithms.ALGORITHMS.items() if e.traffic.peers}
    return _standard('peers', found, {'peers': participation.PARTICIPATION['peers']})


def _patterns() -> Experiment:
    found = {'fedavg': _algorithm(algorithms.ALGORITHMS['fedavg'])}
    return _standard('patterns', found, participation.PARTICIPATION)


def _model(name: str, model: Any) -> Experiment:
    found = {name: _algorithm(algorithms.ALGORITHMS['fedpbc'])}
    return _standard(name, found, {'bernoulli': participation.PARTICIPATION['bernoulli']}, model)


def _algorithm(entry: AlgorithmEntry) -> Any:
    make = entry.client_program or local_training.local_sgd
    program = make(0.1, local_steps=3, batch_size=4, **entry.client_example)
    return entry(program, **entry.example)


def _standard(
    title: str, every: Mapping[str, Any], patterns: Mapping[str, Any], model: Any = 'softmax'
) -> Experiment:
    if title in ('gru', 'transformer'):
        texts = np.random.default_rng(0).integers(0, 10, (8 * _NUM_CLIENTS, 6), np.int32)
        owners = np.arange(len(texts), dtype=np.int32) % _NUM_CLIENTS
        held = Dataset(texts[:, :5], texts[:, 5], owners, num_classes=10)
        problem = problems.text(dataset=held, model=model)
    else:
        problem = problems.digits(num_clients=_NUM_CLIENTS, alpha=0.5, seed=0, model=model)
    return Experiment(
        title=title,
        problem=problem,
        patterns={name: entry.example(_NUM_CLIENTS) for name, entry in patterns.items()},
        algorithms=every,
        num_rounds=NUM_ROUNDS,
        eval_every=NUM_ROUNDS,
    )


_MODELS: Mapping[str, Any] = {
    'mlp': 'mlp',
    'mlp_bfloat16': {'name': 'mlp', 'dtype': 'bfloat16'},
    'cnn': {'name': 'cnn', 'channels': (8, 8), 'hidden': (32,)},
    'gru': {'name': 'gru', 'hidden': 16},
    'transformer': {'name': 'transformer', 'hidden': 16},
}
STANDARD: Mapping[str, Callable[[], Experiment]] = {
    'rules': _rules,
    'patterns': _patterns,
    'peers': _peers,
    **{name: functools.partial(_model, name, model) for name, model in _MODELS.items()},
}
"""Experiments that together have every rule, pattern and model of this package, by name."""
