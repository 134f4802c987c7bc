"""Links drawn ahead of the rounds that meet them.

A pattern's links depend on its key, its carry and the round, never on what is trained under them.
"""

import jax
import jax.numpy as jnp

from fedjax_links import base
from fedjax_links.base import Array, Key, Links, Participation
from fedjax_links.core import checks, contracts, errors, prng, tree

_BLOCK_BYTES = (
    2**20
)  # of the links that are drawn at a time, and of the bits they are drawn from


def sample_shapes(participation: Participation) -> Links:
    """What a pattern draws in a round, by shapes and dtypes.

    Raises:
      ValueError: for what is no pattern, or draws no links of its clients.
    """
    contracts.check_pattern(participation)
    key, round = jax.eval_shape(jax.random.key, 0), jax.ShapeDtypeStruct((), jnp.int32)
    carry = jax.eval_shape(participation.init, key)
    drawn = jax.eval_shape(participation.sample, carry, key, round)
    if (
        not isinstance(drawn, tuple)
        or isinstance(drawn, contracts.SAMPLES)
        or len(drawn) != 2
    ):
        requirement = 'return a carry and links from `sample`'
        raise errors.invalid('participation', requirement, contracts.kind_of(drawn))
    after, links = drawn
    requirement = 'return the carry that `sample` was given'
    contracts.check_same_structure('participation', requirement, carry, after)
    contracts.check_links(links, participation.num_clients)
    return links


def block_length(participation: Participation, num_rounds: int) -> int:
    """How many rounds' links to draw at a time: a divisor of their number that memory allows.

    Args:
      participation: the pattern.
      num_rounds: T.

    Returns:
      At least 1, at most T.
    """
    most = _most_at_once(participation, num_rounds)
    return max(length for length in range(1, most + 1) if num_rounds % length == 0)


def _most_at_once(participation: Participation, num_rounds: int) -> int:
    per_round = (
        tree.num_bytes(sample_shapes(participation)) + 8 * participation.num_clients
    )
    return min(max(_BLOCK_BYTES // per_round, 1), num_rounds)


def realised_links(key: Key, participation: Participation, *, num_rounds: int) -> Links:
    """The links that `simulate` meets with this key, without training anything.

    Args:
      key: the run's key.
      participation: the pattern.
      num_rounds: T, at least 1.

    Returns:
      The sample of every round, leaves [T, ...], ``mask`` bool[T, N]; its mask replays in any run
      (`fedjax_links.participation.replay`).

    Example:
      >>> import jax
      >>> from fedjax_links import participation, simulation
      >>> pattern = participation.replay([[True, False], [False, True]])
      >>> links = simulation.realised_links(jax.random.key(0), pattern, num_rounds=3)
      >>> print(links.mask.astype(int))
      [[1 0]
       [0 1]
       [1 0]]
    """
    prng.check(key)
    checks.static_int('num_rounds', num_rounds)
    sample_shapes(participation)
    rounds = jnp.arange(num_rounds, dtype=jnp.int32)
    return draw(participation.init(prng.pattern_key(key)), key, participation, rounds)[
        1
    ]


def draw(
    carry: base.PyTree, key: Key, participation: Participation, rounds: Array
) -> tuple[base.PyTree, Links]:
    """A pattern's links in consecutive rounds, for `advance`.

    Args:
      carry: the pattern's, before these rounds.
      key: the run's key.
      participation: the pattern.
      rounds: int32[T], their indices.

    Returns:
      The carry after them, and the links, leaves [T, ...].
    """
    stream = prng.stream(key, 'participation')

    def sample(carry: base.PyTree, round: Array) -> tuple[base.PyTree, Links]:
        return participation.sample(carry, jax.random.fold_in(stream, round), round)

    if jax.tree.leaves(carry):
        return jax.lax.scan(sample, carry, rounds)
    most = _most_at_once(
        participation, len(rounds)
    )  # without memory no round waits for another
    return carry, jax.lax.map(
        lambda round: sample(carry, round)[1], rounds, batch_size=most
    )
