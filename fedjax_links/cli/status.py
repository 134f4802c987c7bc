"""How far a run is: lanes done, running and lost, the hours left, and the last levels.

python -m fedjax_links status --workdir=runs/map
python -m fedjax_links status --workdir=runs/map --watch=30

Reads what is in the folder, whoever runs it: in one piece, in shards or by an executor. With
--watch it looks again and again until all is done, and writes live.html there: curves and
participation so far, on a page that a browser loads anew by itself.
"""

import sys
import time
from collections.abc import Iterator
from typing import Any

from absl import flags

from fedjax_links.cli import app, paths
from fedjax_links.core import checks, errors, reprs

_CLEAR = '\x1b[2J\x1b[H'  # a terminal's screen


def define_flags() -> None:
    """Defines the flags of the command."""
    paths.define('workdir', 'Folder of a run.')
    flags.DEFINE_float(
        'watch',
        None,
        'Seconds after which to look again, and to write live.html anew.',
    )


def main(given: flags.FlagValues) -> None:
    """Reads and prints."""
    if given.workdir is None:
        raise errors.invalid(
            'workdir', 'name the folder of a run, such as runs/map', None
        )
    if given.watch is not None:
        checks.positive('watch', given.watch)
    from fedjax_links import runs
    from fedjax_links.report import live

    while True:
        with app.renamed(folder='workdir'):
            status, found = runs.status(given.workdir), live.read(given.workdir)
        is_done = not (status.holders or found.missing)
        lines = [*_lines(status, is_done), *live.levels(found)]
        if given.watch is not None:
            again = '' if is_done else f', again every {given.watch:g} s'
            when = time.strftime('%Y-%m-%d %H:%M:%S')
            lines.append(f'seen     {when}{again}; links of the rounds so far')
            seconds = None if is_done else given.watch
            live.write(found, given.workdir, lines, seconds=seconds)
            if sys.stdout.isatty():
                print(_CLEAR, end='')
        print('\n'.join(lines), flush=True)
        if given.watch is None or is_done:
            return
        time.sleep(given.watch)


def _lines(found: Any, is_done: bool) -> Iterator[str]:
    joined = (
        'merge joins its shards'
        if found.shards
        else 'report makes tables and pictures of it'
    )
    idle = (
        f'finished; {joined}'
        if is_done
        else 'nobody is at work; the command of the run goes on'
    )
    yield f'run      {", ".join(found.holders) or idle}'
    rest = found.lanes - found.done - found.running - found.lost
    counts = f'{found.done:,} of {found.lanes:,} done, {found.running:,} running'
    yield f'lanes    {counts}, {found.lost:,} lost, {rest:,} not begun'
    for shard in found.shards:
        if shard.done < shard.lanes:
            hours = shard.hours_left
            left = '' if hours is None else f', {reprs.duration(3600 * hours)} left'
            who = (
                shard.holder
                or f'nobody runs it: --shard={shard.shard}/{len(found.shards)} does'
            )
            done = f'{shard.done:,} of {shard.lanes:,} lanes{left}'
            yield f'shard    {shard.shard}: {done}; {who}'
    for name in found.failed:
        yield f'failed   {name}'
    if found.hours_left is not None and found.done < found.lanes:
        yield f'time     about {reprs.duration(3600 * found.hours_left)} left'


if __name__ == '__main__':
    app.run(main, define_flags)
