"""Conformance of federated algorithms."""

from collections.abc import Callable, Mapping
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import simulation
from fedjax_links.algorithms.fedavg import fedavg
from fedjax_links.base import Algorithm, LinkSample, Participation, Problem
from fedjax_links.local_training import ClientProgram, local_sgd
from fedjax_links.participation.always import always
from fedjax_links.registry import AlgorithmEntry
from fedjax_links.testing import federation

Maker = Callable[[ClientProgram], Algorithm]
_TOLERANCE = 2e-5  # float32 sums of a few terms in another order, over a dozen rounds


def check_algorithm(
    make_algorithm: Maker,
    *,
    full_participation_is_fedavg: bool = True,
    empty_round_keeps_server: bool = True,
    uses_links: bool = True,
) -> None:
    """Checks that an algorithm keeps the promises the engine makes for it.

    Args:
      make_algorithm: ``local_train -> Algorithm``, hyper-parameters filled in.
      full_participation_is_fedavg: whether with everybody active the server's trajectory must be
        FedAvg's.
      empty_round_keeps_server: whether a round without active clients must leave the server model
        as it is.
      uses_links: whether only clients whose uplink delivers may influence the server.

    Raises:
      AssertionError: naming the first broken promise.
    """
    traits = AlgorithmEntry(
        make_algorithm,
        full_participation_is_fedavg=full_participation_is_fedavg,
        empty_round_keeps_server=empty_round_keeps_server,
        uses_links=uses_links,
    )
    for check in ALGORITHM_CHECKS.values():
        check(make_algorithm, traits)


def _program(traits: AlgorithmEntry, **kwargs: Any) -> ClientProgram:
    """The client program that the algorithm is defined with, plain SGD unless it says otherwise."""
    factory = traits.client_program or local_sgd
    options = {'local_steps': 3, 'batch_size': 2, **traits.client_example, **kwargs}
    return factory(0.2, **options)


def _run(
    algorithm: Algorithm,
    problem: Problem | None = None,
    links: Participation | None = None,
    *,
    key: Any = None,
    num_rounds: int = federation.NUM_ROUNDS,
    initial_state: Any = None,
    jit: bool = True,
) -> simulation.SimulationResult:
    """Server model after every round, metrics and state on the test federation."""
    problem = federation.problem() if problem is None else problem
    links = links or federation.links()

    def run(key, problem, initial_state):
        return simulation.simulate(
            key,
            algorithm,
            links,
            problem,
            num_rounds=num_rounds,
            eval_every=1,
            eval_fn=lambda params, key, problem: params,
            initial_state=initial_state,
        )

    key = jax.random.key(0) if key is None else key
    return (jax.jit(run) if jit else run)(key, problem, initial_state)


def _close(actual: Any, expected: Any, message: str) -> None:
    chex.assert_trees_all_close(
        actual, expected, rtol=_TOLERANCE, atol=_TOLERANCE, custom_message=message
    )


def _identical(actual: Any, expected: Any, message: str) -> None:
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        if not np.array_equal(a, b, equal_nan=jnp.issubdtype(a.dtype, jnp.inexact)):
            raise AssertionError(message)


def full_participation_is_fedavg(make: Maker, traits: AlgorithmEntry) -> None:
    """With everybody active, the server's trajectory is FedAvg's."""
    if not traits.full_participation_is_fedavg:
        return
    everyone = always(federation.NUM_CLIENTS)
    ours = _run(make(_program(traits)), links=everyone).evals['server']
    theirs = _run(fedavg(_program(traits)), links=everyone).evals['server']
    _close(ours, theirs, 'with full participation the server must follow FedAvg')


def empty_round_is_defined(make: Maker, traits: AlgorithmEntry) -> None:
    """An empty round stays finite and keeps the server model where the rule says so."""
    result = _run(make(_program(traits)))
    assert bool(result.state.finite), 'empty rounds must not produce NaN or infinity'
    first_empty = int(np.flatnonzero(~federation.masks().any(axis=1))[0])
    before, after = (
        jax.tree.map(lambda a, t=t: a[t], result.evals['server'])
        for t in (first_empty - 1, first_empty)
    )
    if traits.empty_round_keeps_server:
        _identical(after, before, 'an empty round must keep the server model')


def unavailable_clients_never_influence(make: Maker, traits: AlgorithmEntry) -> None:
    """NaN data of a client that never delivers leaves the server bit for bit as it is."""
    if not traits.uses_links:
        return
    clean = _run(make(_program(traits)))
    spoiled = _run(make(_program(traits)), federation.problem(spoil=federation.SILENT))
    assert bool(spoiled.state.finite), 'data of a client that never delivers reached the server'
    for name in ('evals', 'rounds'):
        ours, theirs = getattr(spoiled, name), getattr(clean, name)
        if name == 'evals':
            ours, theirs = ours['server'], theirs['server']
        _identical(ours, theirs, f'data of a client that never delivers changed the {name}')


