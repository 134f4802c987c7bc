"""Loses uploads more often the larger the model is."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.base import Array, Key, MaskLinks, Participation
from fedjax_links.core import checks, contracts, prng
from fedjax_links.participation import combining, link_laws, schedules


def packets(
    pattern: Participation, *, loss: ArrayLike, num_packets: int
) -> Participation:
    """Models packet loss: an upload of K packets arrives with probability ``(1 - loss_i)^K``.

    So uploads of a larger model arrive less often. In a config, ``num_packets: {name:
    of_model, packet_bytes: 1500}`` stands for the packets of the problem's model.

    Args:
      pattern: the uplinks without packet loss.
      loss: probability that a packet is lost, independently of all others, in [0, 1]; one
        number or float[N].
      num_packets: K, at least 1.

    Returns:
      The pattern; its ``prob`` is ``(1 - loss)^K`` times the ``prob`` of ``pattern``. For a
      traced ``loss``, as in a sweep, the power is computed in the default precision and may
      differ in its last bits.

    Raises:
      ValueError: for a value out of range.

    Example:
      >>> import jax
      >>> from fedjax_links import participation, simulation
      >>> pattern = participation.packets(participation.always(2), loss=0.5, num_packets=2)
      >>> links = simulation.realised_links(jax.random.key(0), pattern, num_rounds=1)
      >>> print(links.prob)
      [[0.25 0.25]]
    """
    contracts.check_pattern(pattern, 'pattern')
    schedules.each_within('loss', loss, pattern.num_clients, 0, 1)
    checks.static_int('num_packets', num_packets)
    arrival_prob = schedules.as_floats(_arrival_prob(loss, num_packets))

    def sample(key: Key, round: Array, samples: combining.Samples) -> MaskLinks:
        (links,) = samples
        arrives = prng.uniform(key, links.mask.shape) < arrival_prob
        return links._replace(mask=links.mask & arrives, prob=links.prob * arrival_prob)

    return combining.combine('packets', [pattern], sample)


def packets_law(inputs: link_laws.LawInputs) -> link_laws.LinkLaw:
    """Returns the law of `packets`, exact if the pattern's clients and rounds are independent."""
    part = inputs.parts['pattern']
    if part.probs is None or not part.memoryless:
        description = 'packets are lost independently'
        return link_laws.LinkLaw(description, is_duplex=part.is_duplex)
    arrival_prob = _arrival_prob(inputs.options['loss'], inputs.options['num_packets'])
    probs = part.probs * arrival_prob
    law = link_laws.independent('independent over clients and rounds', probs)
    return law._replace(is_duplex=part.is_duplex)


def _arrival_prob(loss: ArrayLike, num_packets: int) -> Any:
    """Computes ``(1 - loss)^K`` without rounding ``1 - loss``.

    The result is in double precision unless the loss is traced.
    """
    if not checks.is_concrete(loss):
        return jnp.exp(num_packets * jnp.log1p(-jnp.asarray(loss)))
    # A loss of 1 gives the logarithm of zero, which NumPy would warn of.
    with np.errstate(divide='ignore'):
        return np.exp(num_packets * np.log1p(-np.asarray(loss, np.float64)))
