"""Simulates a federation: thousands of rounds as one pure function, a scan over rounds."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_links import base
from fedjax_links.base import (
    Algorithm,
    FederationState,
    Key,
    Links,
    Participation,
    Problem,
    Step,
)
from fedjax_links.core import (
    checks,
    compiling,
    contracts,
    mesh_layouts,
    meshes,
    prng,
    rounds,
    scans,
)
from fedjax_links.core.rounds import initial_params as initial_params
from fedjax_links.core.rounds import round_context as round_context
from fedjax_links.core.rounds import run_round as run_round
from fedjax_links.links import drawing
from fedjax_links.links.drawing import draw as draw
from fedjax_links.links.drawing import realised_links as realised_links
from fedjax_links.links.drawing import sample_shapes as sample_shapes
from fedjax_links.results.simulation import SimulationResult as SimulationResult

EvalFn = Callable[[base.Params, Key, Problem], base.PyTree]
"""``(params, key, problem) -> pytree``: what to measure of a candidate model."""


class _ProgramOptions(NamedTuple):
    """Holds the static arguments of `_simulate`; the pattern is None for precomputed links."""

    algorithm: Algorithm
    pattern: Participation | None
    eval_fn: EvalFn | None
    num_rounds: int
    eval_every: int | None


def simulate(
    key: Key,
    algorithm: Algorithm,
    participation: Participation | Links,
    problem: Problem,
    *,
    num_rounds: int,
    eval_every: int | None = None,
    eval_fn: EvalFn | None = None,
    initial_state: FederationState | None = None,
    mesh: jax.sharding.Mesh | None = None,
) -> SimulationResult:
    """Runs ``num_rounds`` rounds. Pure: the caller may jit, vmap, or map it.

    Outside of `jax.jit`, calls with the same algorithm, pattern and ``eval_fn`` compile once: make
    them before a loop over keys. As under `jax.jit`, values from outside are read when compiling.

    Args:
      key: the run's key, the only source of randomness of links, batches and initial model.
      algorithm: the algorithm.
      participation: the participation pattern; or the links of all T rounds, leaves [T, ...].
      problem: data, loss and metrics.
      num_rounds: T, at least 1.
      eval_every: rounds between evaluations, a divisor of ``num_rounds``. None evaluates once,
        after the last round, if ``eval_fn`` is given, and never otherwise.
      eval_fn: ``(params, key, problem) -> pytree``, applied to every candidate model
        (``algorithm.models``); the problem's own metrics on its evaluation data by default.
      initial_state: the state to resume from, with its round counter. With the same key, a
        simulation in pieces equals the simulation in one.
      mesh: devices along an axis ``'clients'``, for large models. The devices divide the work of a
        round's clients (see `cohorts`) and the client tables (a row per client). In the result,
        tables [N, ...] are sharded by client where the devices divide N. All else is replicated.
        Meshes of any size give the same bits. Without a mesh, results are the same up to rounding.

    Returns:
      The final state, metrics per round and evaluations.

    Raises:
      ValueError: if counts are out of range, pattern and problem disagree on the clients, or the
        axes of the mesh are not ``'clients'`` alone.

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import local_training, participation, problems
      >>> algorithm = fl.ALGORITHMS['fedavg'](local_training.local_sgd(0.1, local_steps=5))
      >>> problem = problems.quadratic([[0.0], [1.0]])
      >>> links = participation.always(2)
      >>> result = fl.simulate(
      ...     jax.random.key(0), algorithm, links, problem, num_rounds=8, eval_every=4
      ... )
      >>> print(result.evals['server']['distance'].round(3), result.rounds.num_active)
      [0.061 0.007] [2 2 2 2 2 2 2 2]
    """
    prng.check(key)
    checks.static_int('num_rounds', num_rounds)
    contracts.check_parts(algorithm, participation, problem)
    pattern: Participation | None = None
    links: Links | None = None
    if isinstance(participation, Participation):
        pattern = participation
    else:
        links = participation
        contracts.check_rounds(
            links, problem, num_rounds=num_rounds, argument='participation'
        )
    contracts.check_evaluations(eval_fn, eval_every, num_rounds)
    if initial_state is not None:
        contracts.check_state(initial_state)
    options = _ProgramOptions(algorithm, pattern, eval_fn, num_rounds, eval_every)
    if mesh is None:
        return compiling.call(_simulate, options, links, initial_state, problem, key)
    return _simulate_on_mesh(mesh, options, links, initial_state, problem, key)


def _pattern_or_sample(
    pattern: Participation | None, links: Links | None
) -> Participation | Links:
    """Returns the pattern; without one, the first round of the links."""
    if pattern is not None:
        return pattern
    first_round: Links = jax.tree.map(lambda a: a[0], links)
    return first_round


def _simulate(
    algorithm: Algorithm,
    pattern: Participation | None,
    eval_fn: EvalFn | None,
    num_rounds: int,
    eval_every: int | None,
    links: Links | None,
    state: FederationState | None,
    problem: Problem,
    key: Key,
) -> SimulationResult:
    """Runs `simulate` after its checks and on one device, under a pattern or else under links."""
    make = functools.partial(_init, algorithm, _pattern_or_sample(pattern, links))
    if state is None:
        state = make(problem, key)
    elif not meshes.in_shard_map():  # On a mesh, tables may have padding.
        expected = jax.eval_shape(make, problem, key)
        contracts.check_fit(state, expected, has_pattern=pattern is not None)

    def advance_by(
        count: int, state: FederationState, links: Links | None
    ) -> Step[FederationState]:
        if pattern is None:
            assert links is not None
            return advance(state, key, links, algorithm, problem)
        return _advance_under_pattern(state, key, pattern, algorithm, problem, count)

    if eval_every is None and eval_fn is None:
        state, metrics = advance_by(num_rounds, state, links)
        return SimulationResult(state, metrics, {})
    period = eval_every or num_rounds

    def advance_period(
        state: FederationState, links: Links | None
    ) -> tuple[FederationState, base.PyTree]:
        state, metrics = advance_by(period, state, links)
        return state, (metrics, evaluate(state, key, algorithm, problem, eval_fn))

    links_by_period = jax.tree.map(lambda a: a.reshape(-1, period, *a.shape[1:]), links)
    state, (metrics, evals) = scans.scan(
        advance_period, state, links_by_period, num_rounds // period, state.round
    )
    return SimulationResult(state, scans.flat(metrics), evals)


def _simulate_on_mesh(
    mesh: jax.sharding.Mesh,
    options: _ProgramOptions,
    links: Links | None,
    state: FederationState | None,
    problem: Problem,
    key: Key,
) -> SimulationResult:
    """Runs `_simulate` on a mesh."""
    pattern = options.pattern
    links_source = _pattern_or_sample(pattern, links)
    make = functools.partial(_init, options.algorithm, links_source)
    layout = mesh_layouts.Layout(make, mesh, problem, key)
    carry = None
    if state is not None:
        if pattern is None:
            # Precomputed links replace the links of an earlier pattern. The pattern's carry stays.
            assert not isinstance(links_source, Participation)
            carry = state.participation
            state = state._replace(participation=(), links=base.all_down(links_source))
        expected = layout.shapes_like(state)
        contracts.check_fit(state, expected, has_pattern=pattern is not None)

    def run(
        state: FederationState | None, links: Links | None, problem: Problem, key: Key
    ) -> SimulationResult:
        return _simulate(*options, links, state, problem, key)

    new_state, metrics, evals = layout.advance(run, state, links, problem, key)
    if carry is not None:
        new_state = new_state._replace(participation=carry)
    return SimulationResult(new_state, metrics, evals)


def advance(
    state: FederationState,
    key: Key,
    links: Links,
    algorithm: Algorithm,
    problem: Problem,
) -> Step[FederationState]:
    """Runs rounds under precomputed links, as returned by `realised_links`.

    `simulate` does the same with the links that its pattern samples.

    Args:
      state: the federation after ``state.round`` rounds; its pattern's carry stays as it is.
      key: the run's key, the same in every round.
      links: the links of the coming T rounds, leaves [T, ...].
      algorithm: the algorithm.
      problem: data and loss.

    Returns:
      The state after these rounds, and their metrics, leaves [T].

    Raises:
      ValueError: if state, algorithm, links and problem do not fit each other.

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import local_training, participation, problems, simulation
      >>> algorithm = fl.ALGORITHMS['fedavg'](local_training.local_sgd(0.1, local_steps=5))
      >>> problem = problems.quadratic([[0.0], [1.0]])
      >>> key = jax.random.key(0)
      >>> pattern = participation.bernoulli([0.5, 0.5])
      >>> links = simulation.realised_links(key, pattern, num_rounds=6)
      >>> state = simulation.init(key, algorithm, pattern, problem)
      >>> state, rounds = simulation.advance(state, key, links, algorithm, problem)
      >>> same = fl.simulate(key, algorithm, pattern, problem, num_rounds=6).state
      >>> print(rounds.num_active, bool((state.algorithm.server == same.algorithm.server).all()))
      [0 0 0 2 2 0] True
    """
    prng.check(key)
    contracts.check_advance(state, key, algorithm, links, problem)
    count = len(jax.tree.leaves(links)[0])
    if meshes.in_shard_map():
        # Here a scan of the algorithm's state alone would copy FedPBC's table once.

        def one_round(state: FederationState, links: Links) -> Step[FederationState]:
            return run_round(state, key, algorithm, links, problem)

        return scans.scan(one_round, state, links, count, state.round)
    round_ids = state.round + jnp.arange(count, dtype=jnp.int32)
    contexts = jax.vmap(functools.partial(round_context, key))(round_ids, links)
    step = functools.partial(rounds.algorithm_step, algorithm, problem)
    new_state, (metrics, is_finite) = scans.scan(
        step, state.algorithm, contexts, count, state.round
    )
    state = state._replace(algorithm=new_state)
    return rounds.count_rounds(state, links, is_finite), metrics


def _advance_under_pattern(
    state: FederationState,
    key: Key,
    pattern: Participation,
    algorithm: Algorithm,
    problem: Problem,
    count: int,
) -> Step[FederationState]:
    """Runs ``count`` rounds under links that a pattern samples, a block of rounds at a time."""
    block = 1 if meshes.in_shard_map() else drawing.block_length(pattern, count)

    def one_round(state: FederationState, _: None) -> Step[FederationState]:
        return run_round(state, key, algorithm, pattern, problem)

    def one_block(state: FederationState, _: None) -> Step[FederationState]:
        round_ids = state.round + jnp.arange(block, dtype=jnp.int32)
        carry, links = draw(state.participation, key, pattern, round_ids)
        state = state._replace(participation=carry)
        return advance(state, key, links, algorithm, problem)

    if block == 1:
        return scans.scan(one_round, state, None, count, state.round)
    if block == count:
        return one_block(state, None)
    state, metrics = scans.scan(one_block, state, None, count // block, state.round)
    return state, scans.flat(metrics)


def init(
    key: Key,
    algorithm: Algorithm,
    participation: Participation | Links,
    problem: Problem,
    *,
    mesh: jax.sharding.Mesh | None = None,
) -> FederationState:
    """Initialises the federation, as it is before round 0.

    Args:
      key: the run's key.
      algorithm: the algorithm.
      participation: the pattern. For links that are sampled elsewhere, the sample of a round or its
        shapes; the pattern's carry then is ``()``.
      problem: data, loss and initial parameters.
      mesh: devices over which client tables are sharded. If their number does not divide N, tables
        end with padding.

    Returns:
      The state; its ``links`` are all down until the first round sets them.

    Raises:
      ValueError: for arguments of other types, or a pattern of other clients than the problem's.
    """
    prng.check(key)
    contracts.check_parts(algorithm, participation, problem)
    make = functools.partial(_init, algorithm, participation)
    if mesh is None:
        return rounds.with_own_buffers(make(problem, key))
    return mesh_layouts.Layout(make, mesh, problem, key).make(problem, key)


def _init(
    algorithm: Algorithm,
    participation: Participation | Links,
    problem: Problem,
    key: Key,
) -> FederationState:
    """Makes the state of `init` without a mesh."""
    carry: base.PyTree = ()
    links: Any = participation
    if isinstance(participation, Participation):
        carry = participation.init(prng.pattern_key(key))
        links = sample_shapes(participation)
    algorithm_state = algorithm.init(initial_params(problem.init_params, key), problem)
    no_rounds = jnp.zeros(problem.num_clients, jnp.int32)
    return FederationState(
        round=jnp.int32(0),
        algorithm=algorithm_state,
        participation=carry,
        links=base.all_down(links),
        counters=base.ParticipationCounters(
            participation_count=no_rounds, last_active=jnp.full_like(no_rounds, -1)
        ),
        finite=jnp.array(True),
        first_bad_round=jnp.int32(-1),
    )


def evaluate(
    state: FederationState,
    key: Key,
    algorithm: Algorithm,
    problem: Problem,
    eval_fn: EvalFn | None = None,
) -> Mapping[str, base.PyTree]:
    """Applies ``eval_fn`` to every candidate model of the state.

    Args:
      state: the federation.
      key: the run's key.
      algorithm: the algorithm.
      problem: passed on to ``eval_fn``.
      eval_fn: ``(params, key, problem) -> pytree``; the problem's metrics by default.

    Returns:
      What ``eval_fn`` returned, by model name.

    Raises:
      ValueError: if state, algorithm and problem do not fit each other.
    """
    prng.check(key)
    contracts.check_federation(state, algorithm, problem)
    checks.evaluation(eval_fn)
    eval_fn = eval_fn or problem_metrics
    eval_key = prng.round_key(key, 'eval', state.round)
    models = algorithm.models(state.algorithm)
    return {name: eval_fn(params, eval_key, problem) for name, params in models.items()}


def problem_metrics(
    params: base.Params, key: Key, problem: Problem
) -> Mapping[str, base.Array]:
    """Computes the problem's own metrics on its evaluation data."""
    del key
    return problem.metrics(params, problem.eval_data)
