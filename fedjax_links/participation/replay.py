"""Recorded links, played back."""

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.base import Array, Key, LinkSample, Participation, PyTree
from fedjax_links.core import checks, errors


def replay(mask: ArrayLike, prob: ArrayLike | None = None) -> Participation:
    """Round t has the links of row ``t mod T`` of a recording.

    The masks of a run (`fedjax_links.simulation.realised_links`) replay bit for bit.

    Args:
      mask: bool[T, N], who delivered in each recorded round; integers 0 and 1 count as booleans.
      prob: float[T, N] in [0, 1], or NaN where unknown; unknown everywhere by default.

    Returns:
      The pattern; it has no carry.

    Raises:
      ValueError: if the shapes do not fit or the mask holds anything else, floats included.

    Example:
      >>> import jax
      >>> from fedjax_links import participation, simulation
      >>> pattern = participation.replay([[True, False], [True, True]])
      >>> links = simulation.realised_links(jax.random.key(0), pattern, num_rounds=3)
      >>> print(links.mask.astype(int))
      [[1 0]
       [1 1]
       [1 0]]
    """
    masks = jnp.asarray(mask)
    if masks.ndim != 2 or 0 in masks.shape:
        raise errors.invalid('mask', 'have shape [rounds, clients]', list(masks.shape))
    if masks.dtype != bool and not jnp.issubdtype(masks.dtype, jnp.integer):
        got = f'dtype {masks.dtype}'
        raise errors.invalid('mask', 'be boolean, or integers 0 and 1', got)
    if checks.is_concrete(masks) and not (binary := np.isin(masks, (0, 1))).all():
        got = np.asarray(masks)[~binary][0]
        raise errors.invalid('mask', 'be boolean, or integers 0 and 1', got)
    if prob is not None and np.shape(prob) != masks.shape:
        requirement = f'have the shape of `mask` {list(masks.shape)}'
        raise errors.invalid('prob', requirement, list(np.shape(prob)))
    if prob is not None and checks.is_concrete(prob):
        checks.within('prob', np.nan_to_num(np.asarray(prob)), 0, 1)
    masks, dtype = masks.astype(bool), jnp.result_type(float)
    num_rounds, num_clients = masks.shape
    probs = None if prob is None else jnp.asarray(prob, dtype)

    def sample(carry: PyTree, key: Key, round: Array) -> tuple[PyTree, LinkSample]:
        row = jnp.mod(round, num_rounds)
        known = jnp.full(num_clients, jnp.nan, dtype) if probs is None else probs[row]
        return carry, LinkSample(mask=masks[row], prob=known)

    return Participation(lambda key: (), sample, num_clients, cycle=num_rounds)
