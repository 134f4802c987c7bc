"""Paths as users write them."""

import os
from pathlib import Path


def as_path(given: str | os.PathLike[str]) -> Path:
    """Returns a path whose leading ``~`` is the home, as a shell has it.

    Args:
      given: of a file or a folder.

    Example:
      >>> from fedjax_links.core import paths
      >>> print(paths.as_path('runs/first'))
      runs/first
    """
    return Path(os.path.expanduser(given))
