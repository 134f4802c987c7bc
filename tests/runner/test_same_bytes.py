"""One process, shards that are stopped and started again, and jobs leave the same bytes."""

import dataclasses
import itertools
import random
import sys
import time

import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import experiment, problems, runs
from fedjax_links.planning.lane_shards import LaneShard
from fedjax_links.runner.program_cache import Programs
from tests import tiers
from tests.attacks import killing
from tests.experiment.at_once import AtOnce
from tests.experiment.configs import last_files_of
from tests.runner import running

BASE = {
    'title': 'Same bytes',
    'problem': {'name': 'counterexample', 'num_clients': 8, 'dimension': 2},
    'links': {'name': 'bernoulli', 'probs': 0.5},
    'client': {'learning_rate': 0.05, 'local_steps': 2},
    'algorithms': {'fedavg': {}, 'fedpbc': {}},
    'num_rounds': 8,
    'eval_every': 4,
    'num_seeds': 2,
    'metric': 'loss',
}
UNTUNED = {'local_steps': 2}
NEAR = {'learning_rates': (0.05, 0.051), 'num_rounds': 4, 'num_seeds': 2, 'grow': 1}
RACE = {
    **NEAR,
    'learning_rates': (0.02, 0.04),
    'most_seeds': 4,
    'ties': 1,
    'pattern': 'half',
}
UNTIL = {'until': 'decided', 'least': 2, 'most': 6, 'tail': 0.5}
PATTERNS = {
    'half': {'name': 'bernoulli', 'probs': 0.5},
    'turns': {'name': 'cyclic', 'probs': 0.5, 'cycle_length': 4},
}
PEERS = {
    'name': 'peers',
    'pattern': BASE['links'],
    'graph': {'name': 'ring'},
    'prob': 0.5,
}


def config(**changes):
    """The base with changes; None takes a field away."""
    changed = {**BASE, **changes}
    return {name: value for name, value in changed.items() if value is not None}


def owned():
    """Four owners of unlike numbers of examples, as a log of a user's own has them."""
    rng = np.random.default_rng(0)
    owners = np.repeat(['d', 'a', 'c', 'b'], [3, 1, 5, 2])
    return problems.from_arrays(
        rng.normal(size=(11, 2)),
        rng.normal(size=11),
        np.unique(owners, return_inverse=True)[1],
        init_params=lambda key: np.zeros(2, np.float32),
        loss_fn=lambda w, batch: ((batch.features @ w - batch.labels) ** 2).mean(),
    )


CASES = {
    'plain': config(),
    'near ties': config(client=UNTUNED, tuning=NEAR),
    'a race on one of two patterns': config(
        client=UNTUNED, tuning=RACE, links=None, patterns=PATTERNS
    ),
    'until decided': config(num_seeds=None, seeds=UNTIL),
    'until decided, with tuning': config(
        num_seeds=None, seeds=UNTIL, client=UNTUNED, tuning={**NEAR, 'ties': 1}
    ),
    'fixed links': config(redraw={'links': 'fixed'}),
    'one draw at a time': config(grid={'redraw': ('links', 'init', 'by_seed')}),
    'a grid': config(
        client={'local_steps': 2},
        grid={
            'client': {'learning_rate': (0.05, 0.1), 'local_steps': (1, 2)},
            'algorithms': {'fedpbc': {'server_lr': (0.5, 1.0)}},
        },
    ),
    'a grid with tuning': config(
        client=UNTUNED, tuning=NEAR, grid={'links': {'probs': (0.3, 0.9)}}
    ),
    'natural owners': config(
        problem={'name': 'tests.runner.test_same_bytes:owned'},
        metric='train_loss',
        client={**BASE['client'], 'batch_size': 2},
    ),
    'peers': config(links=PEERS, algorithms={'fedavg': {}, 'gossip': {}, 's2s': {}}),
    'peers until decided, tuned': config(
        links=PEERS,
        algorithms={'fedavg': {}, 'gossip': {}},
        client=UNTUNED,
        tuning={**NEAR, 'num_seeds': 1},
        num_seeds=None,
        seeds={**UNTIL, 'most': 4},
    ),
}
CHEAP = ['near ties', 'until decided']
COVERED_BY = 'test_shards_and_jobs_leave_the_bytes_of_one_process'
"""The test whose default cases cover the rest between releases."""


class Stopping(experiment.Callback):
    """Ends a run after so many periods."""

    def __init__(self, periods):
        """Waits for the first."""
        self.left = itertools.count(periods, -1)

    def on_period(self, lane, record):
        """Counts one that ran."""
        if len(record) > 1 and not next(self.left):
            raise experiment.Stop


def run_in_shards(planned, folder, count, rng):
    """Starts each shard, in any order, stops it on its way, and starts it again."""
    programs = Programs(planned.plan)
    shards = [*range(count), *range(count)]
    rng.shuffle(shards)
    for attempt, shard in enumerate([*shards, *range(count)]):
        part = dataclasses.replace(planned, lane_shard=LaneShard(shard, count))
        callbacks = [Stopping(rng.randrange(1, 9))] if attempt < len(shards) else []
        try:
            running.run(part, folder, callbacks, programs=programs)
        except experiment.Stop:
            continue
    runs.merge(folder)


