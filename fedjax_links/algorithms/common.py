"""States and candidate models that several algorithms share."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from fedjax_links import checks, errors, meshes, tree
from fedjax_links.base import Array, Params, Problem


class HasServer(Protocol):
    """A state with a server model."""

    @property
    def server(self) -> Params:
        """The server model."""
        ...


class HasClients(HasServer, Protocol):
    """A state with client models too."""

    @property
    def clients(self) -> Params:
        """The client models, leaves [N, ...]."""
        ...


class ServerState(NamedTuple):
    """State of algorithms whose clients keep nothing.

    Attributes:
      server: the server model x^t.
    """

    server: Params


class ClientModelsState(NamedTuple):
    """State of algorithms whose clients keep models.

    Attributes:
      server: the server model x^t.
      clients: the client models x_i^t, leaves [N, ...].
    """

    server: Params
    clients: Params


def every_client_at(
    params: Params, problem: Problem, table_dtype: DTypeLike | None = None
) -> ClientModelsState:
    """x_i^0 = x^0 for every client, in the table's dtype; the parameters' own by default."""
    row = jax.tree.map(lambda a: a.astype(table_dtype or a.dtype), params)
    clients = meshes.table(problem.num_clients, lambda count: tree.broadcast(row, count))
    return ClientModelsState(server=params, clients=clients)


def server_model(state: HasServer) -> Mapping[str, Params]:
    """The only candidate: the server model."""
    return {'server': state.server}


def server_and_client_mean(state: HasClients) -> Mapping[str, Params]:
    """The server model, and the mean over all N client models, in the server's dtype."""
    mean = tree.client_mean(state.clients, like=state.server)
    return {'server': state.server, 'client_mean': mean}


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
    """

    server: Params
    memory: Params
    memory_sum: Params


def zero_table(params: Params, problem: Problem, table_dtype: DTypeLike | None) -> Params:
    """One row of zeros per client, leaves [N, ...], of the given or the parameters' dtypes."""

    def zeros(count: int) -> Params:
        return jax.tree.map(lambda a: jnp.zeros((count, *a.shape), table_dtype or a.dtype), params)

    return meshes.table(problem.num_clients, zeros)


def empty_memory(params: Params, problem: Problem, table_dtype: DTypeLike | None) -> MemoryState:
    """Rows of zeros, which sum to zero."""
    table = zero_table(params, problem, table_dtype)
    return MemoryState(server=params, memory=table, memory_sum=tree.zero_sums(params))


def as_float(counts: Array) -> Array:
    """Counts in the default floating-point dtype, so that their ratios are of full precision."""
    return counts.astype(jnp.result_type(float))


def check_table_dtype(table_dtype: DTypeLike | None) -> None:
    """Raises unless ``table_dtype`` is None or a floating-point dtype."""
    if table_dtype is None:
        return
    requirement = 'be a floating-point dtype'
    try:
        given = jnp.dtype(table_dtype)
    except TypeError:  # no dtype at all
        raise errors.invalid('table_dtype', requirement, table_dtype) from None
    if not jnp.issubdtype(given, jnp.floating):
        raise errors.invalid('table_dtype', requirement, given.name)


def check_count(argument: str, value: int | Array, *, minimum: int = 1) -> None:
    """Raises unless a concrete ``value`` is an integer of at least ``minimum``."""
    if checks.is_concrete(value):
        checks.static_int(argument, value, minimum=minimum)
