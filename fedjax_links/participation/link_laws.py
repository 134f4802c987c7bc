"""Exact facts about who takes part, as each pattern's own law states them beside its rule.

A law is a function of `LawInputs`, in NumPy; the registry names it with the pattern.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

_MAX_PERIOD = 10_000


class SeparationLaw(NamedTuple):
    """Stationary law of minimum separation over the units that it selects.

    Attributes:
      law: float64[U], share of the selections that falls on each client or group.
      group_size: clients per unit; None where units are single clients or of unequal size.
    """

    law: np.ndarray
    group_size: int | None


class LinkLaw(NamedTuple):
    """Exact facts about who takes part; None for what is not known exactly.

    Attributes:
      description: one line.
      probs: float64[N], participation probabilities of clients that are independent of each other
        within a round, the same in every round.
      memoryless: whether rounds are independent and alike.
      rates: float64[N], long-run participation rates.
      weights: float64[N], ``E[1{i in A} / |A|  given A not empty]`` in the long run.
      weights_source: which formula they come from.
      never_empty: whether every round has a participant.
      up_rate: float64[N], P(absent -> present) where each client by itself is a stationary
        two-state chain, which rounds that are ``memoryless`` are without saying so here.
      down_rate: float64[N], P(present -> absent), likewise.
      separation: the law of minimum separation.
      period: rounds after which the law of a round repeats; None if it never changes, or never
        repeats.
      is_duplex: whether a client may hear and not deliver, or deliver and not hear.
      edges: of links between clients that are independent, the neighbours int32[N, K] and
        probabilities float64[N, K].
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
    """What a law is a function of.

    Attributes:
      options: what the pattern's factory is given.
      probs: float64[N], probabilities before any schedule; NaN where the pattern has none.
      kind: the schedule's name.
      parts: by option, the laws of the patterns that it is made of.
    """

    options: Mapping[str, Any]
    probs: np.ndarray
    kind: str
    parts: Mapping[str, LinkLaw]

    @property
    def schedule(self) -> tuple[str, int | None]:
        """Name of the schedule, and the rounds after which it repeats, if it does."""
        cycle = self.options['schedule'].cycle
        return self.kind, cycle if cycle and cycle <= _MAX_PERIOD else None


def alike(description: str, num_clients: int, rate: float, **facts: Any) -> LinkLaw:
    """Cohorts that are never empty, of clients that are all alike.

    Args:
      description: one line.
      num_clients: N.
      rate: of every client's participation.
      **facts: what else is known, fields of `LinkLaw`.
    """
    each = np.ones(num_clients)
    known = {'weights_source': 'equal by symmetry', 'never_empty': True, **facts}
    return LinkLaw(description, rates=rate * each, weights=each / num_clients, **known)


def independent(description: str, probs: np.ndarray) -> LinkLaw:
    """Links that are independent over clients and rounds, with the same law in every round.

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
    )
