"""Runs client programs over a cohort.

`clients.programs` defines what a client does; its names can be imported from here, too.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax

from fedjax_links.base import Array, Number, Params, Problem, PyTree, RoundContext
from fedjax_links.clients import cohorts
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

_CHUNK_SIZE = 10
_ONE_BY_ONE_ENTRIES = 2**14
_WIDE_CHUNK_SIZE = 128
_WIDE_CHUNK_ENTRIES = 2**18
# Of the parameters while a client trains: start, model, gradient, update.
_COPIES = 4


class Contribution(NamedTuple):
    """What one client adds to the round's sums.

    Attributes:
      value: pytree to be summed over the cohort.
      loss: float[], the client's loss, or zero where it is not to be counted.
    """

    value: PyTree
    loss: Array


class Train(Protocol):
    """One client's training, with its data, key and round filled in: ``train(start)``.

    Algorithms that change the local steps pass the adjustments ``lr_scale``, ``correction``,
    ``proximal`` and ``keep_gradient``.
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
          correction: a pytree like the parameters, added to every gradient, as SCAFFOLD's
            ``c - c_i``; None for nothing.
          proximal: float[], a; ``a (x - start)`` is added to every gradient; None for nothing.
          keep_gradient: whether to return the last step's gradient, before both are added, as
            ``gradient``. With one local step it is the gradient at ``start``.

        Returns:
          What the client holds after its local steps.
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
      per_client: the body of the loop, written for one client: ``(train, client, row) ->
        (Contribution, new row)``. ``client`` is its id, ``row`` its row of ``client_tree``, and
        ``train(start)`` gives its `LocalUpdate`; `Train` has the adjustments ``lr_scale``,
        ``correction``, ``proximal`` and ``keep_gradient``.
      client_tree: leaves [N, ...], what the clients store between rounds; ``()`` if nothing.

    Returns:
      The contributions summed over the cohort (zeros if it is empty), in float32 at least, and
      ``client_tree`` with the members' rows replaced.
    """
    registry.check_client_program(local_train)

    def body(client: Array, row: PyTree) -> tuple[Contribution, PyTree]:
        key = prng.client_key(ctx.client_key, client)

        def train(start: Params, **adjustments: Any) -> LocalUpdate:
            return local_train.run(
                start, client, ctx.round, key, problem, **adjustments
            )

        return per_client(train, client, row)

    width = local_train.chunk_size or _default_chunk_size(cohort, problem)
    chunk_size = min(width, cohort.ids.shape[0])
    return cohorts.map_reduce(body, cohort, client_tree, chunk_size=chunk_size)


def sum_updates(
    local_train: ClientProgram,
    cohort: Cohort,
    ctx: RoundContext,
    problem: Problem,
    start: Params,
    weights: Array | Callable[[Array], Array] | None = None,
) -> Contribution:
    """Trains a cohort from one model and returns the weighted sum of updates, sum w_i Delta_i.

    Args:
      local_train: the client program.
      cohort: who trains.
      ctx: the round.
      problem: data and loss.
      start: where every client starts, usually the server model.
      weights: float[N], w_i, or ``client id -> w_i``; one by default.

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
    """Returns how many clients train side by side.

    On a CPU, large models train one by one, as side by side gains nothing. Few small models train
    side by side where the cohort's size varies, since empty slots cost; more where all clients
    train. On an accelerator, the full cohort trains side by side, or an eighth of all clients where
    its size varies, as far as an eighth of the memory holds their parameters, gradients and
    examples. All memory counts, not what is free: the width is an order of additions, and a run
    resumed on a busier card has to keep its bits.
    """
    params = jax.eval_shape(problem.init_params, jax.random.key(0))
    if memory.platform() == 'cpu':
        return _width_on_cpu(tree.size(params), cohort.is_everyone)
    num_slots = cohort.ids.shape[0]
    data_bytes = tree.num_bytes(problem.data) // cohort.num_clients
    client_bytes = _COPIES * tree.num_bytes(params) + data_bytes
    return _width_elsewhere(num_slots, cohort.size, client_bytes, memory.device_bytes())


def _width_on_cpu(num_entries: int, everyone: bool) -> int:
    """Returns the width on a CPU for models with so many entries."""
    if num_entries >= _ONE_BY_ONE_ENTRIES:
        return 1
    fitting = _WIDE_CHUNK_ENTRIES // max(num_entries, 1) if everyone else 0
    return max(_CHUNK_SIZE, min(_WIDE_CHUNK_SIZE, fitting))


def _width_elsewhere(
    num_slots: int, size: Array | int, client_bytes: int, device_bytes: int | None
) -> int:
    """Returns the width on an accelerator; a client needs ``client_bytes`` while it trains."""
    is_size_fixed = isinstance(size, int)
    width = num_slots if is_size_fixed else max(_CHUNK_SIZE, math.ceil(num_slots / 8))
    if device_bytes is None:
        return width
    return max(1, min(width, device_bytes // (8 * max(client_bytes, 1))))
