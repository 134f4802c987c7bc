"""Holds states, candidate models and steps of a round that several algorithms share.

Candidate models are the models of an algorithm that an evaluation measures.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax
from jax.typing import DTypeLike

from fedjax_links import base, local_training
from fedjax_links.base import (
    Algorithm,
    Array,
    Number,
    Numbers,
    Params,
    Problem,
    PyTree,
    RoundContext,
    Step,
)
from fedjax_links.clients import cohorts, gradient_steps
from fedjax_links.core import checks, errors, meshes, tree
from fedjax_links.local_training import ClientProgram, Contribution, LocalUpdate, Train

RoundStep = Callable[[Any, RoundContext, Problem], Step[Any]]
ContributionStep = Callable[[Train, Array, PyTree], tuple[Contribution, PyTree]]

TableDtype: TypeAlias = DTypeLike | None
MaxAge: TypeAlias = int | Array | None
ServerOptimizer: TypeAlias = optax.GradientTransformation | None

EQUAL = 'equal'  # all clients weigh the same
EXAMPLES = 'examples'  # clients weigh by their number of examples

_NEVER = -(2**30)  # `last_uploads` of a row that was never uploaded: older than any age
_LARGEST_MAX_AGE = 2**29  # below the age of such a row


class ServerState(NamedTuple):
    """Holds the state of algorithms whose clients keep nothing.

    Attributes:
      server: the server model x^t.
    """

    server: Params


class ClientsState(NamedTuple):
    """Holds the state of algorithms whose clients keep models.

    Attributes:
      server: the server model x^t.
      clients: the client models x_i^t, leaves [N, ...].
    """

    server: Params
    clients: Params


def table_of(row: PyTree, problem: Problem, dtype: TableDtype = None) -> PyTree:
    """Repeats a row for each client: leaves [N, ...], in the table's dtype."""
    stored = jax.tree.map(lambda a: a.astype(dtype or a.dtype), row)
    return meshes.table(problem.num_clients, lambda n: tree.broadcast(stored, n))


def zero_table(params: Params, problem: Problem, dtype: TableDtype = None) -> Params:
    """Makes a table of zeros, one row per client, as `table_of`."""
    return table_of(tree.zeros_like(params), problem, dtype)


def server_model(state: PyTree) -> Mapping[str, Params]:
    """Returns the only candidate, the server model."""
    return {'server': state.server}


def server_and_client_mean(state: PyTree) -> Mapping[str, Params]:
    """Returns the server model, and the mean of all N client models in the server's dtype."""
    mean = tree.client_mean(state.clients, like=state.server)
    return {'server': state.server, 'client_mean': mean}


def client_model_algorithm(
    round_step: RoundStep, table_dtype: TableDtype = None
) -> Algorithm:
    """Builds an algorithm whose clients keep models, in a `ClientsState`: x_i^0 = x^0."""

    def init(params: Params, problem: Problem) -> ClientsState:
        clients = table_of(params, problem, table_dtype)
        return ClientsState(server=params, clients=clients)

    return Algorithm(
        init, round_step, server_and_client_mean, lambda state: state.clients
    )


class MemoryState(NamedTuple):
    """Holds the state of algorithms whose server remembers one row per client.

    Attributes:
      server: the server model x^t.
      memory: the rows, leaves [N, ...], in the table's dtype.
      memory_sum: the sum of the rows, leaves [...], in float32 at least. A round adds the changes
        of the rows, so its cost follows its active clients. Rounding makes the sum drift from the
        exact one. After n changes the drift is about sqrt(n) units in the last place of the sum's
        largest value so far. If a row is not finite, the sum and then the server model are not
        finite for good.
      last_uploads: int32[N], the round in which each row was uploaded; None without a largest age.
      optimizer: the server optimizer's state, ``()`` without an optimizer.
    """

    server: Params
    memory: Params
    memory_sum: Params
    last_uploads: Array | None = None
    optimizer: PyTree = ()


def sum_deltas(
    local_train: ClientProgram,
    ctx: RoundContext,
    problem: Problem,
    start: Params,
    weights: Array | Callable[[Array], Array] | None = None,
    cohort: cohorts.Cohort | None = None,
) -> Step[Params]:
    """Trains the participants, or a cohort, from one model and sums their w_i Delta_i."""
    cohort = cohorts.participating(ctx.links) if cohort is None else cohort
    total = local_training.sum_updates(
        local_train, cohort, ctx, problem, start, weights
    )
    return total.value, _metrics(cohort, total)


def mean_delta(
    local_train: ClientProgram,
    ctx: RoundContext,
    problem: Problem,
    start: Params,
    weights: str = EQUAL,
) -> Step[Params]:
    """Trains the participants from one model and averages their Delta_i.

    The mean of an empty round is zero. With weights by examples the mean is
    ``sum_{i in A} n_i Delta_i / sum_{i in A} n_i``.
    """
    relative = relative_counts(problem, weights)
    if relative is None:  # All clients weigh the same: the sum over A, divided by |A|.
        deltas, metrics = sum_deltas(local_train, ctx, problem, start)
        return tree.divide(deltas, metrics.num_active), metrics

    def client(train_i: Train, i: Array, row: PyTree) -> tuple[Contribution, PyTree]:
        update = train_i(start)
        weighted = tree.scale(relative[i], update.delta)
        return Contribution((weighted, relative[i]), update.loss), row

    (deltas, weight_sum), _, metrics = train(local_train, ctx, problem, client)
    return tree.divide(deltas, weight_sum), metrics


