"""Client programs, and their execution over a cohort.

A client program is what one client does with a model during one round: a pure function of the start
point, the client id, the round and the client's key. It knows nothing of the other clients.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from fedjax_links import checks, cohorts, errors, prng, tree
from fedjax_links.base import Array, Key, Params, Problem, PyTree, RoundContext
from fedjax_links.cohorts import Cohort

Rate = float | Array | Callable[[Array], Array]
Loss = Callable[[Params], Array]

_CHUNK_SIZE = 10
_WIDE_CHUNK_SIZE = 128
_WIDE_CHUNK_ENTRIES = 2**18


class LocalUpdate(NamedTuple):
    """What a client holds after its local steps.

    Attributes:
      params: L_i(start), the model after the local steps.
      delta: L_i(start) - start.
      loss: float[], mean over the local steps of the training loss met on the way.
    """

    params: Params
    delta: Params
    loss: Array


class ClientProgram(NamedTuple):
    """A client program.

    Attributes:
      run: ``(start, client, round, key, problem, *, lr_scale, correction) -> LocalUpdate`` with the
        client's key of this round; ``lr_scale`` multiplies the rate, and ``correction`` (a pytree
        like the parameters, or None) is added to every gradient.
      learning_rate: ``round -> float[]``, the local rate of a round.
      local_steps: number of local steps.
      chunk_size: clients that train side by side, or None to choose by the model's size.
    """

    run: Callable[..., LocalUpdate]
    learning_rate: Callable[[Array], Array]
    local_steps: int
    chunk_size: int | None


class Contribution(NamedTuple):
    """What one client adds to the round's sums.

    Attributes:
      value: pytree to be summed over the cohort.
      loss: float[], the client's loss, or zero where it is not to be counted.
    """

    value: PyTree
    loss: Array


def local_sgd(
    learning_rate: Rate,
    *,
    local_steps: int,
    batch_size: int | None = None,
    optimizer: Any = None,
    chunk_size: int | None = None,
) -> ClientProgram:
    """Local steps of SGD, or of any optax optimizer, on the client's own data.

    ``x <- x - eta_t * grad F_i(x; batch)``, ``local_steps`` times. A batch is drawn uniformly with
    replacement from the client's examples, by (client, round, step) alone. An optimizer's state
    starts afresh in every round.

    Args:
      learning_rate: eta, positive; a number or a schedule ``round -> rate``.
      local_steps: s, at least 1.
      batch_size: examples per step; None takes the client's full data in every step.
      optimizer: None for SGD. Otherwise a function of the rate, such as ``optax.adam`` or
        ``functools.partial(optax.sgd, momentum=0.9)``, or an optax transformation built with unit
        rate, such as ``optax.adam(1.0)``, whose updates are multiplied by ``learning_rate``.
      chunk_size: clients that train side by side; by default 10 where the number of active clients
        varies, and up to 128 small models where everyone trains. It changes speed and memory, and
        results only by the rounding of sums.

    Returns:
      The client program.

    Raises:
      ValueError: for a rate that is not positive or a count that is not a positive integer.
    """
    return _gradient_steps(
        learning_rate,
        local_steps=local_steps,
        batch_size=batch_size,
        optimizer=optimizer,
        chunk_size=chunk_size,
        penalty=None,
    )


def _gradient_steps(
    learning_rate: Rate,
    *,
    local_steps: int,
    batch_size: int | None,
    optimizer: Any,
    chunk_size: int | None,
    penalty: Callable[[Params, Params], Array] | None,
) -> ClientProgram:
    """Local steps on ``F_i(x) + penalty(x, start)``."""
    rate = as_schedule('learning_rate', learning_rate)
    checks.static_int('local_steps', local_steps)
    if batch_size is not None:
        checks.static_int('batch_size', batch_size)
    if chunk_size is not None:
        checks.static_int('chunk_size', chunk_size)
    make_optimizer = _as_optimizer(optimizer)

    def run(
        start: Params,
        client: Array,
        round: Array,
        key: Key,
        problem: Problem,
        *,
        lr_scale: Array | float = 1.0,
        correction: Params | None = None,
    ) -> LocalUpdate:
        batches, batch_loss = _client_data(problem, client, key, local_steps, batch_size)
        steps = make_optimizer(rate(round) * lr_scale)

        def objective(params, batch):
            loss = batch_loss(params, batch)
            return (loss if penalty is None else loss + penalty(params, start)), loss

        def step(carry, batch):
            params, optimizer_state = carry
            grad, loss = jax.grad(objective, has_aux=True)(params, batch)
            if correction is not None:
                grad = tree.add_scaled(grad, 1, correction)
            updates, optimizer_state = steps.update(grad, optimizer_state, params)
            return (tree.add_scaled(params, 1, updates), optimizer_state), loss

        (params, _), losses = jax.lax.scan(
            step, (start, steps.init(start)), batches, length=local_steps
        )
        return LocalUpdate(params, tree.subtract(params, start), jnp.mean(losses))

    return ClientProgram(run, rate, local_steps, chunk_size)


def train_cohort(
    local_train: ClientProgram,
    cohort: Cohort,
    ctx: RoundContext,
    problem: Problem,
    per_client: Callable[..., tuple[Contribution, PyTree]],
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
        ``train(start, lr_scale=1.0, correction=None)`` gives its `LocalUpdate`.
      client_tree: leaves [N, ...], what the clients keep between rounds; ``()`` if nothing.

    Returns:
      The contributions summed over the cohort (zeros if it is empty), and ``client_tree`` with the
      members' rows replaced.
    """

    def body(client: Array, row: PyTree) -> tuple[Contribution, PyTree]:
        key = prng.client_key(ctx.client_key, client)

        def train(start: Params, **adjustments: Any) -> LocalUpdate:
            return local_train.run(start, client, ctx.round, key, problem, **adjustments)

        return per_client(train, client, row)

    chunk_size = local_train.chunk_size or _default_chunk_size(cohort, problem)
    return cohorts.map_reduce(
        body, cohort, client_tree, chunk_size=min(chunk_size, problem.num_clients)
    )


