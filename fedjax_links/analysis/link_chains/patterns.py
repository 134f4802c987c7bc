"""Makes link chains of participation patterns whose clients are independent.

The module `chains` says what a link chain, its shared state and its modes are.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from fedjax_links.analysis import _checks
from fedjax_links.analysis.link_chains.chains import ClientLinks, LinkChain
from fedjax_links.core import errors

_UP_RATE = 0.05  # The default of `participation.markov`.


def independent(probs: ArrayLike) -> LinkChain:
    """Makes links that are independent over rounds, as `participation.bernoulli`.

    Args:
      probs: float[N] in [0, 1], or float[K, N] for the K rounds of a period.

    Returns:
      The chain.

    Raises:
      ValueError: for values that are no probabilities.

    Example:
      >>> from fedjax_links import analysis
      >>> print(analysis.link_chains.independent([0.5, 0.3]).modes().stationary)
      [0.35 0.15 0.35 0.15]
    """
    table = _periodic_probs(probs)
    return two_state(table, table, 1.0 - table)


def markov(
    probs: ArrayLike,
    up_rate: ArrayLike | None = None,
    *,
    correlation_time: ArrayLike | None = None,
) -> LinkChain:
    """Makes each link a two-state Markov chain, as `participation.markov`.

    In a round a link that is down goes up with probability ``q*``, and a link that is up goes down
    with ``q = q* (1 - p) / p``. If this q exceeds one, ``q = 1`` and ``q* = p / (1 - p)``. With
    ``correlation_time`` tau, ``q* = p (1 - m)`` and ``q = (1 - p) (1 - m)`` with
    ``m = exp(-1 / tau)``.

    Args:
      probs: float[N] in [0, 1], or float[K, N] for the K rounds of a period. The chain moves with
        the rates of the round that it enters. The state before round 0 is up with probability
        ``probs[0]``.
      up_rate: q*, in (0, 1], one number or float[N], or float[K, N] like ``probs``; 0.05 by
        default.
      correlation_time: tau in rounds, positive, with the same shapes as ``up_rate``.

    Returns:
      The chain.

    Raises:
      ValueError: for a value out of range.

    Example:
      >>> from fedjax_links import analysis
      >>> chain = analysis.link_chains.markov([0.5], up_rate=0.1)
      >>> print(chain.modes().transition.toarray())
      [[0.9 0.1]
       [0.1 0.9]]

    References:
      Xiang et al., journal version 2024, Appendix B, Fig. 7.
    """
    table = _periodic_probs(probs)
    if correlation_time is not None:
        if up_rate is not None:
            raise errors.invalid(
                'up_rate', 'be left out with `correlation_time`', up_rate
            )
        times = _checks.as_doubles('correlation_time', correlation_time)
        _checks.checked('correlation_time', times, times > 0, 'be positive')
        times = _per_client('correlation_time', times, table)
        redrawn = -np.expm1(-1.0 / times)
        return two_state(table, table * redrawn, (1.0 - table) * redrawn)
    rate = _checks.checked_rate('up_rate', _UP_RATE if up_rate is None else up_rate)
    _checks.checked('up_rate', rate, rate > 0, 'be positive')
    rate = _per_client('up_rate', rate, table)
    ratio = (1.0 - table) / np.where(table > 0, table, 1.0)
    is_capped = (table == 0) | (rate * ratio > 1)
    rise = np.where(is_capped, table / np.where(table < 1, 1.0 - table, 1.0), rate)
    fall = np.where(is_capped, 1.0, rate * ratio)
    return two_state(table, rise, fall)


def semi_markov(
    up: ArrayLike, down: ArrayLike, *, kinds: ArrayLike | None = None
) -> LinkChain:
    """Makes links go up and down for random times of bounded length.

    This is `participation.semi_markov`. Links start stationary. A client's state says whether its
    link is up or down, and for how many rounds it has been so.

    Args:
      up: float[L] or float[G, L], survival function of the rounds that a link stays up:
        entry k is the probability of more than k rounds.
      down: float[L] or float[G, L], likewise for the rounds that a link stays down.
      kinds: int[N], the row that each client follows; by default client i follows row i.

    Returns:
      The chain.

    Raises:
      ValueError: if a law is no survival function, or numbers of rows differ.

    Example:
      >>> from fedjax_links import analysis
      >>> chain = analysis.link_chains.semi_markov([1.0, 1.0], [1.0, 0.5])
      >>> print(chain.num_modes, chain.kinds[0].prob.round(3))
      4 [0.571]
    """
    up_laws = _rows_of_laws('up', up)
    down_laws = _rows_of_laws('down', down)
    size = max(len(up_laws), len(down_laws))
    if not {len(up_laws), len(down_laws)} <= {1, size}:
        requirement = f'have one row, or {len(up_laws)} like `up`'
        raise errors.invalid('down', requirement, f'{len(down_laws)} rows')
    rows = np.arange(size)
    if kinds is not None:
        rows = _checks.as_array('kinds', kinds, f'name rows 0 to {size - 1}')
    is_row = rows.ndim == 1 and rows.dtype.kind in 'iu' and rows.size > 0
    is_row = is_row and rows.min() >= 0 and rows.max() < size
    _checks.require(is_row, 'kinds', f'name rows 0 to {size - 1}', kinds)
    laws = []
    for row in range(size):
        # One row stands for all clients.
        up_law = _checks.checked_survival('up', up_laws[row % len(up_laws)])
        down_law = _checks.checked_survival('down', down_laws[row % len(down_laws)])
        laws.append(_sojourns(up_law, down_law))
    return LinkChain(*_phases(1), tuple(laws), rows.astype(int))


def b_min_sep(probs: ArrayLike, separation: int) -> LinkChain:
    """Makes each client wait after it took part, and then take part independently.

    Successive participations of a client are at least b rounds apart. In each round from the b-th
    after its last participation on, a client takes part with probability p. This is called
    b-min-sep sampling. It equals `participation.semi_markov` with one round up. Times down are then
    ``b - 1`` rounds plus a geometric time. The chain starts stationary.

    Args:
      probs: float[N] in (0, 1], p, for clients that do not wait.
      separation: b, at least 1; 1 gives independent rounds. A client waits ``b - 1`` rounds.
        `participation.minimum_separation` calls these ``b - 1`` rounds the separation.

    Returns:
      The chain. A client is up in a fraction ``p / (1 + (b - 1) p)`` of the rounds.

    Raises:
      ValueError: for a value out of range.

    Example:
      >>> from fedjax_links import analysis
      >>> chain = analysis.link_chains.b_min_sep([0.5], 3)
      >>> print(chain.kinds[0].prob)
      [0.25]
    """
    link_probs = _checks.checked_probs('probs', probs)
    _checks.checked('probs', link_probs, link_probs > 0, 'be positive', ' at client {}')
    wait = _checks.checked_int('separation', separation, minimum=1) - 1
    _checks.check_memory('separation', separation, 8 * (wait + 2) ** 2)
    distinct, kind_of_client = np.unique(link_probs, return_inverse=True)
    kinds = []
    for prob in distinct:
        # States are up, waiting for 1, ..., b - 1 rounds, and free but down.
        size = wait + 2
        transition = np.zeros((size, size))
        transition[np.arange(wait), 1 + np.arange(wait)] = 1.0
        transition[wait:, 0] = prob
        transition[wait:, -1] = 1.0 - prob
        rate = prob / (1.0 + wait * prob)
        start = np.full(size, rate)
        start[-1] = 1.0 - rate * (1 + wait)
        is_up = np.arange(size) == 0
        kinds.append(
            ClientLinks(transition[None], start[None], is_up[None], np.array([rate]))
        )
    return LinkChain(*_phases(1), tuple(kinds), kind_of_client)


def cyclic(
    probs: ArrayLike, *, cycle_length: int = 100, reset: bool = False
) -> LinkChain:
    """Makes each client active for a block of rounds, in cycles, as `participation.cyclic`.

    The shared state is the phase of the cycle. A client's state is its offset: the number of rounds
    before its first active block. So a run may start with a client's block, but never inside it.

    A cycle has ``max(1, rint(L p))`` active rounds and at least one inactive round. L p is computed
    in float64 here, and in a run in the precision of the run. If L p is close to half an integer,
    as 100 times 0.575 is, the two numbers of active rounds may differ by one.

    Args:
      probs: float[N], p, in [0, 1]: the fraction of a cycle in which each client is active.
      cycle_length: L, rounds of a cycle, at least 2.
      reset: whether offsets are redrawn every L rounds.

    Returns:
      The chain.

    Raises:
      ValueError: for a value out of range.

    Example:
      >>> from fedjax_links import analysis
      >>> chain = analysis.link_chains.cyclic([0.5, 0.5], cycle_length=4)
      >>> print(chain.num_modes, chain.modes().stationary.round(3)[:4])
      16 [0.062 0.062 0.062 0.062]

    References:
      Xiang et al., journal version 2024, Appendix B.
    """
    link_probs = _checks.checked_probs('probs', probs)
    length = _checks.checked_length('cycle_length', cycle_length, minimum=2)
    active = np.maximum(1, np.rint(length * link_probs)).astype(int)
    inactive = np.maximum(1, length - active)
    reset = _checks.checked_flag('reset', reset)
    client_periods = np.full_like(active, length) if reset else active + inactive
    period = int(np.lcm.reduce(client_periods))
    num_bytes = 8 * period * int(inactive.max()) ** 2
    _checks.check_memory('cycle_length', cycle_length, num_bytes)
    phases = np.arange(period)
    distinct, kind_of_client = np.unique(active, return_inverse=True)
    kinds = []
    for rounds in distinct:
        client = int(np.argmax(active == rounds))
        offsets = np.arange(inactive[client])
        rounds_since_start = (phases[:, None] - offsets) % client_periods[client]
        law = np.full(len(offsets), 1.0 / len(offsets))
        transition = np.tile(np.eye(len(offsets)), (period, 1, 1))
        if reset:
            transition[0] = law
        kinds.append(
            ClientLinks(
                transition,
                np.tile(law, (period, 1)),
                rounds_since_start < rounds,
                np.full(period, rounds / client_periods[client]),
            )
        )
    return LinkChain(*_phases(period), tuple(kinds), kind_of_client)


def _periodic_probs(probs: ArrayLike) -> np.ndarray:
    """Checks probabilities of the rounds of a period, float64[K, N]."""
    table = _checks.as_doubles('probs', probs)
    is_table = table.ndim in (1, 2) and table.size > 0
    requirement = 'have shape [N], or [K, N] for a period of K rounds'
    _checks.require(is_table, 'probs', requirement, table.shape)
    return np.atleast_2d(_checks.checked_rate('probs', table))


def _rows_of_laws(name: str, laws: ArrayLike) -> np.ndarray:
    """Returns survival functions as rows, float64[G, L]."""
    rows = np.atleast_2d(_checks.as_doubles(name, laws))
    _checks.require(rows.ndim == 2, name, 'have shape [L] or [G, L]', rows.shape)
    return rows


def _per_client(name: str, values: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Checks one number, one per client, or one per round and client of a period."""
    num_rounds, num_clients = table.shape
    if values.ndim == 2 and values.shape in ((1, num_clients), table.shape):
        return np.broadcast_to(values, table.shape)
    values = _checks.checked_shape(name, values, (num_clients,), 'one per client')
    return np.broadcast_to(values, (num_rounds, num_clients))


