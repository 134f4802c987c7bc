"""Says how far a run is: lanes done, running and lost, the hours left, the last metrics.

python -m fedjax_links status --workdir=runs/map
python -m fedjax_links status --workdir=runs/map --watch=30

A lane is one algorithm, pattern, grid point and seed. The command reads only the folder, whether
one process, shards or an executor run the lanes. With --watch it repeats until all lanes are done,
and writes curves and participation so far to live.html in the folder. A browser reloads that page
by itself.
"""

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from absl import flags

from fedjax_links.cli import app, paths
from fedjax_links.core import errors

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
        'Seconds after which to look again, and to write live.html again.',
    )


def main(args: flags.FlagValues) -> None:
    """Prints how far a run is, once or until it is done."""
    if args.workdir is None:
        requirement = 'name the folder of a run, such as runs/map'
        raise errors.invalid('workdir', requirement, None)
    from fedjax_links import runs
    from fedjax_links.core import checks
    from fedjax_links.report import live

    if args.watch is not None:
        checks.positive('watch', args.watch)

    while True:
        with app.name_flags(folder='workdir'):
            status = runs.status(args.workdir)
            view = live.read(args.workdir)
        is_done = not status.holders and not view.missing
        lines = [*_status_lines(status, is_done), *live.progress_lines(view)]
        if args.watch is not None:
            seconds = None if is_done else args.watch
            lines.append(_time_line(seconds))
            live.write(view, args.workdir, lines, seconds=seconds)
            if sys.stdout.isatty():
                print(_CLEAR, end='')
        print('\n'.join(lines), flush=True)
        if args.watch is None or is_done:
            return
        time.sleep(args.watch)


def _time_line(seconds: float | None) -> str:
    """Writes the time, and after how many seconds the status is read again, if at all."""
    again = '' if seconds is None else f', again every {seconds:g} s'
    when = time.strftime('%Y-%m-%d %H:%M:%S')
    return f'seen     {when}{again}; links of the rounds so far'


def _status_lines(status: 'Status', is_done: bool) -> Iterator[str]:
    """Yields the lines about the lanes and shards of a run."""
    from fedjax_links.core import reprs

    yield f'run      {", ".join(status.holders) or _next_step(status, is_done)}'
    # An archive has no lanes, and a run folder has none before its first save.
    if status.lanes:
        counts = f'{status.done:,} of {status.lanes:,} done, {status.running:,} running'
        rest = status.lanes - status.done - status.running - status.lost
        yield f'lanes    {counts}, {status.lost:,} lost, {rest:,} not started'
    for shard in status.shards:
        if shard.done < shard.lanes:
            yield _shard_line(shard, len(status.shards))
    for name in status.failed:
        yield f'failed   {name}'
    if status.hours_left is not None and status.done < status.lanes:
        yield f'time     about {reprs.duration(3600 * status.hours_left)} left'


def _next_step(status: 'Status', is_done: bool) -> str:
    """Says which command comes next if no process runs lanes."""
    if not is_done:
        return 'no process is running; the command of the run resumes it'
    if status.shards:
        return 'finished; merge joins its shards'
    return 'finished; report makes tables and pictures of it'


def _shard_line(shard: 'ShardStatus', num_shards: int) -> str:
    """Says how far an unfinished shard is, and who runs it."""
    from fedjax_links.core import reprs

    progress = f'{shard.done:,} of {shard.lanes:,} lanes'
    if shard.hours_left is not None:
        progress += f', {reprs.duration(3600 * shard.hours_left)} left'
    flag = f'--shard={shard.shard}/{num_shards}'
    holder = shard.holder or f'no process runs it; {flag} would'
    return f'shard    {shard.shard}: {progress}; {holder}'


if __name__ == '__main__':
    app.run(main, define_flags)
