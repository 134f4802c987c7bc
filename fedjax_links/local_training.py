"""Runs client programs over a cohort.

A client program is the local training of one client. `clients.programs` defines such programs, and
its names can be imported from here, too. A cohort lists the clients that compute in a round
(`clients.cohorts`). A chunk is a group of a cohort's clients that train in parallel.
"""

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import jax

from fedjax_links.base import Array, Number, Params, Problem, PyTree, RoundContext
from fedjax_links.clients import chunk_widths, cohorts
from fedjax_links.clients.cohorts import Cohort
from fedjax_links.clients.programs import (
    ClientProgram,
    LocalUpdate,
    local_sgd,
    proximal_sgd,
)
from fedjax_links.core import memory, prng, registry, tree

__all__ = [
    'ClientProgram',
    'Contribution',
    'LocalUpdate',
    'Train',
    'local_sgd',
    'proximal_sgd',
    'sum_updates',
    'train_cohort',
]

# The least number of clients in a chunk that trains in parallel. Of 1, 5, 10, 20, 40 and 128 it was
# fastest for small quadratics on two CPU cores, with a tenth of 128 clients active.
_CHUNK_SIZE = 10
# On a CPU, models with at least this many parameters train one by one: there it was two to three
# times as fast.
_ONE_BY_ONE_PARAMETERS = 2**14
# On a CPU, if all clients train, a chunk has at most so many clients, and its clients together have
# at most so many parameters. Not measured.
_WIDE_CHUNK_SIZE = 128
_WIDE_CHUNK_PARAMETERS = 2**18
# On an accelerator a chunk takes at most the memory divided by this number. If the size of the
# cohort varies, the largest size is divided by this number, too. Not measured.
_PARTS = 8
# Copies of the parameters while a client trains: start, model, gradient, update.
_COPIES = 4


class Contribution(NamedTuple):
    """Holds what one client adds to the round's sums.

    Attributes:
      value: pytree to be summed over the cohort.
      loss: float[], the client's loss, or zero if it does not count.
    """

    value: PyTree
    loss: Array


class Train(Protocol):
    """Trains one client, whose data, key and round are bound: ``train(start)``.

    Algorithms that change the local steps pass ``lr_scale``, ``correction``, ``proximal`` or
    ``keep_gradient``.
    """

    def __call__(
        self,
        start: Params,
        *,
        lr_scale: Number = 1.0,
        correction: Params | None = None,
        proximal: Number | None = None,
        keep_gradient: bool = False,
    ) -> LocalUpdate:
        """Trains the client.

        Args:
          start: the model that the client starts from.
          lr_scale: float[], multiplies the local rate.
          correction: a pytree like the parameters, added to each gradient, as SCAFFOLD's
            ``c - c_i``; None for nothing.
          proximal: float[], a; ``a (x - start)`` is added to each gradient; None for nothing.
          keep_gradient: whether to return the last step's gradient as ``gradient``, without
            ``correction`` and ``proximal``. With one local step it is the gradient at ``start``.

        Returns:
          The client's update, loss and, if kept, gradient.
        """
        ...


def train_cohort(
    local_train: ClientProgram,
    cohort: Cohort,
    ctx: RoundContext,
    problem: Problem,
    per_client: Callable[[Train, Array, PyTree], tuple[Contribution, PyTree]],
    client_tree: PyTree = (),
) -> tuple[Contribution, PyTree]:
    """Runs the paper's "for each client" loop over a cohort, chunk by chunk.

    Args:
      local_train: the client program.
      cohort: who trains.
      ctx: the round.
      problem: data and loss.
      per_client: the body of the loop, written for one client:
        ``(train, client, row) -> (Contribution, new row)``. ``train`` is the client's `Train`,
        which returns a `LocalUpdate`. ``client`` is the client's id, and ``row`` the client's row
        of ``client_tree``.
      client_tree: leaves [N, ...], what clients keep between rounds; ``()`` for nothing.

    Returns:
      The contributions summed over the cohort (zeros if it is empty), in float32 at least, and
      ``client_tree`` with the members' rows replaced.
    """
    registry.check_client_program(local_train)

    def body(client: Array, row: PyTree) -> tuple[Contribution, PyTree]:
        key = prng.client_key(ctx.client_key, client)

        def train(start: Params, **adjustments: PyTree) -> LocalUpdate:
            return local_train.run(
                start, client, ctx.round, key, problem, **adjustments
            )

        return per_client(train, client, row)

    widths = local_train.chunk_size or _default_chunk_size(cohort, problem)
    chunk_size = chunk_widths.at_most(widths, cohort.ids.shape[0])
    return cohorts.map_reduce(body, cohort, client_tree, chunk_size=chunk_size)


