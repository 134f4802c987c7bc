"""Checks that federated algorithms keep the promises on which the engine relies."""

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import simulation
from fedjax_links.base import Algorithm, LinkSample
from fedjax_links.core import checks, errors, tree
from fedjax_links.core.registry import AlgorithmEntry
from fedjax_links.local_training import ClientProgram, local_sgd
from fedjax_links.machines import devices
from fedjax_links.testing import facts, federation, round_checks
from fedjax_links.testing.federation import Runs, simulate
from fedjax_links.testing.suites import (
    Suite,
    close,
    identical,
    needs,
    require,
    same_types,
)

# Relative to the largest entry of the server's path. Entries of bfloat16 are off by up to 1/512.
_BFLOAT16_TOLERANCE = 0.02
_MESH_SIZES = (1, 2, 4)
# Rounds of a piece of a run. Both rounds at the cut of pieces 2 and 3 have active clients.
_PIECE = 4

ALGORITHM_CHECKS = Suite()


def check_algorithm(
    make_algorithm: Callable[[ClientProgram], Algorithm],
    *,
    full_participation_is_fedavg: bool = True,
    empty_round_keeps_server: bool = True,
    uses_links: bool = True,
    trains_on_batches: bool = True,
) -> None:
    """Checks that an algorithm keeps the promises that the engine makes in its name.

    Args:
      make_algorithm: ``local_train -> Algorithm``, hyper-parameters filled in.
      full_participation_is_fedavg: whether with everybody active the server's trajectory must be
        FedAvg's.
      empty_round_keeps_server: whether a round without active clients must leave the server model
        as it is.
      uses_links: whether only clients whose uplink delivers may influence the server.
      trains_on_batches: whether clients use only the examples that their program draws.

    Raises:
      AssertionError: naming the first broken promise.
      ValueError: if ``make_algorithm`` is no factory, or a flag is neither True nor False.
    """
    promises: dict[str, Any] = {
        'full_participation_is_fedavg': full_participation_is_fedavg,
        'empty_round_keeps_server': empty_round_keeps_server,
        'uses_links': uses_links,
        'trains_on_batches': trains_on_batches,
    }
    checks.flags(**promises)
    if not callable(make_algorithm):
        requirement = 'be a function of a client program that returns an algorithm'
        raise errors.invalid(
            'make_algorithm', requirement, errors.text_of(make_algorithm)
        )
    ALGORITHM_CHECKS.check(Runs(AlgorithmEntry(make_algorithm, **promises)))


@ALGORITHM_CHECKS.listed
def full_participation_is_fedavg(runs: Runs) -> None:
    """With everybody active, the server's trajectory is FedAvg's."""
    is_promised = runs.traits.full_participation_is_fedavg
    needs(is_promised, 'with full participation the algorithm is not FedAvg')
    path = runs.full_participation.evals['server']
    path_of_fedavg = runs.fedavg_runs.full_participation.evals['server']
    message = (
        'with full participation the server must follow FedAvg; pass '
        'full_participation_is_fedavg=False if it need not'
    )
    close(path, path_of_fedavg, message)


@ALGORITHM_CHECKS.listed
def empty_round_is_defined(runs: Runs) -> None:
    """An empty round stays finite, and keeps the server model if the algorithm promises that."""
    result = runs.standard
    require(result.state.finite, 'empty rounds must not produce NaN or infinity')
    first_empty = int(np.flatnonzero(~federation.masks().any(axis=1))[0])
    path = result.evals['server']
    before = jax.tree.map(lambda a: a[first_empty - 1], path)
    after = jax.tree.map(lambda a: a[first_empty], path)
    if runs.traits.empty_round_keeps_server:
        identical(after, before, 'an empty round must keep the server model')


