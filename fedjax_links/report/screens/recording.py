"""The links of one seed as host arrays, without training anything, and what is counted in them."""

from typing import Any, NamedTuple

import jax
import numpy as np

from fedjax_links import base, simulation
from fedjax_links.analysis.implicit_objective import share_sums
from fedjax_links.base import Participation
from fedjax_links.core import errors
from fedjax_links.participation.laws import LinkLaw

_MAX_CELLS = 2**29
_MASKS = (base.participants, base.delivers, base.receives, base.computes)


class LinkRecord(NamedTuple):
    """What the links of a pattern did; for a plain pattern the masks but `computes` are the same.

    Attributes:
      participates: bool[T, N], clients that hear the server, train from its model and deliver.
      delivers: bool[T, N], clients whose result arrives, whatever it is based on.
      hears: bool[T, N], clients that the server's message reaches.
      computes: bool[T, N], clients able to train.
      prob: float32[T, N], the reported probability of `participates`; NaN where unknown.
      duplex: whether the pattern tells uplink, downlink and compute apart.
      seed: the run's seed.
      neighbours: int32[N, K], where there are links between clients; else None.
      edge_rates: float[N, K], the share of rounds in which each of their edges was up.
    """

    participates: np.ndarray
    delivers: np.ndarray
    hears: np.ndarray
    computes: np.ndarray
    prob: np.ndarray
    duplex: bool
    seed: int
    neighbours: np.ndarray | None = None
    edge_rates: np.ndarray | None = None

    @property
    def num_rounds(self) -> int:
        """Number of rounds T."""
        return len(self.participates)


def record_links(participation: Participation, *, num_rounds: int, seed: int) -> LinkRecord:
    """Draws the links that a run with this seed meets.

    Args:
      participation: the pattern.
      num_rounds: T.
      seed: the run's seed.

    Returns:
      The record.

    Raises:
      ValueError: if T times the number of clients does not fit into memory comfortably.
    """
    clients = participation.num_clients
    if num_rounds * clients > _MAX_CELLS:
        requirement = f'be at most {_MAX_CELLS // clients} for {clients} clients'
        raise errors.invalid('rounds', requirement, num_rounds)

    @jax.jit
    def draw(key: base.Key) -> tuple[base.Links, list[Any]]:
        links = simulation.realised_links(key, participation, num_rounds=num_rounds)
        return links, [mask(links) for mask in _MASKS]

    links, masks = draw(jax.random.key(seed))
    prob, duplex = np.asarray(links.prob), base.tells_directions(links)
    participates, delivers, hears, computes = map(np.asarray, masks)
    record = LinkRecord(participates, delivers, hears, computes, prob, duplex, seed)
    if not base.has_peers(links):
        return record
    rates = np.asarray(links.edges).mean(axis=0)
    return record._replace(neighbours=np.asarray(links.neighbours[0]), edge_rates=rates)


def foldable(law: LinkLaw, num_rounds: int) -> int | None:
    """The period at which a record can be folded: known, longer than a round, seen at least twice.

    Args:
      law: the exact law of the links.
      num_rounds: T.

    Returns:
      The period, or None.
    """
    period = law.period
    return period if period is not None and 1 < period <= num_rounds // 2 else None


def chain(law: LinkLaw) -> tuple[np.ndarray, np.ndarray] | None:
    """P(absent -> present) and P(present -> absent), float64[N] each, where both are known."""
    if law.memoryless and law.rates is not None:
        return law.rates, 1 - law.rates
    return None if law.up_rate is None or law.down_rate is None else (law.up_rate, law.down_rate)


def stated_rates(law: LinkLaw, record: LinkRecord) -> tuple[str, np.ndarray | None]:
    """What is said of the clients' rates: ``exact`` or ``nominal`` ones, or nothing.

    Args:
      law: what is known of the links.
      record: the same, simulated.

    Returns:
      The name, and float64[N], NaN where a client's is unknown; None where all are.
    """
    if law.rates is not None:
        return 'exact', law.rates
    nominal = record.prob.mean(axis=0, dtype=np.float64)
    return 'nominal', None if np.isnan(nominal).all() else nominal


def standard_errors(active: np.ndarray, values: np.ndarray, num_batches: int = 32) -> np.ndarray:
    """Of ``sum_i w_i v_i`` with weights estimated from a record, by batch means.

    Args:
      active: bool[T, N], who took part.
      values: float64[N, d].
      num_batches: number of contiguous batches.

    Returns:
      float64[d].
    """
    parts = np.array_split(active, num_batches)
    sums = np.stack([share_sums(part) for part in parts]) @ values
    counts = np.array([part.any(axis=1).sum() for part in parts], np.float64)
    residuals = sums - np.outer(counts, sums.sum(axis=0) / counts.sum())
    spread = np.sum(residuals**2, axis=0) * num_batches / (num_batches - 1)
    return np.sqrt(spread) / counts.sum()
