"""States, candidate models and parts of a round that several algorithms share."""

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
    Params,
    Problem,
    PyTree,
    RoundContext,
    Step,
)
from fedjax_links.clients import cohorts
from fedjax_links.core import checks, errors, meshes, tree
from fedjax_links.local_training import ClientProgram, Contribution, LocalUpdate, Train

RoundStep = Callable[[Any, RoundContext, Problem], Step[Any]]
PerClient = Callable[[Train, Array, PyTree], tuple[Contribution, PyTree]]

TableDtype: TypeAlias = DTypeLike | None
MaxAge: TypeAlias = int | Array | None
ServerOptimizer: TypeAlias = optax.GradientTransformation | None

EQUAL, EXAMPLES = 'equal', 'examples'
"""What clients weigh by: each the same, or each its number of examples."""

_NEVER = -(2**30)  # the round of a row that was never heard: older than any age
_OLDEST = 2**29


class ServerState(NamedTuple):
    """State of algorithms whose clients keep nothing.

    Attributes:
      server: the server model x^t.
    """

    server: Params


class ClientsState(NamedTuple):
    """State of algorithms whose clients keep models.

    Attributes:
      server: the server model x^t.
      clients: the client models x_i^t, leaves [N, ...].
    """

    server: Params
    clients: Params


def table_of(row: PyTree, problem: Problem, dtype: TableDtype = None) -> PyTree:
    """A row per client, leaves [N, ...], all alike, in the table's dtype; its own by default."""
    stored = jax.tree.map(lambda a: a.astype(dtype or a.dtype), row)
    return meshes.table(
        problem.num_clients, lambda count: tree.broadcast(stored, count)
    )


def zero_table(params: Params, problem: Problem, dtype: TableDtype = None) -> Params:
    """One row of zeros per client, as `table_of`."""
    return table_of(tree.zeros_like(params), problem, dtype)


def every_client_at(
    params: Params, problem: Problem, dtype: TableDtype = None
) -> ClientsState:
    """x_i^0 = x^0 for every client, as `table_of`."""
    return ClientsState(server=params, clients=table_of(params, problem, dtype))


def server_model(state: Any) -> Mapping[str, Params]:
    """The only candidate: the server model."""
    return {'server': state.server}


def server_and_client_mean(state: Any) -> Mapping[str, Params]:
    """The server model, and the mean over all N client models, in the server's dtype."""
    mean = tree.client_mean(state.clients, like=state.server)
    return {'server': state.server, 'client_mean': mean}


def of_client_models(round_step: RoundStep, init: Any = every_client_at) -> Algorithm:
    """An algorithm with a `ClientsState`."""
    return Algorithm(
        init, round_step, server_and_client_mean, lambda state: state.clients
    )


class MemoryState(NamedTuple):
    """State of algorithms whose server remembers one row per client.

    Attributes:
      server: the server model x^t.
      memory: the rows, leaves [N, ...], in the table's dtype.
      memory_sum: their sum over the clients, leaves [...], in float32 at least. It is kept up
        to date by the differences of the rows that change, so that a round costs what its active
        clients cost. Rounding lets it drift from the exact sum by about one unit in the last place
        (of its largest value so far) times the square root of the number of changes. A row that is
        not finite leaves it not finite for good; so it does the server model, at its next move.
      last_heard: int32[N], the round of each row, where rows have a largest age; else None.
      optimizer: the server optimizer's state, where there is one.
    """

    server: Params
    memory: Params
    memory_sum: Params
    last_heard: Array | None = None
    optimizer: PyTree = ()


def sum_deltas(
    local_train: ClientProgram,
    ctx: RoundContext,
    problem: Problem,
    start: Params,
    weights: Array | Callable[[Array], Array] | None = None,
    cohort: cohorts.Cohort | None = None,
) -> Step[Params]:
    """Has the participants, or a cohort, train from one model: the sum of their w_i Delta_i."""
    cohort = cohorts.participating(ctx.links) if cohort is None else cohort
    total = local_training.sum_updates(
        local_train, cohort, ctx, problem, start, weights
    )
    return total.value, metrics(cohort, total)


def mean_delta(
    local_train: ClientProgram,
    ctx: RoundContext,
    problem: Problem,
    start: Params,
    weights: str = EQUAL,
) -> Step[Params]:
    """Has the participants train from one model: the mean of their Delta_i, zero for nobody.

    With weights by examples it is ``sum_{i in A} n_i Delta_i / sum_{i in A} n_i``.
    """
    volumes = relative_volumes(problem, weights)
    if volumes is None:
        deltas, counted = sum_deltas(local_train, ctx, problem, start)
        return tree.divide(deltas, counted.num_active), counted

    def client(train: Train, i: Array, row: PyTree) -> tuple[Contribution, PyTree]:
        update = train(start)
        return Contribution(
            (tree.scale(volumes[i], update.delta), volumes[i]), update.loss
        ), row

    (deltas, volume), _, counted = train(local_train, ctx, problem, client)
    return tree.divide(deltas, volume), counted