@ALGORITHM_CHECKS.listed
def unavailable_clients_never_influence(runs: Runs) -> None:
    """NaN data of a client that never delivers leaves the server bit for bit as it is."""
    needs(runs.traits.uses_links, 'the algorithm does not look at the links')
    clean = runs.standard
    spoiled = runs.run(
        runs.key, federation.problem(spoil=federation.NEVER_ACTIVE), runs.links
    )
    require(
        spoiled.state.finite, 'data of a client that never delivers reached the server'
    )
    message = 'data of a client that never delivers changed the'
    identical(spoiled.evals['server'], clean.evals['server'], f'{message} evals')
    identical(spoiled.rounds, clean.rounds, f'{message} rounds')


@ALGORITHM_CHECKS.listed
def relabelling_changes_nothing_global(runs: Runs) -> None:
    """Renaming the clients leaves the server's trajectory as it is (full batches)."""
    order = (2, 0, 5, 1, 4, 3)
    problem = federation.problem(order)
    links = federation.realised_links(order, peers=runs.peers)
    renamed = runs.run_full_batches(runs.key, problem, links).evals['server']
    path = runs.full_batches.evals['server']
    close(renamed, path, 'the order of clients must not matter')


@ALGORITHM_CHECKS.listed
def lost_broadcasts_matter(runs: Runs) -> None:
    """A lost broadcast changes the round, and no client trains that cannot compute."""
    needs(runs.traits.uses_links, 'the algorithm does not look at the links')
    path = runs.rounds.servers()
    needs((path != path[0]).any(), 'the server does not move within a few rounds')
    require(
        facts.receive_time(runs.rounds) != 'never',
        'whether a client receives the broadcast must matter: `links.mask` is of uplinks alone, '
        'see `base.participants`, `base.delivers` and `base.receives`',
    )
    require(
        not facts.trains_unavailable_clients(runs.rounds),
        'clients that cannot train must not: see `base.computes` and `cohorts.computing`',
    )


ALGORITHM_CHECKS.listed(round_checks.clients_that_cannot_compute_stay_out)
ALGORITHM_CHECKS.listed(round_checks.counts_match_the_data_used)
ALGORITHM_CHECKS.listed(round_checks.keys_are_used_once)
ALGORITHM_CHECKS.listed(round_checks.keys_come_from_the_round)


@ALGORITHM_CHECKS.listed
def named_cohort_is_its_mask(runs: Runs) -> None:
    """Links that list active clients by id (a cohort) give the same as a mask of these clients."""
    named = runs.rounds.servers(named=True)
    masked = runs.rounds.servers(mask_only=True)
    close(named, masked, 'links that name a cohort must give what its mask gives')


@ALGORITHM_CHECKS.listed
def chunks_change_rounding_alone(runs: Runs) -> None:
    """Clients that train two at a time give the same as all clients at once, up to rounding."""
    pairs = runs.rounds_with(chunk_size=2).servers()
    close(
        pairs,
        runs.rounds.servers(),
        'clients in chunks of two must give what all at once give',
    )


@ALGORITHM_CHECKS.listed
def one_sample_a_round_is_all_data(runs: Runs) -> None:
    """A round on one minibatch per client equals a round of clients who own only these rows."""
    is_promised = runs.traits.trains_on_batches
    needs(is_promised, 'clients look at more than the batches of their program')
    program = runs.traits.client_program or local_sgd
    options = inspect.signature(program).parameters
    needs('resample' in options, 'the client program draws as it likes')
    sampled, full = runs.sampled_once
    message = (
        "with resample='round' all local steps must be on the minibatch of the client's key; "
        'pass trains_on_batches=False if clients look at more'
    )
    close(sampled, full, message)


@ALGORITHM_CHECKS.listed
def narrow_tables_agree(runs: Runs) -> None:
    """With client tables of bfloat16 the server model agrees to the precision of bfloat16."""
    options = inspect.signature(runs.traits.factory).parameters
    needs('table_dtype' in options, 'the algorithm has no option `table_dtype`')
    rounds = runs.rounds_with(table_dtype=jnp.bfloat16)
    tables = {leaf.dtype for leaf in jax.tree.leaves(rounds.start) if leaf.ndim > 1}
    require(
        tables == {jnp.dtype(jnp.bfloat16)}, f'tables must be bfloat16, got {tables}'
    )
    full = runs.rounds.servers()
    narrow = rounds.servers()
    error = np.abs(narrow - full).max() / np.abs(full).max()
    require(
        error < _BFLOAT16_TOLERANCE,
        f'with tables of bfloat16 the server must be near, is off by {error}',
    )


