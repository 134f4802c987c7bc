"""The links of one seed as host arrays, without training anything."""

from typing import NamedTuple

import jax
import numpy as np

from fedjax_links import base, simulation
from fedjax_links.base import Participation
from fedjax_links.core import errors

_MAX_CELLS = 2**29


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
    """

    participates: np.ndarray
    delivers: np.ndarray
    hears: np.ndarray
    computes: np.ndarray
    prob: np.ndarray
    duplex: bool
    seed: int

    @property
    def num_rounds(self) -> int:
        """Number of rounds T."""
        return len(self.participates)

    @property
    def nominal_rates(self) -> np.ndarray:
        """float64[N], the mean reported probability; NaN where a round's is unknown."""
        return self.prob.mean(axis=0, dtype=np.float64)


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
    cells = num_rounds * participation.num_clients
    if cells > _MAX_CELLS:
        most = _MAX_CELLS // participation.num_clients
        raise errors.invalid(
            'rounds', f'be at most {most} for {participation.num_clients} clients', num_rounds
        )

    @jax.jit
    def draw(key: base.Key) -> tuple[base.Links, tuple[base.Array, ...]]:
        links = simulation.realised_links(key, participation, num_rounds=num_rounds)
        return links, (
            base.participants(links),
            base.delivers(links),
            base.receives(links),
            base.computes(links),
        )

    links, masks = draw(jax.random.key(seed))
    participates, delivers, hears, computes = (np.asarray(mask) for mask in masks)
    return LinkRecord(
        participates=participates,
        delivers=delivers,
        hears=hears,
        computes=computes,
        prob=np.asarray(links.prob),
        duplex=isinstance(links, base.DuplexLinkSample),
        seed=seed,
    )
