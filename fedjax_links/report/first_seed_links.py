"""Reads the realised links of a run's first seed, which pages show."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedjax_links import runs


class FirstSeedLinks(NamedTuple):
    """Holds the realised links of the first seed.

    Attributes:
      mask: bool[T, N], which clients took part.
      mean_prob: float[N], the mean reported probability; NaN where unknown.
    """

    mask: np.ndarray
    mean_prob: np.ndarray


def read(folder: Path, seed: int, patterns: Sequence[str]) -> dict[str, FirstSeedLinks]:
    """Returns the recorded links of a seed, by pattern; patterns without links are left out."""
    stored = runs.links(folder)
    return {
        label: FirstSeedLinks(stored.masks[label][seed], stored.mean_probs[label][seed])
        for label in patterns
        if seed in stored.masks.get(label, {})
    }
