"""Weights of the clients or groups that a minimum separation selects from."""

from collections.abc import Callable, Mapping

import numpy as np

from fedjax_links.config import sections


def _power(num_units: int, *, exponent: float) -> np.ndarray:
    """``1, 2^-exponent, 3^-exponent, ...``."""
    return np.arange(1.0, num_units + 1) ** -exponent


def _uniform(num_units: int, *, seed: int) -> np.ndarray:
    """Uniform draws on (0, 1]."""
    return 1.0 - np.random.default_rng(seed).uniform(size=num_units)


def _lognormal(num_units: int, *, sigma: float, seed: int) -> np.ndarray:
    """``exp(z)`` with ``z ~ N(0, sigma^2)``."""
    return np.exp(np.random.default_rng(seed).normal(scale=sigma, size=num_units))


SELECTION_WEIGHTS: Mapping[str, Callable[..., np.ndarray]] = {
    'lognormal': _lognormal,
    'power': _power,
    'uniform': _uniform,
}


def selection_weights(where: str, section: sections.Section, num_units: int) -> np.ndarray:
    """Weights p_i of the clients or groups that a minimum separation selects from.

    Args:
      where: the section's place in the config, for errors.
      section: ``name`` in SELECTION_WEIGHTS, and its options.
      num_units: number of clients or groups.

    Returns:
      float64[U], positive, of sum one.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    weights = sections.named(where, section, SELECTION_WEIGHTS, num_units)
    return weights / weights.sum()
