"""Makes links stay up and down for random times of any law.

A sojourn is the time that a link stays in one state, up or down.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.base import Array, CarryAndLinks, Key, LinkSample, Participation
from fedjax_links.core import checks, errors, prng
from fedjax_links.participation import durations, link_laws, schedules


class SemiMarkovState(NamedTuple):
    """Holds the carry of `semi_markov`.

    Attributes:
      up: bool[N], the links of the last round.
      age: int32[N], rounds that each link has been in this state, the last one included.
    """

    up: Array
    age: Array


def semi_markov(
    up: ArrayLike,
    down: ArrayLike,
    *,
    num_clients: int | None = None,
    kinds: ArrayLike | None = None,
) -> Participation:
    """Makes each link go up and down for independent times: one law for up, one for down.

    Links start stationary. A link starts up with probability ``E[up] / (E[up] + E[down])``, at a
    random point of a sojourn. It starts in a long sojourn more often than in a short one. If both
    laws are geometric, this is `markov`.

    Args:
      up: float[G, L], survival function of the rounds that a link stays up, in one row for each
        kind of clients. `fedjax_links.participation.durations` computes such functions.
      down: float[G, L], survival function of the rounds that a link stays down.
      num_clients: N. By default the length of ``kinds``, or else the number of rows G. A single row
        is for all clients.
      kinds: int[N], the row that each client follows; by default client i follows row i.

    Returns:
      The pattern; ``prob`` is the stationary probability, exact in every round.

    Raises:
      ValueError: if a law is not a survival function, or numbers of rows and clients do not
        fit.

    Example:
      >>> import jax
      >>> from fedjax_links import participation, simulation
      >>> three_rounds = [1.0, 1.0, 1.0]
      >>> two_rounds = [1.0, 1.0]
      >>> pattern = participation.semi_markov(three_rounds, two_rounds, num_clients=2)
      >>> links = simulation.realised_links(jax.random.key(0), pattern, num_rounds=10)
      >>> print(links.mask.astype(int).T)
      [[1 1 0 0 1 1 1 0 0 1]
       [0 0 1 1 1 0 0 1 1 1]]
    """
    up_law, down_law, kinds = _laws_and_kinds(up, down, num_clients, kinds)
    prob = schedules.as_floats(_stationary(up_law, down_law)[kinds])
    num_clients = len(kinds)
    up_hazards = _hazards(up_law)
    down_hazards = _hazards(down_law)
    up_elapsed = _elapsed_law(up_law)
    down_elapsed = _elapsed_law(down_law)

    def init(key: Key) -> SemiMarkovState:
        uniforms = prng.uniform(key, (2, num_clients))
        is_up = uniforms[0] < jnp.asarray(prob, jnp.float32)
        up_age = 1 + _count_up_to(up_elapsed, kinds, uniforms[1])
        down_age = 1 + _count_up_to(down_elapsed, kinds, uniforms[1])
        return SemiMarkovState(up=is_up, age=jnp.where(is_up, up_age, down_age))

    def hazard(table: NDArray[np.float32], age: Array) -> Array:
        column = jnp.minimum(age, table.shape[1]) - 1
        return jnp.asarray(table)[kinds, column]

    def sample(
        carry: SemiMarkovState, key: Key, round: Array
    ) -> CarryAndLinks[SemiMarkovState]:
        from_up = hazard(up_hazards, carry.age)
        from_down = hazard(down_hazards, carry.age)
        uniforms = prng.uniform(key, carry.up.shape)
        changes = uniforms < jnp.where(carry.up, from_up, from_down)
        state = SemiMarkovState(
            up=carry.up ^ changes, age=jnp.where(changes, 1, carry.age + 1)
        )
        return state, LinkSample(mask=state.up, prob=jnp.asarray(prob))

    return Participation(init, sample, num_clients)


def _count_up_to(table: np.ndarray, kinds: np.ndarray, values: Array) -> Array:
    """Counts by bisection the entries of each client's row that are at most its value.

    Args:
      table: float32[G, L], rows that never fall.
      kinds: int[N], the row of each client.
      values: float32[N].

    Returns:
      int32[N].
    """
    rows = jnp.asarray(table)
    length = table.shape[1]

    def halve(_: Array, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        # The first larger entry lies in [low, high].
        low, high = bounds
        middle = (low + high) // 2
        is_small = rows[kinds, jnp.minimum(middle, length - 1)] <= values
        passed = (low < high) & is_small
        return jnp.where(passed, middle + 1, low), jnp.where(passed, high, middle)

    low = jnp.zeros(len(kinds), jnp.int32)
    high = jnp.full(len(kinds), length, jnp.int32)
    low, _ = jax.lax.fori_loop(0, length.bit_length(), halve, (low, high))
    return low


def _laws_and_kinds(
    up: ArrayLike, down: ArrayLike, num_clients: int | None, kinds: ArrayLike | None
) -> tuple[durations.Survival, durations.Survival, NDArray[np.integer]]:
    """Checks the laws, and returns them with equally many rows and the row of each client."""
    up_law = durations.checked('up', up)
    down_law = durations.checked('down', down)
    num_rows = max(len(up_law), len(down_law))
    if len(up_law) != len(down_law) and 1 not in (len(up_law), len(down_law)):
        requirement = f'have one row or {len(up_law)}, as `up`'
        raise errors.invalid('down', requirement, len(down_law))
    if num_clients is not None:
        checks.static_int('num_clients', num_clients)
    if kinds is not None:
        kinds = checks.ids('kinds', kinds)
        checks.within('kinds', kinds, 0, num_rows - 1)
    elif num_rows == 1:
        kinds = np.zeros(1 if num_clients is None else num_clients, int)
    else:
        kinds = np.arange(num_rows)
    if num_clients not in (None, len(kinds)):
        requirement = f'be {len(kinds)}, the number of `kinds` or of rows'
        raise errors.invalid('num_clients', requirement, num_clients)
    up_law = np.broadcast_to(up_law, (num_rows, up_law.shape[1]))
    down_law = np.broadcast_to(down_law, (num_rows, down_law.shape[1]))
    return up_law, down_law, kinds


def _stationary(up: durations.Survival, down: durations.Survival) -> np.ndarray:
    """Computes the stationary probability of being up, float64[G]."""
    mean_up = up.sum(axis=1)
    mean_down = down.sum(axis=1)
    return np.asarray(mean_up / (mean_up + mean_down))


def _hazards(survival: durations.Survival) -> NDArray[np.float32]:
    """Computes ``P(D = k given D >= k)`` for k = 1, 2, ...; it is 1 for the last k."""
    after = np.pad(survival[:, 1:], ((0, 0), (0, 1)))
    zeros = np.zeros_like(after)
    stays = np.divide(after, survival, out=zeros, where=survival > 0)
    return (1.0 - stays).astype(np.float32)


def _elapsed_law(survival: durations.Survival) -> NDArray[np.float32]:
    """Computes the law of the rounds since a stationary link changed, as cumulative sums."""
    mean = survival.sum(axis=1, keepdims=True)
    return (np.cumsum(survival, axis=1) / mean).astype(np.float32)


def semi_markov_law(inputs: link_laws.LawInputs) -> link_laws.LinkLaw:
    """Returns the exact law of `semi_markov` in a round."""
    options = {'num_clients': None, 'kinds': None, **inputs.options}
    up_law, down_law, kinds = _laws_and_kinds(**options)
    description = 'up and down for times of given laws, independent over clients'
    law = link_laws.independent(description, _stationary(up_law, down_law)[kinds])
    return law._replace(memoryless=False, weights_source='independent each round')
