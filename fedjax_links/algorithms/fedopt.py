"""FedOpt: any optimizer at the server, and the three that its paper prints.

The symbols are those of `fedjax_links.algorithms`.

References:
  Reddi et al. 2021, Adaptive federated optimization.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from fedjax_links.algorithms import common
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
from fedjax_links.clients.programs import Rate
from fedjax_links.core import checks, references, tree
from fedjax_links.local_training import ClientProgram

_LARGEST = 1e30  # Far from the overflow of float32.


class FedOptState(NamedTuple):
    """Holds the state of FedOpt.

    Attributes:
      server: the server model x.
      optimizer: the server optimizer's state.
    """

    server: Params
    optimizer: PyTree


@references.cite('reddi2021adaptive')
def fedopt(
    local_train: ClientProgram,
    *,
    server_optimizer: optax.GradientTransformation,
    weights: str = common.EQUAL,
) -> Algorithm:
    """Runs FedOpt: an optax optimizer at the server takes the mean update as its gradient.

    The gradient is ``-mean_{i in A} Delta_i``. ``optax.sgd(eta_g)`` gives FedAvg and
    ``optax.sgd(eta_g, momentum=0.9)`` FedAvgM. `algorithms.fedadam`,
    `algorithms.fedyogi` and `algorithms.fedadagrad` are the paper's three optimizers, as its
    Algorithm 2 prints them. The optimizers of these names in optax differ. ``optax.adam`` and
    ``optax.yogi`` correct the bias of both moments, which makes the first rounds' steps smaller or
    larger. ``optax.adagrad`` starts at 0.1, with its epsilon inside the root. So a rate that was
    tuned for the paper's optimizer does not fit its namesake in optax.

    Link semantics: only clients whose uplink delivers compute, upload and receive. All of them
    start from x.

    What the literature leaves open: an empty round. Here it keeps x and does not step the
    optimizer, because a missing pseudo-gradient is not a pseudo-gradient of zero. Momentum and
    second moments stay as they are. Schedules inside the optimizer count the rounds with uploads.
    The mean is over A, so unequal links bias it as they bias FedAvg.

    Memory: one model and the optimizer's state.

    Args:
      local_train: the client program L_i.
      server_optimizer: an optax gradient transformation, such as ``algorithms.fedadam(0.1)``.
      weights: what clients weigh by in the mean, ``'equal'`` or ``'examples'``, as in
        `algorithms.fedavg`.

    Returns:
      The algorithm; models: ``server``.

    Raises:
      ValueError: for anything that is not an optax transformation, or unknown ``weights``.

    Example:
      >>> import jax
      >>> import optax
      >>> import fedjax_links as fl
      >>> from fedjax_links import algorithms, local_training, participation, problems
      >>> problem = problems.quadratic([[0.0], [1.0]])  # the optimum is 0.5
      >>> links = participation.bernoulli([0.9, 0.3])
      >>> client = local_training.local_sgd(0.1, local_steps=2)
      >>> algorithm = algorithms.fedopt(client, server_optimizer=optax.sgd(0.1, momentum=0.9))
      >>> result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=200)
      >>> print(round(float(result.state.algorithm.server[0]), 2))
      0.16

    References:
      Reddi et al. 2021, Algorithms 1 and 2.
    """
    common.check_optimizer(server_optimizer)
    common.check_weights(weights)

    def init(params: Params, problem: Problem) -> FedOptState:
        return FedOptState(params, server_optimizer.init(params))

    def round_step(
        state: FedOptState, ctx: RoundContext, problem: Problem
    ) -> Step[FedOptState]:
        mean, metrics = common.mean_delta(
            local_train, ctx, problem, state.server, weights
        )
        # Server: step the optimizer, unless the round is empty.
        new_state = common.apply_server_update(state, 1, mean, server_optimizer)
        return tree.select(metrics.num_active > 0, new_state, state), metrics

    return Algorithm(init=init, round_step=round_step, models=common.server_model)


class ServerMoments(NamedTuple):
    """Holds the state of the optimizers of Algorithm 2.

    Attributes:
      first: m_t, the first moment of the pseudo-gradients, like the parameters.
      second: v_t, their second moment, like the parameters.
    """

    first: Params
    second: Params


SecondMoment = Callable[[Array, Array], Array]
"""``(v, gradient^2) -> v``."""


@references.cite('reddi2021adaptive')
def fedadam(
    learning_rate: Rate,
    *,
    b1: Number = 0.9,
    b2: Number = 0.99,
    tau: Number = 1e-3,
    initial_second_moment: Number | None = None,
) -> optax.GradientTransformation:
    """Builds FedAdam's server optimizer: Adam without bias correction.

    ``x <- x + eta m / (sqrt(v) + tau)``. For the mean update Delta of a round,
    ``m <- b1 m + (1 - b1) Delta`` from 0, and ``v <- b2 v + (1 - b2) Delta^2``. Pass it as
    ``server_optimizer``, for instance to `algorithms.fedopt`.

    Args:
      learning_rate: eta, positive; a number, or a schedule that counts the rounds in which the
        server steps.
      b1: decay of the first moment, in [0, 1).
      b2: decay of the second moment, in [0, 1).
      tau: degree of adaptivity, positive; a larger tau is less adaptive.
      initial_second_moment: v before the first round, from 0 to 10^30; ``tau^2`` by default, the
        smallest that the paper allows.

    Returns:
      An optax gradient transformation.

    Raises:
      ValueError: for a number out of range.

    References:
      Reddi et al. 2021, Algorithm 2; the defaults are of its section 5.
    """
    common.check_decay('b2', b2)
    return _adaptive(
        lambda v, square: b2 * v + (1 - b2) * square,
        learning_rate,
        b1,
        tau,
        initial_second_moment,
    )


@references.cite('reddi2021adaptive')
def fedyogi(
    learning_rate: Rate,
    *,
    b1: Number = 0.9,
    b2: Number = 0.99,
    tau: Number = 1e-3,
    initial_second_moment: Number | None = None,
) -> optax.GradientTransformation:
    """Builds FedYogi's server optimizer: `fedadam` with additive second moments.

    ``v <- v - (1 - b2) Delta^2 sign(v - Delta^2)``.

    Args:
      learning_rate: as in `fedadam`.
      b1: as in `fedadam`.
      b2: as in `fedadam`.
      tau: as in `fedadam`.
      initial_second_moment: as in `fedadam`.

    Returns:
      An optax gradient transformation.

    Raises:
      ValueError: for a number out of range.

    References:
      Reddi et al. 2021, Algorithm 2.
    """
    common.check_decay('b2', b2)
    return _adaptive(
        lambda v, square: v - (1 - b2) * square * jnp.sign(v - square),
        learning_rate,
        b1,
        tau,
        initial_second_moment,
    )


@references.cite('reddi2021adaptive')
def fedadagrad(
    learning_rate: Rate,
    *,
    b1: Number = 0.0,
    tau: Number = 1e-3,
    initial_second_moment: Number | None = None,
) -> optax.GradientTransformation:
    """Builds FedAdagrad's server optimizer: `fedadam` with summed second moments.

    ``v <- v + Delta^2``, and no momentum by default.

    Args:
      learning_rate: as in `fedadam`.
      b1: as in `fedadam`.
      tau: as in `fedadam`.
      initial_second_moment: as in `fedadam`.

    Returns:
      An optax gradient transformation.

    Raises:
      ValueError: for a number out of range.

    References:
      Reddi et al. 2021, Algorithm 2.
    """
    return _adaptive(
        lambda v, square: v + square, learning_rate, b1, tau, initial_second_moment
    )


def _adaptive(
    second_moment: SecondMoment,
    learning_rate: Rate,
    b1: Number,
    tau: Number,
    initial_second_moment: Number | None,
) -> optax.GradientTransformation:
    """Builds an optimizer of Algorithm 2 from its update of the second moment."""
    if not callable(learning_rate):
        checks.positive_number('learning_rate', learning_rate)
    common.check_decay('b1', b1)
    checks.positive_number('tau', tau)
    if initial_second_moment is not None:
        checks.number_within(
            'initial_second_moment', initial_second_moment, 0, _LARGEST
        )
    initial = tau**2 if initial_second_moment is None else initial_second_moment

    def init(params: Params) -> ServerMoments:
        second = jax.tree.map(lambda x: jnp.full_like(x, initial), params)
        return ServerMoments(first=tree.zeros_like(params), second=second)

    def update(
        gradient: Params, state: ServerMoments, params: Params | None = None
    ) -> tuple[Params, ServerMoments]:
        del params
        first = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state.first, gradient)
        second = jax.tree.map(
            lambda v, g: second_moment(v, g * g), state.second, gradient
        )
        first = tree.cast_like(first, gradient)
        second = tree.cast_like(second, gradient)
        direction = jax.tree.map(lambda m, v: m / (jnp.sqrt(v) + tau), first, second)
        return tree.cast_like(direction, gradient), ServerMoments(first, second)

    moments = optax.GradientTransformation(init, update)
    return optax.chain(moments, optax.scale_by_learning_rate(learning_rate))
