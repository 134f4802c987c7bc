"""Says where two runs differ, bit for bit.

python -m fedjax_links compare runs/first runs/second

Prints differences of config and environment, then the first difference of metrics and of saved
states, or that the runs are equal. The exit status is 0 if the runs are equal, 1 if not, and 2 for
a mistake.
"""

import sys

from fedjax_links.cli import app
from fedjax_links.core import errors


def main(*folders: str) -> None:
    """Compares two run folders and prints the difference."""
    if len(folders) != 2:
        requirement = 'be given two run folders, such as runs/first runs/second'
        raise errors.invalid('compare', requirement, len(folders))
    from fedjax_links.runs import comparison

    difference = comparison.compare(*folders)
    print(f'{folders[0]} | {folders[1]}\n{difference.text()}')
    sys.exit(0 if difference.equal else 1)


if __name__ == '__main__':
    app.run(main, takes_arguments=True)
