"""Turns a run folder into tables and pictures: report.md, finished or not.

python -m fedjax_links report --workdir=runs/comparison

Reads only the folder; what has not run yet is named.
"""

from absl import flags

from fedjax_links.cli import app

_WORKDIR = flags.DEFINE_string('workdir', None, 'Folder of a finished or unfinished run.')


def main() -> None:
    """Reads, writes and prints."""
    if _WORKDIR.value is None:
        raise ValueError('`workdir` must name the folder of a run, such as runs/comparison.')
    from fedjax_links import report, runs

    print(report.write(runs.read(_WORKDIR.value)))


if __name__ == '__main__':
    app.run(main)
