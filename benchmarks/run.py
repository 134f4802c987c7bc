"""Runs benchmarks by suite or by name, each in a process of its own, and keeps what they measure.

python -m benchmarks.run engine
python -m benchmarks.run micro million --quick

Every benchmark proves first that what it compares computes the same. Its record (figures, spread,
device, versions, date) goes to ``benchmarks/results/<name>.json``; the table of all records and a
picture of them follow. ``--table`` only makes these again, the table of docs/speed.md included. A
machine that is busy with other work is refused, unless ``--busy`` says that its figures will do.
Without a name, all run but `processes` and those of an accelerator.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import common, interpreters, peers, real_images, summary

SUITES = {
    'engine': ('micro', 'bernoulli', 'quadratic', 'start'),
    'images': ('convolution', 'fashion', 'cifar', 'real_images'),
    'scale': ('million',),
    'devices': ('seeds',),
    'processes': ('processes',),
    'memory': ('memory',),
    'peers': ('peers',),
    'accelerator': ('accelerator', 'pfl'),
}
ONLY_NAMED = 'processes', 'accelerator'
"""Suites that run only where they are named: they take long, or need another machine."""
ROOT = Path(__file__).parent.parent
MOST_BUSY = 0.25
"""Share of the cores that other work may keep busy before the first benchmark."""
BEGIN = '<!-- benchmarks -->\n'
END = '<!-- end of benchmarks -->'


def named(words: Sequence[str]) -> list[str]:
    """Lists the benchmarks that suites and names stand for, each once; for none, all of a CPU.

    Raises:
      ValueError: for what is neither.
    """
    known = [name for members in SUITES.values() for name in members]
    names: list[str] = []
    for name in words or [suite for suite in SUITES if suite not in ONLY_NAMED]:
        if name not in SUITES and name not in known:
            choices = ', '.join([*SUITES, *known])
            raise ValueError(
                f'`names` must be suites or benchmarks ({choices}), got {name!r}.'
            )
        names += SUITES.get(name, (name,))
    return list(dict.fromkeys(names))


def lack(name: str) -> str | None:
    """Returns what a benchmark needs and this machine lacks; None for nothing.

    A record is replaced as one, so `peers` needs all peers; ``python -m benchmarks.peers`` runs
    those that there are.
    """
    needed = {
        'fashion': ['torch'],
        'cifar': ['torch'],
        'real_images': ['torch'],
        'peers': list(peers.parts(quick=True)),
    }
    package = next(filter(None, map(interpreters.missing, needed.get(name, ()))), None)
    if package is not None:
        return f'{package} is not installed'
    dataset = real_images.missing() if name == 'real_images' else None
    return None if dataset is None else f'{dataset} has not been fetched'


def page_with(text: str, table: str) -> str:
    """Returns a page's text with the table between its markers."""
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return f'{before}{BEGIN}{table}\n{END}{after}'


def main(argv: Sequence[str] | None = None) -> int:
    """Measures what is named; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog='python -m benchmarks.run', description=__doc__
    )
    parser.add_argument(
        'names', nargs='*', help=f'suites ({", ".join(SUITES)}) or benchmarks'
    )
    parser.add_argument(
        '--quick', action='store_true', help='smaller workloads, kept nowhere'
    )
    parser.add_argument('--table', action='store_true', help='measure nothing')
    parser.add_argument(
        '--busy', action='store_true', help='whatever else the machine does'
    )
    args = parser.parse_args(argv)
    if args.table and (args.names or args.quick):
        print(
            'error: `--table` measures nothing; leave out names and --quick',
            file=sys.stderr,
        )
        return 2
    try:
        names = [] if args.table else named(args.names)
    except ValueError as error:
        print(f'error: {error}', file=sys.stderr)
        return 2
    if names and not (args.quick or args.busy):
        busy = common.busy_cores(3.0)
        if busy > MOST_BUSY * common.num_cores():
            print(
                f'error: other work keeps {busy:.2g} cores busy; wait, or --busy',
                file=sys.stderr,
            )
            return 2
    failed = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) if args.quick else summary.RESULTS
        for name in names:
            reason = lack(name)
            if reason:
                print(f'{name}: skipped, {reason}', file=sys.stderr)
                continue
            print(f'{name} ...', file=sys.stderr, flush=True)
            command = [
                sys.executable,
                '-m',
                f'benchmarks.{name}',
                f'--out={folder}/{name}.json',
            ]
            if args.quick:
                command.append('--quick')
            done = subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL)
            if done.returncode:
                failed.append(name)
        records = summary.read(folder)
    print(summary.table(records))
    if not args.quick:
        summary.picture(records, ROOT / 'docs' / 'benchmarks.png')
        page = ROOT / 'docs' / 'speed.md'
        page.write_text(page_with(page.read_text(), summary.table(records)))
    if failed:
        print(f'error: failed: {", ".join(failed)}', file=sys.stderr)
    return int(bool(failed))


if __name__ == '__main__':
    sys.exit(main())