def as_schedule(argument: str, rate: Rate) -> Callable[[Array], Array]:
    """A rate as a function of the round; a concrete number must be positive."""
    if callable(rate):
        return rate
    checks.positive(argument, rate)
    return lambda round: jnp.asarray(rate)


def _as_optimizer(optimizer: Any) -> Callable[[Array], optax.GradientTransformation]:
    if optimizer is None:
        return optax.sgd
    if isinstance(optimizer, optax.GradientTransformation):
        return lambda rate: optax.chain(optimizer, optax.scale(rate))
    if callable(optimizer):
        return optimizer
    requirement = 'be an optax transformation or a function of the learning rate'
    raise errors.invalid('optimizer', requirement, repr(optimizer))


def _default_chunk_size(cohort: Cohort, problem: Problem) -> int:
    """Narrow where the cohort's size varies (empty slots cost), wide where it is known."""
    if not isinstance(cohort.size, int):
        return _CHUNK_SIZE
    params = jax.eval_shape(problem.init_params, jax.random.key(0))
    fitting = _WIDE_CHUNK_ENTRIES // max(tree.size(params), 1)
    return max(_CHUNK_SIZE, min(_WIDE_CHUNK_SIZE, fitting))


def _client_data(
    problem: Problem, client: Array, key: Key, local_steps: int, batch_size: int | None
) -> tuple[PyTree, Callable[[Params, PyTree], Array]]:
    """The scan inputs of the local steps and the loss of one of them."""
    offset, count = problem.offsets[client], problem.counts[client]
    if batch_size is not None:
        keys = prng.step_keys(key, local_steps)
        draws = jax.vmap(lambda k: jax.random.randint(k, (batch_size,), 0, count))(keys)

        def minibatch_loss(params, draw):
            return problem.loss_fn(params, _take(problem.data, offset + draw))

        return draws, minibatch_loss

    slots = jnp.arange(problem.max_examples)
    examples = _take(problem.data, offset + jnp.minimum(slots, count - 1))
    if problem.min_examples == problem.max_examples:
        return None, lambda params, _: problem.loss_fn(params, examples)

    def full_loss(params, _):
        """Mean over the client's own rows; the mean of a padded batch would count rows twice."""
        single = jax.tree.map(lambda a: a[:, None], examples)
        losses = jax.vmap(problem.loss_fn, in_axes=(None, 0))(params, single)
        return jnp.sum(jnp.where(slots < count, losses, 0)) / count.astype(losses.dtype)

    return None, full_loss


def _take(data: PyTree, indices: Array) -> PyTree:
    return jax.tree.map(lambda a: jnp.take(a, indices, axis=0, mode='clip'), data)