def relative_volumes(problem: Problem, weights: str) -> Array | None:
    """Returns ``n_i`` over the mean n, float[N]; None where all clients weigh the same."""
    if weights == EQUAL or problem.min_examples == problem.max_examples:
        return None
    counts = as_float(problem.counts)
    return counts / jnp.mean(counts)


def times_volumes(
    factors: Array | Callable[[Array], Array] | None, problem: Problem, weights: str
) -> Array | Callable[[Array], Array] | None:
    """Returns the weights of `sum_deltas` times the clients' relative volumes."""
    volumes = relative_volumes(problem, weights)
    if volumes is None:
        return factors
    if callable(factors):
        return lambda i: volumes[i] * factors(i)
    return volumes if factors is None else volumes * factors


def train(
    local_train: ClientProgram,
    ctx: RoundContext,
    problem: Problem,
    per_client: PerClient,
    table: PyTree = (),
    cohort: cohorts.Cohort | None = None,
) -> tuple[PyTree, PyTree, base.RoundMetrics]:
    """Has the participants, or a cohort, train: the sum of what they contribute, the new table."""
    cohort = cohorts.participating(ctx.links) if cohort is None else cohort
    total, table = local_training.train_cohort(
        local_train, cohort, ctx, problem, per_client, table
    )
    return total.value, table, metrics(cohort, total)


def remember(
    local_train: ClientProgram,
    ctx: RoundContext,
    problem: Problem,
    per_client: PerClient,
    state: MemoryState,
) -> tuple[PyTree, MemoryState, base.RoundMetrics]:
    """Has the participants train and replaces their rows.

    Args:
      local_train: the client program.
      ctx: the round.
      problem: data and loss.
      per_client: as of `local_training.train_cohort`; the row is rounded as it is stored.
      state: with the rows.

    Returns:
      The contributions' sum, the state with the new rows and their sum, and the round's metrics.
    """

    def client(train: Train, i: Array, row: PyTree) -> tuple[Contribution, PyTree]:
        contribution, fresh = per_client(train, i, row)
        stored = tree.round_to(fresh, row)
        return contribution._replace(
            value=(contribution.value, tree.change(stored, row))
        ), stored

    (value, changes), table, metrics = train(
        local_train, ctx, problem, client, state.memory
    )
    state = state._replace(
        memory=table, memory_sum=tree.add_scaled(state.memory_sum, 1, changes)
    )
    if state.last_heard is not None:
        heard = cohorts.participating(ctx.links).ids
        last = state.last_heard.at[heard].set(
            ctx.round, mode='drop', indices_are_sorted=True
        )
        state = state._replace(last_heard=last)
    return value, state, metrics


def forget(state: MemoryState, ctx: RoundContext, max_age: MaxAge) -> MemoryState:
    """The state without the rows that have just become older than ``max_age`` rounds.

    Cost follows these rows; a sum of no rows is zero, to the bit.
    """
    if max_age is None:
        return state
    ages = ctx.round - jnp.asarray(state.last_heard)
    old = cohorts.make_cohort(ages - 1 == max_age)

    def clear(i: Array, row: PyTree) -> tuple[PyTree, PyTree]:
        return row, tree.zeros_like(row)

    gone, table = cohorts.map_reduce(clear, old, state.memory)
    kept = tree.add_scaled(state.memory_sum, -1, gone)
    memory_sum = tree.select(jnp.any(ages <= max_age), kept, tree.zeros_like(kept))
    return state._replace(memory=table, memory_sum=memory_sum)


def mean_row(
    state: MemoryState, ctx: RoundContext, max_age: int | Array
) -> tuple[PyTree, Array]:
    """Mean over the rows heard in the last ``max_age`` rounds, and how many these are, int32[]."""
    ages = ctx.round - jnp.asarray(state.last_heard)
    num_rows = jnp.sum(ages <= max_age, dtype=jnp.int32)
    return tree.divide(state.memory_sum, num_rows), num_rows


