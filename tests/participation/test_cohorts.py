"""Cohorts without weights: uniform, regularised, periodic groups; and the simplest patterns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links.base import LinkSample, cohort_links
from fedjax_links.core import prng
from fedjax_links.links import graphs
from fedjax_links.participation import (
    always,
    bernoulli,
    duplex,
    peers,
    periodic_groups,
    regularized,
    replay,
    uniform_cohort,
)
from tests import refusals
from tests.participation.sampling import (
    assert_frequencies,
    assert_uniform_pairs,
    masks,
    refuses,
    roll,
    roll_together,
)


def test_always_and_replay():
    links = roll(always(3), 4)
    assert links.mask.all()
    assert (links.prob == 1).all()
    recording = np.random.default_rng(0).random((5, 3)) < 0.5
    np.testing.assert_array_equal(
        roll(replay(recording), 12).mask, np.tile(recording, (3, 1))[:12]
    )


@pytest.mark.parametrize('kind', [int, np.uint8])
def test_replay_takes_integers_for_a_mask_if_they_are_0_and_1(kind):
    recording = np.array([[0, 1, 1], [1, 0, 0]]).astype(kind)
    mask = roll(replay(recording), 2).mask
    assert mask.dtype == bool
    np.testing.assert_array_equal(mask, recording == 1)


@pytest.mark.parametrize(
    'mask, got',
    [
        ([[0, 1], [1, 2]], '2'),
        (np.array([[-1, 1]]), '-1'),
        ([[0.0, 1.0]], 'dtype float64'),  # probabilities, more likely than a mask
        (jnp.ones((2, 3)), 'dtype float32'),
    ],
)
def test_replay_says_what_else_its_mask_holds(mask, got):
    refuses(
        lambda: replay(mask), f'`mask` must be boolean, or integers 0 and 1, got {got}.'
    )


def test_replay_takes_tuples_for_a_mask_but_no_sample():
    recording = ((0, 1, 1), (1, 0, 0))
    np.testing.assert_array_equal(roll(replay(recording), 2).mask, recording)
    links = roll(always(3), 2)
    for sample in (links, cohort_links(np.array([[0], [2]]), 3, np.nan)):
        with refusals.names('mask', 'as `links.mask` is'):
            replay(sample)


RING = graphs.ring(4)
UP = np.ones((2, 4), bool)


def test_a_run_with_directions_and_neighbours_replays():
    split = duplex(uplink=bernoulli([0.5] * 4), downlink=bernoulli([0.5] * 4))
    patterns = [
        split,
        peers(split, RING, prob=0.5),
        peers(bernoulli([0.5] * 4), RING, prob=0.5),
    ]
    originals = roll_together(patterns, 6)
    replays = []
    for links in originals:
        recording = {k: v for k, v in links._asdict().items() if v is not None}
        if 'neighbours' in recording:
            recording['neighbours'] = links.neighbours[0]
        replays.append(replay(**recording))
    again = roll_together(replays, 6)
    assert jax.tree.structure(again) == jax.tree.structure(originals)
    jax.tree.map(np.testing.assert_array_equal, again, originals)


def test_a_client_may_deliver_without_receiving():
    links = roll(replay(UP, downlink=~UP), 2)
    assert links.compute.all()
    assert not links.downlink.any()


def one_way():
    edges = np.zeros((2, 4, 2), bool)
    edges[1, 0, 0] = True
    return edges


NO_RECORDINGS = {
    'one end': ('edges', {'neighbours': RING.neighbours, 'edges': one_way()}),
    'another round': (
        'edges',
        {
            'neighbours': [[1, 1], [0, 0]],
            'mask': np.ones((2, 2), bool),
            'edges': np.eye(2, dtype=bool)[:, :, None] & [True, False],
        },
    ),
    'itself': (
        'edges',
        {'neighbours': np.tile(np.arange(4)[:, None], 2), 'edges': one_way()},
    ),
    'no neighbour back': (
        'edges',
        {'neighbours': [[1]] * 4, 'edges': np.ones((2, 4, 1), bool)},
    ),
    'twice': (
        'neighbours',
        {
            'neighbours': [[1, 1], [0, 0]],
            'mask': np.ones((2, 2), bool),
            'edges': np.ones((2, 2, 2), bool),
        },
    ),
    'shape': ('edges', {'neighbours': RING.neighbours, 'edges': [[True, False]]}),
    'dtype': ('edges', {'neighbours': RING.neighbours, 'edges': np.ones((2, 4, 2))}),
    'edge_prob': (
        'edge_prob',
        {
            'neighbours': RING.neighbours,
            'edges': np.ones((2, 4, 2), bool),
            'edge_prob': np.ones((2, 4)),
        },
    ),
    'edge_prob of what': ('edges', {'edge_prob': np.ones(2)}),
    'compute alone': ('downlink', {'compute': UP}),
    'downlink': ('downlink', {'downlink': UP[:1]}),
    'floats': ('compute', {'downlink': UP, 'compute': np.ones((2, 4))}),
    'a sample': ('mask', {'mask': LinkSample(UP, np.ones((2, 4)))}),
}


@pytest.mark.parametrize('case', NO_RECORDINGS)
def test_a_recording_that_is_none_is_refused(case):
    field, options = NO_RECORDINGS[case]
    with refusals.names(field):
        replay(**{'mask': UP, **options})


def test_edges_may_be_a_list():
    both = roll(
        replay([[True, True]], neighbours=[[1], [0]], edges=[[[True], [True]]]), 1
    )
    assert both.edges.all()


@pytest.mark.statistical
def test_bernoulli_marginals_and_pairs():
    p = np.array([0.0, 0.1, 0.5, 1.0])
    mask = masks(bernoulli(p), 2, 20_000)
    assert_frequencies(mask[:, 0].sum(axis=0), p, 20_000)
    pairs = (mask[:, 0, :, None] & mask[:, 1, None, :]).sum(axis=0)
    assert_frequencies(pairs, np.outer(p, p), 20_000)
    both = (mask[:, 0, 1] & mask[:, 0, 2]).sum()
    assert_frequencies(np.array(both), 0.05, 20_000)


@pytest.mark.statistical
def test_uniform_cohorts_are_uniform_over_sets():
    assert_uniform_pairs(masks(uniform_cohort(5, 2), 2, 20_000))


@pytest.mark.statistical
def test_regularized_permutations_are_uniform_and_fresh():
    mask = masks(regularized(6, 2), 6, 20_000)
    turn = np.argmax(mask.reshape(-1, 2, 3, 6), axis=2)  # [S, period, N]
    for first in range(3):
        counts = np.stack(
            [(turn[:, 0] == first).sum(axis=0), (turn[:, 1] == first).sum(axis=0)]
        )
        assert_frequencies(counts, np.full((2, 6), 1 / 3), 20_000)
    together = (turn[:, 0, 0] == turn[:, 0, 1]).sum()
    assert_frequencies(np.array(together), 1 / 5, 20_000)
    repeated = (turn[:, 0] == turn[:, 1]).sum(axis=0)
    assert_frequencies(repeated, np.full(6, 1 / 3), 20_000)


GROUPS = np.repeat(np.arange(5), 50)


@pytest.mark.slow
def test_periodic_groups_windows():
    pattern = periodic_groups(GROUPS, active_rounds=100, cohort_size=10)
    offset = int(pattern.init(prng.pattern_key(jax.random.key(0))).offset)
    links = roll(pattern, 1100)
    assert 0 <= offset < 100
    assert (links.mask.sum(axis=1) == 10).all()
    for t in range(1100):
        group = ((t + offset) // 100) % 5
        assert (GROUPS[links.mask[t]] == group).all()
        np.testing.assert_allclose(
            links.prob[t], np.where(group == GROUPS, 0.2, 0), rtol=1e-6
        )
    change = np.flatnonzero(np.diff(GROUPS[np.argmax(links.mask, axis=1)])) + 1
    np.testing.assert_array_equal(change, 100 - offset + 100 * np.arange(len(change)))


@pytest.mark.statistical
def test_periodic_groups_offset_and_selection_are_uniform():
    groups = np.array([1, 0, 1, 0, 0])
    mask = masks(periodic_groups(groups, active_rounds=4, cohort_size=2), 4, 20_000)
    early = mask[:, :, groups == 0].any(axis=2)
    assert early[:, 0].all()
    # Group 0's first turn lasts 4 - offset rounds.
    counts = np.bincount(early.sum(axis=1), minlength=5)[1:]
    assert_frequencies(counts, np.full(4, 0.25), 20_000)
    assert_frequencies(mask[:, 0].sum(axis=0), np.where(groups == 0, 2 / 3, 0), 20_000)


def test_errors():
    refuses(lambda: regularized(5, 9), '`cohort_size` must be at most 5, got 9.')
    refuses(lambda: regularized(5, 0), '`cohort_size` must be at least 1, got 0.')
    refuses(lambda: uniform_cohort(5, 9), '`cohort_size` must be at most 5, got 9.')
    refuses(
        lambda: periodic_groups([0, 0, 1], active_rounds=2, cohort_size=2),
        '`cohort_size` must be at most 1, got 2.',
    )
    refuses(
        lambda: periodic_groups([0, 2], active_rounds=2, cohort_size=1),
        '`groups` must use each label up to 2, got no client with label 1.',
    )
    refuses(
        lambda: periodic_groups([0, -1], active_rounds=2, cohort_size=1),
        '`groups` must be at least 0, got -1 at 1.',
    )
    refuses(
        lambda: periodic_groups([0.5], active_rounds=2, cohort_size=1),
        '`groups` must have an integer dtype, got float64.',
    )
    refuses(
        lambda: periodic_groups([0, 1], active_rounds=0, cohort_size=1),
        '`active_rounds` must be at least 1, got 0.',
    )
