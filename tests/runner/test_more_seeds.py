"""A run given more seeds runs those alone, and leaves the bytes of a run that had them all."""

import numpy as np
import pytest

from fedjax_links import experiment, runs
from tests.experiment.configs import (
    files_of,
    last_files_of,
    quadratic_values,
    tuned,
    values,
)
from tests.refusals import names
from tests.runner.made_in_python import quadratic

GRID = {
    'client': {'learning_rate': [0.1, 0.05]},
    'algorithms': {'fedpbc': {'server_lr': [1, 2]}},
}
PATTERNS = {
    'some': {'name': 'bernoulli', 'probs': 0.5},
    'turns': {'name': 'cyclic', 'probs': 0.5},
}


def gridded(**changes):
    """Two algorithms, of which one has a column of its own, over two patterns."""
    base = {
        'links': None,
        'patterns': PATTERNS,
        'algorithms': {'fedavg': {}, 'fedpbc': {}},
    }
    return values(**{**base, 'grid': GRID, 'log': ('links',), **changes})


def near_ties(**changes):
    """A tuned run whose values tuning cannot tell apart, so that they run with its seeds too."""
    tuning = {'learning_rates': (0.1, 0.11), 'grow': 0, 'num_seeds': 2, 'most_seeds': 3}
    return tuned(**{'algorithms': {'fedavg': {}}, 'tuning': tuning, **changes})


class Record(experiment.Callback):
    """Which lanes had rounds to run."""

    def __init__(self):
        """None yet."""
        self.ran = set()

    def on_period(self, lane, record):
        """A lane that was done before has no more than its round."""
        if len(record) > 1:
            self.ran.add((lane.stage, lane.seed))


def times_of(folder):
    return {
        path: path.stat().st_mtime_ns for path in (folder / runs.CHECKPOINTS).iterdir()
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    'config, first, more',
    [
        (gridded, 1, 3),
        (tuned, 2, 3),
        (near_ties, 2, 4),
    ],
)
def test_new_seeds_run_alone_and_all_is_as_in_an_unbroken_run(
    tmp_path, config, first, more
):
    grown = tmp_path / 'grown'
    full = tmp_path / 'whole'
    start = config().get('first_seed', 0)
    experiment.build(config(num_seeds=more)).run(full)
    experiment.build(config(num_seeds=first)).run(grown)
    before = files_of(grown / runs.CHECKPOINTS)
    times = times_of(grown)
    received = Record()
    experiment.build(config(num_seeds=more)).run(grown, [received])
    assert {seed for _, seed in received.ran} == {*range(start + first, start + more)}
    assert 'tuning' not in {stage for stage, _ in received.ran}
    after = files_of(grown / runs.CHECKPOINTS)
    assert before.items() < after.items()
    assert times.items() < times_of(grown).items()
    assert last_files_of(grown) == last_files_of(full)
    if config is near_ties:
        assert ('tie', start + first) in received.ran


@pytest.mark.slow
def test_seeds_and_rounds_can_grow_at_once(tmp_path):
    experiment.build(values(num_seeds=3, num_rounds=8)).run(tmp_path / 'whole')
    experiment.build(values()).run(tmp_path / 'grown')
    experiment.build(values(num_seeds=3, num_rounds=8)).run(tmp_path / 'grown')
    assert last_files_of(tmp_path / 'grown') == last_files_of(tmp_path / 'whole')


@pytest.mark.slow
@pytest.mark.release('test_new_seeds_run_alone_and_all_is_as_in_an_unbroken_run')
def test_shards_add_seeds_too_before_and_after_they_are_merged(tmp_path):
    grown = tmp_path / 'grown'
    full = tmp_path / 'whole'
    experiment.build(tuned(num_seeds=4)).run(full)
    for num_seeds in (1, 2, 4):
        planned = experiment.build(tuned(num_seeds=num_seeds))
        for index in range(2):
            planned.shard(index, 2).run(grown)
        if num_seeds == 2:
            runs.merge(grown)
    runs.merge(grown)
    assert files_of(grown).keys() >= files_of(full).keys()
    assert last_files_of(grown) == last_files_of(full)


