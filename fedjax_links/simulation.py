"""The driver: thousands of rounds as one pure function, the only scan over rounds."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

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
    client_names,
    compiling,
    contracts,
    errors,
    meshes,
    prng,
    scans,
    tree,
)
from fedjax_links.links import drawing
from fedjax_links.links.drawing import draw as draw
from fedjax_links.links.drawing import realised_links as realised_links
from fedjax_links.links.drawing import sample_shapes as sample_shapes
from fedjax_links.results.simulation import SimulationResult as SimulationResult

EvalFn = Callable[[base.Params, Key, Problem], base.PyTree]
"""``(params, key, problem) -> pytree``: what to measure of a candidate model."""

_Turned = tuple[FederationState, base.PyTree]


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

    Outside of `jax.jit` it compiles once for the same algorithm, pattern and ``eval_fn``: in a loop
    over keys, make these before it. As under `jax.jit`, what they read from outside is read once.

    Args:
      key: the run's key; links, batches and initial model depend on nothing else.
      algorithm: the algorithm.
      participation: the participation pattern; or the links of all T rounds, leaves [T, ...].
      problem: data, loss and metrics.
      num_rounds: T, at least 1.
      eval_every: rounds between evaluations, a divisor of ``num_rounds``. None evaluates once,
        after the last round, if ``eval_fn`` is given, and never otherwise.
      eval_fn: ``(params, key, problem) -> pytree``, applied to every candidate model; the
        problem's own metrics on its evaluation data by default.
      initial_state: where to go on from, with its round counter. With the same key, a simulation in
        pieces is the simulation in one.
      mesh: devices, along an axis ``'clients'``, that share the work of each round's clients (see
        `cohorts`) and divide what the clients keep: a table's leaves [N, ...] are sharded by client
        in the result where the devices divide N, whole on each where they do not, as all else is.
        Meshes of any size give the same bits, and those of no mesh up to rounding. For models that
        are large: devices meet after every few clients.

    Returns:
      The final state, metrics per round and evaluations.

    Raises:
      ValueError: if counts are out of range, pattern and problem disagree on the clients, or the
        mesh has no axis ``'clients'``, or others besides.

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
    if isinstance(participation, Participation):
        given, kind, num_clients = None, participation, participation.num_clients
    else:
        given, kind = participation, jax.tree.map(lambda a: a[0], participation)
        length, num_clients = jax.eval_shape(lambda links: links.mask, given).shape
        if length != num_rounds:
            raise errors.invalid(
                'participation', f'have {num_rounds} rounds of links', length
            )
        contracts.check_links(given, num_clients, length)
    if num_clients != problem.num_clients:
        requirement = f"have the problem's {problem.num_clients} clients"
        raise errors.invalid('participation', requirement, num_clients)
    if isinstance(participation, Participation):
        names = participation.client_names or ()
        client_names.check_order('participation', names, problem.client_names)
    if eval_every is not None:
        checks.static_int('eval_every', eval_every)
        if num_rounds % eval_every:
            nearest = max(d for d in range(1, eval_every) if num_rounds % d == 0)
            said = f'{eval_every}; the nearest smaller divisor is {nearest}'
            raise errors.invalid(
                'eval_every', f'divide `num_rounds` = {num_rounds}', said
            )
    if initial_state is not None:
        contracts.check_state(initial_state)
    pattern = participation if isinstance(participation, Participation) else None
    objects = algorithm, pattern, eval_fn, num_rounds, eval_every
    if mesh is None:
        result: SimulationResult = compiling.call(
            _simulated, objects, given, initial_state, problem, key
        )
        return result
    if mesh.axis_names != (meshes.AXIS,):
        raise errors.invalid(
            'mesh', f'have the one axis {meshes.AXIS!r}', mesh.axis_names
        )
    layout = meshes.Layout(
        functools.partial(_init, algorithm, kind), mesh, problem, key
    )
    run = functools.partial(_simulated, *objects, given)
    return SimulationResult(*layout.advance(run, initial_state, problem, key))


def _simulated(
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
    """`simulate`, after its checks and on one device, under a pattern or else under links."""
    kind: Any = jax.tree.map(lambda a: a[0], links) if pattern is None else pattern
    make = functools.partial(_init, algorithm, kind)
    if state is None:
        state = make(problem, key)
    elif not meshes.is_inside():  # where tables may have rows of nobody
        wanted = jax.eval_shape(make, problem, key)
        contracts.check_fit(state, wanted, has_pattern=pattern is not None)
    turn = _rounds(key, algorithm, kind, problem)
    if eval_every is None and eval_fn is None:
        return SimulationResult(*turn(state, links, num_rounds), {})
    period = eval_every or num_rounds

    def advance_period(state: FederationState, links: Links | None) -> _Turned:
        state, rounds = turn(state, links, period)
        return state, (rounds, evaluate(state, key, algorithm, problem, eval_fn))

    by_period = jax.tree.map(lambda a: a.reshape(-1, period, *a.shape[1:]), links)
    count = num_rounds // period
    state, (rounds, evals) = scans.scan(
        advance_period, state, by_period, count, state.round
    )
    return SimulationResult(state, scans.flat(rounds), evals)


def advance(
    state: FederationState,
    key: Key,
    links: Links,
    algorithm: Algorithm,
    problem: Problem,
) -> Step[FederationState]:
    """Rounds under given links: what `simulate` does once a pattern has drawn them.

    Args:
      state: the federation after ``state.round`` rounds; its carry of a pattern is left as it is.
      key: the run's key, the same in every round.
      links: those of the coming T rounds, leaves [T, ...], as `realised_links` gives them.
      algorithm: the algorithm.
      problem: data and loss.

    Returns:
      The state after these rounds, and their metrics, leaves [T].

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import local_training, participation, problems, simulation
      >>> algorithm = fl.ALGORITHMS['fedavg'](local_training.local_sgd(0.1, local_steps=5))
      >>> problem = problems.quadratic([[0.0], [1.0]])
      >>> pattern, key = participation.bernoulli([0.5, 0.5]), jax.random.key(0)
      >>> links = simulation.realised_links(key, pattern, num_rounds=6)
      >>> state = simulation.init(key, algorithm, pattern, problem)
      >>> state, rounds = simulation.advance(state, key, links, algorithm, problem)
      >>> same = fl.simulate(key, algorithm, pattern, problem, num_rounds=6).state
      >>> print(rounds.num_active, bool((state.algorithm.server == same.algorithm.server).all()))
      [0 0 0 2 2 0] True
    """
    contracts.check_algorithm(algorithm)
    contracts.check_rounds(links)
    count = len(jax.tree.leaves(links)[0])
    if (
        meshes.is_inside()
    ):  # where a scan of the algorithm's state alone copies FedPBC's table once

        def whole(state: FederationState, links: Links) -> Step[FederationState]:
            return run_round(state, key, algorithm, links, problem)

        return scans.scan(whole, state, links, count, state.round)
    rounds = state.round + jnp.arange(count, dtype=jnp.int32)
    contexts = jax.vmap(functools.partial(round_context, key))(rounds, links)
    turn = functools.partial(_turn, algorithm, problem)
    after, (metrics, healthy) = scans.scan(
        turn, state.algorithm, contexts, count, state.round
    )
    return _kept_count(state._replace(algorithm=after), links, healthy), metrics


def _rounds(
    key: Key, algorithm: Algorithm, kind: Any, problem: Problem
) -> Callable[..., _Turned]:
    """``(state, links, count) -> (state, metrics)``, under links or, where None, a pattern's.

    These are drawn a block at a time.
    """

    def one_round(state: FederationState, _: None) -> _Turned:
        return run_round(state, key, algorithm, kind, problem)

    def turn(state: FederationState, links: Links | None, count: int) -> _Turned:
        if links is not None:
            return advance(state, key, links, algorithm, problem)
        block = 1 if meshes.is_inside() else drawing.block_length(kind, count)

        def one_block(state: FederationState, _: None) -> _Turned:
            ahead = state.round + jnp.arange(block, dtype=jnp.int32)
            carry, links = draw(state.participation, key, kind, ahead)
            return advance(
                state._replace(participation=carry), key, links, algorithm, problem
            )

        if block == 1:
            return scans.scan(one_round, state, None, count, state.round)
        if block == count:
            return one_block(state, None)
        state, metrics = scans.scan(one_block, state, None, count // block, state.round)
        return state, scans.flat(metrics)

    return turn


def init(
    key: Key,
    algorithm: Algorithm,
    participation: Participation | Links,
    problem: Problem,
    *,
    mesh: jax.sharding.Mesh | None = None,
) -> FederationState:
    """The federation before round 0.

    Args:
      key: the run's key.
      algorithm: the algorithm.
      participation: the pattern; or, for links that are drawn elsewhere, the sample of a round or
        its shapes, and the state then carries ``()`` of a pattern.
      problem: data, loss and initial parameters.
      mesh: where its tables are to lie, divided; where its devices do not divide the clients, with
        rows that belong to nobody at their ends.

    Returns:
      The state; its ``links`` are all down until the first round sets them.
    """
    contracts.check_parts(algorithm, participation, problem)
    make = functools.partial(_init, algorithm, participation)
    if mesh is None:
        return make(problem, key)
    return meshes.Layout(make, mesh, problem, key).make(problem, key)


def initial_params(init_params: Callable[[Key], base.Params], key: Key) -> base.Params:
    """The parameters that a run of this key begins with, the same bits in any program."""

    def make(key: Key) -> base.Params:
        return init_params(jax.random.clone(key))  # used once: the loop turns once

    return meshes.compiled_alike(make)(prng.model_key(key))


def _init(
    algorithm: Algorithm,
    participation: Participation | Links,
    problem: Problem,
    key: Key,
) -> FederationState:
    carry: base.PyTree = ()
    links: Any = participation
    if isinstance(participation, Participation):
        carry, links = (
            participation.init(prng.pattern_key(key)),
            sample_shapes(participation),
        )
    kept = algorithm.init(initial_params(problem.init_params, key), problem)
    count = jnp.zeros(problem.num_clients, jnp.int32)
    return FederationState(
        round=jnp.int32(0),
        algorithm=kept,
        participation=carry,
        links=base.all_down(links),
        counters=base.ParticipationCounters(
            count, last_active=jnp.full_like(count, -1)
        ),
        finite=jnp.array(True),
        first_bad_round=jnp.int32(-1),
    )


def run_round(
    state: FederationState,
    key: Key,
    algorithm: Algorithm,
    participation: Participation | Links,
    problem: Problem,
) -> Step[FederationState]:
    """One round: draw the links, let the algorithm act on them, keep count.

    Args:
      state: the federation after ``state.round`` rounds.
      key: the run's key, the same in every round.
      algorithm: the algorithm.
      participation: the pattern; or the links of this round, and the pattern's carry stays.
      problem: data and loss.

    Returns:
      The next state and the round's metrics.
    """
    round, carry = state.round, state.participation
    links: Any = participation
    if isinstance(participation, Participation):
        link_key = prng.round_key(key, 'participation', round)
        carry, links = participation.sample(carry, link_key, round)
    ctx = round_context(key, round, links)
    kept, (metrics, healthy) = _turn(algorithm, problem, state.algorithm, ctx)
    one = jax.tree.map(lambda a: a[None], (links, healthy))
    return _kept_count(
        state._replace(algorithm=kept, participation=carry), *one
    ), metrics


def _turn(
    algorithm: Algorithm, problem: Problem, kept: Any, ctx: base.RoundContext
) -> Any:
    """The algorithm's next state; metrics, and whether the server model and the loss are finite."""
    after, metrics = algorithm.round_step(kept, ctx, problem)
    contracts.check_round(kept, after)
    server = contracts.server_of(algorithm.models(after))
    healthy = tree.all_finite((server, metrics.loss_sum))
    return after, (metrics, healthy)


