"""Laws of how long links stay up or down, in rounds: what `semi_markov` is given.

A law is its survival function, float64[G, L]: entry k is ``P(D > k)`` for k = 0, 1, ..., D a whole
number of rounds, at least 1, at most L; one row for everybody or one for each client or kind of
them. Durations that are no whole number are rounded up.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.core import checks, errors

Survival = NDArray[np.float64]

_MOST_ROUNDS = 1_000_000
_NEGLIGIBLE = 1e-10
_MOST_CUT = 1e-5  # of the mean, by what is beyond the most rounds


def lognormal(median: ArrayLike, sigma: ArrayLike) -> Survival:
    """``D = ceil(median exp(sigma z))``, z standard normal.

    Args:
      median: rounds, positive, one number or one for each row.
      sigma: positive, likewise.
    """
    from scipy import special

    checks.positive('median', median)
    checks.positive('sigma', sigma)
    middle, width = np.broadcast_arrays(*map(np.atleast_1d, (np.log(median), sigma)))
    return _cut(
        lambda k: special.ndtr((middle[:, None] - np.log(k)) / width[:, None]),
        median=median,
    )


def weibull(scale: ArrayLike, shape: ArrayLike) -> Survival:
    """``P(D > k) = exp(-(k / scale)^shape)``: heavy tails below shape 1, ageing above.

    Args:
      scale: rounds, positive, one number or one for each row.
      shape: positive, likewise.
    """
    checks.positive('scale', scale)
    checks.positive('shape', shape)
    by, power = np.broadcast_arrays(*map(np.atleast_1d, (scale, shape)))
    return _cut(lambda k: np.exp(-((k / by[:, None]) ** power[:, None])), scale=scale)


def geometric(rate: ArrayLike) -> Survival:
    """``P(D > k) = (1 - rate)^k``: both of a link's laws geometric is the Markov link.

    Args:
      rate: probability of leaving in a round, in (0, 1], one number or one for each row.
    """
    checks.positive('rate', rate)
    checks.within('rate', rate, 0, 1)
    stays = 1.0 - np.atleast_1d(np.asarray(rate, float))
    return _cut(lambda k: stays[:, None] ** k, rate=rate)


def observed(durations: ArrayLike) -> Survival:
    """The durations of a log, each as likely as it was frequent.

    Args:
      durations: float[K], positive, in rounds.
    """
    checks.per_client('durations', durations)
    checks.positive('durations', durations)
    rounds = np.ceil(np.asarray(durations, float)).astype(np.int64)
    _check_length('durations', int(rounds.max()))
    counts = np.bincount(rounds)
    return (1.0 - np.cumsum(counts) / counts.sum())[None, :-1]


_ALL = geometric, lognormal, observed, weibull
SOJOURNS: Mapping[str, Callable[..., Survival]] = {law.__name__: law for law in _ALL}
"""``up`` and ``down`` of `semi_markov`."""


def _cut(
    survival: Callable[[NDArray[np.float64]], Survival], **argument: ArrayLike
) -> Survival:
    """Survival functions up to where all are negligible: what is left there ends.

    Args:
      survival: ``float[K] -> float64[G, K]``, P(D > k).
      **argument: what makes sojourns long, by its name.

    Raises:
      ValueError: if the most rounds cut off a part of a mean.
    """
    length = 1
    while (
        survival(np.array([float(length)])).max() > _NEGLIGIBLE
        and length < _MOST_ROUNDS
    ):
        length *= 2
    length = min(length, _MOST_ROUNDS)
    ((name, value),) = argument.items()
    rows = len(survival(np.ones(1)))
    checks.fits(name, value, 32.0 * rows * length)
    table = survival(np.arange(1.0, length))
    if length == _MOST_ROUNDS:
        beyond = _sum_beyond(survival, length)
        cut = beyond / (1 + table.sum(axis=1) + beyond)
        if cut.max() > _MOST_CUT:
            row = int(np.argmax(cut))
            worst = np.broadcast_to(value, rows)[row]
            requirement = (
                f'give sojourns that seldom last longer than {_MOST_ROUNDS:,} rounds (`markov` '
                'knows no longest)'
            )
            share = f'{worst:g}, where {cut[row]:.2g} of the mean lies beyond'
            raise errors.invalid(name, requirement, share)
    table = np.concatenate([np.ones((len(table), 1)), table], axis=1)
    last = max(1, int(np.flatnonzero(table.max(axis=0) > _NEGLIGIBLE)[-1]) + 1)
    return table[:, :last]


def _sum_beyond(
    survival: Callable[[NDArray[np.float64]], Survival], length: int
) -> NDArray[np.float64]:
    """float64[G], the sum of ``P(D > k)`` over k from ``length`` on, by the trapezoidal rule."""
    logs = np.linspace(np.log(length), np.log(length) + 40, 40_001)
    terms = survival(np.exp(logs)) * np.exp(logs)  # of the integral over the logarithm
    step = logs[1] - logs[0]
    return np.asarray(step * (terms.sum(axis=1) - terms[:, 0] / 2))


def checked(argument: str, law: ArrayLike) -> Survival:
    """A law float64[G, L]; raises for what is none."""
    table = np.atleast_2d(np.asarray(checks.numbers(argument, law), float))
    _check_length(argument, table.shape[1])
    falls = (np.diff(table, axis=1) <= 1e-12).all() and (table[:, 0] == 1).all()
    if table.ndim != 2 or not falls or (table < 0).any():
        raise errors.invalid(argument, 'fall from 1, float[G, L]', errors.text_of(law))
    return table


def _check_length(argument: str, length: int) -> None:
    if not 1 <= length <= _MOST_ROUNDS:
        raise errors.invalid(argument, f'last at most {_MOST_ROUNDS} rounds', length)
