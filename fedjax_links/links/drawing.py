"""Draws links ahead of the rounds that use them.

A participation pattern (`base.Participation`) draws the links of a round. They depend on the key,
the pattern's carry and the round, never on models. So many rounds of links can be drawn at once.
"""

import jax
import jax.numpy as jnp

from fedjax_links import base
from fedjax_links.base import Array, Key, Links, Participation
from fedjax_links.core import checks, contracts, errors, prng, tree

# The most bytes of links that are drawn at a time, random bits included. The value is a guess.
_BLOCK_BYTES = 2**20
_RANDOM_BYTES = 8  # of the random bits and numbers that a client's link is drawn from


def sample_shapes(participation: Participation) -> Links:
    """Returns the shapes and dtypes of a pattern's links in a round.

    Raises:
      ValueError: if ``participation`` is no pattern, or ``sample`` returns other than a carry
        like the old one and links of N clients.
    """
    contracts.check_pattern(participation)
    key = jax.eval_shape(jax.random.key, 0)
    round = jax.ShapeDtypeStruct((), jnp.int32)
    carry = jax.eval_shape(participation.init, key)
    returned = jax.eval_shape(participation.sample, carry, key, round)
    # Links are tuples, too: links without a carry are no pair.
    is_pair = (
        isinstance(returned, tuple)
        and not isinstance(returned, contracts.SAMPLES)
        and len(returned) == 2
    )
    if not is_pair:
        requirement = 'return a carry and links from `sample`'
        raise errors.invalid('participation', requirement, contracts.kind_of(returned))
    new_carry, links = returned
    requirement = 'return the carry that `sample` was given'
    contracts.check_same_structure('participation', requirement, carry, new_carry)
    contracts.check_links(links, participation.num_clients)
    return links


def block_length(participation: Participation, num_rounds: int) -> int:
    """Returns how many rounds to draw at a time: a divisor of the number of rounds.

    The links drawn at a time take at most 1 MiB. A round whose links take more is drawn alone.

    Args:
      participation: the pattern.
      num_rounds: T.

    Returns:
      At least 1, at most T.
    """
    longest = _longest_block(participation, num_rounds)
    return max(length for length in range(1, longest + 1) if num_rounds % length == 0)


def _longest_block(participation: Participation, num_rounds: int) -> int:
    """Returns how many rounds of links fit into a block, at least one and at most all."""
    sample_bytes = tree.num_bytes(sample_shapes(participation))
    round_bytes = sample_bytes + _RANDOM_BYTES * participation.num_clients
    return min(max(_BLOCK_BYTES // round_bytes, 1), num_rounds)


def realised_links(key: Key, participation: Participation, *, num_rounds: int) -> Links:
    """Draws the links that `simulate` has with this key, without any training.

    Args:
      key: the run's key.
      participation: the pattern.
      num_rounds: T, at least 1.

    Returns:
      The samples of all rounds, leaves [T, ...], ``mask`` bool[T, N]. The mask replays in any
      run (`fedjax_links.participation.replay`).

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
    carry = participation.init(prng.pattern_key(key))
    _, links = draw(carry, key, participation, rounds)
    return links


def draw(
    carry: base.PyTree, key: Key, participation: Participation, rounds: Array
) -> tuple[base.PyTree, Links]:
    """Draws a pattern's links in consecutive rounds, for `simulation.advance`.

    Args:
      carry: the pattern's carry before these rounds.
      key: the run's key.
      participation: the pattern.
      rounds: int32[T], indices of the rounds.

    Returns:
      The carry after these rounds, and their links, leaves [T, ...].
    """
    stream = prng.stream(key, 'participation')

    def sample(carry: base.PyTree, round: Array) -> tuple[base.PyTree, Links]:
        return participation.sample(carry, jax.random.fold_in(stream, round), round)

    if jax.tree.leaves(carry):
        return jax.lax.scan(sample, carry, rounds)
    # A pattern without a carry draws many rounds in parallel.
    batch_size = _longest_block(participation, len(rounds))
    links = jax.lax.map(
        lambda round: sample(carry, round)[1], rounds, batch_size=batch_size
    )
    return carry, links
