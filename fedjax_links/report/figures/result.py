"""What a figure is before it is drawn, and pieces that several figures share."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import sections
from fedjax_links.base import Problem
from fedjax_links.report.tables import Table


class FigureResult(NamedTuple):
    """Numbers of a figure and how to draw them.

    Attributes:
      columns: by name, all of the same length; what figure.csv holds.
      table: the few numbers to read.
      draw: draws on an empty matplotlib figure.
    """

    columns: Mapping[str, np.ndarray]
    table: Table
    draw: Callable[[Any], None]


def stack(parts: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """One column per name from blocks of rows; single values are repeated down their block.

    Args:
      parts: blocks with the same names, whose entries are vectors of one length or single values.

    Returns:
      The columns.
    """
    blocks = [np.broadcast_arrays(*map(np.atleast_1d, part.values())) for part in parts]
    return {
        name: np.concatenate([block[place] for block in blocks])
        for place, name in enumerate(parts[0])
    }


def federation(targets: Any) -> Problem:
    """Quadratics with these targets, also for those who only ask how many clients there are.

    Args:
      targets: float[N, d].

    Returns:
      The problem.
    """
    return sections.problem({'name': 'quadratic', 'targets': targets})


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
