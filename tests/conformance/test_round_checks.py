"""The checks of single rounds catch an algorithm with one mistake, and no algorithm without."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import algorithms, base, participation, prng, testing
from fedjax_links.base import LinkSample
from fedjax_links.core.registry import AlgorithmEntry
from fedjax_links.testing import influence


def entry_of(change):
    """FedAvg with a round step that ``change(round_step)`` made."""

    def make(local_train):
        algorithm = algorithms.fedavg(local_train)
        return algorithm._replace(round_step=change(algorithm.round_step))

    return AlgorithmEntry(make)


def metrics_changed(**changes):
    """A change of FedAvg's metrics, by name a function of the metric."""

    def change(round_step):
        def changed(state, ctx, problem):
            state, metrics = round_step(state, ctx, problem)
            new = {name: f(getattr(metrics, name)) for name, f in changes.items()}
            return state, metrics._replace(**new)

        return changed

    return change


def trains_whoever_is_told(round_step):
    def changed(state, ctx, problem):
        links = ctx.links
        if base.is_duplex(links):
            links = links._replace(compute=jnp.ones_like(links.mask))
        return round_step(state, ctx._replace(links=links), problem)

    return changed


def divides_by_uplinks(round_step):
    def changed(state, ctx, problem):
        new_state, metrics = round_step(state, ctx, problem)
        ratio = metrics.num_active / jnp.maximum(1, ctx.links.mask.sum())
        step = new_state.server - state.server
        return new_state._replace(server=state.server + ratio * step), metrics

    return changed


def with_noise(draw):
    """A change that adds what is drawn from the key of the server."""

    def change(round_step):
        def changed(state, ctx, problem):
            state, metrics = round_step(state, ctx, problem)
            noise = draw(ctx.server_key)
            return jax.tree.map(lambda a: a + noise.astype(a.dtype), state), metrics

        return changed

    return change


def in_float32(round_step):
    def changed(state, ctx, problem):
        new_state, metrics = round_step(state, ctx, problem)
        rounded = jax.tree.map(lambda a: a.astype('float32').astype(a.dtype), new_state)
        return rounded, metrics

    return changed


def nan(extra):
    return {'share': jnp.float32(jnp.nan)}


@pytest.mark.parametrize(
    'check, change, message',
    [
        (
            'clients_that_cannot_compute_stay_out',
            trains_whoever_is_told,
            'cannot compute reached the state',
        ),
        (
            'clients_that_cannot_compute_stay_out',
            divides_by_uplinks,
            'uplink of a client that cannot compute must not matter',
        ),
        (
            'counts_match_the_data_used',
            metrics_changed(num_active=lambda n: n - 1),
            '`num_active` must count',
        ),
        (
            'counts_match_the_data_used',
            metrics_changed(num_active=lambda n: n + 1),
            '`num_active` must count',
        ),
        (
            'counts_match_the_data_used',
            metrics_changed(num_computing=lambda n: n - 1),
            '`num_computing` must count',
        ),
        (
            'counts_match_the_data_used',
            metrics_changed(loss_sum=lambda loss: loss / 8),
            '`loss_sum` must be the sum',
        ),
        ('metrics_are_counts', metrics_changed(extra=nan), '`extra` must be finite'),
        (
            'keys_come_from_the_round',
            with_noise(lambda key: prng.uniform(jax.random.key(0))),
            'a key of its own',
        ),
        (
            'keys_are_used_once',
            with_noise(lambda key: prng.uniform(key) * prng.uniform(key)),
            'no key may be used twice',
        ),
    ],
)
def test_a_mistake_in_a_round_is_caught(check, change, message):
    with pytest.raises(AssertionError, match=message):
        testing.ALGORITHM_CHECKS[check](testing.Runs(entry_of(change)))


@pytest.mark.slow
def test_models_of_float32_under_x64_are_caught():
    check = testing.ALGORITHM_CHECKS['double_precision_agrees']
    check(testing.Runs(AlgorithmEntry(algorithms.fedavg)))
    with pytest.raises(AssertionError, match='must have the digits of float64'):
        check(testing.Runs(entry_of(in_float32)))


