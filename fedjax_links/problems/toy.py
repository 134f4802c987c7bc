"""Federations small enough to follow by hand."""

import numpy as np

from fedjax_links.base import Problem
from fedjax_links.problems.quadratic import quadratic


def triangle() -> Problem:
    """Three clients in the plane whose optima form an equilateral triangle.

    ``F_n(x) = 0.5 ||x - z_n||^2`` with z = (-1, 0), (1, 0), (0, sqrt 3) and x^0 = (1, 2); the
    optimum of the mean is (0, 1 / sqrt 3). With one client a round in turn, FedAvg circles around
    it; amplified updates go to it.

    Returns:
      The problem, see `quadratic`.

    References:
      Wang and Ji 2022, appendix B.1.
    """
    return quadratic([[-1, 0], [1, 0], [0, np.sqrt(3)]], initial_point=[1, 2])
