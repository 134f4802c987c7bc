"""Links that stay up and down for times of any law."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.base import Array, Drawn, Key, LinkSample, Participation
from fedjax_links.core import checks, errors, prng
from fedjax_links.participation import durations, link_laws, schedules


class SemiMarkovState(NamedTuple):
    """Carry of `semi_markov`.

    Attributes:
      up: bool[N], the links of the last round.
      age: int32[N], rounds that each has been so, that one included.
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
    """Semi-Markov links: up for a time of one law, down for one of another, independently.

    It starts in its stationary course: up with probability ``E[up] / (E[up] + E[down])``, at a
    random point of a sojourn, longer ones being met more often. Both laws geometric is `markov`.

    Args:
      up: float[G, L], survival function of the rounds that a link stays up, as
        `fedjax_links.participation.durations` makes them.
      down: likewise, of the rounds that it stays down.
      num_clients: N, where all follow one row.
      kinds: int[N], the row that each client follows; by default row i is client i's.

    Returns:
      The pattern; ``prob`` is the stationary probability, exact in every round.

    Raises:
      ValueError: for what are no such laws, or if numbers of rows and clients do not fit.

    Example:
      >>> import jax
      >>> from fedjax_links import participation, simulation
      >>> three, two = [1.0, 1.0, 1.0], [1.0, 1.0]  # rounds, always
      >>> pattern = participation.semi_markov(three, two, num_clients=2)
      >>> links = simulation.realised_links(jax.random.key(0), pattern, num_rounds=10)
      >>> print(links.mask.astype(int).T)
      [[1 1 0 0 1 1 1 0 0 1]
       [0 0 1 1 1 0 0 1 1 1]]
    """
    both, kinds = _by_client(up, down, num_clients, kinds)
    prob = schedules.as_floats(_stationary(both)[kinds])
    leaving = [_hazards(law).astype(np.float32) for law in both]
    elapsed = [
        (np.cumsum(law, axis=1) / law.sum(axis=1, keepdims=True)).astype(np.float32)
        for law in both
    ]

    def init(key: Key) -> SemiMarkovState:
        uniforms = prng.uniform(key, (2, len(kinds)))
        is_up = uniforms[0] < jnp.asarray(prob, jnp.float32)
        of_up, of_down = (
            1 + _count_up_to(part, kinds, uniforms[1]) for part in elapsed
        )
        return SemiMarkovState(up=is_up, age=jnp.where(is_up, of_up, of_down))

    def sample(
        carry: SemiMarkovState, key: Key, round: Array
    ) -> Drawn[SemiMarkovState]:
        of_up, of_down = (
            jnp.asarray(part)[kinds, jnp.minimum(carry.age, part.shape[1]) - 1]
            for part in leaving
        )
        turns = prng.uniform(key, carry.up.shape) < jnp.where(carry.up, of_up, of_down)
        state = SemiMarkovState(carry.up ^ turns, jnp.where(turns, 1, carry.age + 1))
        return state, LinkSample(mask=state.up, prob=jnp.asarray(prob))

    return Participation(init, sample, len(kinds))


def _count_up_to(table: np.ndarray, kinds: np.ndarray, values: Array) -> Array:
    """How many entries of each client's row are at most its value, by bisection.

    Args:
      table: float32[G, L], rows that never fall.
      kinds: int[N], the row of each client.
      values: float32[N].

    Returns:
      int32[N].
    """
    rows, length = jnp.asarray(table), table.shape[1]

    def halve(_: Array, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds  # the first larger entry lies in [low, high]
        middle = (low + high) // 2
        is_small = rows[kinds, jnp.minimum(middle, length - 1)] <= values
        passed = (low < high) & is_small
        return jnp.where(passed, middle + 1, low), jnp.where(passed, high, middle)

    none = jnp.zeros(len(kinds), jnp.int32)
    low, _ = jax.lax.fori_loop(0, length.bit_length(), halve, (none, none + length))
    return low


def _by_client(
    up: ArrayLike, down: ArrayLike, num_clients: int | None, kinds: ArrayLike | None
) -> tuple[list[np.ndarray], np.ndarray]:
    """Both laws, [G, L] with the same G, and the row of each client."""
    both = [durations.checked('up', up), durations.checked('down', down)]
    rows = max(map(len, both))
    if {len(law) for law in both} - {1, rows}:
        raise errors.invalid('down', f'have 1 or {rows} rows, as `up`', len(both[1]))
    if kinds is None:
        if num_clients not in (None, rows) and rows > 1:
            raise errors.invalid(
                'num_clients', f'be that of the {rows} rows', num_clients
            )
        kinds = np.arange(rows) if rows > 1 else np.zeros(num_clients or 1, int)
    kinds = checks.ids('kinds', kinds)
    checks.within('kinds', kinds, 0, rows - 1)
    return [np.broadcast_to(law, (rows, law.shape[1])) for law in both], kinds


def _stationary(both: list[np.ndarray]) -> np.ndarray:
    up, down = (law.sum(axis=1) for law in both)
    return np.asarray(up / (up + down))


def _hazards(survival: np.ndarray) -> np.ndarray:
    """``P(D = k given D >= k)`` for k = 1, 2, ..., 1 at the last."""
    after = np.pad(survival[:, 1:], ((0, 0), (0, 1)))
    return 1.0 - np.divide(
        after, survival, out=np.zeros_like(after), where=survival > 0
    )


def semi_markov_law(given: link_laws.LawInputs) -> link_laws.LinkLaw:
    """Exact law of `semi_markov` in a round."""
    options = {'num_clients': None, 'kinds': None, **given.options}
    both, kinds = _by_client(**options)
    said = 'up and down for times of given laws, independent over clients'
    law = link_laws.independent(said, _stationary(both)[kinds])
    return law._replace(memoryless=False, weights_source='independent each round')
