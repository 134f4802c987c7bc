"""Losses that hang on how large the model is."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.base import Array, Key, MaskLinks, Participation
from fedjax_links.core import checks, prng
from fedjax_links.participation import combining, link_laws, schedules


def packets(
    pattern: Participation, *, loss: ArrayLike, num_packets: int
) -> Participation:
    """Models packet loss: an upload of K packets arrives with probability ``(1 - loss_i)^K``.

    So a larger model is heard less often. A config says ``num_packets: {name: of_model,
    packet_bytes: 1500}`` for those of the problem's model.

    Args:
      pattern: the uplinks apart from that.
      loss: probability that a packet is lost, independently of all others, in [0, 1]; one number
        or float[N].
      num_packets: K, at least 1.

    Returns:
      The pattern; ``prob`` is that of ``pattern`` times ``(1 - loss)^K``. Of a traced ``loss``, as
      in a sweep, that power is computed in the default precision and may differ in its last bits.

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
    schedules.each_within('loss', loss, pattern.num_clients, 0, 1)
    checks.static_int('num_packets', num_packets)
    arrives = schedules.as_floats(_arrives(loss, num_packets))

    def sample(key: Key, round: Array, samples: combining.Samples) -> MaskLinks:
        (links,) = samples
        arrived = prng.uniform(key, links.mask.shape) < arrives
        return links._replace(mask=links.mask & arrived, prob=links.prob * arrives)

    return combining.combine('packets', [pattern], sample)


def packets_law(given: link_laws.LawInputs) -> link_laws.LinkLaw:
    """Exact where the pattern is independent over clients and rounds."""
    part, options = given.parts['pattern'], given.options
    if part.probs is None or not part.memoryless:
        return link_laws.LinkLaw(
            'packets are lost independently', is_duplex=part.is_duplex
        )
    arrives = _arrives(options['loss'], options['num_packets'])
    law = link_laws.independent(
        'independent over clients and rounds', part.probs * arrives
    )
    return law._replace(is_duplex=part.is_duplex)


def _arrives(loss: ArrayLike, num_packets: int) -> Any:
    """``(1 - loss)^K`` without the rounding of ``1 - loss``; on the host in double precision."""
    if not checks.is_concrete(loss):
        return jnp.exp(num_packets * jnp.log1p(-jnp.asarray(loss)))
    with np.errstate(
        divide='ignore'
    ):  # the logarithm of zero, where all packets are lost
        return np.exp(num_packets * np.log1p(-np.asarray(loss, np.float64)))