def sum_updates(
    local_train: ClientProgram,
    cohort: Cohort,
    ctx: RoundContext,
    problem: Problem,
    start: Params,
    weights: Array | Callable[[Array], Array] | None = None,
) -> Contribution:
    """Trains a cohort from one model and sums the weighted updates, ``sum_i w_i Delta_i``.

    Args:
      local_train: the client program.
      cohort: who trains.
      ctx: the round.
      problem: data and loss.
      start: the model that all clients start from, usually the server's.
      weights: float[N], w_i, or ``client id -> w_i``; all are 1 by default.

    Returns:
      The weighted sum of the updates and the sum of the losses, zeros if the cohort is empty, in
      float32 at least.
    """

    def client(train: Train, i: Array, row: PyTree) -> tuple[Contribution, PyTree]:
        update = train(start)
        if weights is None:
            return Contribution(update.delta, update.loss), row
        weight = weights(i) if callable(weights) else weights[i]
        return Contribution(tree.scale(weight, update.delta), update.loss), row

    return train_cohort(local_train, cohort, ctx, problem, client)[0]


def _default_chunk_size(cohort: Cohort, problem: Problem) -> int:
    """Returns how many clients train in parallel."""
    params = jax.eval_shape(problem.init_params, jax.random.key(0))
    if memory.platform() == 'cpu':
        return _width_on_cpu(tree.size(params), cohort.is_everyone)
    num_slots = cohort.ids.shape[0]
    data_bytes = tree.num_bytes(problem.data) // cohort.num_clients
    client_bytes = _COPIES * tree.num_bytes(params) + data_bytes
    return _width_on_accelerator(
        num_slots, cohort.size, client_bytes, memory.device_bytes()
    )


def _width_on_cpu(num_parameters: int, is_everyone: bool) -> int:
    """Returns the width of a chunk on a CPU: how many clients train in parallel.

    Clients with large models train one by one, as parallel training gains nothing there. Chunks are
    small if the size of the cohort varies, since empty slots cost as much as clients.
    """
    if num_parameters >= _ONE_BY_ONE_PARAMETERS:
        return 1
    if not is_everyone:
        return _CHUNK_SIZE
    fitting = _WIDE_CHUNK_PARAMETERS // max(num_parameters, 1)
    return max(_CHUNK_SIZE, min(_WIDE_CHUNK_SIZE, fitting))


def _width_on_accelerator(
    num_slots: int, size: Array | int, client_bytes: int, device_bytes: int | None
) -> int:
    """Returns the width on an accelerator: the cohort's size, or an eighth of it if that varies.

    The width is less if the chunk would need more than an eighth of the memory. All memory counts,
    not only free memory: the width decides the order of additions, and a run that resumes on a
    busier device has to keep its bits.

    Args:
      num_slots: the largest possible size of the cohort.
      size: the size of the cohort; an int if the size is fixed.
      client_bytes: memory of a client while it trains.
      device_bytes: memory of the device; None if unknown.
    """
    width = num_slots
    if not isinstance(size, int):
        width = max(_CHUNK_SIZE, math.ceil(num_slots / _PARTS))
    if device_bytes is None:
        return width
    return max(1, min(width, device_bytes // (_PARTS * max(client_bytes, 1))))
