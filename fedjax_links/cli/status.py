"""Says how far a run is: lanes done, running and lost, the hours left, the last levels.

python -m fedjax_links status --workdir=runs/map
python -m fedjax_links status --workdir=runs/map --watch=30

Reads what is in the folder, whoever runs it: in one piece, in shards or by an executor. With
--watch it looks again and again until all is done, and writes live.html there: curves and
participation so far, on a page that a browser loads anew by itself.
"""

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from absl import flags

from fedjax_links.cli import app, paths
from fedjax_links.core import checks, errors, reprs

if TYPE_CHECKING:
    from fedjax_links.runs import ShardStatus, Status

_CLEAR = '\x1b[2J\x1b[H'
"""Clears the screen of a terminal."""


def define_flags() -> None:
    """Defines the flags of the command."""
    paths.define('workdir', 'Folder of a run.')
    flags.DEFINE_float(
        'watch',
        None,
        'Seconds after which to look again, and to write live.html anew.',
    )


def main(args: flags.FlagValues) -> None:
    """Reads and prints."""
    if args.workdir is None:
        raise errors.invalid(
            'workdir', 'name the folder of a run, such as runs/map', None
        )
    if args.watch is not None:
        checks.positive('watch', args.watch)
    from fedjax_links import runs
    from fedjax_links.report import live

    while True:
        with app.renamed(folder='workdir'):
            status = runs.status(args.workdir)
            view = live.read(args.workdir)
        is_done = not (status.holders or view.missing)
        lines = [*_lines(status, is_done), *live.progress_lines(view)]
        if args.watch is not None:
            lines.append(_watching(args.watch, is_done))
            seconds = None if is_done else args.watch
            live.write(view, args.workdir, lines, seconds=seconds)
            if sys.stdout.isatty():
                print(_CLEAR, end='')
        print('\n'.join(lines), flush=True)
        if args.watch is None or is_done:
            return
        time.sleep(args.watch)


def _watching(seconds: float, is_done: bool) -> str:
    """Says when this was seen, and when it will be looked at again."""
    again = '' if is_done else f', again every {seconds:g} s'
    when = time.strftime('%Y-%m-%d %H:%M:%S')
    return f'seen     {when}{again}; links of the rounds so far'


def _lines(status: 'Status', is_done: bool) -> Iterator[str]:
    """Yields the lines about the lanes and shards of a run."""
    yield f'run      {", ".join(status.holders) or _idle(status, is_done)}'
    rest = status.lanes - status.done - status.running - status.lost
    counts = f'{status.done:,} of {status.lanes:,} done, {status.running:,} running'
    if (
        status.lanes
    ):  # An archive holds none, and neither does a folder before its first save.
        yield f'lanes    {counts}, {status.lost:,} lost, {rest:,} not begun'
    for shard in status.shards:
        if shard.done < shard.lanes:
            yield _shard_line(shard, len(status.shards))
    for name in status.failed:
        yield f'failed   {name}'
    if status.hours_left is not None and status.done < status.lanes:
        yield f'time     about {reprs.duration(3600 * status.hours_left)} left'


def _idle(status: 'Status', is_done: bool) -> str:
    """Says what comes next where no process runs lanes."""
    if not is_done:
        return 'nobody is at work; the command of the run goes on'
    if status.shards:
        return 'finished; merge joins its shards'
    return 'finished; report makes tables and pictures of it'


def _shard_line(shard: 'ShardStatus', num_shards: int) -> str:
    """Says how far a shard is that is not done, and who runs it."""
    left = ''
    if shard.hours_left is not None:
        left = f', {reprs.duration(3600 * shard.hours_left)} left'
    flag = f'--shard={shard.shard}/{num_shards}'
    holder = shard.holder or f'nobody runs it: {flag} does'
    progress = f'{shard.done:,} of {shard.lanes:,} lanes{left}'
    return f'shard    {shard.shard}: {progress}; {holder}'


if __name__ == '__main__':
    app.run(main, define_flags)
