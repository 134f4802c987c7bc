"""Reads paths as users write them."""

import os
from pathlib import Path


def as_path(text: str | os.PathLike[str]) -> Path:
    """Expands a leading ``~`` to the home folder, as a shell does.

    Args:
      text: of a file or a folder.

    Example:
      >>> from fedjax_links.core import paths
      >>> print(paths.as_path('runs/first'))
      runs/first
    """
    return Path(os.path.expanduser(text))
