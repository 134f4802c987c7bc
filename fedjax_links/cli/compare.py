"""Says where two runs part, bit for bit, or sets the levels of several side by side.

python -m fedjax_links compare runs/first runs/second
python -m fedjax_links compare runs/first runs/second runs/third

Two folders: differences of config and environment, then the first difference of metrics and of
kept states, or that they are equal. Exit status 0 if equal, 1 if not, 2 for a mistake. More
folders, or --side_by_side: one table, differences to the first run paired where seeds and links
agree.
"""

import sys

from absl import flags

from fedjax_links.cli import app
from fedjax_links.core import errors

_SIDE_BY_SIDE = flags.DEFINE_bool('side_by_side', False, 'A table of levels for two folders too.')
_METRIC = flags.DEFINE_string('metric', None, "Of the table; that of the first run's by default.")
_TAIL = flags.DEFINE_float(
    'tail', 0.1, 'Of the table: share of the evaluations, the last ones, to average over.'
)


def main(*folders: str) -> None:
    """Reads and prints."""
    if len(folders) < 2:
        requirement = 'be given two run folders or more, such as runs/first runs/second'
        raise errors.invalid('compare', requirement, len(folders))
    if len(folders) > 2 or _SIDE_BY_SIDE.value:
        from fedjax_links.report import side_by_side

        print(side_by_side.table(folders, metric=_METRIC.value, tail=_TAIL.value).text())
        return
    from fedjax_links.report import comparing

    found = comparing.compare(*folders)
    print(f'{folders[0]} | {folders[1]}\n{found.text()}')
    sys.exit(0 if found.equal else 1)


if __name__ == '__main__':
    app.run(main, positional=True)
