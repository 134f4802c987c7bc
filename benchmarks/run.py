"""Runs benchmarks by suite or by name, each in a process of its own, and keeps what they measure.

python -m benchmarks.run engine
python -m benchmarks.run micro million --quick

Every benchmark proves first that what it compares computes the same. Its record (figures, spread,
device, versions, date) goes to ``benchmarks/results/<name>.json``; the table of all records and a
picture of their ratios follow. ``--table`` only makes these again, README.md's table included.
"""

import argparse
import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import peer_loops, summary

SUITES = {
    'engine': ('micro', 'bernoulli', 'quadratic', 'start'),
    'images': ('convolution', 'fashion', 'cifar', 'pfl'),
    'scale': ('million',),
    'devices': ('seeds',),
    'peers': ('peers',),
    'accelerator': ('accelerator',),
}
ROOT = Path(__file__).parent.parent
BEGIN, END = '<!-- benchmarks -->\n', '<!-- end of benchmarks -->'


def named(given: Sequence[str]) -> list[str]:
    """The benchmarks that suites and names stand for, each once; all of them for none.

    Raises:
      ValueError: for what is neither.
    """
    known = [name for members in SUITES.values() for name in members]
    found: list[str] = []
    for name in given or SUITES:
        if name not in SUITES and name not in known:
            choices = ', '.join([*SUITES, *known])
            raise ValueError(f'`names` must be suites or benchmarks ({choices}), got {name!r}.')
        found += SUITES.get(name, (name,))
    return list(dict.fromkeys(found))


def needs(name: str) -> str | None:
    """The optional package without which a benchmark does not run here, if any.

    A record is replaced as a whole, so all peers must be there; ``python -m benchmarks.peers``
    does with some of them.
    """
    if name in ('fashion', 'cifar', 'peers') and importlib.util.find_spec('torch') is None:
        return 'torch'
    for peer, (_, package) in peer_loops.PEERS.items() if name == 'peers' else ():
        if not peer_loops.imports(peer_loops.interpreter(peer), package):
            return package
    return None


def readme_with(text: str, table: str) -> str:
    """README's text with the table between its markers."""
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return f'{before}{BEGIN}{table}\n{END}{after}'


def main(argv: Sequence[str] | None = None) -> int:
    """Measures what is named; returns the exit status."""
    parser = argparse.ArgumentParser(prog='python -m benchmarks.run', description=__doc__)
    parser.add_argument('names', nargs='*', help=f'suites ({", ".join(SUITES)}) or benchmarks')
    parser.add_argument('--quick', action='store_true', help='smaller workloads, kept nowhere')
    parser.add_argument('--table', action='store_true', help='measure nothing')
    args = parser.parse_args(argv)
    try:
        names = [] if args.table else named(args.names)
    except ValueError as error:
        print(f'error: {error}', file=sys.stderr)
        return 2
    failed = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) if args.quick else summary.RESULTS
        for name in names:
            if package := needs(name):
                print(f'{name}: skipped, {package} is not installed', file=sys.stderr)
                continue
            print(f'{name} ...', file=sys.stderr, flush=True)
            command = [sys.executable, '-m', f'benchmarks.{name}', f'--out={folder}/{name}.json']
            done = subprocess.run(
                [*command, *(['--quick'] if args.quick else [])],
                cwd=ROOT,
                stdout=subprocess.DEVNULL,
            )
            failed += [name] if done.returncode else []
        records = summary.read(folder)
    print(summary.table(records))
    if not args.quick:
        summary.picture(records, ROOT / 'docs' / 'benchmarks.png')
        readme = ROOT / 'README.md'
        readme.write_text(readme_with(readme.read_text(), summary.table(records)))
    if failed:
        print(f'error: failed: {", ".join(failed)}', file=sys.stderr)
    return int(bool(failed))


if __name__ == '__main__':
    sys.exit(main())
