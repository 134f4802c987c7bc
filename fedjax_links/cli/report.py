"""Turns the folder of a run or sweep into the papers' own form: Markdown and pictures.

python -m fedjax_links.cli.report --workdir=runs/comparison

Reads only the folder, finished or not; what has not run yet is named.
"""

from pathlib import Path

from absl import flags

from fedjax_links.cli import app

_WORKDIR = flags.DEFINE_string('workdir', None, 'Folder of a finished or unfinished run.')


def main() -> None:
    """Reads, writes and prints."""
    if _WORKDIR.value is None:
        raise ValueError('`workdir` must name the folder of a run, such as runs/comparison.')
    from fedjax_links.cli import comparing
    from fedjax_links.report import results

    folder = Path(_WORKDIR.value)
    found, reports = results.read(folder)
    print(comparing.write_report(folder, found, reports))


if __name__ == '__main__':
    app.run(main)
