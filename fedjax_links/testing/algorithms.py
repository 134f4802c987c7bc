"""Conformance of federated algorithms."""

import contextlib
import functools
from collections.abc import Callable, Mapping
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import simulation
from fedjax_links.algorithms.fedavg import fedavg
from fedjax_links.base import Algorithm, LinkSample
from fedjax_links.local_training import ClientProgram, local_sgd
from fedjax_links.participation.replay import replay
from fedjax_links.registry import AlgorithmEntry
from fedjax_links.testing import federation
from fedjax_links.testing.applicability import DoesNotApply
from fedjax_links.testing.reasons import saying

Maker = Callable[[ClientProgram], Algorithm]
_TOLERANCE = 2e-5  # float32 sums of a few terms in another order, over a dozen rounds
_PIECE = 4  # rounds; the second piece ends and the third begins between rounds with clients
_NUM_KEPT = 4  # algorithms whose runs are kept at a time


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
        with contextlib.suppress(DoesNotApply):
            check(make_algorithm, traits)


def _program(traits: AlgorithmEntry, **kwargs: Any) -> ClientProgram:
    """The client program that the algorithm is defined with, plain SGD unless it says otherwise."""
    factory = traits.client_program or local_sgd
    options = {'local_steps': 3, 'batch_size': 2, **traits.client_example, **kwargs}
    return factory(0.2, **options)


def _simulate(algorithm: Algorithm, num_rounds: int = federation.NUM_ROUNDS) -> Callable[..., Any]:
    """A run with the server model after every round; links are arguments, as data are."""

    def run(key, problem, links, initial_state=None):
        return simulation.simulate(
            key,
            algorithm,
            replay(*links),
            problem,
            num_rounds=num_rounds,
            eval_every=1,
            eval_fn=lambda params, key, problem: params,
            initial_state=initial_state,
        )

    return run


class _Runs:
    """The runs of one algorithm that several checks look at; every program is compiled once."""

    def __init__(self, make: Maker, traits: AlgorithmEntry) -> None:
        """Builds the algorithm on minibatches and on full batches."""
        self.make, self.traits = make, traits
        self.double = bool(jax.config.read('jax_enable_x64'))
        self.algorithm = make(_program(traits))
        self.problem = federation.problem()
        self.key = jax.random.key(0)
        self.run = jax.jit(_simulate(self.algorithm))
        self.run_full_batches = jax.jit(_simulate(make(_program(traits, batch_size=None))))

    @functools.cached_property
    def standard(self) -> simulation.SimulationResult:
        """On minibatches, over the links of the test federation."""
        return self.run(self.key, self.problem, federation.realised_links())

    @functools.cached_property
    def full_batches(self) -> simulation.SimulationResult:
        """The same on full batches."""
        return self.run_full_batches(self.key, self.problem, federation.realised_links())

    @functools.cached_property
    def full_participation(self) -> simulation.SimulationResult:
        """On minibatches, with everybody active in every round."""
        everyone = np.ones((federation.NUM_ROUNDS, federation.NUM_CLIENTS), bool)
        return self.run(self.key, self.problem, (everyone, everyone.astype(float)))


_PLAIN_FEDAVG = AlgorithmEntry(fedavg)
_recent: list[_Runs] = []


def _runs(make: Maker, traits: AlgorithmEntry) -> _Runs:
    """The runs of this very algorithm, kept while the checks of a few algorithms go by."""
    double = bool(jax.config.read('jax_enable_x64'))
    for runs in _recent:
        if runs.make is make and runs.traits is traits and runs.double == double:
            _recent.remove(runs)
            break
    else:
        runs = _Runs(make, traits)
    _recent.append(runs)
    del _recent[:-_NUM_KEPT]
    return runs


def _close(actual: Any, expected: Any, message: str) -> None:
    with saying(message):
        chex.assert_trees_all_close(actual, expected, rtol=_TOLERANCE, atol=_TOLERANCE)


def _identical(actual: Any, expected: Any, message: str) -> None:
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        if not np.array_equal(a, b, equal_nan=jnp.issubdtype(a.dtype, jnp.inexact)):
            raise AssertionError(message)


def full_participation_is_fedavg(make: Maker, traits: AlgorithmEntry) -> None:
    """With everybody active, the server's trajectory is FedAvg's."""
    if not traits.full_participation_is_fedavg:
        raise DoesNotApply('with full participation the algorithm is not FedAvg')
    plain = _PLAIN_FEDAVG
    if traits.client_program is not None or traits.client_example:
        plain = plain._replace(
            client_program=traits.client_program, client_example=traits.client_example
        )
    ours = _runs(make, traits).full_participation.evals['server']
    theirs = _runs(fedavg, plain).full_participation.evals['server']
    _close(
        ours,
        theirs,
        'with full participation the server must follow FedAvg; pass '
        'full_participation_is_fedavg=False if the rule is another one',
    )


