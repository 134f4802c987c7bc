"""Each classic misreading of a listing leaves the path of the loop that follows it."""

import functools

import numpy as np
import pytest

from tests.reference import (
    block_loops,
    correlation_loops,
    interval_loops,
    memory_loops,
    newer_loops,
    peer_links,
    peer_loops,
    quadratic_loops,
)
from tests.reference.harness import assert_caught

HARD = quadratic_loops.hard_setting()
GENTLE = quadratic_loops.gentle_setting()
EDGES = peer_links.history(7, 80, 0, prob=0.8)[2]
OFTEN = HARD._replace(mask=np.random.default_rng(0).random((80, 7)) < 0.9)
WEIGHTS = np.random.default_rng(1).random((7, 7))
S2A = functools.partial(peer_loops.semi_decentralised, to_all=True)
S2S = functools.partial(peer_loops.semi_decentralised, to_all=False)
STEPS = np.array([1, 4, 2, 3, 4, 1, 2])
FEDAU_MISREADINGS = (
    'counts first',
    'cutoff forgets',
    'cutoff one early',
    'cutoff one late',
    'divides by active',
    'empty rounds do not count',
    'interval one short',
    'unseen weigh their wait',
)
MIFA_MISREADINGS = 'uses first', 'divides by seen', 'rests in empty rounds'

# The call of a loop, and its misreadings.
ORACLES = [
    (
        (block_loops.amplified_fedavg, HARD, 6, 1.3, 9),
        'clock rests in empty rounds',
        'one round late',
        'reference is never moved',
        'reference stays at the start',
    ),
    ((block_loops.fedadam, HARD, 0.1), 'steps in empty rounds'),
    ((block_loops.fedavgm, HARD, 0.4, 0.8), 'steps in empty rounds', 'ascends'),
    (
        (block_loops.fednova, HARD, STEPS),
        'effective steps over all',
        'not normalised',
        'everyone does all steps',
    ),
    ((block_loops.fedprox, HARD, 0.7), 'penalty without the half', 'anchored at x^0'),
    (
        (block_loops.wait_for_all, HARD, 7),
        'visible at the start',
        'averages the active only',
    ),
    (
        (interval_loops.debiased_fedavg, GENTLE),
        'uses first',
        'rounds from t',
        'scales the update',
        'divides by all',
    ),
    (
        (interval_loops.f3ast, HARD, 2, 0.05),
        'counts all active',
        'divides by chosen',
        'no budget',
        'rates rest in empty rounds',
        'rates start at 1/N',
        'ties by the highest id',
        'uses first',
    ),
    ((interval_loops.fedau, HARD, 5), *FEDAU_MISREADINGS),
    ((interval_loops.fedau, HARD, 50), *FEDAU_MISREADINGS),
    (
        (interval_loops.fedavg_known, HARD),
        'last client',
        'probability of round 0',
        'scales the local rate',
        'divides by active',
    ),
    (
        (interval_loops.fedawe, GENTLE),
        'base is the server model',
        'broadcast at the start',
        'counts first',
        'divides by all',
        'tau rests in empty rounds',
        'tau starts at 0',
    ),
    (
        (memory_loops.fedvarp, HARD),
        'divides by all',
        'new mean',
        'moves in empty rounds',
    ),
    ((memory_loops.mifa, HARD, 'delta'), *MIFA_MISREADINGS),
    ((memory_loops.mifa, HARD, 'gradient'), *MIFA_MISREADINGS),
    (
        (memory_loops.scaffold, HARD),
        'correction with the other sign',
        'forgets c',
        'server control over active',
    ),
    (
        (newer_loops.amplified_scaffold, HARD, 6, 1.2),
        'keeps corrected gradients',
        'last round of the window',
        'controls in every round',
        'divides by the active',
    ),
    (
        (newer_loops.ca2fl, HARD, 5),
        'from the server model',
        'new mean',
        'divides by K',
        'mean over the seen',
        'mean of every round',
    ),
    (
        (correlation_loops.ca_fed, GENTLE, 0.0, 0.2),
        'availability first',
        'distance not squared',
        'the round itself does not count',
        'the unseen lose nothing',
    ),
    (
        (newer_loops.fedbuff, HARD, 5),
        'difference against the current model',
        'no discount',
        'receives before the step',
        'divides by K',
    ),
    (
        (newer_loops.feddyn, HARD, 0.3),
        'penalty without the half',
        'h over active',
        'sums models, subtracts x once',
        'moves in empty rounds',
    ),
    (
        (newer_loops.fedstale, GENTLE, 0.4),
        'unweighted correction',
        'new mean',
        'rests in empty rounds',
    ),
    (
        (newer_loops.fedstale_async, GENTLE, 0.7, (0.3, 2), (0.2, 1)),
        'age since the arrival',
        'the last weight',
        'rests in empty rounds',
        'divides by the seen',
        'one round older',
    ),
    (
        (newer_loops.focus, GENTLE),
        'gradient after the last step',
        'reset in every round',
        'rests in empty rounds',
        'a mean',
    ),
    ((peer_loops.aged_fedvarp, HARD, 5), 'never forgets y_i'),
    ((peer_loops.aged_mifa, HARD, 5), 'over all', 'younger than the age'),
    ((peer_loops.area, HARD), 'mean over the active', 'sends its update'),
    ((peer_loops.cogc, OFTEN, EDGES, 1), 'waits for all'),
    ((peer_loops.colrel, GENTLE, EDGES, WEIGHTS), 'mean over the active', 'transposed'),
    ((peer_loops.gossip, HARD, EDGES), 'own degree'),
    ((peer_loops.mimic, HARD), 'corrects twice', 'forgets'),
    ((S2A, HARD, EDGES, 3), 'averages z', 'server in the first round'),
    ((S2S, HARD, EDGES, 3), 'averages z', 'server in the first round'),
    ((quadratic_loops.fedpbc, HARD), 'broadcast at the start', 'rests in empty rounds'),
]


def path(oracle, *arguments, **options):
    """The server model after every round; what else a loop returns is left out."""
    result = oracle(*arguments, **options)
    return result[0] if isinstance(result, tuple) else result


@pytest.mark.slow
@pytest.mark.parametrize(
    'call, wrong', [(call, name) for call, *wrong in ORACLES for name in wrong]
)
def test_a_wrong_variant_leaves_the_path_of_the_listing(call, wrong):
    assert_caught(path(*call), path(*call, wrong=wrong))
