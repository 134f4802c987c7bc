"""Problems are built on demand, and few are cached."""

import dataclasses
import gc

import jax
import numpy as np
import pytest

from fedjax_links import experiment, local_training, problems
from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.base import Problem
from fedjax_links.config import algorithm_sections, resolver
from fedjax_links.planning import problem_families
from fedjax_links.runner import dry_runs
from fedjax_links.testing import Runs, federation
from tests.experiment.configs import values
from tests.tiers import cases

UNEQUAL = {
    'name': 'gaussians',
    'num_clients': 6,
    'examples_per_client': 30,
    'num_classes': 3,
    'partition': 'dirichlet_unequal',
    'alpha': 0.5,
    'test_examples': 60,
}
FULL = {'learning_rate': 0.1, 'local_steps': 1, 'batch_size': 0}


def unequal(**changes):
    """Returns a config whose clients have other sizes with every seed."""
    return values(**{'problem': UNEQUAL, 'num_seeds': 12, **changes})


@pytest.fixture
def built(monkeypatch):
    """The sections of problems that are built during a test."""
    results = []
    bind = resolver.bind_problem

    def bind_and_record(section, *rest):
        results.append(section)
        return bind(section, *rest)

    monkeypatch.setattr(resolver, 'bind_problem', bind_and_record)
    return results


@pytest.mark.slow
def test_a_dry_run_builds_the_problems_of_two_seeds_a_point(built):
    grid = {'problem': {'alpha': [0.1, 1.0]}}
    planned = experiment.build(unequal(grid=grid))
    assert len(built) == 2
    planned.describe()
    assert len(built) == 2
    lines = [*dry_runs.dry_run(planned.plan)]
    assert sum(line.startswith('fedavg') for line in lines) == 1
    assert len(built) == 4  # two seeds show whether they share a program


def test_a_run_builds_each_problem_once(built):
    algorithms = {'fedavg': {}, 'again': {'name': 'fedavg'}}
    experiment.build(unequal(num_seeds=3, algorithms=algorithms)).run()
    assert len(built) == 3


@pytest.mark.parametrize('client', [None, FULL])
def test_lanes_of_unequal_clients_share_bounds_that_hold_for_all(client):
    changes = {} if client is None else {'client': client}
    plan = experiment.build(unequal(num_seeds=4, **changes)).plan
    lanes = plan.schedule.main('fedavg')
    sizes = np.array([plan.problem_at('links', {}, lane.seed).counts for lane in lanes])
    assert len({tuple(of_seed) for of_seed in sizes.tolist()}) == 4
    problems = [plan.problem_of(lane) for lane in lanes]
    assert len({problem_families.structure_of(problem) for problem in problems}) == 1
    bounds = problems[0].min_examples, problems[0].max_examples
    if client is None:
        assert bounds[0] <= sizes.min() <= sizes.max() <= bounds[1]
    else:  # to which sums over all data are padded
        assert bounds == (sizes.min(), sizes.max())


def test_a_problem_for_users_has_the_sizes_of_its_seed():
    planned = experiment.build(unequal(num_seeds=4))
    for seed in range(4):
        problem = planned.problem_at('links', {}, seed)
        sizes = np.asarray(problem.counts)
        assert (problem.min_examples, problem.max_examples) == (
            sizes.min(),
            sizes.max(),
        )


def jaxpr_of_round(runs, algorithm, fewest, most):
    """Returns the text of a round's program, with these bounds of the sizes of clients."""
    problem = problem_families.with_sizes(runs.problem, fewest, most)
    simulate = federation.simulate(algorithm, num_rounds=1)
    return str(jax.make_jaxpr(lambda key: simulate(key, problem, runs.links))(runs.key))


@pytest.mark.parametrize('name', cases(ALGORITHMS, ['fedavg', 'gossip', 'scaffold']))
def test_no_algorithm_on_minibatches_looks_at_sizes(name):
    runs = Runs(ALGORITHMS[name])
    one = jaxpr_of_round(runs, runs.algorithm, 2, 6)
    other = jaxpr_of_round(runs, runs.algorithm, 1, 23)
    assert one == other


def test_full_local_data_are_padded_to_the_largest_client():
    runs = Runs(ALGORITHMS['fedavg'])
    algorithm = ALGORITHMS['fedavg'](local_training.local_sgd(0.1, local_steps=1))
    one = jaxpr_of_round(runs, algorithm, 2, 6)
    other = jaxpr_of_round(runs, algorithm, 1, 23)
    assert one != other


