"""Defines flags that name files and folders, where ``~`` is the home.

A shell does not replace the ``~`` in ``--to=~/x``.
"""

import os

from absl import flags

from fedjax_links.core import errors

flags.disclaim_key_flags()


class _PathParser(flags.ArgumentParser):
    """Parses a path."""

    syntactic_help = 'a path'

    def parse(self, argument: str) -> str:
        """Replaces ``~`` by the home.

        Raises:
          ValueError: for an empty path, as in ``--workdir=$NAME`` if the shell has no NAME.
        """
        if not argument:
            raise errors.invalid('path', 'name a file or folder', argument)
        return os.path.expanduser(argument)

    def flag_type(self) -> str:
        """Returns the type that the help shows."""
        return 'string'


def define(name: str, help: str) -> None:
    """Defines a flag whose value is a path, None by default.

    Args:
      name: the flag's name.
      help: its description in ``--help``.
    """
    flags.DEFINE(_PathParser(), name, None, help)
