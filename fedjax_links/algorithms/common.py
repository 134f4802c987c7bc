"""States and candidate models that several algorithms share."""

from collections.abc import Mapping
from typing import NamedTuple

from fedjax_links import tree
from fedjax_links.base import Params, Problem


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


def every_client_at(params: Params, problem: Problem) -> ClientModelsState:
    """x_i^0 = x^0 for every client."""
    return ClientModelsState(server=params, clients=tree.broadcast(params, problem.num_clients))


def server_model(state: ServerState) -> Mapping[str, Params]:
    """The only candidate: the server model."""
    return {'server': state.server}


def server_and_client_mean(state: ClientModelsState) -> Mapping[str, Params]:
    """The server model, and the mean over all N client models."""
    return {'server': state.server, 'client_mean': tree.client_mean(state.clients)}
