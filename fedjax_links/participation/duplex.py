"""Builds patterns with separate masks for uplink, downlink and compute.

A plain pattern has one mask, which says whose upload arrives. In a plain pattern clients that
deliver also receive. All clients may train, as FedPBC's inactive clients do. The two patterns of
this module have three masks. No algorithm has to change for them.
"""

from fedjax_links import base
from fedjax_links.base import Array, Key, MaskLinks, Participation, PyTree
from fedjax_links.core import contracts, errors
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

    A result reaches the server if the uplink is up and the client computes, whether or not
    the client received the server's message. An algorithm whose clients keep models can use a
    result that is not based on this round's message.

    Args:
      uplink: whose upload can reach the server.
      downlink: who receives the server's message; all clients by default.
      compute: who can train; all clients by default.

    Returns:
      The pattern. ``prob`` is the probability that a client receives, trains and delivers: the
      product of the three. A round takes as long as the longest part that has a duration.
      With `quorum` as ``compute``, training has a deadline.

    Raises:
      ValueError: if the numbers of clients differ; if a part has links between clients (apply
        `peers` last, around this pattern); or if a part has separate masks itself (combine such
        patterns with `both`).

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
    contracts.check_pattern(uplink, 'uplink')
    downlink = always(uplink.num_clients) if downlink is None else downlink
    compute = always(uplink.num_clients) if compute is None else compute
    parts = {'uplink': uplink, 'downlink': downlink, 'compute': compute}
    for name, part in parts.items():
        contracts.check_pattern(part, name)
        if part.num_clients != uplink.num_clients:
            requirement = f'have the {uplink.num_clients} clients of `uplink`'
            raise errors.invalid(name, requirement, part.num_clients)
        shapes = drawing.sample_shapes(part)
        if base.has_peers(shapes):
            requirement = 'go into `peers`, around all others'
            raise errors.invalid(name, requirement, 'a pattern of `peers`')
        if base.is_duplex(shapes):
            requirement = 'have one mask (`both` joins patterns with separate ones)'
            raise errors.invalid(name, requirement, errors.text_of(part))

    def merge(key: Key, round: Array, samples: combining.Samples) -> MaskLinks:
        uplinks, downlinks, compute_links = samples
        prob = uplinks.prob * compute_links.prob * downlinks.prob
        duration = combining.longest(*[sample.duration for sample in samples])
        return base.with_direction_masks(
            uplinks._replace(prob=prob, duration=duration),
            uplinks.mask & compute_links.mask,
            downlinks.mask,
            compute=compute_links.mask,
        )

    return combining.combine('duplex', list(parts.values()), merge)


def unavailable(pattern: Participation) -> Participation:
    """Makes inactive clients unavailable: they neither receive, nor train, nor deliver.

    This is partial participation. Behind unreliable uplinks, in contrast, clients train even if
    their upload is lost. With this pattern, FedPBC's inactive clients do not train.

    Args:
      pattern: decides who is active. If it has separate masks, a client is active if all three
        allow it to take part.

    Returns:
      The pattern with ``mask``, ``downlink`` and ``compute`` equal; ``prob`` does not change.

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
    contracts.check_pattern(pattern, 'pattern')

    def sample(carry: PyTree, key: Key, round: Array) -> tuple[PyTree, MaskLinks]:
        carry, links = pattern.sample(carry, key, round)
        active = base.participants(links)
        return carry, base.with_direction_masks(
            links, active, downlink=active, compute=active
        )

    return pattern._replace(sample=sample)


def duplex_law(inputs: link_laws.LawInputs) -> link_laws.LinkLaw:
    """Returns the exact law of `duplex`: the uplink's law if it is alone, else as for `both`."""
    if len(inputs.parts) == 1:
        (law,) = inputs.parts.values()
    else:
        law = combinators.both_law(inputs)
    return law._replace(is_duplex=True)


def unavailable_law(inputs: link_laws.LawInputs) -> link_laws.LinkLaw:
    """Returns the exact law of `unavailable`: its pattern's law, with three equal masks."""
    return inputs.parts['pattern']._replace(is_duplex=False)
