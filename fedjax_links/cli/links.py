"""Shows the links of a config: who takes part when, rates, gaps, memory, course of the day.

python -m fedjax_links links --config=configs/quickstart.py --workdir=runs/links
python -m fedjax_links links --log=cached_timers.json --format=flash --tick=600 --workdir=runs/log

Prints how often, after which gaps and with which weights clients take part. With --workdir it also
draws a picture. --log takes a log of availability in place of the config, and samples the log at
the starts of rounds. Then the text also has the course of the day, the absences, and the bias of
averaging over the clients that are available.
"""

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absl import flags

from fedjax_links.cli import app, configs, paths
from fedjax_links.core import errors
from fedjax_links.core.records import Section

if TYPE_CHECKING:
    from fedjax_links.base import MaskLinks
    from fedjax_links.participation.link_laws import LinkLaw
    from fedjax_links.preview.configured_links import ConfiguredLinks

_PICTURE = 'links.png'
_LOG_FLAGS = (
    'format',
    'clients',
    'unit',
    'origin',
    'utc_offset',
    'tick',
    'overlaps',
)
"""Flags that say how to read a log."""


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
        'format', 'csv', 'Format of the log, as `format` of the pattern `trace`.'
    )
    flags.DEFINE_integer(
        'clients', None, 'Number of clients of the log; all by default.'
    )
    flags.DEFINE_string(
        'unit', None, 'Unit of times in the log: ms, s, min, h or d; s by default.'
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
        "Hours that the clients' clock is ahead of UTC, for logs with dates or in Unix time.",
    )
    flags.DEFINE_float('tick', 600.0, 'Seconds per round of the log.')
    flags.DEFINE_string(
        'overlaps',
        'reject',
        "What to do with a client's intervals that overlap: reject or merge.",
    )


def main(values: Section | None, args: flags.FlagValues) -> None:
    """Shows the links of a config or a log, as text and as a picture."""
    from fedjax_links import experiment
    from fedjax_links.core import checks
    from fedjax_links.planning import description
    from fedjax_links.preview import configured_links, links
    from fedjax_links.storage import outputs

    _check_flags(args)
    if args.workdir is not None:
        outputs.check('workdir', Path(args.workdir), [_PICTURE])
    if args.rounds is not None:
        checks.static_int('rounds', args.rounds, minimum=2)
    if values is None:
        title, record, law = _sample_log(args)
    else:
        planned = experiment.build(values)
        for line in description.describe_recordings(planned.plan):
            print(line)
        configured = configured_links.from_experiment(planned, args.pattern)
        title = _title(configured)
        record = configured.record(args.rounds or 10_000)
        law = configured.law
    print(links.text(title, record, law))
    if args.workdir is not None:
        path = Path(args.workdir) / _PICTURE
        links.picture(path, title, record, law)
        print(f'Wrote {path}')


def _check_flags(args: flags.FlagValues) -> None:
    """Refuses flags that would have no effect."""
    if args.log is not None:
        if args.pattern is not None:
            raise errors.invalid('pattern', 'be left out with `log`', args.pattern)
        return
    for name in _LOG_FLAGS:
        if args[name].present:
            raise errors.invalid(name, 'go with `log`', args[name].value)


def _title(configured: 'ConfiguredLinks') -> str:
    """Names the experiment, the pattern, the grid point and the seed."""
    parts = [configured.name]
    if configured.of_several:
        parts.insert(0, configured.of_several)
    if configured.grid_point:
        parts.append(configured.grid_point)
    parts.append(f'seed {configured.experiment.seeds[0]}')
    return f'{configured.experiment.title} ({", ".join(parts)})'


def _sample_log(args: flags.FlagValues) -> tuple[str, 'MaskLinks', 'LinkLaw']:
    """Samples the log of the flags at the starts of rounds.

    Returns:
      A title, the links, and the exact law of who takes part.
    """
    from fedjax_links.config import recorded_links, registries
    from fedjax_links.core import checks, factory_options
    from fedjax_links.preview import links

    checks.choice('format', args.format, registries.TRACE_FORMATS)
    reader = registries.TRACE_FORMATS[args.format]
    options: dict[str, Any] = {}
    if args.unit is not None:
        options['unit'] = args.unit
    if args.origin is not None:
        options['origin'] = configs.parse_value(args.origin)
    if args.utc_offset is not None:
        options['utc_offset'] = args.utc_offset
    factory_options.check('format', reader, options, args.log)
    log = recorded_links.read_log(
        'log', functools.partial(reader, **options), args.log, None
    )
    if args.clients is not None:
        checks.static_int('clients', args.clients, maximum=len(log.names))
        log = log.first(args.clients)
    # These arguments have no flags: the log itself sets them.
    with app.name_flags(intervals='log.intervals', wrap='log.wrap'):
        for line in links.log_warnings(log):
            print(f'warning  {line}')
        record, law = links.sample_log(
            log, tick=args.tick, rounds=args.rounds, overlaps=args.overlaps
        )
    return f'{args.log} ({args.format})', record, law


if __name__ == '__main__':
    app.run(main, define_flags, config='experiment', config_replaced_by='log')
