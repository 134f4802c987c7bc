"""Small experiments over links whose weights are known exactly, and some whose are not."""

import functools

import jax
import numpy as np

from fedjax_links import base, experiment
from fedjax_links.preview import theory
from fedjax_links.preview.configured_links import from_experiment
from fedjax_links.preview.links import record_links

_HALVES = {'name': 'halves', 'first': 0.15, 'second': 0.7}
_SINE = {'name': 'sine', 'gamma': 0.4, 'period': 8}
_BERNOULLI = {'name': 'bernoulli', 'probs': _HALVES}

KNOWN = {
    'always': {'name': 'always'},
    'bernoulli': _BERNOULLI,
    'jitter': {**_BERNOULLI, 'schedule': {'name': 'jitter', 'width': 0.1}},
    'sine': {**_BERNOULLI, 'schedule': _SINE},
    'diurnal': {
        **_BERNOULLI,
        'schedule': {'name': 'diurnal', 'rounds_per_day': 6, 'trough': 0.05},
    },
    'markov': {'name': 'markov', 'probs': _HALVES, 'up_rate': 0.3},
    'markov_time': {'name': 'markov', 'probs': _HALVES, 'correlation_time': 4.0},
    'uniform_cohort': {'name': 'uniform_cohort', 'cohort_size': 4},
    'quorum': {
        'name': 'quorum',
        'times': {
            'name': 'devices',
            'step': 1.0,
            'uplink': 1e6,
            'downlink': 1e6,
            'local_steps': 1,
            'sigma': 0.5,
        },
        'quorum': 4,
    },
    'regularized': {'name': 'regularized', 'cohort_size': 5},
    'periodic_groups': {
        'name': 'periodic_groups',
        'groups': (0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2),
        'active_rounds': 3,
        'cohort_size': 2,
    },
    'separation': {
        'name': 'minimum_separation',
        'weights': {'name': 'power', 'exponent': 1.0},
        'separation': 2,
        'cohort_size': 2,
    },
    'separation_of_groups': {
        'name': 'minimum_separation',
        'weights': {'name': 'power', 'exponent': 1.5, 'count': 6},
        'groups': {'name': 'contiguous', 'num_groups': 6},
        'separation': 3,
    },
    'separation_zero_weight': {
        'name': 'minimum_separation',
        'weights': (0.0, *range(1, 12)),
        'separation': 1,
    },
    'separation_listed': {
        'name': 'minimum_separation',
        'weights': (3.0, 2.0, 1.0),
        'groups': {'name': 'contiguous', 'num_groups': 3},
        'separation': (1, 0, 2),
    },
    'draws': {
        'name': 'minimum_separation',
        'weights': {'name': 'power', 'exponent': 0.5},
        'separation': 0,
    },
    'unavailable': {'name': 'unavailable', 'pattern': _BERNOULLI},
    'both': {'name': 'both', 'first': _BERNOULLI, 'second': {'name': 'always'}},
    'either': {'name': 'either', 'first': _BERNOULLI, 'second': _BERNOULLI},
    'duplex': {'name': 'duplex', 'uplink': _BERNOULLI, 'downlink': _BERNOULLI},
}
UNKNOWN = {
    'markov_sine': {'name': 'markov', 'probs': _HALVES, 'schedule': _SINE},
    'cyclic': {'name': 'cyclic', 'probs': _HALVES, 'cycle_length': 10},
    'released_markov': {
        'name': 'fedjax_links.papers.xiang2024.released:memoryless_markov',
        'probs': _HALVES,
    },
    'outage': {'name': 'outage', 'pattern': _BERNOULLI, 'start': 2, 'stop': 5},
    'either_duplex': {
        'name': 'either',
        'first': {'name': 'duplex', 'uplink': _BERNOULLI, 'downlink': _BERNOULLI},
        'second': {'name': 'duplex', 'uplink': _BERNOULLI, 'downlink': _BERNOULLI},
    },
    'duplex_markov': {
        'name': 'duplex',
        'uplink': {'name': 'markov', 'probs': _HALVES},
        'compute': _BERNOULLI,
    },
}
ALL = {**KNOWN, **UNKNOWN}


def planned(config):
    """The experiment of a config, which may leave out algorithms and rounds."""
    rounds = config.get('num_rounds', 10)
    runs = {
        'title': 'test',
        'client': {'learning_rate': 0.1, 'local_steps': 1},
        'algorithms': {'fedavg': {}},
        'num_rounds': rounds,
        'eval_every': rounds,
    }
    return experiment.build({**runs, **config})


def plan(links, problem=None, **config):
    """Twelve clients over a section of links."""
    problem = problem or {'name': 'counterexample', 'num_clients': 12, 'dimension': 3}
    return from_experiment(planned({'problem': problem, 'links': links, **config}))


def record(built, num_rounds, seed=0):
    """The links of one seed."""
    return record_links(built.participation, num_rounds=num_rounds, seed=seed)


def coins(num_clients, num_rounds=64):
    """A record of fair coins, where any record will do."""
    mask = np.random.default_rng(0).random((num_rounds, num_clients)) < 0.5
    return base.LinkSample(mask, np.full(mask.shape, 0.5, np.float32))


@functools.cache
def named_plan(name):
    """Twelve clients over the links of a name above, built once."""
    return plan(ALL[name])


@functools.cache
def _long_record(name):
    return record(named_plan(name), 6400)


def named_record(name, num_rounds=6400):
    """The first rounds of a record of these links, which is sampled once."""
    return jax.tree.map(lambda leaf: leaf[:num_rounds], _long_record(name))


def summary_lines(config):
    """Lines of the prediction for a config, completed as in `planned`."""
    return theory.summary(planned(config)).splitlines()
