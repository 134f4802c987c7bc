"""Loads numbers that a paper prints, to compare results with."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from fedjax_links.config import resolver


class PrintedAccuracy(NamedTuple):
    """Holds an accuracy that a paper prints.

    Attributes:
      mean: a fraction.
      deviation: standard deviation, as a fraction; None if none is printed.
    """

    mean: float
    deviation: float | None


def load(section: resolver.Section | None) -> Mapping[Any, Any]:
    """Returns the numbers that a paper prints.

    Args:
      section: a mapping of ``name``, a ``module:factory``, and the options of this factory; None
        for no paper. The factory returns the paper's numbers by what each number belongs to.

    Returns:
      The numbers; empty without a paper.

    Raises:
      ValueError: for unknown options and names.
    """
    return {} if section is None else resolver.build_named('published', section, {})
