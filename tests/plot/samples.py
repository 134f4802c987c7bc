"""Runs and results to draw."""

import numpy as np
from scipy import stats

import fedjax_links as fl
from fedjax_links import runs
from fedjax_links.simulation import SimulationResult


def half_width(values):
    """Returns half a 95 % interval over the first axis."""
    count = len(values)
    return stats.t.ppf(0.975, count - 1) * values.std(axis=0, ddof=1) / np.sqrt(count)


def simulated(values, first_bad_round=-1, every=5, **more):
    """Makes a result whose server model was evaluated to [*lanes, E], every so many rounds."""
    values = np.asarray(values, np.float32)
    lanes = values.shape[:-1]
    rounds = every * values.shape[-1]
    zeros = np.zeros(lanes, np.int32)
    counters = fl.base.ParticipationCounters(np.arange(3), np.arange(3))
    links = fl.base.LinkSample(np.array([True, False, True]), np.full(3, 0.5))
    bad = np.broadcast_to(np.asarray(first_bad_round), lanes)
    state = fl.base.FederationState(
        zeros + rounds, (), (), links, counters, bad < 0, bad
    )
    active = fl.base.RoundMetrics(np.zeros((*lanes, rounds), int), zeros, zeros, {})
    return SimulationResult(state, active, {'server': {'accuracy': values, **more}})


def a_run(**changes):
    """Two algorithms, two patterns, two seeds, rounds 10 and 20."""
    rows = [
        (algorithm, pattern, seed, round)
        for algorithm in ('fedavg', 'mifa')
        for pattern in ('one', 'two')
        for seed in (3, 4)
        for round in (10, 20)
    ]
    columns = {
        name: np.array(column)
        for name, column in zip(
            ('algorithm', 'pattern', 'seed', 'round'),
            zip(*rows, strict=True),
            strict=True,
        )
    }
    columns['stage'] = np.array(['main'] * len(rows))
    columns['server/eval_accuracy'] = np.random.default_rng(3).uniform(
        0.3, 0.9, len(rows)
    )
    facts = {
        'metric': 'eval_accuracy',
        'directions': {'eval_accuracy': 'max'},
        'baseline': 'fedavg',
        'patterns': ['one', 'two'],
        'algorithms': ['fedavg', 'mifa'],
        'names': [['mifa', 'MIFA'], ['two', 'Two']],
        'seeds': [3, 4],
        'grid': {},
        'grid_mode': 'cross',
        'models': {'fedavg': ['server'], 'mifa': ['server']},
    }
    return runs.Results({**columns, **changes}, facts)
