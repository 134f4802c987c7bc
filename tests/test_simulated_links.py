"""The driver and its links: counters, replays, precomputed links, forks."""

import functools
import itertools

import jax
import numpy as np
import pytest

from fedjax_links import (
    algorithms,
    base,
    participation,
    simulation,
)
from fedjax_links.testing import federation
from tests.participation.sampling import roll
from tests.small_runs import (
    AS_USERS_COMPILE,
    BERNOULLI,
    COHORTS,
    KEY,
    MARKOV,
    NUM_CLIENTS,
    NUM_ROUNDS,
    SEED,
    assert_close,
    assert_identical,
    program,
    run,
)
from tests.tiers import cases


@pytest.mark.parametrize(
    'links',
    [
        BERNOULLI,
        pytest.param(MARKOV, marks=pytest.mark.slow),
        pytest.param(COHORTS, marks=pytest.mark.slow),
    ],
)
def test_counters_and_last_links_follow_from_the_masks(links):
    result = run(links=links)
    sample = roll(links, NUM_ROUNDS, SEED)
    mask = sample.mask
    counters = result.state.counters
    np.testing.assert_array_equal(counters.participation_count, mask.sum(axis=0))
    rounds = np.arange(NUM_ROUNDS)[:, None]
    np.testing.assert_array_equal(
        counters.last_active, np.where(mask, rounds, -1).max(axis=0)
    )
    np.testing.assert_array_equal(result.rounds.num_active, mask.sum(axis=1))
    np.testing.assert_array_equal(result.state.links.mask, mask[-1])
    np.testing.assert_array_equal(result.state.links.prob, sample.prob[-1])
    assert int(result.state.round) == NUM_ROUNDS


def test_an_upload_counts_only_if_its_client_can_compute():
    algorithm = algorithms.fedavg(program())
    problem = federation.problem()
    everyone = np.ones(NUM_CLIENTS, bool)
    compute = np.arange(NUM_CLIENTS) != 1
    unknown = np.full(NUM_CLIENTS, np.nan, np.float32)

    @jax.jit
    def first_round(links, problem):
        state = simulation.init(KEY, algorithm, BERNOULLI, problem)
        return simulation.run_round(state, KEY, algorithm, links, problem)

    links = base.DuplexLinkSample(everyone, unknown, everyone, compute)
    state, metrics = first_round(links, problem)
    counters = state.counters
    np.testing.assert_array_equal(counters.participation_count, compute)
    np.testing.assert_array_equal(counters.last_active, np.where(compute, 0, -1))
    assert int(metrics.num_active) == compute.sum()


def test_before_the_first_round_nobody_was_active():
    state = simulation.init(
        KEY, algorithms.fedavg(program()), BERNOULLI, federation.problem()
    )
    assert not state.links.mask.any()
    assert (state.counters.last_active == -1).all()
    assert not state.counters.participation_count.any()
    assert int(state.round) == 0
    assert bool(state.finite)
    assert int(state.first_bad_round) == -1


@pytest.mark.parametrize('name', cases(['fedavg_all', 'fedpbc', 'mifa'], ['fedpbc']))
def test_all_algorithms_meet_the_same_links_and_batches(name):
    """All start from one model, so in round 0 only links and batches make the losses."""
    reference = run()
    other = run(algorithms.ALGORITHMS[name].factory)
    assert int(reference.rounds.num_active[0]) > 0
    np.testing.assert_allclose(
        other.rounds.loss_sum[0], reference.rounds.loss_sum[0], rtol=1e-6
    )
    assert_identical(other.state.counters, reference.state.counters)
    assert_identical(other.state.links, reference.state.links)
    elsewhere = run(algorithms.ALGORITHMS[name].factory, key=jax.random.key(32))
    assert abs(elsewhere.rounds.loss_sum[0] - reference.rounds.loss_sum[0]) > 1e-4


