"""What a fork takes over depends on the seeds of the draws."""

import jax
import numpy as np
import pytest

from fedjax_links import experiment
from fedjax_links.core import prng
from tests.experiment.futures import by_lane, small
from tests.runner import running


def build_tuned(**changes):
    """Builds tuned FedAvg and FedPBC on quadratics that every seed redraws."""
    tuning = {
        'learning_rates': (0.1, 0.2),
        'num_rounds': 2,
        'num_seeds': 1,
        'pattern': 'links',
    }
    return experiment.build(
        small(
            problem={'name': 'counterexample', 'num_clients': 6, 'dimension': 3},
            client={'local_steps': 1},
            algorithms={'fedavg': {}, 'fedpbc': {}},
            tuning=tuning,
            num_rounds=4,
            **changes,
        )
    )


@pytest.fixture(scope='module')
def by_default(tmp_path_factory):
    """The folder of a run that says nothing of its draws."""
    folder = tmp_path_factory.mktemp('by_default') / 'run'
    build_tuned().run(folder)
    return folder


@pytest.mark.slow
def test_links_resume_where_the_same_modes_are_written_otherwise(by_default, tmp_path):
    explicit = build_tuned(redraw={'data': 'by_seed'})
    explicit.fork(by_default, 2, tmp_path)
    assert by_lane(tmp_path) == by_lane(by_default, after=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    'stream, is_resumed', [('links', False), ('batches', True), ('init', True)]
)
def test_links_begin_afresh_where_their_draws_change(stream, is_resumed, by_default):
    # A fixed stream has the draws of the first seed.
    other = build_tuned(redraw={'data': 'by_seed', stream: 'fixed'})
    fork = running.fork(other, by_default, 2)
    resumed = {}
    for lane in other.plan.schedule.main('fedpbc'):
        key = other.plan.draws.key_of('links', lane.seed, lane.point)
        afresh = other.plan.pattern_of(lane).init(prng.pattern_key(key))
        carry = fork.begin(lane).participation
        pairs = zip(jax.tree.leaves(carry), jax.tree.leaves(afresh), strict=True)
        resumed[lane.seed] = not all(np.array_equal(a, b) for a, b in pairs)
    assert resumed == {0: True, 1: is_resumed}
