"""Flags that name files and folders: ``~`` is the home, as the shell leaves it in ``--to=~/x``."""

import os

from absl import flags

flags.disclaim_key_flags()


class _Parser(flags.ArgumentParser):
    """Reads a path."""

    syntactic_help = 'a path'

    def parse(self, argument: str) -> str:
        """Puts the home in place of ``~``."""
        return os.path.expanduser(argument)

    def flag_type(self) -> str:
        """Returns the type that the help shows."""
        return 'string'


def define(name: str, help: str) -> None:
    """Defines a flag whose value is a path, None by default.

    Args:
      name: of the flag.
      help: what is said of it.
    """
    flags.DEFINE(_Parser(), name, None, help)