def _phases(period: int) -> tuple[sparse.csr_array, np.ndarray]:
    """Returns the transition matrix and the start of the phases of a cycle."""
    rounds = np.arange(period)
    ones = np.ones(period)
    shape = (period, period)
    transition = sparse.csr_array((ones, (rounds, (rounds + 1) % period)), shape=shape)
    return transition, (rounds == 0).astype(np.float64)


def two_state(probs: np.ndarray, rise: np.ndarray, fall: np.ndarray) -> LinkChain:
    """Makes two-state links with the same period.

    Args:
      probs: float64[K, N], the probabilities that the pattern reports. The state before round 0
        is up with the probabilities in the first row.
      rise: float64[K, N], P(down -> up).
      fall: float64[K, N], P(up -> down).
    """
    columns = np.concatenate([probs, rise, fall])
    _, firsts, kind_of_client = np.unique(
        columns, axis=1, return_index=True, return_inverse=True
    )
    period = len(probs)
    is_up = np.tile([False, True], (period, 1))
    kinds = []
    for client in firsts:
        up = rise[:, client]
        down = fall[:, client]
        rows = np.stack([1.0 - up, up, down, 1.0 - down], axis=1)
        transition = rows.reshape(period, 2, 2)
        prob = probs[:, client]
        before = np.array([1.0 - prob[0], prob[0]])
        start = np.tile(before @ transition[0], (period, 1))
        kinds.append(ClientLinks(transition, start, is_up, prob))
    return LinkChain(*_phases(period), tuple(kinds), kind_of_client.ravel())


def _sojourns(up: np.ndarray, down: np.ndarray) -> ClientLinks:
    """Returns the law of a link whose state is the number of rounds that it has been up, or down.

    Args:
      up: float64[L], survival function of the rounds up.
      down: float64[L'], survival function of the rounds down.
    """
    up = up[up > 0]
    down = down[down > 0]
    size = len(up) + len(down)
    transition = np.zeros((size, size))

    def fill_rows(law: np.ndarray, first: int, first_of_other: int) -> None:
        """Fills the rows of a state: a link grows older, or changes to the other state."""
        ages = first + np.arange(len(law))
        stay_probs = np.append(law[1:] / law[:-1], 0.0)
        transition[ages[:-1], ages[1:]] = stay_probs[:-1]
        transition[ages, first_of_other] += 1.0 - stay_probs

    fill_rows(up, 0, len(up))
    fill_rows(down, len(up), 0)
    start = np.concatenate([up, down])
    start = start / start.sum()
    is_up = np.arange(size) < len(up)
    prob = np.array([start[is_up].sum()])
    return ClientLinks(transition[None], start[None], is_up[None], prob)
