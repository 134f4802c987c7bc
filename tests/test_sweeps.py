"""A grid times seeds in one program, lane by lane equal to single runs."""

import functools
import logging
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import (
    algorithms,
    local_training,
    participation,
    problems,
    simulation,
    sweeps,
)
from fedjax_links.links import graphs
from tests import refusals
from tests.participation.sampling import roll_together

TARGETS = np.random.default_rng(4).normal(size=(5, 3))
PROBS = np.linspace(0.2, 0.9, 5)
RATES = (0.05, 0.1, 0.4)
SEEDS = (3, 0, 2**32 - 1, 7)
ROUNDS = 6


def make_program(learning_rate=0.1):
    return local_training.local_sgd(learning_rate, local_steps=2, chunk_size=2)


def make_algorithm(learning_rate=0.1, server_lr=1.0):
    return algorithms.fedavg(make_program(learning_rate), server_lr=server_lr)


def make_links(p=PROBS):
    return participation.bernoulli(p * np.ones(5, np.float32))


def sweep(make=make_algorithm, links=make_links, problem=None, **kwargs):
    arguments = {'seeds': SEEDS, 'num_rounds': ROUNDS, 'eval_every': 2, **kwargs}
    return sweeps.sweep(
        make, links, problem or problems.quadratic(TARGETS), **arguments
    )


@functools.cache
def _single(jit):
    return jit(
        lambda key, p, hyper_parameters, problem: simulation.simulate(
            key,
            make_algorithm(**hyper_parameters),
            make_links(p),
            problem,
            num_rounds=ROUNDS,
            eval_every=2,
        )
    )


def single(seed, *, p=PROBS, learning_rate=0.1, server_lr=1.0):
    problem = problems.quadratic(TARGETS)
    hyper_parameters = {'learning_rate': learning_rate, 'server_lr': server_lr}
    probs = np.broadcast_to(np.float32(p), 5)
    return _single(jax.jit)(jax.random.key(seed), probs, hyper_parameters, problem)


def compilations(caplog):
    """Names of the programs compiled while the log was captured."""
    texts = (record.getMessage() for record in caplog.records)
    result = (re.match(r'Finished XLA compilation of (\S+)', text) for text in texts)
    return [match[1] for match in result if match]


def test_rates_times_seeds_compile_once(caplog):
    traces = []

    def loss_fn(params, batch):
        traces.append(1)
        return 0.5 * jnp.mean(jnp.square(params[None] - batch.features))

    features = TARGETS.astype(np.float32)
    problem = problems.from_arrays(
        features,
        np.zeros(5),
        np.arange(5),
        init_params=lambda key: jnp.zeros(3),
        loss_fn=loss_fn,
    )
    counts = []
    for grid in ({}, {'algorithm': {'learning_rate': RATES}}):
        traces.clear()
        caplog.clear()
        with jax.log_compiles(), caplog.at_level(logging.WARNING):
            result = sweep(problem=problem, grid=grid)
        counts.append(len(traces))
        assert compilations(caplog) == ['jit(run)'], compilations(caplog)
    assert counts[0] == counts[1]  # three rates are traced as often as one
    assert result.rounds.loss_sum.shape == (len(RATES), len(SEEDS), ROUNDS)
    assert result.evals['server']['loss'].shape == (len(RATES), len(SEEDS), 3)
    assert result.state.algorithm.server.shape == (len(RATES), len(SEEDS), 3)


def test_the_count_of_compilations_can_fail(caplog):
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        for scale in (2.0, 3.0):
            jax.jit(lambda x, scale=scale: scale * x)(jnp.arange(3.0))
    assert len([name for name in compilations(caplog) if 'lambda' in name]) == 2


