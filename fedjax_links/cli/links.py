"""Draws the links of a config: who takes part when, rates, gaps, memory, course of the day.

python -m fedjax_links links --config=configs/quickstart.py --workdir=runs/links
python -m fedjax_links links --log=cached_timers.json --format=flash --tick=600 --workdir=runs/log

Prints how often, after which gaps and with which weights clients take part; with a folder draws the
picture. A log of availability in a config's place is looked at at the times of rounds: its day, its
absences, and the bias that averaging over whoever is there would have.
"""

import functools
from pathlib import Path
from typing import Any, NamedTuple

from fedjax_links.cli import app, configs


class Flags(NamedTuple):
    """Flags of the command.

    Attributes:
      workdir: Folder for links.png.
      pattern: Label of the links; the first by default.
      rounds: Rounds of the first seed to simulate, 10,000 by default; of a log, all whole days by
        default.
      log: A log of availability, in the config's place.
      format: Of the log, as `format` of the pattern `trace`.
      clients: Only so many clients of the log.
      unit: Of times in the log: ms, s, min, h or d; s by default.
      origin: Time of round 0 in the log: a number, a date, first (its earliest time) or midnight
        (the one before that).
      utc_offset: Hours that the clients' clock is ahead of UTC, for logs with dates.
      tick: Seconds per round of the log.
      overlaps: Of a client in the log: reject or merge.
    """

    workdir: str | None = None
    pattern: str | None = None
    rounds: int | None = None
    log: str | None = None
    format: str = 'csv'
    clients: int | None = None
    unit: str | None = None
    origin: str | None = None
    utc_offset: float | None = None
    tick: float = 600.0
    overlaps: str = 'reject'


def main(values: dict[str, Any] | None, given: Flags) -> None:
    """Draws the links of a config, or a log."""
    from fedjax_links import experiment
    from fedjax_links.core import checks
    from fedjax_links.experiment.looking import preflight
    from fedjax_links.report.screens import configured, links

    if given.rounds is not None:
        checks.static_int('rounds', given.rounds, minimum=2)
    if values is None:
        title, record, law = _of_log(given)
    else:
        planned = experiment.build(values)
        for line in preflight.describe_recordings(planned):
            print(line)
        found = configured.of_experiment(planned, given.pattern)
        record, law = found.record(given.rounds or 10_000), found.law
        what = filter(None, (found.name, found.where, f'seed {found.experiment.seeds[0]}'))
        title = f'{found.experiment.title} ({", ".join(what)})'
    print(links.text(title, record, law))
    if given.workdir is not None:
        path = Path(given.workdir) / 'links.png'
        links.picture(path, title, record, law)
        print(f'Wrote {path}')


def _of_log(given: Flags) -> tuple[Any, ...]:
    """A log at the times of rounds: title, links and what is known of them."""
    from fedjax_links.config import choices, recordings
    from fedjax_links.core import checks
    from fedjax_links.report.screens import links

    checks.choice('format', given.format, choices.TRACE_FORMATS)
    reader = choices.TRACE_FORMATS[given.format]
    options: dict[str, Any] = {
        'unit': given.unit,
        'origin': given.origin and configs.read(given.origin),
        'utc_offset': given.utc_offset,
    }
    options = {name: value for name, value in options.items() if value is not None}
    checks.options('format', reader, options, given.log)
    log = recordings.read_log('log', functools.partial(reader, **options), given.log, None)
    if given.clients is not None:
        checks.static_int('clients', given.clients, maximum=len(log.names))
        log = log.first(given.clients)
    with app.renamed(intervals='log.intervals', wrap='log.wrap'):  # of the log, where it has one
        for line in links.warnings(log):
            print(f'warning  {line}')
        times: Any = {'tick': given.tick, 'rounds': given.rounds, 'overlaps': given.overlaps}
        record, law = links.of_log(log, **times)
    return f'{given.log} ({given.format})', record, law


if __name__ == '__main__':
    app.run(main, Flags, config='experiment', instead='log')