@pytest.mark.slow
def test_noise_of_another_precision_under_x64_is_named():
    noisy = entry_of(with_noise(lambda key: jax.random.uniform(key, dtype=float)))
    with pytest.raises(AssertionError, match='draw random numbers in float32'):
        testing.ALGORITHM_CHECKS['double_precision_agrees'](testing.Runs(noisy))


def test_a_key_in_the_state_is_caught():
    def make(local_train):
        algorithm = algorithms.fedavg(local_train)
        return base.Algorithm(
            init=lambda params, problem: (
                algorithm.init(params, problem),
                jax.random.key(0),
            ),
            round_step=lambda state, ctx, problem: (
                (algorithm.round_step(state[0], ctx, problem)[0], state[1]),
                algorithm.round_step(state[0], ctx, problem)[1],
            ),
            models=lambda state: algorithm.models(state[0]),
        )

    with pytest.raises(AssertionError, match='the state must hold no key'):
        testing.ALGORITHM_CHECKS['keys_come_from_the_round'](
            testing.Runs(AlgorithmEntry(make))
        )


def test_influence_is_what_a_loop_over_clients_finds():
    """FedPBC: clients train whose uplink is lost, and the server averages the others."""
    program = testing.Runs(algorithms.ALGORITHMS['fedpbc'])
    found = influence.of_later_round(program.rounds.algorithm)
    uplink = np.arange(8) != 0
    compute = np.arange(8) != 1
    np.testing.assert_array_equal(found.server, uplink & compute)
    np.testing.assert_array_equal(found.state, compute)
    assert (found.metrics.num_active, found.metrics.num_computing) == (6, 7)
    targets = np.random.default_rng(1).normal(size=(8, 2))
    np.testing.assert_allclose(found.losses, (targets**2).sum(axis=1) / 2, rtol=1e-5)


def test_a_pattern_that_draws_twice_from_a_key_is_caught():
    def sample(carry, key, round):
        mask = (prng.uniform(key, (4,)) < 0.8) & (prng.uniform(key, (4,)) < 0.5)
        return carry, LinkSample(mask, jnp.full(4, 0.5))

    pattern = participation.bernoulli(np.full(4, 0.5))._replace(sample=sample)
    with (
        jax.debug_key_reuse(False),  # As users have it.
        pytest.raises(AssertionError, match='no key may be used twice'),
    ):
        testing.check_participation(pattern)


def ring_of_own(mistake):
    """A ring of six clients, each edge up in half of the rounds, with one mistake."""
    clients = np.arange(6)
    neighbours = np.sort(np.stack([(clients - 1) % 6, (clients + 1) % 6], axis=1))
    edge_of = np.array([[0, 5], [0, 1], [1, 2], [2, 3], [3, 4], [5, 4]])
    if mistake == 'no such client':
        neighbours = neighbours + 1
    if mistake == 'ends apart':
        edge_of = np.arange(12).reshape(6, 2)
    edge_prob = 0.6 if mistake == 'probability' else 0.5

    def sample(carry, key, round):
        uplinks, edges = jax.random.split(key)
        up = prng.uniform(edges, (12,)) < 0.5
        links = base.PeerLinkSample(
            mask=prng.uniform(uplinks, (6,)) < 0.5,
            prob=jnp.full(6, 0.5),
            neighbours=jnp.asarray(neighbours, jnp.int32),
            edges=up[edge_of],
            edge_prob=jnp.full((6, 2), edge_prob),
        )
        return carry, links

    return base.Participation(init=lambda key: (), sample=sample, num_clients=6)


@pytest.mark.parametrize(
    'mistake, message',
    [
        ('no such client', r'`neighbours` must lie in \[0, 5\]'),
        ('ends apart', '`edges` must be up for both ends or for none'),
        ('probability', 'edges depart from `edge_prob`'),
    ],
)
def test_a_mistake_in_links_between_clients_is_caught(mistake, message):
    check = testing.PARTICIPATION_CHECKS['edges_join_two_clients']
    check(ring_of_own('none'), testing.Promises())
    with pytest.raises(AssertionError, match=message):
        check(ring_of_own(mistake), testing.Promises())