def empty_round_is_defined(make: Maker, traits: AlgorithmEntry) -> None:
    """An empty round stays finite and keeps the server model where the rule says so."""
    result = _runs(make, traits).standard
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
        raise DoesNotApply('the algorithm does not look at the links')
    runs = _runs(make, traits)
    clean = runs.standard
    silent = federation.problem(spoil=federation.SILENT)
    spoiled = runs.run(runs.key, silent, federation.realised_links())
    assert bool(spoiled.state.finite), 'data of a client that never delivers reached the server'
    for name in ('evals', 'rounds'):
        ours, theirs = getattr(spoiled, name), getattr(clean, name)
        if name == 'evals':
            ours, theirs = ours['server'], theirs['server']
        _identical(ours, theirs, f'data of a client that never delivers changed the {name}')


def relabelling_changes_nothing_global(make: Maker, traits: AlgorithmEntry) -> None:
    """Renaming the clients leaves the server's trajectory as it is (full batches)."""
    order = (2, 0, 5, 1, 4, 3)
    runs = _runs(make, traits)
    renamed = runs.run_full_batches(
        runs.key, federation.problem(order), federation.realised_links(order)
    )
    plain = runs.full_batches
    _close(renamed.evals['server'], plain.evals['server'], 'the order of clients must not matter')


def resume_is_exact(make: Maker, traits: AlgorithmEntry) -> None:
    """A run in pieces is the run in one, bit for bit."""
    runs = _runs(make, traits)
    piece = jax.jit(_simulate(runs.algorithm, num_rounds=_PIECE))
    links = federation.realised_links()
    state = simulation.init(runs.key, runs.algorithm, replay(*links), runs.problem)
    for _ in range(federation.NUM_ROUNDS // _PIECE):
        state = piece(runs.key, runs.problem, links, state).state
    _identical(state, runs.standard.state, 'a resumed run must equal the unbroken one')


def vmap_equals_loop(make: Maker, traits: AlgorithmEntry) -> None:
    """Seeds side by side equal seeds one by one."""
    runs = _runs(make, traits)
    links = federation.realised_links()

    def path(key):
        return runs.run(key, runs.problem, links).evals['server']

    keys = jax.random.split(jax.random.key(11), 3)
    together = jax.vmap(path)(keys)
    alone = [path(key) for key in keys]
    _close(together, jax.tree.map(lambda *a: jnp.stack(a), *alone), 'vmap must equal a loop')


def jit_equals_eager(make: Maker, traits: AlgorithmEntry) -> None:
    """Compiling changes nothing but rounding."""
    runs = _runs(make, traits)
    compiled = jax.tree.map(lambda a: a[:3], runs.standard.evals['server'])
    run = _simulate(runs.algorithm, num_rounds=3)
    eager = run(runs.key, runs.problem, federation.realised_links())
    _close(compiled, eager.evals['server'], 'jit must equal eager execution')


def state_type_is_stable(make: Maker, traits: AlgorithmEntry) -> None:
    """One compilation serves all rounds: the state never changes shape, dtype or structure."""
    runs = _runs(make, traits)
    traces = 0

    def step(state, ctx):
        nonlocal traces
        traces += 1
        return runs.algorithm.round_step(state, ctx, runs.problem)

    compiled = jax.jit(step)
    mask = jnp.asarray(federation.masks()[0])
    sample = LinkSample(mask=mask, prob=jnp.full(federation.NUM_CLIENTS, 0.5))
    ctx = simulation.round_context(runs.key, 0, sample)
    state = runs.algorithm.init(runs.problem.init_params(runs.key), runs.problem)
    for _ in range(2):  # a type that outlives one round outlives all
        new_state, metrics = jax.eval_shape(compiled, state, ctx)
        with saying('a round must leave shapes, dtypes and structure of the state as they are'):
            chex.assert_trees_all_equal_shapes_and_dtypes(new_state, state)
        state = new_state
    assert traces == 1, f'one compilation must serve all rounds, got {traces}'
    assert metrics.num_active.dtype == metrics.num_computing.dtype == jnp.int32, (
        '`num_active` and `num_computing` must be int32'
    )


def candidate_models_are_parameters(make: Maker, traits: AlgorithmEntry) -> None:
    """Every candidate model has the parameters' structure; the server model is among them."""
    runs = _runs(make, traits)
    params = runs.problem.init_params(runs.key)
    models = runs.algorithm.models(runs.algorithm.init(params, runs.problem))
    assert 'server' in models, '`models` must name the server model'
    for name, model in models.items():
        with saying(f'{name} must have shapes, dtypes and structure of the parameters'):
            chex.assert_trees_all_equal_shapes_and_dtypes(model, params)
        _close(model, params, f'{name} must start at the initial parameters')


def metrics_are_counts(make: Maker, traits: AlgorithmEntry) -> None:
    """Nobody is counted who did not train, and losses are sums over those who delivered."""
    result = _runs(make, traits).standard
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
    single = _runs(make, traits).full_batches.evals['server']
    with jax.enable_x64(True):
        run = jax.jit(_simulate(make(_program(traits, batch_size=None))))
        result = run(jax.random.key(0), federation.problem(), federation.realised_links())
    double = result.evals['server']
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
