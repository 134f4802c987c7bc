"""Makes client programs: local steps by SGD, by an optax optimizer, or with a proximal term.

A client program is what one client does with a model during one round. It is a pure function of the
start point, the client id, the round and the client's key, and knows nothing of the other clients.
Its steps use minibatches or the client's full data. Clients may take unequal numbers of steps. Each
step reads the rows of its own batch, so memory holds one batch.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import ArrayLike

from fedjax_links.base import Array, Key, Number, Params, Problem, PyTree
from fedjax_links.clients import chunk_widths, gradient_steps, step_counts
from fedjax_links.clients.batches import client_data
from fedjax_links.clients.chunk_widths import ChunkSize
from fedjax_links.clients.rates import RateSchedule, constant
from fedjax_links.core import checks, contracts, errors, reprs, tree
from fedjax_links.core.references import cite

Rate = Number | RateSchedule
"""A number, or a schedule ``round -> rate``."""

MakeOptimizer: TypeAlias = Callable[[Array], optax.GradientTransformation]
Optimizer: TypeAlias = optax.GradientTransformation | MakeOptimizer
"""A transformation built with unit rate, or a function of the rate."""

# With more local steps than this, the loss of the start is evaluated outside of the steps.
_FEW_STEPS = 10


class LocalUpdate(NamedTuple):
    """Holds what a client has after its local steps.

    Attributes:
      params: L_i(start), the model after the local steps.
      delta: L_i(start) - start.
      loss: float[], training loss of the start model, on the batch of the first local step.
      num_steps: int32[], local steps performed.
      gradient: the gradient of the last step, before ``correction`` and ``proximal`` are added;
        None without ``keep_gradient``.
    """

    params: Params
    delta: Params
    loss: Array
    num_steps: Array
    gradient: Params | None = None


@reprs.described_by('run')
class ClientProgram(NamedTuple):
    """Describes what a client does in a round.

    Attributes:
      run: ``(start, client, round, key, problem, *, lr_scale=1.0, correction=None, proximal=None,
        keep_gradient=False) -> LocalUpdate``, what one client does in one round, as a pure
        function. ``start`` is the model that the client starts from, ``client`` int32[] the
        client's id, ``round`` int32[] the round, and ``key`` the client's key of this round. The
        keywords adjust the local steps, as `local_training.Train` says. A program takes all
        keywords, and an algorithm passes the ones that it needs.
      learning_rate: ``round -> float[]``, the local rate of a round.
      local_steps: the largest number of local steps of any client; None where the number follows
        from epochs and the clients' data.
      chunk_size: clients that train side by side, or None to choose by the model's size; or several
        widths in increasing order.
    """

    run: Callable[..., LocalUpdate]
    learning_rate: RateSchedule
    local_steps: int | None
    chunk_size: ChunkSize | None


def local_sgd(
    learning_rate: Rate,
    *,
    local_steps: int | None = None,
    local_epochs: int | None = None,
    batch_size: int | None = None,
    optimizer: Optimizer | None = None,
    chunk_size: int | Sequence[int] | None = None,
    client_steps: ArrayLike | None = None,
    min_steps: int | None = None,
    resample: str = 'step',
) -> ClientProgram:
    """Takes local steps of SGD, or of any optax optimizer, on the client's own data.

    ``x <- x - eta_t * grad F_i(x; batch)``, ``local_steps`` times. A batch is drawn uniformly with
    replacement from the client's examples, by (client, round, step) alone. An optimizer's state
    starts afresh in every round.

    With ``resample='round'`` a client draws one batch in a round and takes all local steps on it.
    So do the listings of Xiang et al. 2023 and 2024, which draw "a fresh sample" before their loop
    over local steps. Their released code draws in every step. With one batch the gradients of a
    round are dependent, and many steps on a small batch fit that batch.

    With ``local_epochs=E`` a client of n_i examples takes ``ceil(E n_i / batch_size)`` steps, or E
    on its full data. Together these steps process about E times as many examples as the client
    owns. Batches are drawn with replacement, so some examples occur more than E times and some
    never. Clients with more examples take more steps, so FedAvg's average favours them:
    `algorithms.fednova` corrects for that.

    With ``min_steps=m`` a client may complete only part of its work. In each round it takes a
    number of steps that is drawn uniformly from m to s, by (client, round) alone. So all algorithms
    see the same numbers. A client with fewer steps uses the batches of the first steps.

    Args:
      learning_rate: eta, positive; a number or a schedule ``round -> rate``.
      local_steps: s, from 1 to a million; either this or ``local_epochs``.
      local_epochs: E, at least 1.
      batch_size: examples per step; None takes the client's full data in every step.
      optimizer: None for SGD. Otherwise a function of the rate, such as ``optax.adam`` or
        ``functools.partial(optax.sgd, momentum=0.9)``. Or an optax transformation built with unit
        rate, such as ``optax.adam(1.0)``. Its updates are multiplied by ``learning_rate``.
      chunk_size: clients that train side by side. By default 1 for large models on a CPU, else 10
        where the number of active clients varies, and up to 128 small models where everyone
        trains. It changes speed and memory, and results only by the rounding of sums. Several
        widths, such as ``(7, 10, 12)`` for about 10 active clients, leave fewer slots of a chunk
        empty. The program is compiled for each width, which pays for 10^5 rounds of small models.
      client_steps: int[N], local steps of each client, from 1 to ``local_steps``, for clients of
        unequal speed; ``local_steps`` for everyone by default. In a simulation each client costs as
        much as the client with the most steps.
      min_steps: m, from 1 to the fewest steps of any client. Each round then draws a client's steps
        from m to the client's full number. None takes all steps. Not with ``local_epochs``.
      resample: ``'step'`` draws a batch, and what the loss draws (crops, mirrored images), for each
        local step. ``'round'`` draws both once in a round, as the first local step does. Without
        ``batch_size`` the data are the same in all steps either way.

    Returns:
      The client program.

    Raises:
      ValueError: for a rate that is not positive, a count out of range, an unknown ``resample``, or
        both or neither of ``local_steps`` and ``local_epochs``.
    """
    checks.choice('resample', resample, ('step', 'round'))
    if callable(learning_rate):
        checks.function('learning_rate', learning_rate, 'round')
        rate = learning_rate
    else:
        checks.positive_number('learning_rate', learning_rate)
        rate = constant(learning_rate)
    if batch_size is not None:
        checks.static_int('batch_size', batch_size)
    widths = None if chunk_size is None else chunk_widths.checked(chunk_size)
    steps_of = step_counts.steps_of(
        local_steps, local_epochs, batch_size, client_steps, min_steps
    )
    make_optimizer = _as_optimizer(optimizer)

    def run(
        start: Params,
        client: Array,
        round: Array,
        key: Key,
        problem: Problem,
        *,
        lr_scale: Number = 1.0,
        correction: Params | None = None,
        proximal: Number | None = None,
        keep_gradient: bool = False,
    ) -> LocalUpdate:
        most_steps, client_num_steps = steps_of(problem, client, key)
        # A gradient needs no sum of losses. If no step returns the sum, the compiler leaves it
        # out of all steps. With many steps this saves more than one evaluation costs.
        few_steps = most_steps <= _FEW_STEPS
        batches, batch_loss = client_data(
            problem, client, key, most_steps, batch_size, resample=resample
        )
        gradient_steps.check_parameters(start)
        local_optimizer = make_optimizer(_one_rate(rate, round) * lr_scale)
        if not isinstance(local_optimizer, optax.GradientTransformation):
            requirement = 'return an optax transformation of the learning rate'
            raise errors.invalid(
                'optimizer', requirement, errors.text_of(local_optimizer)
            )
        num_steps = jnp.int32(most_steps)
        indices = None
        if client_num_steps is not None:
            num_steps = client_num_steps
            indices = jnp.arange(most_steps)

        def step(
            carry: PyTree, inputs: tuple[PyTree, Array | None]
        ) -> tuple[PyTree, PyTree]:
            batch, index = inputs
            params, optimizer_state, _ = carry
            loss, grad = jax.value_and_grad(batch_loss)(params, batch)
            last_gradient = grad if keep_gradient else None
            if correction is not None:
                grad = tree.add_scaled(grad, 1, correction)
            if proximal is not None:
                grad = tree.add_scaled(grad, proximal, tree.subtract(params, start))
            updates, optimizer_state = gradient_steps.optimizer_update(
                'optimizer', local_optimizer, grad, optimizer_state, params
            )
            params = tree.add_scaled(params, 1, updates)
            new_carry = (params, optimizer_state, last_gradient)
            if index is not None:
                # After its last step a client's model does not change.
                new_carry = tree.select(index < num_steps, new_carry, carry)
            return new_carry, loss if few_steps else None

        no_gradient = tree.zeros_like(start) if keep_gradient else None
        (params, _, gradient), losses = jax.lax.scan(
            step,
            (start, local_optimizer.init(start), no_gradient),
            (batches, indices),
            length=most_steps,
        )
        if few_steps:
            loss = losses[0]
        else:
            loss = batch_loss(start, jax.tree.map(lambda a: a[0], batches))
        delta = tree.subtract(params, start)
        return LocalUpdate(params, delta, loss, num_steps, gradient)

    return ClientProgram(run, rate, local_steps, widths)


@cite('li2020federated')
def proximal_sgd(
    learning_rate: Rate,
    *,
    mu: Number,
    local_steps: int | None = None,
    local_epochs: int | None = None,
    batch_size: int | None = None,
    chunk_size: int | Sequence[int] | None = None,
    client_steps: ArrayLike | None = None,
    min_steps: int | None = None,
    resample: str = 'step',
) -> ClientProgram:
    """Takes FedProx's local steps: SGD on the client's loss plus a proximal term.

    The objective is ``F_i(x) + (mu / 2) ||x - start||^2``, where ``start`` is the model that the
    client starts from. FedProx is FedAvg with this program. The program is `local_sgd` with mu as
    its adjustment ``proximal``; an algorithm may add its own. An algorithm that keeps gradients
    (`algorithms.focus`) gets the gradient of F_i alone. The paper solves the local problem
    inexactly. This program takes SGD steps, as the paper's experiments do.

    Args:
      learning_rate: eta, positive; a number or a schedule ``round -> rate``.
      mu: strength of the penalty, at least 0; 0 is `local_sgd`.
      local_steps: as in `local_sgd`.
      local_epochs: as in `local_sgd`.
      batch_size: examples per step; None takes the client's full data in every step.
      chunk_size: as in `local_sgd`.
      client_steps: as in `local_sgd`.
      min_steps: as in `local_sgd`.
      resample: as in `local_sgd`.

    Returns:
      The client program, which reports the loss of F_i alone.

    Raises:
      ValueError: for a negative ``mu``, and as `local_sgd` does.

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import algorithms, local_training, participation, problems
      >>> problem = problems.quadratic([[0.0], [1.0]])  # the optimum is 0.5
      >>> links = participation.bernoulli([0.9, 0.3])
      >>> client = local_training.proximal_sgd(0.1, mu=0.1, local_steps=2)
      >>> algorithm = algorithms.fedavg(client)  # which is FedProx
      >>> result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=200)
      >>> print(round(float(result.state.algorithm.server[0]), 2))
      0.3

    References:
      Li et al. 2020, Federated optimization in heterogeneous networks, Algorithm 2.
    """
    checks.at_least_zero('mu', mu)
    sgd = local_sgd(
        learning_rate,
        local_steps=local_steps,
        local_epochs=local_epochs,
        batch_size=batch_size,
        chunk_size=chunk_size,
        client_steps=client_steps,
        min_steps=min_steps,
        resample=resample,
    )

    def run(
        *args: Any, proximal: Number | None = None, **adjustments: PyTree
    ) -> LocalUpdate:
        return sgd.run(
            *args, proximal=mu if proximal is None else mu + proximal, **adjustments
        )

    return sgd._replace(run=run)


def _one_rate(rate: RateSchedule, round: Array) -> Array:
    """Returns the rate of a round; raises unless a schedule gives one number."""
    value = rate(round)
    if np.shape(value):
        requirement = 'return one number, the rate of all clients'
        raise errors.invalid('learning_rate', requirement, contracts.kind_of(value))
    return value


def _as_optimizer(optimizer: Optimizer | None) -> MakeOptimizer:
    """Returns a function ``rate -> transformation``; SGD for None."""
    if optimizer is None:
        return cast(MakeOptimizer, optax.sgd)
    if isinstance(optimizer, optax.GradientTransformation):
        return lambda rate: optax.chain(optimizer, optax.scale(rate))
    if callable(optimizer):
        checks.function('optimizer', optimizer, 'learning_rate')
        return cast(MakeOptimizer, optimizer)
    requirement = 'be an optax transformation or a function of the learning rate'
    raise errors.invalid('optimizer', requirement, repr(optimizer))
