"""The driver: pieces, evaluations, divergence, rounds by hand."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import (
    algorithms,
    base,
    local_training,
    participation,
    problems,
    simulation,
)
from fedjax_links.base import RoundMetrics
from fedjax_links.links import drawing
from fedjax_links.participation import PARTICIPATION
from fedjax_links.testing import federation
from tests import refusals
from tests.reference import quadratic_loops
from tests.small_runs import (
    AS_USERS_COMPILE,
    BERNOULLI,
    COHORTS,
    KEY,
    MARKOV,
    NUM_CLIENTS,
    NUM_ROUNDS,
    assert_close,
    assert_identical,
    compiled,
    program,
    run,
)


def params_of(params, key, problem):
    """An evaluation that keeps the model."""
    del key, problem
    return params


def params_and_draw(params, key, problem):
    """An evaluation that keeps the model, and draws by its key."""
    del problem
    return {'params': params, 'draw': jax.random.uniform(key)}


def evaluated():
    """A run with three evaluations."""
    return run(algorithms.fedpbc, MARKOV, eval_every=4, eval_fn=params_and_draw)


ONE_BY_ONE = (1,) * NUM_ROUNDS
PIECES = 5, *(1,) * (NUM_ROUNDS - 5)


def start(make=algorithms.fedavg, links=BERNOULLI):
    return simulation.init(KEY, make(program()), links, federation.problem())


@pytest.mark.parametrize(
    'make, pieces',
    [
        pytest.param(algorithms.fedavg, ONE_BY_ONE, id='one-by-one'),
        pytest.param(
            algorithms.fedavg, PIECES, id='as-users-compile', marks=AS_USERS_COMPILE
        ),
        pytest.param(
            algorithms.fedpbc, (4,) * 3, id='fedpbc-4+4+4', marks=AS_USERS_COMPILE
        ),
    ],
)
def test_a_run_in_pieces_is_the_unbroken_run_bit_for_bit(make, pieces):
    assert sum(pieces) == NUM_ROUNDS
    full = run(make, MARKOV)
    state = start(make, MARKOV)
    rounds = []
    for length in pieces:
        piece = run(make, MARKOV, num_rounds=length, state=state)
        state = piece.state
        rounds.append(piece.rounds)
    assert_identical(state, full.state)
    assert_identical(jax.tree.map(lambda *a: jnp.concatenate(a), *rounds), full.rounds)


@pytest.mark.slow
@pytest.mark.parametrize(
    'links',
    [
        pytest.param(BERNOULLI, id='masks'),
        pytest.param(MARKOV, id='with-memory', marks=AS_USERS_COMPILE),
        pytest.param(COHORTS, id='cohorts', marks=AS_USERS_COMPILE),
    ],
)
def test_no_bit_depends_on_the_block_of_rounds_of_links(links, monkeypatch):
    """Blocks of one round and of three against one block of the whole period."""
    full = run(algorithms.mifa, links, eval_every=6)
    for block, length in ((1, 1), (300, 3)):
        monkeypatch.setattr(drawing, '_BLOCK_BYTES', block)
        compiled.cache_clear()
        assert drawing.block_length(links, 6) == length
        assert_identical(run(algorithms.mifa, links, eval_every=6), full)
    compiled.cache_clear()


def test_evaluations_hold_the_states_after_every_period():
    evals = jax.tree.map(np.asarray, evaluated().evals)
    assert set(evals) == {'server', 'client_mean'}
    models = algorithms.fedpbc(program()).models
    state = start(algorithms.fedpbc, MARKOV)
    for index in range(NUM_ROUNDS // 4):
        state = run(algorithms.fedpbc, MARKOV, num_rounds=4, state=state).state
        for name, expected in models(state.algorithm).items():
            ours = jax.tree.map(lambda a, k=index: a[k], evals[name]['params'])
            assert_close(ours, expected)


@pytest.mark.slow
def test_evaluating_does_not_change_the_run():
    plain = run()
    for eval_every in (3, 12):
        evaluated = run(eval_every=eval_every)
        assert_identical(evaluated.state, plain.state)
        assert_identical(evaluated.rounds, plain.rounds)
        assert evaluated.evals['server']['loss'].shape == (NUM_ROUNDS // eval_every,)


def test_without_a_cadence_an_eval_fn_is_applied_once_at_the_end():
    result = run(eval_fn=params_of)
    server = algorithms.fedavg(program()).models(result.state.algorithm)['server']
    for a, b in zip(
        jax.tree.leaves(result.evals['server']), jax.tree.leaves(server), strict=True
    ):
        assert a.shape == (1, *b.shape)
        np.testing.assert_array_equal(a[0], b)
    assert run(links=MARKOV).evals == {}


def test_the_problem_s_metrics_are_the_default():
    result = run(eval_every=12)
    problem = federation.problem()
    server = result.state.algorithm.server
    expected = problem.metrics(server, problem.eval_data)['loss']
    np.testing.assert_allclose(result.evals['server']['loss'], [expected], rtol=1e-6)


def test_evaluations_have_a_key_of_their_own_per_round():
    samples = evaluated().evals['server']['draw']
    fold = jax.random.fold_in
    expected = [jax.random.uniform(fold(fold(KEY, 4), after)) for after in (4, 8, 12)]
    np.testing.assert_array_equal(samples, jnp.stack(expected))


@pytest.mark.parametrize(
    'arguments, message',
    [
        (
            {'num_rounds': 12, 'eval_every': 5},
            r'^`eval_every` must divide `num_rounds` = 12, got 5; the nearest smaller divisor is 4',
        ),
        ({'num_rounds': 12, 'eval_every': 24}, 'the nearest smaller divisor is 12'),
        (
            {'num_rounds': 12, 'eval_every': 0},
            r'^`eval_every` must be at least 1, got 0\.$',
        ),
        (
            {'num_rounds': 2, 'key': 0},
            r'^`key` must be a key such as jax.random.key\(0\), got 0\.$',
        ),
        ({'num_rounds': 2, 'key': np.zeros(2)}, r'^`key` must be a key such as'),
        ({'num_rounds': 0}, r'^`num_rounds` must be at least 1, got 0\.$'),
        ({'num_rounds': 2.0}, r'^`num_rounds` must be a Python integer, got 2\.0\.$'),
        (
            {'num_rounds': 2, 'participation': participation.always(5)},
            r"^`participation` must have the problem's 6 clients, got 5\.$",
        ),
    ],
)
def test_impossible_arguments_are_refused(arguments, message):
    arguments = {'key': KEY, 'participation': BERNOULLI, **arguments}
    with pytest.raises(ValueError, match=message):
        simulation.simulate(
            algorithm=algorithms.fedavg(program()),
            problem=federation.problem(),
            **arguments,
        )


FEDAVG = algorithms.fedavg(program())
WRONG_KINDS = {
    'algorithm': lambda: simulation.init(KEY, 3, BERNOULLI, federation.problem()),
    'eval_fn': lambda: simulation.simulate(
        KEY, FEDAVG, BERNOULLI, federation.problem(), num_rounds=2, eval_fn='loss'
    ),
    'mesh': lambda: simulation.simulate(
        KEY, FEDAVG, BERNOULLI, federation.problem(), num_rounds=2, mesh=2
    ),
    'initial_state': lambda: simulation.simulate(
        KEY, FEDAVG, BERNOULLI, federation.problem(), num_rounds=2, initial_state=3
    ),
    'state': lambda: simulation.evaluate(3, KEY, FEDAVG, federation.problem()),
    'problem': lambda: simulation.evaluate(
        simulation.init(KEY, FEDAVG, BERNOULLI, federation.problem()), KEY, FEDAVG, 3
    ),
}


@pytest.mark.parametrize('argument', WRONG_KINDS)
def test_a_part_of_another_kind_costs_a_line(argument):
    with refusals.names(argument):
        WRONG_KINDS[argument]()


def test_a_diverging_run_names_the_round_in_which_a_number_broke():
    """Float32 in a NumPy loop overflows in the same round."""
    rate = np.float32(1e6)
    x = np.float32(1)
    expected = None
    with np.errstate(over='ignore', invalid='ignore'):
        for t in range(20):
            loss = np.float32(0.5) * x * x
            x = x - rate * x
            if expected is None and not (np.isfinite(x) and np.isfinite(loss)):
                expected = t
    assert 1 < expected < 10
    result = simulation.simulate(
        KEY,
        algorithms.fedavg(local_training.local_sgd(rate, local_steps=1)),
        participation.always(3),
        problems.quadratic(np.zeros((3, 1)), initial_point=[1.0]),
        num_rounds=20,
    )
    assert not result.state.finite
    assert int(result.state.first_bad_round) == expected


def unsteady(is_bad, where):
    """An algorithm whose loss or model is infinite in the rounds of a mask, bool[T]."""

    def round_step(state, ctx, problem):
        value = jnp.where(is_bad[ctx.round], jnp.inf, 1.0)
        count = jnp.int32(0)
        loss = value if where == 'loss' else jnp.float32(0)
        state = jnp.full_like(state, value if where == 'model' else 0)
        metrics = RoundMetrics(
            num_active=count, num_computing=count, loss_sum=loss, extra={}
        )
        return state, metrics

    return base.Algorithm(
        init=lambda params, problem: params,
        round_step=round_step,
        models=lambda state: {'server': state},
    )


@functools.partial(jax.jit, static_argnums=1)
def five_rounds(is_bad, where, state=None):
    """Five rounds of such an algorithm, from a state or from the start."""
    return simulation.simulate(
        KEY,
        unsteady(is_bad, where),
        participation.always(2),
        problems.quadratic(np.zeros((2, 2))),
        num_rounds=5,
        initial_state=state,
    ).state


@pytest.mark.parametrize('where', ['loss', 'model'])
@pytest.mark.parametrize('bad_rounds, first', [([3, 6], 3), ([0], 0), ([], -1)])
def test_the_first_bad_round_is_remembered(where, bad_rounds, first):
    is_bad = np.isin(np.arange(10), bad_rounds)
    state = five_rounds(is_bad, where)
    state = five_rounds(is_bad, where, state)  # starts finite and must not forget
    assert int(state.first_bad_round) == first
    assert bool(state.finite) == (first < 0)


def test_rounds_composed_by_hand_are_those_of_simulate():
    algorithm = algorithms.fedpbc(program())
    problem = federation.problem()
    state = algorithm.init(problem.init_params(KEY), problem)
    fold = jax.random.fold_in
    carry = MARKOV.init(fold(fold(KEY, 0), 1))
    step = jax.jit(algorithm.round_step)
    losses = []
    for t in range(4):
        carry, links = MARKOV.sample(carry, fold(fold(KEY, 1), t), jnp.int32(t))
        ctx = simulation.round_context(KEY, t, links)
        state, metrics = step(state, ctx, problem)
        losses.append(metrics.loss_sum)
    initial = start(algorithms.fedpbc, MARKOV)
    result = run(algorithms.fedpbc, MARKOV, num_rounds=4, state=initial)
    assert_close(state, result.state.algorithm)
    np.testing.assert_allclose(losses, result.rounds.loss_sum, rtol=1e-5)


def test_the_driver_follows_a_listing_round_by_round(x64):
    setting = quadratic_loops.hard_setting()
    rates = jnp.asarray([setting.rate(t) for t in range(len(setting.mask))])
    client = local_training.local_sgd(
        lambda t: rates[t], local_steps=setting.local_steps
    )
    algorithm = algorithms.fedavg(client, server_lr=setting.server_lr)
    links = participation.replay(setting.mask)
    problem = problems.quadratic(setting.targets, initial_point=setting.start)
    path = quadratic_loops.fedavg(setting)
    state = simulation.init(KEY, algorithm, links, problem)
    step = jax.jit(
        lambda state: simulation.run_round(state, KEY, algorithm, links, problem)[0]
    )
    for t in range(len(setting.mask)):
        state = step(state)
        np.testing.assert_allclose(state.algorithm.server, path[t], rtol=0, atol=1e-9)


@pytest.mark.parametrize('name', PARTICIPATION)
def test_no_key_is_carried(name):
    links = PARTICIPATION[name].example(NUM_CLIENTS)
    state = jax.eval_shape(
        lambda key: simulation.init(
            key, algorithms.fedpbc(program()), links, federation.problem()
        ),
        KEY,
    )
    for path, leaf in jax.tree_util.tree_leaves_with_path(state):
        where = jax.tree_util.keystr(path)
        assert not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key), where
        assert not (leaf.dtype == jnp.uint32 and leaf.shape[-1:] == (2,)), where


def test_data_travel_as_arguments_not_inside_the_program():
    algorithm = algorithms.fedavg(local_training.local_sgd(0.1, local_steps=1))
    links = participation.bernoulli(np.full(2, 0.5))

    def lowered_size(num_features, as_argument):
        problem = problems.quadratic(
            np.random.default_rng(0).normal(size=(2, num_features))
        )

        def simulate(key, data):
            inputs = problem if data is None else data
            return simulation.simulate(key, algorithm, links, inputs, num_rounds=3)

        argument = problem if as_argument else None
        return len(jax.jit(simulate).lower(KEY, argument).as_text())

    small = lowered_size(10, True)
    large = lowered_size(20_000, True)
    assert large < 1.1 * small < 200_000
    assert lowered_size(20_000, False) > large + 100_000  # what a closure would cost


def test_an_evaluation_takes_parameters_a_key_and_the_problem():
    def of_two(params, problem):
        return params

    with refusals.names('eval_fn', 'take (params, key, problem)', '(params, problem)'):
        run(eval_fn=of_two)