@pytest.mark.slow
@pytest.mark.parametrize('case', tiers.cases(CASES, CHEAP, COVERED_BY))
def test_shards_and_jobs_leave_the_bytes_of_one_process(tmp_path, case):
    planned = experiment.build(CASES[case])
    rng = random.Random(case)
    planned.run(tmp_path / 'whole')
    full = last_files_of(tmp_path / 'whole')
    run_in_shards(planned, tmp_path / 'shards', rng.choice([2, 3]), rng)
    assert last_files_of(tmp_path / 'shards') == full
    jobs = rng.choice([2, 3, 5, None])
    planned.run(tmp_path / 'jobs', executor=AtOnce(), jobs=jobs)
    assert last_files_of(tmp_path / 'jobs') == full
    if 'tie' in case:
        assert 'tie' in set(fl.runs.read(tmp_path / 'whole')['stage'])
    if 'until' in case:
        seeds = set(fl.runs.read(tmp_path / 'whole')['seed']) - {10_000, 10_001}
        assert len(seeds) > 2


HARD = (
    'a race on one of two patterns',
    'until decided, with tuning',
    'a grid with tuning',
    'natural owners',
    'peers until decided, tuned',
)


def random_moment(folder, rng, longest):
    """Draws a moment to kill a process, and returns a function that tells whether it has come.

    It is at most ``longest`` seconds after the start, or after some new saves.
    """
    time_to_kill = time.monotonic() + rng.uniform(0, longest)
    num_new = rng.randrange(1, 12)
    is_by_time = rng.random() < 0.3
    num_before = len(list(folder.glob('checkpoints/*@*.npz')))

    def has_come():
        if is_by_time:
            return time.monotonic() > time_to_kill
        return len(list(folder.glob('checkpoints/*@*.npz'))) >= num_before + num_new

    return has_come


@pytest.mark.slow
@pytest.mark.release(COVERED_BY)
@pytest.mark.parametrize('case', HARD)
def test_killed_processes_of_shards_leave_the_bytes_of_one(tmp_path, case):
    """Two processes are each killed (SIGKILL) at most three times and started again."""
    config = tmp_path / 'case.py'
    config.write_text(
        'from tests.runner.test_same_bytes import CASES\n'
        f'def get_config():\n    return CASES[{case!r}]\n'
    )
    rng = random.Random(case)
    base = [
        sys.executable,
        '-m',
        'fedjax_links',
        'simulate',
        f'--config={config}',
        '--devices=1',
    ]
    start = time.monotonic()
    error, _ = killing.run_with_kills(
        [[*base, f'--workdir={tmp_path / "whole"}']], lambda _: lambda: False
    )
    # On a fast machine, moments of a fixed length would come after the end.
    duration = time.monotonic() - start
    assert not error
    shards = [
        [*base, f'--workdir={tmp_path / "shards"}', f'--shard={number}/2']
        for number in (1, 2)
    ]
    error, num_kills = killing.run_with_kills(
        shards, lambda _: random_moment(tmp_path / 'shards', rng, duration)
    )
    assert not error
    assert num_kills
    runs.merge(tmp_path / 'shards')
    full = last_files_of(tmp_path / 'whole')
    merged = last_files_of(tmp_path / 'shards')
    written_by_reports = {
        name for name in full if name.endswith(('.md', '.png', 'clients.npz'))
    }
    assert merged == {name: full[name] for name in full.keys() - written_by_reports}


@pytest.mark.slow
@pytest.mark.parametrize('longer', [{'num_rounds': 16}, {'num_seeds': 4}])
def test_extended_shards_leave_the_bytes_of_one_process(tmp_path, longer):
    first = config(client=UNTUNED, tuning=NEAR)
    for changes in ({}, longer):
        planned = experiment.build({**first, **changes})
        run_in_shards(planned, tmp_path / 'shards', 2, random.Random(0))
    planned.run(tmp_path / 'whole')
    assert last_files_of(tmp_path / 'shards') == last_files_of(tmp_path / 'whole')


@pytest.mark.slow
def test_near_ties_of_a_fork_begin_where_its_main_lanes_do(tmp_path):
    first = config(client=UNTUNED, tuning=NEAR, algorithms={'fedavg': {}})
    experiment.build(first).run(tmp_path / 'past')
    planned = experiment.build({**first, 'num_rounds': 16})
    run = planned.fork(tmp_path / 'past', 8, tmp_path / 'whole')
    is_tie = run['stage'] == 'tie'
    assert is_tie.any()
    assert sorted(set(run['round'][is_tie])) == [12, 16]
    rates = run['client.learning_rate']
    for rate in set(rates[is_tie]):
        client = {**UNTUNED, 'learning_rate': rate}
        alone = experiment.build(
            config(**{**first, 'num_rounds': 16, 'tuning': None, 'client': client})
        )
        plain = alone.fork(tmp_path / 'past', 8)
        np.testing.assert_array_equal(
            run['server/loss'][is_tie & (rates == rate)], plain['server/loss']
        )
    with pytest.raises(experiment.Stop):
        planned.fork(tmp_path / 'past', 8, tmp_path / 'broken', [Stopping(7)])
    planned.fork(tmp_path / 'past', 8, tmp_path / 'broken')
    assert last_files_of(tmp_path / 'broken') == last_files_of(tmp_path / 'whole')