@pytest.mark.slow
def test_more_seeds_with_full_data_equal_one_run_up_to_rounding(tmp_path):
    """Among more seeds the largest client is larger, and all are padded to its size."""
    problem = {
        'name': 'digits',
        'num_clients': 8,
        'partition': 'dirichlet_per_class',
        'alpha': 0.3,
    }
    client = {'learning_rate': 0.1, 'local_steps': 2, 'batch_size': 0}
    planned = [
        experiment.build(values(problem=problem, client=client, num_seeds=n))
        for n in (1, 6)
    ]
    first = [each.plan.schedule.main('fedavg')[0] for each in planned]
    pairs = zip(planned, first, strict=True)
    sizes = {each.plan.problem_of(lane).max_examples for each, lane in pairs}
    assert len(sizes) == 2
    full = planned[1].run(tmp_path / 'whole')
    planned[0].run(tmp_path / 'grown')
    before = files_of(tmp_path / 'grown' / runs.CHECKPOINTS)
    grown = planned[1].run(tmp_path / 'grown')
    assert before.items() < files_of(tmp_path / 'grown' / runs.CHECKPOINTS).items()
    for name, column in full.columns.items():
        if column.dtype.kind == 'f':
            np.testing.assert_allclose(grown[name], column, rtol=1e-5)
        else:
            np.testing.assert_array_equal(grown[name], column)


@pytest.mark.slow
def test_a_fork_takes_more_seeds_and_keeps_their_links(tmp_path):
    past = tmp_path / 'past'
    experiment.build(values(num_seeds=3)).run(past)

    def fork(num_seeds, folder):
        planned = experiment.build(
            values(num_seeds=num_seeds, num_rounds=8, log=('links',))
        )
        planned.fork(past, 2, tmp_path / folder)

    fork(3, 'whole')
    fork(1, 'grown')
    assert len(runs.links(tmp_path / 'grown').masks['links']) == 1
    fork(3, 'grown')
    assert last_files_of(tmp_path / 'grown') == last_files_of(tmp_path / 'whole')
    with names('fork_from', 'hold seed 3'):
        fork(4, 'grown')


@pytest.mark.slow
def test_seeds_in_any_order_grow_at_their_end_alone(tmp_path):
    grown = tmp_path / 'grown'
    full = tmp_path / 'whole'
    quadratic(seeds=[7, 3, 9]).run(full)
    quadratic(seeds=[7, 3]).run(grown)
    for seeds in ([3, 7, 9], [7], [9, 7, 3]):
        with names(
            'workdir',
            'be new or hold a run with the same config',
            'where config.seeds is [7, 3] and not',
        ):
            quadratic(seeds=seeds).run(grown)
    quadratic(seeds=[7, 3, 9]).run(grown)
    assert last_files_of(grown) == last_files_of(full)


def test_fewer_or_other_seeds_are_refused_in_one_line(tmp_path):
    experiment.build(quadratic_values(num_seeds=3)).run(tmp_path)
    with names('num_seeds', 'be at least 3, the seeds of', 'got 2'):
        experiment.build(quadratic_values()).run(tmp_path)
    # Another experiment is named as such: fewer rounds and seeds are no way to it.
    with names('workdir', 'where config.client.learning_rate is', 'got'):
        other = quadratic_values(num_rounds=2)
        other['client'] = {**other['client'], 'learning_rate': 0.5}
        experiment.build(other).run(tmp_path)
    with names('workdir', 'where config.first_seed is None and not 1'):
        experiment.build(quadratic_values(num_seeds=4, first_seed=1)).run(tmp_path)
    until = {'until': 'decided', 'least': 3, 'most': 5}
    algorithms = {'fedavg': {}, 'fedpbc': {}}
    with names('workdir', 'where config.'):
        changed = quadratic_values(num_seeds=None, seeds=until, algorithms=algorithms)
        experiment.build(changed).run(tmp_path)