def move(
    state: Any, scale: Number, direction: PyTree, optimizer: ServerOptimizer
) -> Any:
    """The server moved along ``scale * direction``, or by an optimizer with minus that as gradient.

    The state has a field ``server``, and one ``optimizer`` where there is such. Rounds in which a
    rule has no direction are left out by whoever calls, as they step no optimizer.
    """
    if optimizer is None:
        return state._replace(server=tree.add_scaled(state.server, scale, direction))
    gradient = tree.scale(-scale, tree.cast_like(direction, state.server))
    updates, after = optimizer.update(gradient, state.optimizer, state.server)
    return state._replace(
        server=tree.add_scaled(state.server, 1, updates), optimizer=after
    )


def mean_gradient(update: LocalUpdate, correction: PyTree, rate: Array) -> PyTree:
    """``-correction - Delta_i / (s eta)``: the mean of the gradients of a client's SGD steps."""
    descent = 1 / (update.num_steps * rate)
    return jax.tree.map(
        lambda shift, delta: -shift - descent * delta, correction, update.delta
    )


def amplify(server: Params, reference: Params, factor: Number, is_due: Array) -> Params:
    """``x_ref + factor (x - x_ref)`` where it is due, else x."""
    progress = tree.subtract(server, reference)
    return tree.select(is_due, tree.add_scaled(reference, factor, progress), server)


def metrics(cohort: cohorts.Cohort, total: Contribution) -> base.RoundMetrics:
    """Metrics of a round whose members all train and are all heard."""
    num_active = cohorts.num_members(cohort)
    return base.RoundMetrics(num_active, num_active, total.loss, {})


def of_server(round_step: RoundStep) -> Algorithm:
    """An algorithm with a `ServerState`."""
    return Algorithm(
        lambda params, problem: ServerState(params), round_step, server_model
    )


def with_memory(
    round_step: RoundStep,
    table_dtype: TableDtype,
    max_age: MaxAge = None,
    server_optimizer: ServerOptimizer = None,
) -> Algorithm:
    """An algorithm with a `MemoryState`; its options are checked."""
    check_table_dtype(table_dtype)
    if max_age is not None:
        check_count('max_age', max_age, minimum=0, maximum=_OLDEST)
    if server_optimizer is not None:
        check_optimizer(server_optimizer)

    def init(params: Params, problem: Problem) -> MemoryState:
        table = zero_table(params, problem, table_dtype)
        last = (
            None
            if max_age is None
            else jnp.full(problem.num_clients, _NEVER, jnp.int32)
        )
        steps = () if server_optimizer is None else server_optimizer.init(params)
        return MemoryState(params, table, tree.zero_sums(params), last, steps)

    return Algorithm(init, round_step, server_model)


def as_float(counts: Array) -> Array:
    """Counts in the default floating-point dtype, so that their ratios are of full precision."""
    return counts.astype(jnp.result_type(float))


def check_table_dtype(table_dtype: TableDtype) -> None:
    """Raises unless ``table_dtype`` is None or a floating-point dtype."""
    try:
        given = jnp.dtype(jnp.float32 if table_dtype is None else table_dtype)
    except TypeError:  # no dtype at all
        raise errors.invalid(
            'table_dtype', 'be a floating-point dtype', table_dtype
        ) from None
    if not jnp.issubdtype(given, jnp.floating):
        raise errors.invalid('table_dtype', 'be a floating-point dtype', given.name)


def check_weights(weights: Any) -> None:
    """Raises unless it says what clients weigh by."""
    checks.choice('weights', weights, (EQUAL, EXAMPLES))


def check_optimizer(server_optimizer: Any) -> None:
    """Raises unless it is an optax transformation."""
    if not isinstance(server_optimizer, optax.GradientTransformation):
        requirement = 'be an optax gradient transformation'
        raise errors.invalid('server_optimizer', requirement, repr(server_optimizer))


def check_server_rates(
    server_lr: Number | None,
    server_optimizer: ServerOptimizer,
    default: float | None = 1.0,
) -> None:
    """Raises unless the server's rate is positive, and alone: an optimizer brings its own.

    Most optimizers take the same step whatever multiplies the gradient, and would not see it.
    """
    if server_lr is not None:
        checks.positive_number('server_lr', server_lr)
    is_number = isinstance(server_lr, int | float)
    is_given = server_lr is not None and not (is_number and server_lr == default)
    if server_optimizer is not None and is_given:
        requirement = (
            'be left out beside `server_optimizer`, which has a rate of its own'
        )
        raise errors.invalid('server_lr', requirement, errors.text_of(server_lr))


def check_count(
    argument: str,
    value: int | Array,
    *,
    minimum: int = 1,
    maximum: int = checks.LARGEST_INT,
) -> None:
    """Raises unless a concrete ``value`` is an integer from ``minimum`` to ``maximum``."""
    if checks.is_concrete(value):
        checks.static_int(argument, value, minimum=minimum, maximum=maximum)
    else:
        checks.number(argument, value)
