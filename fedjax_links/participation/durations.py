"""Computes laws of how long links stay up or down, in rounds, for `semi_markov`.

A duration, or sojourn, is the number of rounds D that a link stays in one state. Fractions of a
round are rounded up, so D is a whole number from 1 to L. A law is given by its survival function,
float64[G, L]: entry k of a row is ``P(D > k)``, for k from 0 to L - 1. The G rows are one row for
all clients, one for each client, or one for each kind of clients.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.core import checks, errors
from fedjax_links.core.registry import Registry

Survival = NDArray[np.float64]

# The most entries of a table's row, which then takes 8 MB.
_MOST_ROUNDS = 1_000_000
# Bytes per entry while a table is made: two copies of 8 and a mask of 1.
_BYTES_PER_ENTRY = 17.0
# Probability at which a table ends.
_NEGLIGIBLE = 1e-10
# The largest part of the mean that may come from rounds beyond `_MOST_ROUNDS`.
_MOST_CUT = 1e-5


def lognormal(median: ArrayLike, sigma: ArrayLike) -> Survival:
    """Computes the law of log-normal durations, ``D = ceil(median exp(sigma z))``, ``z ~ N(0, 1)``.

    Args:
      median: rounds, positive, one number or one for each row.
      sigma: positive, one number or one for each row.

    Returns:
      The survival function, float64[G, L].

    Raises:
      ValueError: for a value out of range, or sojourns often longer than 1,000,000 rounds.
    """
    from scipy import special

    median_column, width = _as_columns(median=median, sigma=sigma)
    log_median = np.log(median_column)

    def survival(rounds: NDArray[np.float64]) -> Survival:
        return special.ndtr((log_median - np.log(rounds)) / width)

    return _table('median', median, survival)


def weibull(scale: ArrayLike, shape: ArrayLike) -> Survival:
    """Computes the law of Weibull durations, ``P(D > k) = exp(-(k / scale)^shape)``.

    Tails are heavy for shapes below 1. For shapes above 1, links that have lasted long are
    more likely to end.

    Args:
      scale: rounds, positive, one number or one for each row.
      shape: positive, one number or one for each row.

    Returns:
      The survival function, float64[G, L].

    Raises:
      ValueError: for a value out of range, or sojourns often longer than 1,000,000 rounds.
    """
    divisor, power = _as_columns(scale=scale, shape=shape)

    def survival(rounds: NDArray[np.float64]) -> Survival:
        # A power that overflows is infinite. The survival is then 0, as it should be.
        with np.errstate(over='ignore'):
            return np.exp(-((rounds / divisor) ** power))

    return _table('scale', scale, survival)


def geometric(rate: ArrayLike) -> Survival:
    """Computes the law of geometric durations, ``P(D > k) = (1 - rate)^k``.

    A link whose times up and times down are both geometric is a Markov chain, as in `markov`.

    Args:
      rate: probability of leaving in a round, in (0, 1], one number or one for each row.

    Returns:
      The survival function, float64[G, L].

    Raises:
      ValueError: for a value out of range, or sojourns often longer than 1,000,000 rounds.
    """
    (rate_column,) = _as_columns(rate=rate)
    checks.within('rate', rate, 0, 1)
    stays = 1.0 - rate_column

    def survival(rounds: NDArray[np.float64]) -> Survival:
        return stays**rounds

    return _table('rate', rate, survival)


def observed(durations: ArrayLike) -> Survival:
    """Computes the empirical law of a log's durations.

    Args:
      durations: float[K], positive, in rounds.

    Returns:
      The survival function, float64[1, L].

    Raises:
      ValueError: for a duration that is not positive, or longer than 1,000,000 rounds.
    """
    checks.per_client('durations', durations, axis='duration')
    checks.positive('durations', durations, axis='duration')
    rounds = np.ceil(np.asarray(durations, float))
    _check_length('durations', rounds.max())
    counts = np.bincount(rounds.astype(np.int64))
    return (1.0 - np.cumsum(counts) / counts.sum())[None, :-1]


SOJOURNS: Mapping[str, Callable[..., Survival]] = Registry(
    {law.__name__: law for law in (geometric, lognormal, observed, weibull)}
)
"""Choices for ``up`` and ``down`` of `semi_markov`."""


def _as_columns(**parameters: ArrayLike) -> list[NDArray[np.float64]]:
    """Converts positive parameters, by name, to columns float64[G, 1].

    Raises:
      ValueError: for a parameter that is not positive, or neither one number nor one for each row.
    """
    for name, value in parameters.items():
        checks.positive(name, value)
    vectors = {name: np.atleast_1d(value) for name, value in parameters.items()}
    num_rows = max(1, *[vector.size for vector in vectors.values()])
    columns = []
    for name, vector in vectors.items():
        if vector.shape not in ((1,), (num_rows,)):
            requirement = f'be one number or {num_rows}, one for each row'
            raise errors.invalid(name, requirement, f'shape {list(vector.shape)}')
        columns.append(np.broadcast_to(vector, num_rows).astype(float)[:, None])
    return columns


_SurvivalFunction = Callable[[NDArray[np.float64]], Survival]
"""``float[K] -> float64[G, K]``, P(D > k)."""


def _table(argument: str, value: ArrayLike, survival: _SurvivalFunction) -> Survival:
    """Tabulates survival functions up to where all are negligible.

    Args:
      argument: name of the parameter that makes durations long.
      value: value of this parameter.
      survival: the survival functions of all rows.

    Raises:
      ValueError: if rounds beyond `_MOST_ROUNDS` are more than `_MOST_CUT` of the mean.
    """
    length = 1
    while length < _MOST_ROUNDS:
        if survival(np.array([float(length)])).max() <= _NEGLIGIBLE:
            break
        length *= 2
    length = min(length, _MOST_ROUNDS)
    num_rows = len(survival(np.ones(1)))
    checks.fits(argument, value, _BYTES_PER_ENTRY * num_rows * length)
    table = survival(np.arange(1.0, length))
    if length == _MOST_ROUNDS:
        _check_tail(argument, value, table, _sum_beyond(survival, length))
    table = np.concatenate([np.ones((num_rows, 1)), table], axis=1)
    is_needed = table.max(axis=0) > _NEGLIGIBLE
    last = int(np.flatnonzero(is_needed)[-1]) + 1
    return table[:, :last]


def _check_tail(
    argument: str, value: ArrayLike, table: Survival, beyond: NDArray[np.float64]
) -> None:
    """Raises an error if rounds beyond the table are more than `_MOST_CUT` of the mean."""
    lost = beyond / (1 + table.sum(axis=1) + beyond)
    if lost.max() <= _MOST_CUT:
        return
    row = int(np.argmax(lost))
    row_value = np.broadcast_to(value, len(table))[row]
    requirement = (
        f'give sojourns that seldom last longer than {_MOST_ROUNDS:,} rounds (`markov` '
        'has no such limit)'
    )
    got = f'{row_value:g}, where {lost[row]:.2g} of the mean lies beyond'
    raise errors.invalid(argument, requirement, got)


def _sum_beyond(survival: _SurvivalFunction, length: int) -> NDArray[np.float64]:
    """Sums ``P(D > k)`` over k from ``length`` on, by a trapezoidal sum over log k.

    The sum ends at ``e^40 length``. Each step increases k by 0.1 %.
    """
    logs = np.linspace(np.log(length), np.log(length) + 40, 40_001)
    terms = survival(np.exp(logs)) * np.exp(logs)
    step = logs[1] - logs[0]
    return np.asarray(step * (terms.sum(axis=1) - terms[:, 0] / 2))


def checked(argument: str, law: ArrayLike) -> Survival:
    """Checks a law and returns it as float64[G, L]."""
    table = np.atleast_2d(np.asarray(checks.numbers(argument, law), float))
    _check_length(argument, table.shape[1])
    begins_at_1 = (table[:, 0] == 1).all()
    falls = (np.diff(table, axis=1) <= 1e-12).all()
    if table.ndim != 2 or not begins_at_1 or not falls or (table < 0).any():
        raise errors.invalid(argument, 'fall from 1, float[G, L]', errors.text_of(law))
    return table


def _check_length(argument: str, length: float) -> None:
    if not 1 <= length <= _MOST_ROUNDS:
        requirement = f'last from 1 to {_MOST_ROUNDS:,} rounds'
        raise errors.invalid(argument, requirement, length)