@ALGORITHM_CHECKS.listed
def examples_weigh_wherever_they_lie(runs: Runs) -> None:
    """If clients weigh by examples, a client with its data twice weighs as two such clients."""
    choices = inspect.signature(runs.traits.factory).parameters.get('weights')
    needs(
        choices and choices.default == 'equal', 'clients do not weigh by their examples'
    )
    one, two = runs.weighted_by_examples
    message = (
        'a client that owns its examples twice must weigh as two that own them once'
    )
    close(one.evals['server'], two.evals['server'], message)
    differs = jax.tree.map(
        lambda a, b: jnp.any(a != b), one.evals, runs.full_batches.evals
    )
    require(any(jax.tree.leaves(differs)), 'weights by examples must not be equal ones')


@ALGORITHM_CHECKS.listed
def meshes_agree(runs: Runs) -> None:
    """Meshes of any size give the same bits, and agree with no mesh up to rounding."""
    sizes = [size for size in _MESH_SIZES if size <= jax.device_count()]
    needs(len(sizes) > 1, 'there is one device')
    programs = [
        jax.jit(simulate(runs.algorithm, mesh=devices.mesh(size))) for size in sizes
    ]
    results = [program(runs.key, runs.problem, runs.links) for program in programs]
    close(results[0].evals, runs.standard.evals, 'a mesh must give what no mesh gives')
    for size, result in zip(sizes, results, strict=True):
        identical(
            result, results[0], f'meshes of 1 and of {size} must give the same bits'
        )