def relative_counts(problem: Problem, weights: str) -> Array | None:
    """Returns ``n_i`` over the mean n, float[N]; None where all clients weigh the same."""
    if weights == EQUAL or problem.min_examples == problem.max_examples:
        return None
    counts = as_float(problem.counts)
    return counts / jnp.mean(counts)


def train(
    local_train: ClientProgram,
    ctx: RoundContext,
    problem: Problem,
    per_client: ContributionStep,
    table: PyTree = (),
    cohort: cohorts.Cohort | None = None,
) -> tuple[PyTree, PyTree, base.RoundMetrics]:
    """Trains the participants, or a cohort; returns the summed contributions and the new table."""
    cohort = cohorts.participating(ctx.links) if cohort is None else cohort
    total, table = local_training.train_cohort(
        local_train, cohort, ctx, problem, per_client, table
    )
    return total.value, table, _metrics(cohort, total)


def update_rows(
    local_train: ClientProgram,
    ctx: RoundContext,
    problem: Problem,
    per_client: ContributionStep,
    state: MemoryState,
) -> tuple[PyTree, MemoryState, base.RoundMetrics]:
    """Trains the participants and replaces their rows.

    Args:
      local_train: the client program.
      ctx: the round.
      problem: data and loss.
      per_client: as in `local_training.train_cohort`; rows are rounded when stored.
      state: the state with the rows.

    Returns:
      The summed contributions, the state with the new rows and their sum, and the metrics.
    """

    def client(train_i: Train, i: Array, row: PyTree) -> tuple[Contribution, PyTree]:
        contribution, new_row = per_client(train_i, i, row)
        stored = tree.round_to(new_row, row)
        value = (contribution.value, tree.row_delta(stored, row))
        return contribution._replace(value=value), stored

    (value, changes), table, metrics = train(
        local_train, ctx, problem, client, state.memory
    )
    memory_sum = tree.add_scaled(state.memory_sum, 1, changes)
    state = state._replace(memory=table, memory_sum=memory_sum)
    if state.last_uploads is not None:
        participants = cohorts.participating(ctx.links).ids
        last_uploads = state.last_uploads.at[participants].set(
            ctx.round, mode='drop', indices_are_sorted=True
        )
        state = state._replace(last_uploads=last_uploads)
    return value, state, metrics


def expire_rows(state: MemoryState, ctx: RoundContext, max_age: MaxAge) -> MemoryState:
    """Resets the rows that have just become older than ``max_age`` rounds.

    The cost is proportional to the number of these rows. If no rows remain, the sum is exactly
    zero.
    """
    if max_age is None:
        return state
    # Older rows were reset when they were max_age + 1 rounds old.
    ages = ctx.round - jnp.asarray(state.last_uploads)
    expired = cohorts.make_cohort(ages - 1 == max_age)

    def clear(i: Array, row: PyTree) -> tuple[PyTree, PyTree]:
        return row, tree.zeros_like(row)

    expired_sum, table = cohorts.map_reduce(clear, expired, state.memory)
    remaining = tree.add_scaled(state.memory_sum, -1, expired_sum)
    is_any_left = jnp.any(ages <= max_age)
    memory_sum = tree.select(is_any_left, remaining, tree.zeros_like(remaining))
    return state._replace(memory=table, memory_sum=memory_sum)


def mean_row(
    state: MemoryState, ctx: RoundContext, max_age: int | Array
) -> tuple[PyTree, Array]:
    """Returns the mean of the rows not older than ``max_age`` rounds, and their number, int32[]."""
    ages = ctx.round - jnp.asarray(state.last_uploads)
    num_rows = jnp.sum(ages <= max_age, dtype=jnp.int32)
    return tree.divide(state.memory_sum, num_rows), num_rows


def apply_server_update(
    state: Any, scale: Number, direction: PyTree, optimizer: ServerOptimizer
) -> Any:
    """Moves ``state.server`` along ``scale * direction``, or by an optimizer.

    The optimizer takes minus ``scale * direction`` as its gradient. A round without a direction
    must not step the optimizer, so the caller discards its result.
    """
    if optimizer is None:
        return state._replace(server=tree.add_scaled(state.server, scale, direction))
    gradient = tree.scale(-scale, tree.cast_like(direction, state.server))
    updates, optimizer_state = gradient_steps.optimizer_update(
        'server_optimizer', optimizer, gradient, state.optimizer, state.server
    )
    server = tree.add_scaled(state.server, 1, updates)
    return state._replace(server=server, optimizer=optimizer_state)