def _kept_count(
    state: FederationState, links: Links, healthy: base.Array
) -> FederationState:
    """The state after T rounds of which the algorithm alone has taken note, healthy or not."""
    count, all_healthy = len(healthy), jnp.all(healthy)
    rounds = state.round + jnp.arange(count, dtype=jnp.int32)
    first_bad = rounds[jnp.argmin(healthy)]
    times, last = state.counters
    if isinstance(links, base.CohortLinkSample):  # in place, at the cost of the cohorts
        when = jnp.broadcast_to(rounds[:, None], links.ids.shape)
        times = times.at[links.ids].add(1, mode='drop')
        last = last.at[links.ids].max(when, mode='drop')
    else:
        times += jnp.sum(links.mask, axis=0, dtype=jnp.int32)
        last = jnp.maximum(
            last, jnp.max(jnp.where(links.mask, rounds[:, None], -1), axis=0)
        )
    return state._replace(
        round=state.round + count,
        links=jax.tree.map(lambda a: a[-1], links),
        counters=base.ParticipationCounters(times, last),
        finite=state.finite & all_healthy,
        first_bad_round=jnp.where(
            state.finite & ~all_healthy, first_bad, state.first_bad_round
        ),
    )


def round_context(key: Key, round: base.Array | int, links: Links) -> base.RoundContext:
    """What a round may look at, for composing rounds by hand.

    Args:
      key: the run's key.
      round: index of the round.
      links: the links of the round.

    Returns:
      The context that `simulate` would pass in that round under those links.
    """
    client_key, server_key = (
        prng.round_key(key, of, round) for of in ('client', 'server')
    )
    return base.RoundContext(
        jnp.asarray(round, jnp.int32), links, client_key, server_key
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
    """
    eval_fn = eval_fn or problem_metrics
    eval_key = prng.round_key(key, 'eval', state.round)
    models = algorithm.models(state.algorithm)
    return {name: eval_fn(params, eval_key, problem) for name, params in models.items()}


def problem_metrics(
    params: base.Params, key: Key, problem: Problem
) -> Mapping[str, base.Array]:
    """The problem's own metrics on its evaluation data."""
    del key
    return problem.metrics(params, problem.eval_data)
