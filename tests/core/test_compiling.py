"""Simulations in a loop compile once, with the same bits, and no program outlives its objects."""

import functools
import gc
import weakref

import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import local_training, participation, problems, simulation
from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.core import compiling
from fedjax_links.testing import federation

CLIENT = local_training.local_sgd(0.1, local_steps=2)
PROBLEM = problems.quadratic([[0.0], [1.0], [3.0]])
COMPILED = [0]


def _note(name, seconds, **_):
    COMPILED[0] += 'backend_compile' in name


jax.monitoring.register_event_duration_secs_listener(_note)


def make_algorithm(name='fedavg', client=CLIENT):
    return ALGORITHMS[name](client, **ALGORITHMS[name].example)


def pattern():
    return participation.bernoulli([0.2, 0.5, 0.9])


def compilations(call):
    """How many programs a call compiles, those in the cache on disk among them."""
    before = COMPILED[0]
    call()
    return COMPILED[0] - before


def test_a_loop_over_keys_compiles_once():
    algorithm = make_algorithm()
    links = pattern()
    run = functools.partial(fl.simulate, num_rounds=20, eval_every=5)
    first = run(jax.random.key(0), algorithm, links, PROBLEM)
    keys = [jax.random.key(seed) for seed in range(1, 4)]
    assert [
        compilations(lambda k=k: run(k, algorithm, links, PROBLEM)) for k in keys
    ] == [0, 0, 0]
    onward = functools.partial(run, initial_state=first.state)
    onward(jax.random.key(0), algorithm, links, PROBLEM)
    assert (
        compilations(lambda: onward(jax.random.key(0), algorithm, links, PROBLEM)) == 0
    )


@pytest.mark.slow
def test_other_objects_and_numbers_are_other_programs():
    algorithm = make_algorithm()
    links = pattern()

    def end(algorithm=algorithm, links=links, problem=PROBLEM, **options):
        arguments = {'num_rounds': 20, **options}
        result = fl.simulate(jax.random.key(0), algorithm, links, problem, **arguments)
        return float(result.state.algorithm.server[0])

    usual = end()
    assert (
        end(make_algorithm(client=local_training.local_sgd(0.2, local_steps=2)))
        != usual
    )
    assert end(links=participation.always(3)) != usual
    assert end(num_rounds=19) != usual
    assert end(problem=problems.quadratic([[0.0], [1.0], [4.0]])) != usual
    assert (
        end(algorithm._replace(models=lambda state: {'server': -state.server})) == usual
    )
    assert end() == usual

    def measure(sign, params, key, problem):
        return {'value': sign * params[0]}

    for sign in (1, -1):
        result = fl.simulate(
            jax.random.key(0),
            algorithm,
            links,
            PROBLEM,
            num_rounds=20,
            eval_fn=functools.partial(measure, sign),
        )
        assert float(result.evals['server']['value'][0]) == sign * usual


@pytest.mark.slow
@pytest.mark.parametrize('name', ['fedavg', 'fedpbc', 'scaffold'])
def test_the_bits_are_those_without_a_program_around(name):
    """`run_round` for round, evaluated by hand: eager but for the loops that a round has."""
    client = local_training.local_sgd(0.2, local_steps=3, batch_size=2)
    algorithm = make_algorithm(name, client)
    links = federation.pattern(*federation.realised_links())
    problem = federation.problem()
    key = jax.random.key(3)
    full = fl.simulate(key, algorithm, links, problem, num_rounds=12, eval_every=4)
    plain = simulation._simulate(
        algorithm, links, None, 12, 4, None, None, problem, key
    )
    jax.tree.map(np.testing.assert_array_equal, full, plain)


@pytest.mark.slow
def test_no_program_outlives_its_objects():
    before = len(compiling._PROGRAMS)
    algorithm = make_algorithm('fedpbc')
    links = pattern()
    fl.simulate(jax.random.key(0), algorithm, links, PROBLEM, num_rounds=4)
    alive = weakref.ref(algorithm.round_step), weakref.ref(links.sample)
    assert len(compiling._PROGRAMS) == before + 1
    del links
    gc.collect()
    assert (len(compiling._PROGRAMS), alive[1]()) == (before, None)
    assert alive[0]() is not None
    del algorithm
    gc.collect()
    assert alive[0]() is None


@pytest.mark.slow
def test_inside_a_trace_no_program_is_stored():
    links = pattern()

    def end(rate):
        algorithm = make_algorithm(client=local_training.local_sgd(rate, local_steps=1))
        key = jax.random.key(0)  # concrete, as the problem is
        return fl.simulate(
            key, algorithm, links, PROBLEM, num_rounds=4
        ).state.algorithm.server[0]

    rates = jnp.array([0.1, 0.2])
    alone = [end(float(rate)) for rate in rates]
    gc.collect()
    before = len(compiling._PROGRAMS)
    np.testing.assert_allclose(jax.jit(end)(0.1), alone[0], rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(end)(rates), alone, rtol=1e-6)
    assert np.isfinite(jax.jvp(end, (0.1,), (1.0,))[1])
    assert len(compiling._PROGRAMS) == before


def apply(function, array):
    return function(array)


def test_methods_run_uncompiled():
    """Each access makes a new one, which would never be found again."""

    class Mine:
        def double(self, array):
            return 2 * array

    method = Mine().double  # lives on, as what it is taken from need not
    before = len(compiling._PROGRAMS)
    result = compiling.call(apply, (method,), jnp.ones(2))
    np.testing.assert_array_equal(result, [2, 2])
    assert len(compiling._PROGRAMS) == before


@pytest.mark.slow
def test_an_algorithm_of_methods_runs_uncompiled():
    base = make_algorithm()
    links = pattern()

    class Mine:
        def init(self, params, problem):
            return base.init(params, problem)

    def end(algorithm):
        return fl.simulate(
            jax.random.key(0), algorithm, links, PROBLEM, num_rounds=4
        ).state.algorithm.server

    expected = end(base)
    before = len(compiling._PROGRAMS)
    mine = base._replace(init=Mine().init)
    np.testing.assert_array_equal(end(mine), expected)
    assert len(compiling._PROGRAMS) == before


def times(factor, array):
    return factor * array


def test_equal_values_of_other_types_are_other_programs():
    ones = jnp.ones(2, jnp.int32)
    dtypes = [compiling.call(times, (factor,), ones).dtype for factor in (2, 2.0, True)]
    assert dtypes == [jnp.int32, jnp.float32, jnp.int32]
    values = [compiling.call(times, (factor,), ones)[0] for factor in (1, True, 1.5)]
    assert values == [1, 1, 1.5]