def mean_gradient(
    update: LocalUpdate, correction: PyTree, rate: Array, previous: PyTree
) -> PyTree:
    """Returns the mean gradient ``-correction - Delta_i / (s eta)``, or ``previous`` at rate 0."""
    inverse_rate = 1 / (update.num_steps * rate)
    gradient = jax.tree.map(
        lambda shift, delta: -shift - inverse_rate * delta, correction, update.delta
    )
    return tree.select(rate > 0, gradient, previous)


def amplify(server: Params, reference: Params, factor: Number, is_due: Array) -> Params:
    """Amplifies the progress since the reference: ``x_ref + factor (x - x_ref)`` if due, else x."""
    progress = tree.subtract(server, reference)
    return tree.select(is_due, tree.add_scaled(reference, factor, progress), server)


def server_only_algorithm(round_step: RoundStep) -> Algorithm:
    """Builds an algorithm whose clients keep nothing, with a `ServerState`."""
    return Algorithm(
        lambda params, problem: ServerState(params), round_step, server_model
    )


def with_memory(
    round_step: RoundStep,
    table_dtype: TableDtype,
    max_age: MaxAge = None,
    server_optimizer: ServerOptimizer = None,
) -> Algorithm:
    """Checks the options and builds an algorithm with a `MemoryState`."""
    check_table_dtype(table_dtype)
    if max_age is not None:
        checks.integer('max_age', max_age, minimum=0, maximum=_LARGEST_MAX_AGE)
    if server_optimizer is not None:
        check_optimizer(server_optimizer)

    def init(params: Params, problem: Problem) -> MemoryState:
        state = MemoryState(
            server=params,
            memory=zero_table(params, problem, table_dtype),
            memory_sum=tree.zero_sums(params),
        )
        if max_age is not None:
            last_uploads = jnp.full(problem.num_clients, _NEVER, jnp.int32)
            state = state._replace(last_uploads=last_uploads)
        if server_optimizer is not None:
            state = state._replace(optimizer=server_optimizer.init(params))
        return state

    return Algorithm(init, round_step, server_model)


def as_float(counts: Array) -> Array:
    """Converts counts to the default floating-point dtype, for ratios of full precision."""
    return counts.astype(jnp.result_type(float))


def one_per_client(argument: str, values: Numbers, num_clients: int) -> Array:
    """Converts one number for all clients, or one for each, to float[N]; raises for others."""
    checks.one_or_each(argument, values, num_clients)
    return jnp.broadcast_to(jnp.asarray(values, jnp.result_type(float)), num_clients)


def check_table_dtype(table_dtype: TableDtype, *, min_bits: int = 16) -> None:
    """Raises unless a dtype is None, or a float of ``min_bits`` bits or more."""
    requirement = f'be a floating-point dtype of at least {min_bits} bits'
    try:
        dtype = jnp.dtype(jnp.float32 if table_dtype is None else table_dtype)
    except TypeError:  # not a dtype at all
        raise errors.invalid('table_dtype', requirement, table_dtype) from None
    is_float = jnp.issubdtype(dtype, jnp.floating)
    if not is_float or 8 * dtype.itemsize < min_bits:
        raise errors.invalid('table_dtype', requirement, dtype.name)


def check_weights(weights: object) -> None:
    """Raises unless ``weights`` is ``'equal'`` or ``'examples'``."""
    checks.choice('weights', weights, (EQUAL, EXAMPLES))


def check_decay(argument: str, value: Number) -> None:
    """Raises unless a rate of decay lies in [0, 1)."""
    checks.number_within(argument, value, 0, 1)
    if checks.is_concrete(value) and value == 1:
        raise errors.invalid(argument, 'be below 1', value)


def check_optimizer(server_optimizer: object) -> None:
    """Raises unless ``server_optimizer`` is an optax transformation."""
    if not isinstance(server_optimizer, optax.GradientTransformation):
        requirement = 'be an optax gradient transformation'
        raise errors.invalid('server_optimizer', requirement, repr(server_optimizer))


def check_server_rates(
    server_lr: Number | None,
    server_optimizer: ServerOptimizer,
    default: float | None = 1.0,
) -> None:
    """Raises unless the server's rate is positive and not combined with an optimizer.

    Most optimizers normalise the gradient, so a server rate beside an optimizer would have no
    effect. Only ``default``, the rate of a user who sets none, may stand beside an optimizer.
    """
    is_needed = default is not None and server_optimizer is None
    if server_lr is not None or is_needed:
        checks.positive_number('server_lr', server_lr)
    is_number = isinstance(server_lr, int | float)
    is_default = server_lr is None or (is_number and server_lr == default)
    if server_optimizer is not None and not is_default:
        requirement = 'be left out beside `server_optimizer`, which has its own rate'
        raise errors.invalid('server_lr', requirement, errors.text_of(server_lr))


def _metrics(cohort: cohorts.Cohort, total: Contribution) -> base.RoundMetrics:
    """Makes the metrics of a round in which all members train and upload."""
    num_active = cohorts.num_members(cohort)
    return base.RoundMetrics(
        num_active=num_active, num_computing=num_active, loss_sum=total.loss, extra={}
    )
