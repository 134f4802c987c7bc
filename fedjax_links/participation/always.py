"""Lets all clients participate in each round."""

import jax.numpy as jnp
import numpy as np

from fedjax_links.base import Array, Key, LinkSample, Participation, PyTree
from fedjax_links.core import checks
from fedjax_links.participation.link_laws import LawInputs, LinkLaw, independent


def always(num_clients: int) -> Participation:
    """Lets all clients participate in each round: full participation.

    Args:
      num_clients: N, at least 1.

    Returns:
      The pattern; it has no carry and reports probability one.

    Example:
      >>> import jax
      >>> from fedjax_links import participation, simulation
      >>> pattern = participation.always(3)
      >>> links = simulation.realised_links(jax.random.key(0), pattern, num_rounds=2)
      >>> print(links.mask.astype(int))
      [[1 1 1]
       [1 1 1]]
    """
    checks.static_int('num_clients', num_clients)

    def sample(carry: PyTree, key: Key, round: Array) -> tuple[PyTree, LinkSample]:
        mask = jnp.ones(num_clients, bool)
        return carry, LinkSample(mask=mask, prob=mask.astype(jnp.result_type(float)))

    return Participation(init=lambda key: (), sample=sample, num_clients=num_clients)


def always_law(inputs: LawInputs) -> LinkLaw:
    """Returns the exact law of `always`."""
    probs = np.ones(inputs.options['num_clients'])
    return independent('every client in every round', probs)
