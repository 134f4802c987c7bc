"""Makes local learning rates over the rounds: pure functions ``round -> rate``.

A schedule goes where a rate goes, as in ``local_sgd(inverse_sqrt(0.1), local_steps=5)``. The base
rate may be a tracer, so that a sweep compiles once; rounds count from 0. `LEARNING_RATES` lists the
schedules by name.
"""

from collections.abc import Callable, Mapping

import jax.numpy as jnp

from fedjax_links.base import Array, Number
from fedjax_links.core import checks
from fedjax_links.core.registry import Registry

RateSchedule = Callable[[Array], Array]


def constant(eta: Number) -> RateSchedule:
    """Keeps the rate: ``eta_t = eta``.

    Args:
      eta: the rate, positive.

    Returns:
      ``round -> rate``.

    Raises:
      ValueError: for a rate that is not positive.
    """
    checks.positive_number('eta', eta)
    # NumPy's float64 becomes a Python float, which takes the precision of the other operand.
    rate = float(eta) if isinstance(eta, float) else eta
    return lambda round: jnp.asarray(rate)


def inverse_sqrt(eta: Number) -> RateSchedule:
    """Falls as ``eta_t = eta / sqrt(t / 10 + 1)``.

    Args:
      eta: the rate of round 0, positive.

    Returns:
      ``round -> rate``.

    Raises:
      ValueError: for a rate that is not positive.

    References:
      Xiang et al. 2024, section 7.2, on SVHN, CIFAR-10 and CINIC-10.
    """
    checks.positive_number('eta', eta)

    def rate(round: Array) -> Array:
        # In floating point, so that the quotient has full precision.
        time = jnp.asarray(round, jnp.result_type(float))
        return eta / jnp.sqrt(time / 10 + 1)

    return rate


def inverse(eta: Number) -> RateSchedule:
    """Falls as ``eta_t = eta / (t + 1)``.

    Args:
      eta: the rate of round 0, positive.

    Returns:
      ``round -> rate``.

    Raises:
      ValueError: for a rate that is not positive.

    References:
      Gu et al. 2021, Fast federated learning in the presence of arbitrary device unavailability,
      whose released code counts the rounds in which the server moves.
    """
    checks.positive_number('eta', eta)
    return lambda round: eta / (round + 1)


def warmup(eta: Number, *, initial: Number, rounds: int) -> RateSchedule:
    """Starts at ``initial`` for ``t < rounds``, and is ``eta`` from then on.

    Args:
      eta: the rate after the warm-up, positive.
      initial: the rate of the warm-up, positive and usually the larger.
      rounds: length of the warm-up, at least 0. The blocks of `algorithms.amplified_fedavg` and
        `algorithms.wait_for_all` begin right after it if their ``start_round`` is the same.

    Returns:
      ``round -> rate``.

    Raises:
      ValueError: for a rate that is not positive or a negative length.

    References:
      Wang and Ji 2022, A unified analysis of federated learning with arbitrary client
      participation, appendix D.1. The appendix gives the initial rates, 0.1 and 0.05. Of the length
      it says only that the model "no longer improves substantially afterwards".
    """
    checks.positive_number('eta', eta)
    checks.positive_number('initial', initial)
    checks.static_int('rounds', rounds, minimum=0)
    return lambda round: jnp.where(round < rounds, initial, eta)


LEARNING_RATES: Mapping[str, Callable[..., RateSchedule]] = Registry(
    {rate.__name__: rate for rate in (constant, inverse, inverse_sqrt, warmup)}
)