def mine(local_train, *, limit=None):
    """An algorithm of a user."""
    return ALGORITHMS['fedavg'](local_train)


@pytest.mark.parametrize(
    'section, client, expected',
    [
        ({'name': 'fedavg'}, {'batch_size': 4}, False),
        ({'name': 'fedavg'}, {'batch_size': 0}, True),
        ({'name': 'fedavg'}, {}, True),
        ({'name': 'fedavg', 'client': {'batch_size': 0}}, {'batch_size': 4}, True),
        ({'name': 'fedprox', 'client': {'mu': 0.1}}, {'batch_size': 4}, False),
        (
            {'name': 'fedopt', 'server_optimizer': {'name': 'adam'}},
            {'batch_size': 4},
            False,
        ),
        ({'name': f'{__name__}:mine'}, {'batch_size': 4}, True),
    ],
)
def test_what_may_look_at_sizes_is_known_of_a_config(section, client, expected):
    client = {'learning_rate': 0.1, 'local_steps': 1, **client}
    bind, _ = algorithm_sections.read('it', section, client, {})
    assert problem_families.reads_sizes(bind()) == expected


def bytes_of_problems():
    """Returns the bytes of all arrays of all problems in memory."""
    gc.collect()
    alive = [item for item in gc.get_objects() if isinstance(item, Problem)]
    leaves = {id(leaf): leaf for leaf in jax.tree.leaves(alive)}
    return sum(leaf.nbytes for leaf in leaves.values() if hasattr(leaf, 'nbytes'))


class Heaviest(experiment.Callback):
    """Measures the most memory that the problems of a run take."""

    def __init__(self):
        """Measures the memory of problems before the run."""
        self.before = bytes_of_problems()
        self.most = 0

    def on_period(self, lane, record):
        """Measures the memory after a period."""
        self.most = max(self.most, bytes_of_problems() - self.before)


@pytest.mark.slow
def test_many_seeds_take_the_memory_of_few(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (4000, 16, 16, 1), dtype=np.uint8)
    labels = rng.integers(0, 4, 4000)
    names = 'train_features', 'train_labels', 'test_features', 'test_labels'
    data = images[:3000], labels[:3000], images[3000:], labels[3000:]
    np.savez(tmp_path / 'made.npz', **dict(zip(names, data, strict=True)))
    problem = {
        'name': 'images',
        'dataset': 'npz',
        'data': {'path': str(tmp_path / 'made.npz')},
        'num_clients': 10,
        'alpha': 0.1,
        'model': 'softmax',
    }
    # A problem has 0.8 MB.
    monkeypatch.setattr(problem_families, 'MAX_BYTES', 2**20)
    heaviest = []
    for num_seeds in (1, 2, 5):
        listener = Heaviest()
        planned = experiment.build(
            values(problem=problem, num_seeds=num_seeds, num_rounds=2, eval_every=2)
        )
        planned.run(callbacks=[listener], devices=1)
        heaviest.append(listener.most)
        del planned
    one, two, five = heaviest
    assert one > 3000 * 256
    assert two < 2.2 * one  # that of the running seed, and that of the seed before
    assert five < 1.05 * two


def test_the_cache_counts_each_array_once(monkeypatch):
    """Against a count of all cached arrays after each of a hundred problems."""
    shared = np.ones((2, 100), np.float32)

    def make(seed):
        varying = np.full((2, 100), seed, np.float32)
        problem = problems.quadratic(shared)
        return dataclasses.replace(problem, eval_data=(varying, varying))

    monkeypatch.setattr(problem_families, 'MAX_BYTES', 4_000)
    cached = problem_families.ProblemCache(make)
    rng = np.random.default_rng(0)
    for seed in rng.integers(0, 12, 100):
        assert cached(seed=int(seed)).eval_data[0][0, 0] == seed
        leaves = jax.tree.leaves(list(cached._problems.values()))
        count = sum({id(leaf): leaf.nbytes for leaf in leaves}.values())
        assert cached._bytes == count
        assert count <= 4_000
        assert set(cached._uses) == {id(leaf) for leaf in leaves}
    assert 1 < len(cached._problems) < 12
