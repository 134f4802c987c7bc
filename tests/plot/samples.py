"""Makes runs and results to draw."""

import itertools

import numpy as np
from scipy import stats

import fedjax_links as fl
from fedjax_links import runs
from fedjax_links.simulation import SimulationResult


def half_width(values):
    """Returns half the width of a 95 % interval of the mean over the first axis."""
    count = len(values)
    return stats.t.ppf(0.975, count - 1) * values.std(axis=0, ddof=1) / np.sqrt(count)


def simulated(values, first_bad_round=-1, every=5, **more):
    """Makes a result whose server model has an accuracy ``values`` [*lanes, E].

    Args:
      values: accuracies at the E evaluations.
      first_bad_round: [*lanes], the first round that was not finite; -1 for none.
      every: rounds between evaluations.
      **more: further metrics of the server model, [*lanes, E].
    """
    values = np.asarray(values, np.float32)
    lanes = values.shape[:-1]
    num_rounds = every * values.shape[-1]
    zeros = np.zeros(lanes, np.int32)
    counters = fl.base.ParticipationCounters(np.arange(3), np.arange(3))
    links = fl.base.LinkSample(np.array([True, False, True]), np.full(3, 0.5))
    bad = np.broadcast_to(np.asarray(first_bad_round), lanes)
    state = fl.base.FederationState(
        zeros + num_rounds, (), (), links, counters, bad < 0, bad
    )
    active = fl.base.RoundMetrics(
        num_active=np.zeros((*lanes, num_rounds), int),
        num_computing=zeros,
        loss_sum=zeros,
        extra={},
    )
    return SimulationResult(state, active, {'server': {'accuracy': values, **more}})


def a_run(**changes):
    """Makes a run of two algorithms, two patterns and two seeds, at rounds 10 and 20."""
    rows = list(itertools.product(('fedavg', 'mifa'), ('one', 'two'), (3, 4), (10, 20)))
    names = ('algorithm', 'pattern', 'seed', 'round')
    columns = {
        name: np.array([row[index] for row in rows]) for index, name in enumerate(names)
    }
    generator = np.random.default_rng(3)
    columns['stage'] = np.array(['main'] * len(rows))
    columns['server/eval_accuracy'] = generator.uniform(0.3, 0.9, len(rows))
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