def relabelling_changes_nothing_global(make: Maker, traits: AlgorithmEntry) -> None:
    """Renaming the clients leaves the server's trajectory as it is (full batches)."""
    order = (2, 0, 5, 1, 4, 3)
    program = _program(traits, batch_size=None)
    plain = _run(make(program))
    renamed = _run(make(program), federation.problem(order), federation.links(order))
    _close(renamed.evals['server'], plain.evals['server'], 'the order of clients must not matter')


def resume_is_exact(make: Maker, traits: AlgorithmEntry) -> None:
    """A run in pieces is the run in one, bit for bit."""
    algorithm = make(_program(traits))
    whole = _run(algorithm)
    first = _run(algorithm, num_rounds=5)
    second = _run(algorithm, num_rounds=federation.NUM_ROUNDS - 5, initial_state=first.state)
    _identical(second.state, whole.state, 'a resumed run must equal the unbroken one')


def vmap_equals_loop(make: Maker, traits: AlgorithmEntry) -> None:
    """Seeds side by side equal seeds one by one."""
    algorithm = make(_program(traits))
    keys = jax.random.split(jax.random.key(11), 3)
    together = jax.vmap(lambda key: _run(algorithm, key=key).evals['server'])(keys)
    alone = [_run(algorithm, key=key).evals['server'] for key in keys]
    _close(together, jax.tree.map(lambda *a: jnp.stack(a), *alone), 'vmap must equal a loop')


def jit_equals_eager(make: Maker, traits: AlgorithmEntry) -> None:
    """Compiling changes nothing but rounding."""
    algorithm = make(_program(traits))
    compiled = _run(algorithm, num_rounds=3)
    eager = _run(algorithm, num_rounds=3, jit=False)
    _close(compiled.evals['server'], eager.evals['server'], 'jit must equal eager execution')


def state_type_is_stable(make: Maker, traits: AlgorithmEntry) -> None:
    """One compilation serves all rounds: the state never changes shape, dtype or structure."""
    algorithm, problem = make(_program(traits)), federation.problem()
    traces = 0

    def step(state, ctx):
        nonlocal traces
        traces += 1
        return algorithm.round_step(state, ctx, problem)

    compiled = jax.jit(step)
    key = jax.random.key(2)
    state = algorithm.init(problem.init_params(key), problem)
    prob = jnp.full(federation.NUM_CLIENTS, 0.5)
    for round, mask in enumerate(federation.masks()[:4]):
        sample = LinkSample(mask=jnp.asarray(mask), prob=prob)
        new_state, metrics = compiled(state, simulation.round_context(key, round, sample))
        chex.assert_trees_all_equal_shapes_and_dtypes(new_state, state)
        state = new_state
    assert traces == 1, f'one compilation must serve all rounds, got {traces}'
    assert metrics.num_active.dtype == metrics.num_computing.dtype == jnp.int32, (
        '`num_active` and `num_computing` must be int32'
    )


def candidate_models_are_parameters(make: Maker, traits: AlgorithmEntry) -> None:
    """Every candidate model has the parameters' structure; the server model is among them."""
    algorithm, problem = make(_program(traits)), federation.problem()
    params = problem.init_params(jax.random.key(0))
    models = algorithm.models(algorithm.init(params, problem))
    assert 'server' in models, '`models` must name the server model'
    for name, model in models.items():
        chex.assert_trees_all_equal_shapes_and_dtypes(model, params)
        _close(model, params, f'{name} must start at the initial parameters')


def metrics_are_counts(make: Maker, traits: AlgorithmEntry) -> None:
    """Nobody is counted who did not train, and losses are sums over those who delivered."""
    result = _run(make(_program(traits)))
    active, computing = (
        np.asarray(result.rounds.num_active),
        np.asarray(result.rounds.num_computing),
    )
    assert (active <= computing).all(), 'who entered the update must have trained'
    if traits.uses_links:
        assert (active <= federation.masks().sum(axis=1)).all(), 'more active than delivered'
    losses = np.asarray(result.rounds.loss_sum)
    assert (losses[active == 0] == 0).all(), 'the loss of an empty round must be zero'
    assert (losses[active > 0] > 0).all(), 'the loss of active clients must be counted'


def double_precision_agrees(make: Maker, traits: AlgorithmEntry) -> None:
    """Under x64 the same run has float64 models and agrees with float32 to float32 rounding."""
    single = _run(make(_program(traits, batch_size=None))).evals['server']
    with jax.enable_x64(True):
        algorithm = make(_program(traits, batch_size=None))
        double = _run(algorithm, federation.problem(), federation.links()).evals['server']
    for leaf in jax.tree.leaves(double):
        assert leaf.dtype == np.float64, 'under x64 models must be float64'
    _close(jax.tree.map(lambda a: np.asarray(a, np.float32), double), single, 'float32 and float64')


ALGORITHM_CHECKS: Mapping[str, Callable[[Maker, AlgorithmEntry], None]] = {
    check.__name__: check
    for check in (
        full_participation_is_fedavg,
        empty_round_is_defined,
        unavailable_clients_never_influence,
        relabelling_changes_nothing_global,
        resume_is_exact,
        vmap_equals_loop,
        jit_equals_eager,
        state_type_is_stable,
        candidate_models_are_parameters,
        metrics_are_counts,
        double_precision_agrees,
    )
}