@ALGORITHM_CHECKS.listed
def resume_is_exact(runs: Runs) -> None:
    """A run in pieces equals the unbroken run, bit for bit."""
    piece = jax.jit(simulate(runs.algorithm, _PIECE))
    pattern = federation.pattern(*runs.links)
    state = simulation.init(runs.key, runs.algorithm, pattern, runs.problem)
    for _ in range(federation.NUM_ROUNDS // _PIECE):
        state = piece(runs.key, runs.problem, runs.links, state).state
    identical(state, runs.standard.state, 'a resumed run must equal the unbroken one')


@ALGORITHM_CHECKS.listed
def vmap_equals_loop(runs: Runs) -> None:
    """Seeds that run side by side give the same as seeds one by one."""

    def path(key):
        return runs.run(key, runs.problem, runs.links).evals['server']

    keys = jax.random.split(jax.random.key(11), 3)
    together = jax.vmap(path)(keys)
    one_by_one = [path(key) for key in keys]
    stacked = jax.tree.map(lambda *a: jnp.stack(a), *one_by_one)
    close(together, stacked, 'vmap must equal a loop')


@ALGORITHM_CHECKS.listed
def jit_equals_eager(runs: Runs) -> None:
    """Compiling changes only rounding: rounds called one by one give the same."""
    pattern = federation.pattern(*runs.links)
    state = simulation.init(runs.key, runs.algorithm, pattern, runs.problem)
    for t in range(3):
        state, _ = simulation.run_round(
            state, runs.key, runs.algorithm, pattern, runs.problem
        )
        compiled = jax.tree.map(lambda a, t=t: a[t], runs.standard.evals['server'])
        eager = runs.algorithm.models(state.algorithm)['server']
        close(compiled, eager, 'jit must equal eager execution')


@ALGORITHM_CHECKS.listed
def state_type_is_stable(runs: Runs) -> None:
    """One compilation serves all rounds: the state never changes shape, dtype or structure.

    The same holds for parameters of bfloat16, whose sums over clients are float32.
    """
    traces = 0

    def step(state, ctx):
        nonlocal traces
        traces += 1
        return runs.algorithm.round_step(state, ctx, runs.problem)

    compiled = jax.jit(step)
    mask = jnp.asarray(federation.masks()[0])
    sample = LinkSample(mask=mask, prob=jnp.full(federation.NUM_CLIENTS, 0.5))
    ctx = simulation.round_context(runs.key, 0, sample)
    for words, dtype in (('', None), (' (sums of bfloat16 are float32)', jnp.bfloat16)):
        state = runs.initial_types(dtype)
        for _ in range(2):  # A type kept in one round is kept in all.
            new_state, metrics = jax.eval_shape(compiled, state, ctx)
            message = (
                f'a round must leave shapes and dtypes of the state as they are{words}'
            )
            same_types(new_state, state, message)
            state = new_state
    require(traces == 2, f'one compilation must serve all rounds, got {traces / 2}')
    counts = {metrics.num_active.dtype, metrics.num_computing.dtype}
    require(
        counts == {jnp.dtype('int32')}, '`num_active` and `num_computing` must be int32'
    )


@ALGORITHM_CHECKS.listed
def candidate_models_are_parameters(runs: Runs) -> None:
    """Every candidate model has the parameters' structure; the server model is among them."""
    params = runs.problem.init_params(runs.key)
    models = runs.algorithm.models(runs.algorithm.init(params, runs.problem))
    require('server' in models, '`models` must name the server model')
    for name, model in models.items():
        same_types(
            model,
            params,
            f'{name} must have shapes, dtypes and structure of the parameters',
        )
        close(model, params, f'{name} must start at the initial parameters')
    if runs.algorithm.client_models is not None and 'client_mean' in models:
        end = runs.standard.state.algorithm
        mean = tree.client_mean(runs.algorithm.client_models(end))
        close(
            mean,
            runs.algorithm.models(end)['client_mean'],
            'client_mean must be their mean',
        )


@ALGORITHM_CHECKS.listed
def metrics_are_counts(runs: Runs) -> None:
    """Only clients that trained are counted, and losses are sums over clients that delivered."""
    rounds = jax.tree.map(np.asarray, runs.standard.rounds)
    active = rounds.num_active
    losses = rounds.loss_sum
    require(
        (active <= rounds.num_computing).all(),
        'who entered the update must have trained',
    )
    if runs.traits.uses_links and not runs.traits.traffic.peers:
        require(
            (active <= federation.masks().sum(axis=1)).all(),
            'more active than delivered',
        )
    extras = jax.tree.leaves(rounds.extra)
    require(all(np.isfinite(rows).all() for rows in extras), '`extra` must be finite')
    require((losses[active == 0] == 0).all(), 'the loss of an empty round must be zero')
    require(
        (losses[active > 0] > 0).all(), 'the loss of active clients must be counted'
    )


@ALGORITHM_CHECKS.listed
def double_precision_agrees(runs: Runs) -> None:
    """Under x64 the same run has float64 models and agrees with float32 to float32 rounding."""
    single = runs.full_batches.evals['server']
    with jax.enable_x64(True):
        double = jax.device_get(Runs(runs.traits).full_batches.evals['server'])
    dtypes = {leaf.dtype for leaf in jax.tree.leaves(double)}
    require(dtypes == {np.dtype('float64')}, 'under x64 models must be float64')
    rounded = jax.tree.map(np.float32, double)
    message = (
        'a run must be the same under x64, up to rounding; draw random numbers in float32, as '
        '`prng.uniform` does'
    )
    close(rounded, single, message)
    paths = jax.tree.leaves(double)
    needs(any((path != path[0]).any() for path in paths), 'the server does not move')
    pairs = zip(paths, jax.tree.leaves(rounded), strict=True)
    require(
        any((path != other).any() for path, other in pairs),
        'under x64 models must have the digits of float64, none of float32 alone',
    )
