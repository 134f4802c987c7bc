"""Patterns that tell uplink, downlink and compute apart.

A plain pattern says whose upload arrives: who delivers also hears the server, and who does not may
still train (FedPBC's silent clients do). These two say so differently, without any algorithm being
touched.
"""

from fedjax_links import base
from fedjax_links.base import Array, Key, MaskLinks, Participation, PyTree
from fedjax_links.core import errors
from fedjax_links.links import drawing
from fedjax_links.participation import combinators, combining, link_laws
from fedjax_links.participation.always import always


def duplex(
    *,
    uplink: Participation,
    downlink: Participation | None = None,
    compute: Participation | None = None,
) -> Participation:
    """Combines independent patterns for uplinks, downlinks and the ability to train.

    A result reaches the server where the uplink is up and the client computes. Whether the client
    heard the server does not matter here: an algorithm whose clients keep models of their own can
    use a result that is not based on this round's message.

    Args:
      uplink: whose message reaches the server.
      downlink: whom the server's message reaches; everybody by default.
      compute: who is able to train; everybody by default.

    Returns:
      The pattern. ``prob``, the probability of taking part, is the product of all three, exact as
      they are independent. A round takes as long as the longest of the parts that tell a length:
      `quorum` for ``compute`` is a deadline of training.

    Raises:
      ValueError: if the numbers of clients differ, or a part tells directions apart itself; `both`
        joins patterns that do.

    Example:
      >>> import jax
      >>> from fedjax_links import participation, simulation
      >>> downlink = participation.replay([[True, False], [True, True]])
      >>> pattern = participation.duplex(uplink=participation.always(2), downlink=downlink)
      >>> links = simulation.realised_links(jax.random.key(0), pattern, num_rounds=2)
      >>> print(links.downlink.astype(int))
      [[1 0]
       [1 1]]
    """
    downlink = always(uplink.num_clients) if downlink is None else downlink
    compute = always(uplink.num_clients) if compute is None else compute
    parts = {'uplink': uplink, 'downlink': downlink, 'compute': compute}
    for name, part in parts.items():
        if part.num_clients != uplink.num_clients:
            requirement = f'have the {uplink.num_clients} clients of `uplink`'
            raise errors.invalid(name, requirement, part.num_clients)
        shapes = drawing.sample_shapes(part)
        if base.tells_directions(shapes) or base.has_peers(shapes):
            requirement = (
                'have one state per client (`both` joins patterns that tell more apart)'
            )
            raise errors.invalid(name, requirement, errors.text_of(part))

    def merge(key: Key, round: Array, samples: combining.Samples) -> MaskLinks:
        up, down, work = samples
        prob = up.prob * work.prob * down.prob
        taking_part = up._replace(prob=prob, duration=combining.longest(samples))
        return base.directed(
            taking_part, up.mask & work.mask, down.mask, compute=work.mask
        )

    return combining.combine('duplex', list(parts.values()), merge)


def unavailable(pattern: Participation) -> Participation:
    """Makes inactive clients unavailable: they neither receive, nor train, nor deliver.

    The world of partial participation, as against unreliable uplinks: under it FedPBC's inactive
    clients do not train.

    Args:
      pattern: who is active; where it tells directions apart, those who take part.

    Returns:
      The pattern with ``mask``, ``downlink`` and ``compute`` equal, and its ``prob``.

    Example:
      >>> import jax
      >>> from fedjax_links import participation, simulation
      >>> active = participation.replay([[True, False], [True, True]])
      >>> pattern = participation.unavailable(active)
      >>> links = simulation.realised_links(jax.random.key(0), pattern, num_rounds=2)
      >>> print(links.compute.astype(int))
      [[1 0]
       [1 1]]

    References:
      Wang & Ji 2022.
    """

    def sample(carry: PyTree, key: Key, round: Array) -> tuple[PyTree, MaskLinks]:
        carry, links = pattern.sample(carry, key, round)
        active = base.participants(links)
        return carry, base.directed(links, active, downlink=active, compute=active)

    return pattern._replace(sample=sample)


def duplex_law(given: link_laws.LawInputs) -> link_laws.LinkLaw:
    """Exact law of `duplex`, whose parts are independent over clients and rounds."""
    parts = given.parts.values()
    law = next(iter(parts)) if len(parts) == 1 else combinators.both_law(given)
    return law._replace(is_duplex=True)


def unavailable_law(given: link_laws.LawInputs) -> link_laws.LinkLaw:
    """Exact law of `unavailable`: that of its pattern."""
    return given.parts['pattern']._replace(is_duplex=False)