RING = graphs.ring(5)
TWO_STEPS = functools.partial(local_training.local_sgd, local_steps=2)
SWEPT = {  # algorithm, links, grid
    's2s': (
        lambda learning_rate: algorithms.s2s(TWO_STEPS(learning_rate)),
        lambda prob: participation.peers(make_links(), RING, prob=prob),
        {
            'algorithm': {'learning_rate': RATES},
            'participation': {'prob': [0.2, 0.5, 0.9]},
        },
    ),
    'mifa': (
        lambda max_age: algorithms.mifa(TWO_STEPS(0.1), max_age=max_age),
        make_links,
        {'algorithm': {'max_age': [0, 1, 4]}},
    ),
    'quorum': (
        make_algorithm,
        lambda deadline, grace: participation.quorum(
            participation.Times(np.linspace(1.0, 3.0, 5), sigma=0.5),
            quorum=3,
            deadline=deadline,
            grace=grace,
        ),
        {'participation': {'deadline': [1.0, 2.0, 4.0], 'grace': [0.0, 0.5, 1.0]}},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize('name', SWEPT)
def test_links_between_clients_ages_and_deadlines_are_swept(name):
    make, links, grid = SWEPT[name]
    result = sweep(make, links, grid=grid)
    models = np.asarray(result.state.algorithm.server)
    assert not np.array_equal(models[0], models[-1])
    for g in range(len(RATES)):
        options = {
            part: {k: column[g] for k, column in grid.get(part, {}).items()}
            for part in grid
        }
        algorithm = make(**options.get('algorithm', {}))
        pattern = links(**options.get('participation', {}))
        for s, seed in enumerate(SEEDS):
            expected = simulation.simulate(
                jax.random.key(seed),
                algorithm,
                pattern,
                problems.quadratic(TARGETS),
                num_rounds=ROUNDS,
                eval_every=2,
            )
            own_model = expected.state.algorithm.server
            np.testing.assert_allclose(models[g, s], own_model, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize(
    'batching, rtol',
    [
        pytest.param('map', 0, marks=[pytest.mark.optimised, pytest.mark.slow]),
        ('vmap', 2e-6),
    ],
)
def test_every_lane_is_a_run_of_its_own(batching, rtol):
    grid = {
        'algorithm': {'learning_rate': RATES, 'server_lr': [1.0, 0.5, 0.9]},
        'participation': {'p': [0.3, 0.6, 1.0]},
    }
    result = sweep(grid=grid, batching=batching)
    for g in range(len(RATES)):
        for s, seed in enumerate(SEEDS):
            expected = single(
                seed,
                p=grid['participation']['p'][g],
                **{name: column[g] for name, column in grid['algorithm'].items()},
            )
            lane = jax.tree.map(lambda a, g=g, s=s: a[g, s], result)
            assert jax.tree.structure(lane) == jax.tree.structure(expected)
            for a, b in zip(
                jax.tree.leaves(lane), jax.tree.leaves(expected), strict=True
            ):
                if rtol:
                    np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-6)
                else:
                    np.testing.assert_array_equal(a, b)


def test_probabilities_may_be_one_number_or_one_per_client():
    profiles = np.stack([PROBS, PROBS[::-1], np.ones(5)]).astype(np.float32)
    result = sweep(grid={'participation': {'p': profiles}})
    patterns = [make_links(profile) for profile in profiles]
    alone = [links.mask for links in roll_together(patterns, ROUNDS, seed=SEEDS[1])]
    np.testing.assert_array_equal(
        result.state.counters.participation_count[:, 1], np.sum(alone, axis=1)
    )
    assert (result.state.counters.participation_count[2] == ROUNDS).all()


def test_without_a_grid_there_is_one_point():
    result = sweep(seeds=[4])
    assert result.state.algorithm.server.shape == (1, 1, 3)
    expected = single(4, learning_rate=0.1)
    np.testing.assert_allclose(
        result.state.algorithm.server[0, 0], expected.state.algorithm.server, rtol=1e-6
    )


@pytest.mark.parametrize(
    'arguments, message',
    [
        (
            {'grid': {'algorithms': {'learning_rate': [0.1]}}},
            "`grid` has no 'algorithms'; did you mean 'algorithm'",
        ),
        (
            {
                'grid': {
                    'algorithm': {'learning_rate': [0.1, 0.2]},
                    'participation': {'p': [0.5]},
                }
            },
            r'^`grid` must have columns of one length, got '
            r"\{'algorithm.learning_rate': 2, 'participation.p': 1\}\.",
        ),
        (
            {
                'make': lambda p: algorithms.fedavg(make_program(), server_lr=p),
                'grid': {
                    'algorithm': {'p': [0.1, 0.2]},
                    'participation': {'p': [0.5]},
                },
            },
            r'^`grid` must have columns of one length, got '
            r"\{'algorithm.p': 2, 'participation.p': 1\}\.",
        ),
        (
            {'grid': {'algorithm': {'learning_rates': [0.1]}}},
            r"^`grid\.algorithm` has no 'learning_rates'; did you mean 'learning_rate'\?$",
        ),
        (
            {'make': lambda *, rate: algorithms.fedavg(make_program(rate))},
            r'^`grid\.algorithm\.rate` must be given, got None\.$',
        ),
        (
            {'grid': {'algorithm': {'learning_rate': []}}},
            r'^`learning_rate` must be a column of numbers, one per point, got \[\]\.$',
        ),
        (
            {'grid': {'algorithm': {'learning_rate': 0.1}}},
            '`learning_rate` must be a column of n',
        ),
        (
            {'grid': {'algorithm': {'learning_rate': ['a']}}},
            '`learning_rate` must be a column of',
        ),
        (
            {'grid': {'algorithm': {'learning_rate': [0.1, float('nan')]}}},
            '`learning_rate` must be finite',
        ),
        ({'seeds': []}, '`seeds` must name at least one seed'),
        ({'seeds': 5}, r'^`seeds` must be a list of seeds, got 5\.$'),
        (
            {'make': algorithms.fedavg(local_training.local_sgd(0.1, local_steps=1))},
            r'^`make_algorithm` must be a function of its grid columns, .*, got <Algorithm fedavg>',
        ),
        (
            {'links': participation.always(6)},
            r'^`make_participation` must be a function of .*, got <Participation always: 6 clients',
        ),
        (
            {'seeds': [3, 1, 3]},
            r'^`seeds` must hold each seed once, got \[3, 1, 3\]\.$',
        ),
        ({'seeds': [2**32]}, '`seeds` must be at most 4294967295'),
        (
            {'grid': {'algorithm': {'learning_rate': [0.1, -0.5]}}},
            r'^`learning_rate` must be positive, got -0\.5 at point 1 of `grid`\.$',
        ),
        (
            {'grid': {'participation': {'p': [[0.1, 1.1, 0.1, 0.1, 0.1]]}}},
            r'^`schedule` must lie in \[0, 1\], got 1\.1 at client 1 at point 0 of `grid`\.$',
        ),
        (
            {'grid': {'participation': {'p': np.array([PROBS, 2 * PROBS], 'f')}}},
            r'^`schedule` must lie in \[0, 1\], got 1\.\d* at client 2 at point 1 of `grid`\.$',
        ),
        (
            {'grid': {'algorithm': {'server_lr': [[1.0, 2.0]]}}},
            r'^`server_lr` must be one number, got array.* at point 0 of `grid`\.$',
        ),
        (
            {'grid': {'algorithm': {'server_lr': [1.0, 1e39]}}},
            '^`server_lr` must be finite, got',
        ),
        (
            {'grid': {'algorithm': {'server_lr': [1, 2**31]}}},
            r'^`server_lr` must lie in \[-2147483648, 2147483647\], got 2147483648\.$',
        ),
        (
            {
                'make': lambda budget: algorithms.f3ast(make_program(), budget=budget),
                'grid': {'algorithm': {'budget': [1, 2]}},
            },
            r'^`budget` must be a Python integer: .* cannot be swept or traced, got a traced',
        ),
        ({'batching': 'pmap'}, "`batching` has no 'pmap'; did you mean 'map'"),
        ({'num_rounds': 5}, '`eval_every` must divide `num_rounds` = 5'),
    ],
)
def test_impossible_sweeps_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        sweep(**arguments)


def test_makers_take_each_value_once_before_tracing():
    """And a maker that takes traced values alone is not refused."""
    rates = []
    probs = []

    def make(learning_rate, server_lr):
        rates.append(learning_rate)
        return make_algorithm(learning_rate, server_lr)

    def links(p):
        probs.append(p)
        return make_links(p.at[()].get())  # NumPy's arrays have no such thing

    grid = sweeps.product(
        algorithm={'learning_rate': [0.1, 0.2], 'server_lr': [1.0, 2.0]},
        participation={'p': [0.5, 0.6, 0.7]},
    )
    sweep(make, links, grid=grid)
    concrete = [rate for rate in rates if not isinstance(rate, jax.core.Tracer)]
    np.testing.assert_allclose(concrete, [0.1, 0.1, 0.2, 0.2], rtol=1e-6)
    assert len(rates) > len(concrete)
    assert isinstance(probs[-1], jax.core.Tracer)


def test_product_crosses_values_with_the_last_name_fastest():
    columns = sweeps.product(
        algorithm={'learning_rate': [0.1, 0.2]},
        participation={'p': [np.zeros(2), np.ones(2)]},
    )
    np.testing.assert_array_equal(
        columns['algorithm']['learning_rate'], [0.1, 0.1, 0.2, 0.2]
    )
    np.testing.assert_array_equal(
        columns['participation']['p'], [[0, 0], [1, 1], [0, 0], [1, 1]]
    )
    same = sweeps.product(
        {'algorithm': {'learning_rate': [0.1, 0.2]}}, participation={'p': [1]}
    )
    np.testing.assert_array_equal(same['algorithm']['learning_rate'], [0.1, 0.2])


@pytest.mark.parametrize(
    'values, message',
    [
        (
            {'algorithm': {'learning_rate': 0.1}},
            '`learning_rate` must be a list of at least one',
        ),
        (
            {'algorithm': {'learning_rate': []}},
            '`learning_rate` must be a list of at least one',
        ),
        (
            {'participation': {'p': [[0.1], [0.1, 0.2]]}},
            '`p` must be a list of at least one value, all of one shape, got ',
        ),
        ({'participations': {'p': [1]}}, "did you mean 'participation'"),
    ],
)
def test_impossible_products_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        sweeps.product(values)


def test_a_maker_that_is_given_twice_loses_no_values():
    with refusals.names('algorithm', 'left out', 'server_lr'):
        sweeps.product(
            {'algorithm': {'learning_rate': [0.1]}}, algorithm={'server_lr': [1.0]}
        )
