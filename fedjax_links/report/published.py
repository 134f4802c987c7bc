"""Printed numbers to stand beside ours, named by a section ``published`` of a layout."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from fedjax_links.config import sections


class Level(NamedTuple):
    """A printed accuracy.

    Attributes:
      mean: fraction.
      deviation: standard deviation, as a fraction; None where none is printed.
    """

    mean: float
    deviation: float | None


def load_levels(section: sections.Section | None) -> Mapping[Any, Any]:
    """What a paper prints.

    Args:
      section: ``name``, a ``module:factory`` that returns the numbers by what they belong to, and
        its options; None for no paper.

    Returns:
      Its result; empty without a paper.

    Raises:
      ValueError: for unknown options and names.
    """
    return {} if section is None else sections.build_named('published', section, {})
