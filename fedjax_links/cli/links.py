"""Draws the links of a config: who takes part when, rates, gaps, memory, course of the day.

python -m fedjax_links links --config=configs/quickstart.py --workdir=runs/links
python -m fedjax_links links --log=cached_timers.json --format=flash --tick=600 --workdir=runs/log

Prints how often, after which gaps and with which weights clients take part; with a folder draws the
picture. A log of availability in a config's place is looked at at the times of rounds: its day, its
absences, and the bias that averaging over whoever is there would have.
"""

import functools
from pathlib import Path
from typing import Any

from absl import flags

from fedjax_links.cli import app, configs, paths


def define_flags() -> None:
    """Defines the flags of the command."""
    paths.define('workdir', 'Folder for links.png.')
    flags.DEFINE_string('pattern', None, 'Label of the links; the first by default.')
    flags.DEFINE_integer(
        'rounds',
        None,
        'Rounds of the first seed to simulate, 10,000 by default; of a log, all whole days by'
        ' default.',
    )
    paths.define('log', "A log of availability, in the config's place.")
    flags.DEFINE_string(
        'format', 'csv', 'Of the log, as `format` of the pattern `trace`.'
    )
    flags.DEFINE_integer('clients', None, 'Only so many clients of the log.')
    flags.DEFINE_string(
        'unit', None, 'Of times in the log: ms, s, min, h or d; s by default.'
    )
    flags.DEFINE_string(
        'origin',
        None,
        'Time of round 0 in the log: a number, a date, first (its earliest time) or midnight '
        '(the one before that).',
    )
    flags.DEFINE_float(
        'utc_offset',
        None,
        "Hours that the clients' clock is ahead of UTC, for logs with dates.",
    )
    flags.DEFINE_float('tick', 600.0, 'Seconds per round of the log.')
    flags.DEFINE_string(
        'overlaps', 'reject', 'Of a client in the log: reject or merge.'
    )


def main(values: dict[str, Any] | None, given: flags.FlagValues) -> None:
    """Draws the links of a config, or a log."""
    from fedjax_links import experiment
    from fedjax_links.core import checks
    from fedjax_links.preview import configured_links, links
    from fedjax_links.runner import preflight

    if given.rounds is not None:
        checks.static_int('rounds', given.rounds, minimum=2)
    if values is None:
        title, record, law = _of_log(given)
    else:
        planned = experiment.build(values)
        for line in preflight.describe_recordings(planned):
            print(line)
        found = configured_links.of_experiment(planned, given.pattern)
        record, law = found.record(given.rounds or 10_000), found.law
        what = filter(
            None, (found.name, found.where, f'seed {found.experiment.seeds[0]}')
        )
        title = f'{found.experiment.title} ({", ".join(what)})'
    print(links.text(title, record, law))
    if given.workdir is not None:
        path = Path(given.workdir) / 'links.png'
        links.picture(path, title, record, law)
        print(f'Wrote {path}')


def _of_log(given: flags.FlagValues) -> tuple[Any, ...]:
    """A log at the times of rounds: title, links and what is known of them."""
    from fedjax_links.config import recorded_links, registries
    from fedjax_links.core import checks
    from fedjax_links.preview import links

    checks.choice('format', given.format, registries.TRACE_FORMATS)
    reader = registries.TRACE_FORMATS[given.format]
    options: dict[str, Any] = {
        'unit': given.unit,
        'origin': given.origin and configs.read(given.origin),
        'utc_offset': given.utc_offset,
    }
    options = {name: value for name, value in options.items() if value is not None}
    checks.options('format', reader, options, given.log)
    log = recorded_links.read_log(
        'log', functools.partial(reader, **options), given.log, None
    )
    if given.clients is not None:
        checks.static_int('clients', given.clients, maximum=len(log.names))
        log = log.first(given.clients)
    with app.renamed(
        intervals='log.intervals', wrap='log.wrap'
    ):  # of the log, where it has one
        for line in links.warnings(log):
            print(f'warning  {line}')
        times: Any = {
            'tick': given.tick,
            'rounds': given.rounds,
            'overlaps': given.overlaps,
        }
        record, law = links.of_log(log, **times)
    return f'{given.log} ({given.format})', record, law


if __name__ == '__main__':
    app.run(main, define_flags, config='experiment', instead='log')
