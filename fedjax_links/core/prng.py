"""Derives every random key from the seed of a run.

``seed -> stream -> round -> client id -> local step``, each edge a `jax.random.fold_in`. No key is
carried, so the links and the batches of a round depend on the seed and the round alone. All
algorithms have the same links and batches, and so does a run that is simulated in pieces.
"""

from collections.abc import Iterable

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links.base import Array, Key
from fedjax_links.core import checks, errors, meshes

DRAWS_VERSION = 4
"""Version of how keys become draws. A run resumes only under the version that it began with."""

_STREAMS = {'init': 0, 'participation': 1, 'client': 2, 'server': 3, 'eval': 4}
# The two draws of the stream `init`.
_MODEL = 0
_PATTERN = 1


def stream(key: Key, name: str) -> Key:
    """Derives the key of a stream: ``init, participation, client, server`` or ``eval``.

    Raises:
      ValueError: for any other name.
    """
    if name not in _STREAMS:
        raise errors.unknown_name('name', name, _STREAMS)
    return jax.random.fold_in(key, _STREAMS[name])


def check(key: Key) -> None:
    """Raises unless ``key`` is a single JAX key, typed or as raw numbers."""
    dtype = getattr(key, 'dtype', None)
    is_typed = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)
    requirement = 'be a key such as jax.random.key(0)'
    if not is_typed and dtype != np.uint32:
        raise errors.invalid('key', requirement, errors.text_of(key))
    try:
        typed = key if is_typed else jax.eval_shape(jax.random.wrap_key_data, key)
    except TypeError:  # Raw numbers of another length.
        got = f'numbers of shape {list(np.shape(key))}'
        raise errors.invalid('key', requirement, got) from None
    if typed.shape:
        requirement = 'be a single key, such as keys[0] (`jax.vmap` maps over several)'
        raise errors.invalid('key', requirement, f'keys of shape {list(typed.shape)}')


def model_key(key: Key) -> Key:
    """Derives the key that initialises the model."""
    return jax.random.fold_in(stream(key, 'init'), _MODEL)


def pattern_key(key: Key) -> Key:
    """Derives the key that initialises the participation pattern."""
    return jax.random.fold_in(stream(key, 'init'), _PATTERN)


def round_key(key: Key, name: str, round: Array | int) -> Key:
    """Derives the key of stream ``name`` in one round."""
    return jax.random.fold_in(stream(key, name), round)


def client_key(round_client_key: Key, client: Array | int) -> Key:
    """Derives the key of one client in one round.

    Args:
      round_client_key: ``client_key`` of the `base.RoundContext`.
      client: the client's id.
    """
    return jax.random.fold_in(round_client_key, client)


def step_keys(key: Key, num_steps: int) -> Key:
    """Derives keys [num_steps] of a client's local steps in one round."""
    return jax.vmap(lambda step: jax.random.fold_in(key, step))(jnp.arange(num_steps))


def uniform(key: Key, shape: tuple[int, ...] = ()) -> Array:
    """Draws uniform numbers in [0, 1), float32 whatever the default precision.

    So a run in double precision has the same links as the run in single precision.
    """
    return jax.random.uniform(key, shape, 'float32')


def integers(key: Key, shape: tuple[int, ...], count: Array | int) -> Array:
    """Draws uniform integers from ``0, ..., count - 1``, int32 whatever the default precision.

    The result is ``floor(bits * count / 2^32)`` of 32 random bits, computed exactly. Bits are drawn
    once, while `jax.random.randint` splits the key and draws twice. The probability of a number
    differs from ``1 / count`` by less than 2^-32.

    Args:
      key: the draw's key.
      shape: of the result.
      count: int32[], how many numbers there are, from 1 to 2^31 - 1; may be traced.

    Returns:
      int32 of the given shape.

    Raises:
      ValueError: for a Python integer out of range.

    References:
      Lemire, Fast random integer generation in an interval, 2019 (without its rejection).
    """
    if not isinstance(count, jax.Array):
        checks.static_int('count', count)
    bits = jax.random.bits(key, shape, 'uint32')
    counts = jnp.broadcast_to(jnp.asarray(count, 'uint32'), shape)
    high_half = _high_by_halves if meshes.in_shard_map() else jax.lax.mulhi
    return high_half(bits, counts).astype('int32')


def _high_by_halves(a: Array, b: Array) -> Array:
    """Computes `jax.lax.mulhi` of uint32, which XLA cannot compile for several devices.

    With ``a = 2^16 a1 + a0`` and ``b`` likewise, the upper half of ``a b`` is
    ``a1 b1 + upper half of (a1 b0 + a0 b1 + upper half of a0 b0)``, with carries.
    """
    a_low = a & 0xFFFF
    a_high = a >> 16
    b_low = b & 0xFFFF
    b_high = b >> 16
    middle = a_high * b_low + ((a_low * b_low) >> 16)
    without_carry = a_high * b_high + (middle >> 16)
    carry = (a_low * b_high + (middle & 0xFFFF)) >> 16
    return without_carry + carry


def seed_column(seeds: Iterable[int]) -> np.ndarray:
    """Checks seeds and returns them as uint32[S].

    Raises:
      ValueError: if ``seeds`` is a set, empty, or cannot be iterated over. If a seed is outside
        ``[0, 2**32)``, as JAX would silently use a smaller seed. If a seed occurs twice, as both
        results are the same sample.
    """
    is_list = np.iterable(seeds) and not isinstance(seeds, set | frozenset)
    if not is_list:
        raise errors.invalid('seeds', 'be a list of seeds', errors.text_of(seeds))
    seeds = list(seeds)
    for seed in seeds:
        checks.seed('seeds', seed)
    if not seeds:
        raise errors.invalid('seeds', 'name at least one seed', seeds)
    column = np.asarray(seeds, np.uint32)
    if len(np.unique(column)) < len(column):
        raise errors.invalid('seeds', 'hold each seed once', errors.text_of(seeds))
    return column