@pytest.mark.slow
@pytest.mark.optimised
def test_replaying_realised_links_repeats_the_run():
    make = algorithms.fedavg
    original = run(make, MARKOV)
    sample = simulation.realised_links(KEY, MARKOV, num_rounds=NUM_ROUNDS)
    replayed = run(
        make, participation.replay(np.asarray(sample.mask), np.asarray(sample.prob))
    )
    assert_identical(replayed.state.algorithm, original.state.algorithm)
    assert_identical(replayed.rounds, original.rounds)
    assert_identical(replayed.state.counters, original.state.counters)


@pytest.mark.parametrize(
    'links',
    [
        pytest.param(COHORTS, id='cohorts'),
        pytest.param(COHORTS, id='cohorts-as-users-compile', marks=AS_USERS_COMPILE),
        pytest.param(MARKOV, id='masks', marks=AS_USERS_COMPILE),
        pytest.param(
            participation.duplex(uplink=MARKOV, downlink=BERNOULLI),
            id='duplex',
            marks=AS_USERS_COMPILE,
        ),
    ],
)
def test_rounds_under_precomputed_links_equal_the_patterns(links):
    """To the bit, whole or in pieces, one of which is a single round."""
    original = run(algorithms.mifa, links, eval_every=2)
    draw = jax.jit(
        functools.partial(
            simulation.realised_links, participation=links, num_rounds=NUM_ROUNDS
        )
    )
    sampled_links = draw(KEY)
    algorithm = algorithms.mifa(program())
    problem = federation.problem()

    @jax.jit
    def advance(state, links, problem):
        return simulation.advance(state, KEY, links, algorithm, problem)

    as_numpy = jax.tree.map(np.asarray, sampled_links)
    sample = jax.tree.map(lambda a: a[0], as_numpy)
    state = simulation.init(KEY, algorithm, sample, problem)
    rounds = []
    # Half of the rounds at once, the others one by one.
    for first, end in itertools.pairwise([0, *range(NUM_ROUNDS // 2, NUM_ROUNDS + 1)]):
        piece = jax.tree.map(lambda a, i=first, j=end: a[i:j], as_numpy)
        state, metrics = advance(state, piece, problem)
        rounds.append(metrics)
    assert state.participation == ()
    assert_identical(state, original.state._replace(participation=()))
    joined = jax.tree.map(lambda *parts: np.concatenate(parts), *rounds)
    assert_identical(joined, jax.tree.map(np.asarray, original.rounds))
    simulate = jax.jit(
        functools.partial(simulation.simulate, num_rounds=NUM_ROUNDS, eval_every=2),
        static_argnums=1,
    )
    simulated = simulate(KEY, algorithm, sampled_links, problem)
    assert_identical(simulated.state, state)
    assert_identical(simulated.evals, original.evals)
    with pytest.raises(ValueError, match=f'have 3 rounds of links, got {NUM_ROUNDS}'):
        simulation.simulate(KEY, algorithm, sampled_links, problem, num_rounds=3)


@pytest.mark.slow
def test_a_run_can_be_forked_under_other_links():
    """Rounds 4 to 7 under full participation equal those of one run whose recording says so."""
    trunk = run(links=MARKOV, num_rounds=4)
    before = jax.tree.map(np.array, trunk.state)
    everyone = participation.always(NUM_CLIENTS)
    forked = trunk.state._replace(participation=everyone.init(KEY))
    fork = run(links=everyone, num_rounds=4, state=forked)
    mask = np.asarray(simulation.realised_links(KEY, MARKOV, num_rounds=4).mask)
    recorded = participation.replay(np.r_[mask, np.ones((4, NUM_CLIENTS), bool)])
    assert_close(
        fork.state.algorithm, run(links=recorded, num_rounds=8).state.algorithm
    )
    assert_identical(jax.tree.map(np.array, trunk.state), before)
    assert int(fork.rounds.num_active.sum()) == 4 * NUM_CLIENTS
    not_forked = run(links=MARKOV, num_rounds=4, state=trunk.state)
    assert int(not_forked.rounds.num_active.sum()) < 4 * NUM_CLIENTS
