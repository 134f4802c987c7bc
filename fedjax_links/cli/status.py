"""How far a run is: lanes done, running and lost, and the hours left.

python -m fedjax_links status --workdir=runs/map

Reads the names of its files, whoever runs it.
"""

from collections.abc import Iterator
from typing import Any

from fedjax_links.cli import app
from fedjax_links.core import errors


def main(given: app.Workdir) -> None:
    """Reads and prints."""
    if given.workdir is None:
        raise errors.invalid('workdir', 'name the folder of a run, such as runs/map', None)
    from fedjax_links import runs

    with app.in_workdir():
        found = runs.status(given.workdir)
    for line in _lines(found):
        print(line)


def _lines(found: Any) -> Iterator[str]:
    rest = found.lanes - found.done - found.running - found.lost
    counts = f'{found.done:,} of {found.lanes:,} done, {found.running:,} running'
    yield f'lanes    {counts}, {found.lost:,} lost, {rest:,} not begun'
    for shard in found.shards:
        if shard.done == shard.lanes:
            continue
        left = '' if shard.hours_left is None else f', {_hours(shard.hours_left)} left'
        again = f'nobody runs it: --shard={shard.shard}/{len(found.shards)} does'
        yield (
            f'shard    {shard.shard}: {shard.done:,} of {shard.lanes:,} lanes{left}; '
            f'{shard.holder or again}'
        )
    for name in found.failed:
        yield f'failed   {name}'
    if found.hours_left is not None and found.done < found.lanes:
        yield f'time     about {_hours(found.hours_left)} left'


def _hours(hours: float) -> str:
    return f'{hours:.1f} h' if hours >= 1 else f'{60 * hours:.0f} min'


if __name__ == '__main__':
    app.run(main, app.Workdir)
