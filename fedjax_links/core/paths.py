"""Reads paths as users write them."""

import os
from pathlib import Path

from fedjax_links.core import errors


def as_path(text: str | os.PathLike[str], argument: str = 'folder') -> Path:
    """Expands a leading ``~`` to the home folder, as a shell does.

    Args:
      text: the path of a file or a folder, as the user wrote it.
      argument: what to name in an error.

    Raises:
      ValueError: for what is no path, or an empty text.

    Example:
      >>> from fedjax_links.core import paths
      >>> print(paths.as_path('runs/first'))
      runs/first
    """
    written = os.fspath(text) if isinstance(text, str | os.PathLike) else None
    # A shell makes an empty text of an unset variable.
    if not isinstance(written, str) or not written:
        raise errors.invalid(argument, 'be a path', errors.text_of(text))
    return Path(os.path.expanduser(written))
