"""Draws the links of a config: who takes part when, rates, gaps, memory, course of the day.

python -m fedjax_links links --config=configs/quickstart.py --workdir=runs/links
python -m fedjax_links links --log=cached_timers.json --format=flash --tick=600 --workdir=runs/log

On the terminal always; with a folder also as a picture and as a table of clients. A log of
availability in a config's place is looked at by itself: its day, its absences, and the bias that
averaging over whoever is there would have, beside clients that were fitted to it.
"""

import functools
from typing import Any

from absl import flags

from fedjax_links.cli import app, configs

PICTURE, TABLE = 'links.png', 'links.csv'

_CONFIG = configs.ConfigFlags()
_WORKDIR = flags.DEFINE_string('workdir', None, f'Folder for {PICTURE} and {TABLE}.')
_PATTERN = flags.DEFINE_string('pattern', None, 'Label of the links; the first by default.')
_ROUNDS = flags.DEFINE_integer(
    'rounds',
    None,
    'Rounds of the first seed to simulate, 10,000 by default; of a log, all whole days by default.',
    lower_bound=2,
)
_LOG = flags.DEFINE_string('log', None, "A log of availability, in the config's place.")
_FORMAT = flags.DEFINE_string('format', 'csv', 'Of the log, as `format` of the pattern `trace`.')
_CLIENTS = flags.DEFINE_integer('clients', None, 'Only so many clients of the log.', lower_bound=1)
_UNIT = flags.DEFINE_string('unit', None, 'Of times in the log: ms, s, min, h or d; s by default.')
_ORIGIN = flags.DEFINE_string(
    'origin', None, 'Time of round 0 in the log: a number, a date, or first, its earliest time.'
)
_TICK = flags.DEFINE_float('tick', 600.0, 'Seconds per round of the log, and per line of a matrix.')
_OVERLAPS = flags.DEFINE_string('overlaps', 'reject', 'Of a client in the log: reject or merge.')


def main(values: dict[str, Any] | None = None) -> None:
    """Draws the links of a config, or a log."""
    folder = None if _WORKDIR.value is None else app.output_folder(_WORKDIR.value)
    if values is None:
        _draw_log(str(_LOG.value), folder)
        return
    from fedjax_links.report.screens import configured, links, recording, terminal

    found = configured.of_config(values, _PATTERN.value)
    record = recording.record_links(
        found.participation, num_rounds=_ROUNDS.value or 10_000, seed=found.seed
    )
    what = [found.name, *([found.where] if found.where else []), f'seed {found.seed}']
    law, title = found.law, f'{found.title} ({", ".join(what)})'
    print(terminal.picture(title, record, law))
    if folder is not None:
        links.picture(folder / PICTURE, title, record, law)
        links.write_csv(folder / TABLE, record)
        _say(folder)


def _draw_log(path: str, folder) -> None:
    """Reads a log, and looks at it at the times of rounds."""
    from fedjax_links.config import choices, recordings
    from fedjax_links.core import checks, errors
    from fedjax_links.report.screens import availability

    checks.choice('format', _FORMAT.value, choices.TRACE_FORMATS)
    reader = choices.TRACE_FORMATS[_FORMAT.value]
    given: dict[str, Any] = {'unit': _UNIT.value, 'origin': _number_or_text(_ORIGIN.value)}
    given = {name: value for name, value in given.items() if value is not None}
    if _FORMAT.value == 'matrix':  # a line of it is a round
        given['seconds'] = _TICK.value
    checks.options('format', reader, given, path)
    log = recordings.read_log('log', functools.partial(reader, **given), path, None)
    if _CLIENTS.value is not None:
        checks.static_int('clients', _CLIENTS.value, maximum=len(log.names))
        log = log.first(_CLIENTS.value)
    try:
        for line in availability.warnings(log):
            print(f'warning  {line}')
        found = availability.of_log(
            log, tick=_TICK.value, rounds=_ROUNDS.value, overlaps=_OVERLAPS.value
        )
    except errors.InvalidError as error:
        own = error.path in ('intervals', 'wrap')  # `wrap` is the log's own, where it has one
        raise error.under('log') if own else error from None
    title = f'{path} ({_FORMAT.value})'
    print(availability.text(title, found))
    if folder is not None:
        availability.picture(folder / PICTURE, title, found)
        availability.write_csv(folder / TABLE, found, log.names)
        _say(folder)


def _number_or_text(given: str | None) -> float | str | None:
    try:
        return None if given is None else float(given)
    except ValueError:
        return given


def _say(folder) -> None:
    print(f'Wrote {PICTURE} and {TABLE} to {folder}')


if __name__ == '__main__':
    app.run(main, _CONFIG, instead=_LOG)
