"""Functions with arguments bound, which are equal where these are.

A problem's functions are such partials of functions of a module: so problems that differ in their
arrays alone have equal functions, and share what was compiled.
"""

import functools
from typing import Any


class Partial(functools.partial[Any]):
    """`functools.partial` that compares by value.

    Example:
      >>> from fedjax_links.problems.partials import Partial
      >>> print(Partial(max, 1) == Partial(max, 1), Partial(max, 1) == Partial(max, 2))
      True False
    """

    def __eq__(self, other: object) -> bool:  # noqa: D105
        if not isinstance(other, Partial):
            return NotImplemented
        own, others = ((it.func, it.args, it.keywords) for it in (self, other))
        try:
            return bool(own == others)
        except Exception:  # whatever a user's objects say
            return False

    def __hash__(self) -> int:  # noqa: D105  arguments may be lists
        return hash(self.func)
