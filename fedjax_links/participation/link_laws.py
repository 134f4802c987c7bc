"""Holds exact facts about who takes part under a pattern: its law, a `LinkLaw`.

Each pattern's file has a function, such as ``bernoulli_law``, which computes the law from
`LawInputs` in NumPy. `PARTICIPATION` lists this function with the pattern.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

# The longest period of a schedule for which a law computes FedAvg's weights round by round.
_MAX_PERIOD = 10_000


class SeparationLaw(NamedTuple):
    """Holds the stationary law of `minimum_separation` over clients or groups.

    Attributes:
      law: float64[U], the share of all selections that falls on each of U clients or groups.
      group_size: clients per group; None for single clients or groups of unequal size.
    """

    law: np.ndarray
    group_size: int | None


class LinkLaw(NamedTuple):
    """Holds exact facts about who takes part; None for what is not known exactly.

    Attributes:
      description: one line of text.
      probs: float64[N], participation probabilities, the same in every round. Within a round,
        clients are independent of each other.
      memoryless: whether rounds are independent and identically distributed.
      rates: float64[N], long-run participation rates.
      weights: float64[N], ``E[1{i in A} / |A|  given A not empty]`` in the long run, for the set
        A of clients that take part in a round.
      weights_source: which formula the weights come from.
      never_empty: whether every round has a participant.
      up_rate: float64[N], P(inactive -> active) if each client is a stationary two-state
        chain; None for ``memoryless`` rounds too.
      down_rate: float64[N], P(active -> inactive), likewise.
      separation: the law of minimum separation.
      period: rounds after which the law of a round repeats. None if it never changes, never
        repeats, or repeats only after a long time.
      is_duplex: whether a client may receive without delivering, or deliver without
        receiving.
      edges: neighbours int32[N, K] and probabilities float64[N, K] of independent links
        between clients.
    """

    description: str
    probs: np.ndarray | None = None
    memoryless: bool = False
    rates: np.ndarray | None = None
    weights: np.ndarray | None = None
    weights_source: str = ''
    never_empty: bool = False
    up_rate: np.ndarray | None = None
    down_rate: np.ndarray | None = None
    separation: SeparationLaw | None = None
    period: int | None = None
    is_duplex: bool = False
    edges: tuple[np.ndarray, np.ndarray] | None = None


UNKNOWN = LinkLaw('simulated only, no closed form')


class LawInputs(NamedTuple):
    """Holds what the function of a pattern's law receives.

    Attributes:
      options: arguments of the pattern's factory, by name.
      probs: float64[N], probabilities before any schedule; NaN where the pattern has none.
      schedule_name: name of the schedule; ``'constant'`` without one.
      parts: the laws of the patterns that this pattern is made of, by name of the argument.
    """

    options: Mapping[str, Any]
    probs: np.ndarray
    schedule_name: str
    parts: Mapping[str, LinkLaw]

    @property
    def period(self) -> int | None:
        """Returns the period of the schedule; None if it has none or a long one."""
        period: int | None = self.options['schedule'].cycle
        if not period or period > _MAX_PERIOD:
            return None
        return period


def exchangeable(
    description: str, num_clients: int, rate: float, **facts: Any
) -> LinkLaw:
    """Returns the law of exchangeable clients whose rounds are never empty.

    Args:
      description: one line.
      num_clients: N.
      rate: participations of each client per round.
      **facts: further fields of `LinkLaw`.
    """
    ones = np.ones(num_clients)
    facts = {'weights_source': 'equal by symmetry', 'never_empty': True, **facts}
    return LinkLaw(description, rates=rate * ones, weights=ones / num_clients, **facts)


def independent(description: str, probs: np.ndarray) -> LinkLaw:
    """Returns the law of links that are independent over clients and identical over rounds.

    Args:
      description: one line.
      probs: float64[N].
    """
    from fedjax_links import analysis  # SciPy takes long to import

    return LinkLaw(
        description,
        probs=probs,
        memoryless=True,
        rates=probs,
        weights=analysis.fedavg_weights(probs) if probs.any() else None,
        weights_source='independent links',
        never_empty=bool(np.any(probs == 1)),
    )
