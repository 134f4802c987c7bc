"""Says where two runs part, bit for bit.

python -m fedjax_links compare runs/first runs/second

Differences of config and environment, then the first difference of metrics and of kept states, or
that they are equal. Exit status 0 if equal, 1 if not, 2 for a mistake.
"""

import sys

from fedjax_links.cli import app
from fedjax_links.core import errors


def main(*folders: str) -> None:
    """Reads and prints."""
    if len(folders) != 2:
        requirement = 'be given two run folders, such as runs/first runs/second'
        raise errors.invalid('compare', requirement, len(folders))
    from fedjax_links.runs import comparison

    difference = comparison.compare(*folders)
    print(f'{folders[0]} | {folders[1]}\n{difference.text()}')
    sys.exit(0 if difference.equal else 1)


if __name__ == '__main__':
    app.run(main, positional=True)
