"""Client programs, and their execution over a cohort.

A client program is what one client does with a model during one round: a pure function of the start
point, the client id, the round and the client's key. It knows nothing of the other clients.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from fedjax_links import checks, cohorts, errors, prng, tree
from fedjax_links.base import Array, Key, Params, Problem, PyTree, RoundContext
from fedjax_links.cohorts import Cohort

Rate = float | Array | Callable[[Array], Array]
Loss = Callable[[Params], Array]

_LOSS_STREAM = 2**32 - 1  # no local step has this number
_FEW_STEPS = 10
_CHUNK_SIZE = 10
_ONE_BY_ONE_ENTRIES = 2**14
_WIDE_CHUNK_SIZE = 128
_WIDE_CHUNK_ENTRIES = 2**18


class LocalUpdate(NamedTuple):
    """What a client holds after its local steps.

    Attributes:
      params: L_i(start), the model after the local steps.
      delta: L_i(start) - start.
      loss: float[], training loss of the start, on the batch of the first local step.
      num_steps: int32[], local steps performed.
    """

    params: Params
    delta: Params
    loss: Array
    num_steps: Array


class ClientProgram(NamedTuple):
    """A client program.

    Attributes:
      run: ``(start, client, round, key, problem, *, lr_scale, correction) -> LocalUpdate`` with the
        client's key of this round; ``lr_scale`` multiplies the rate, and ``correction`` (a pytree
        like the parameters, or None) is added to every gradient.
      learning_rate: ``round -> float[]``, the local rate of a round.
      local_steps: number of local steps, the largest of any client.
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
    client_steps: Any = None,
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
        varies (on a CPU 1, if they keep nothing and models are large), and up to 128 small models
        where everyone trains. It changes speed and memory, and results only by the rounding of
        sums.
      client_steps: int[N], local steps of each client, from 1 to ``local_steps``, for clients of
        unequal speed; ``local_steps`` for everyone by default.

    Returns:
      The client program.

    Raises:
      ValueError: for a rate that is not positive or a count out of range.
    """
    return _gradient_steps(
        learning_rate,
        local_steps=local_steps,
        batch_size=batch_size,
        optimizer=optimizer,
        chunk_size=chunk_size,
        client_steps=client_steps,
        penalty=None,
    )


def proximal_sgd(
    learning_rate: Rate,
    *,
    mu: float | Array,
    local_steps: int,
    batch_size: int | None = None,
    chunk_size: int | None = None,
    client_steps: Any = None,
) -> ClientProgram:
    """FedProx's client: local SGD steps on ``F_i(x) + (mu / 2) ||x - start||^2``.

    FedProx is FedAvg with this program; the penalty is measured from wherever the client starts.
    The paper solves the local problem inexactly; here, as in its experiments, by SGD steps.

    Args:
      learning_rate: eta, positive; a number or a schedule ``round -> rate``.
      mu: strength of the penalty, at least 0; 0 is `local_sgd`.
      local_steps: s, at least 1.
      batch_size: examples per step; None takes the client's full data in every step.
      chunk_size: as in `local_sgd`.
      client_steps: as in `local_sgd`.

    Returns:
      The client program; the loss it reports is F_i's alone.

    Raises:
      ValueError: for a rate that is not positive, a negative ``mu`` or a count out of range.

    References:
      Li et al. 2020, Federated optimization in heterogeneous networks, Algorithm 2.
    """
    if checks.is_concrete(mu) and not (np.isfinite(mu) and mu >= 0):
        raise errors.invalid('mu', 'be finite and at least 0', mu)

    def penalty(params: Params, start: Params) -> Array:
        displacement = tree.subtract(params, start)
        squares = [jnp.sum(jnp.square(a)) for a in jax.tree.leaves(displacement)]
        return 0.5 * mu * jnp.sum(jnp.stack(squares))

    return _gradient_steps(
        learning_rate,
        local_steps=local_steps,
        batch_size=batch_size,
        optimizer=None,
        chunk_size=chunk_size,
        client_steps=client_steps,
        penalty=penalty,
    )


def _gradient_steps(
    learning_rate: Rate,
    *,
    local_steps: int,
    batch_size: int | None,
    optimizer: Any,
    chunk_size: int | None,
    client_steps: Any,
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
    # The gradient gives the loss away, but adding it up can cost more than the gradient; with many
    # steps it is cheaper to evaluate the first one's by itself.
    few_steps = local_steps <= _FEW_STEPS
    if client_steps is not None:
        _check_client_steps(client_steps, local_steps)
        client_steps = jnp.asarray(client_steps, jnp.int32)

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
        num_steps, indices = jnp.int32(local_steps), None
        if client_steps is not None:
            indices = jnp.arange(local_steps)
            if len(client_steps) != problem.num_clients:
                requirement = (
                    f"have one entry for each of the problem's {problem.num_clients} clients"
                )
                raise errors.invalid('client_steps', requirement, len(client_steps))
            num_steps = client_steps[client]

        def objective(params, batch):
            loss = batch_loss(params, batch)
            return (loss if penalty is None else loss + penalty(params, start)), loss

        def step(carry, inputs):
            batch, index = inputs
            params, optimizer_state = carry
            grad, loss = jax.grad(objective, has_aux=True)(params, batch)
            if correction is not None:
                grad = tree.add_scaled(grad, 1, correction)
            updates, optimizer_state = steps.update(grad, optimizer_state, params)
            new_carry = (tree.add_scaled(params, 1, updates), optimizer_state)
            if client_steps is not None:  # past its last step a client stands still
                new_carry = tree.select(index < num_steps, new_carry, carry)
            return new_carry, loss if few_steps else None

        (params, _), losses = jax.lax.scan(
            step, (start, steps.init(start)), (batches, indices), length=local_steps
        )
        loss = losses[0] if few_steps else batch_loss(start, jax.tree.map(lambda a: a[0], batches))
        return LocalUpdate(params, tree.subtract(params, start), loss, num_steps)

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

    chunk_size = local_train.chunk_size or _default_chunk_size(cohort, problem, client_tree)
    return cohorts.map_reduce(
        body, cohort, client_tree, chunk_size=min(chunk_size, problem.num_clients)
    )


def sum_updates(
    local_train: ClientProgram,
    cohort: Cohort,
    ctx: RoundContext,
    problem: Problem,
    start: Params,
    weights: Array | None = None,
) -> Contribution:
    """The loop of algorithms whose clients keep nothing: sum over the cohort of w_i Delta_i.

    Args:
      local_train: the client program.
      cohort: who trains.
      ctx: the round.
      problem: data and loss.
      start: where every client starts, usually the server model.
      weights: float[N], w_i; one by default.

    Returns:
      The weighted sum of the updates and the sum of the losses, zeros if the cohort is empty.
    """

    def client(train: Callable[..., LocalUpdate], i: Array, row: PyTree):
        update = train(start)
        delta = update.delta if weights is None else tree.scale(weights[i], update.delta)
        return Contribution(delta, update.loss), row

    return train_cohort(local_train, cohort, ctx, problem, client)[0]


def as_schedule(argument: str, rate: Rate) -> Callable[[Array], Array]:
    """A rate as a function of the round; a concrete number must be positive."""
    if callable(rate):
        return rate
    checks.positive(argument, rate)
    return lambda round: jnp.asarray(rate)


def _check_client_steps(client_steps: Any, local_steps: int) -> None:
    if np.ndim(client_steps) != 1:
        requirement = 'be a vector with one entry per client'
        raise errors.invalid('client_steps', requirement, f'shape {np.shape(client_steps)}')
    dtype = client_steps.dtype if hasattr(client_steps, 'dtype') else np.asarray(client_steps).dtype
    if not jnp.issubdtype(dtype, jnp.integer):
        raise errors.invalid('client_steps', 'hold integers', f'dtype {dtype}')
    checks.within('client_steps', client_steps, 1, local_steps)


def _as_optimizer(optimizer: Any) -> Callable[[Array], optax.GradientTransformation]:
    if optimizer is None:
        return optax.sgd
    if isinstance(optimizer, optax.GradientTransformation):
        return lambda rate: optax.chain(optimizer, optax.scale(rate))
    if callable(optimizer):
        return optimizer
    requirement = 'be an optax transformation or a function of the learning rate'
    raise errors.invalid('optimizer', requirement, repr(optimizer))


def _default_chunk_size(cohort: Cohort, problem: Problem, client_tree: PyTree) -> int:
    """Narrow where the cohort's size varies (empty slots cost), wide where it is known.

    A CPU gains nothing from models side by side once they are large: there they train one by one,
    unless clients keep rows, where chunks of one were measured to be several times slower.
    """
    params = jax.eval_shape(problem.init_params, jax.random.key(0))
    num_entries = tree.size(params)
    if not isinstance(cohort.size, int):
        large = num_entries >= _ONE_BY_ONE_ENTRIES and jax.default_backend() == 'cpu'
        return 1 if large and not jax.tree.leaves(client_tree) else _CHUNK_SIZE
    fitting = _WIDE_CHUNK_ENTRIES // max(num_entries, 1)
    return max(_CHUNK_SIZE, min(_WIDE_CHUNK_SIZE, fitting))


def _client_data(
    problem: Problem, client: Array, key: Key, local_steps: int, batch_size: int | None
) -> tuple[PyTree, Callable[[Params, PyTree], Array]]:
    """The scan inputs of the local steps and the loss of one of them."""
    offset, count = problem.offsets[client], problem.counts[client]
    steps = None if problem.random_loss_fn is None else jnp.arange(local_steps)

    def key_of(step):
        loss_stream = jax.random.fold_in(key, np.uint32(_LOSS_STREAM))
        return None if step is None else jax.random.fold_in(loss_stream, step)

    def loss(params, batch, loss_key):
        if problem.random_loss_fn is None:
            return problem.loss_fn(params, batch)
        return problem.random_loss_fn(params, batch, loss_key)

    if batch_size is not None:
        keys = prng.step_keys(key, local_steps)
        draws = jax.vmap(lambda k: jax.random.randint(k, (batch_size,), 0, count, 'int32'))(keys)

        def minibatch_loss(params, inputs):
            draw, step = inputs
            return loss(params, _take(problem.data, offset + draw), key_of(step))

        return (draws, steps), minibatch_loss

    slots = jnp.arange(problem.max_examples)
    examples = _take(problem.data, offset + jnp.minimum(slots, count - 1))
    if problem.min_examples == problem.max_examples:
        return steps, lambda params, step: loss(params, examples, key_of(step))

    def full_loss(params, step):
        """Mean over the client's own rows; the mean of a padded batch would count rows twice."""
        single = jax.tree.map(lambda a: a[:, None], examples)
        keys = None if step is None else jax.random.split(key_of(step), problem.max_examples)
        losses = jax.vmap(loss, in_axes=(None, 0, 0))(params, single, keys)
        return jnp.sum(jnp.where(slots < count, losses, 0)) / count.astype(losses.dtype)

    return steps, full_loss


def _take(data: PyTree, indices: Array) -> PyTree:
    return jax.tree.map(lambda a: jnp.take(a, indices, axis=0, mode='clip'), data)
