"""Times of recorded availability: numbers with a unit, or dates of ISO 8601."""

import datetime
import math
from collections.abc import Sequence

import numpy as np

from fedjax_links.core import checks, errors

_HOUR = 3600.0
_DAY = 86_400.0
SECONDS = {'ms': 0.001, 's': 1.0, 'min': 60.0, 'h': _HOUR, 'd': _DAY}
_MAX_SECONDS = 1e15  # Beyond, float64 does not tell two tenths of a second apart.


class Clock:
    """Reads times of a file, numbers or dates, as seconds.

    Dates are converted to seconds on the clients' clock, so that the clients' midnights are
    multiples of a day. Numbers are only multiplied by their unit. Where a number is compared with a
    date or with the clients' midnight, it counts from 1970 in UTC.
    """

    def __init__(self, unit: str, utc_offset: float | None) -> None:
        """Sets the unit and the clients' clock.

        Args:
          unit: unit of times that are numbers, a name in `SECONDS`.
          utc_offset: hours that the clients' clock is ahead of UTC; None for the offset of the
            first date.
        """
        checks.choice('unit', unit, SECONDS)
        if utc_offset is not None:
            checks.number_within('utc_offset', utc_offset, -24, 24)
        self._seconds_per_unit = SECONDS[unit]
        self._hours_ahead = utc_offset
        self._has_dates: bool | None = None
        self._is_offset_known = utc_offset is not None
        self._offsets: set[float] = set()

    def seconds(
        self, argument: str, cells: Sequence[str], lines: Sequence[int]
    ) -> np.ndarray:
        """Reads a column, float64[K]."""
        times = [
            self._read_cell(argument, cell, line)
            for cell, line in zip(cells, lines, strict=True)
        ]
        return np.array(times, float)

    def notes(self) -> tuple[str, ...]:
        """Says which of several offsets sets the clients' midnight, if none was given."""
        if self._is_offset_known or len(self._offsets) < 2:
            return ()
        listed = ', '.join(f'{hours:+g} h' for hours in sorted(self._offsets))
        first = f'{self._hours_ahead:+g} h, that of the first'
        return (
            f"dates have the offsets {listed}: days begin at {first} ('utc_offset')",
        )

    def origin(self, origin: float | str | None, starts: np.ndarray) -> float:
        """Returns the second of round 0; ``starts`` are the seconds of the recording."""
        earliest = float(starts.min(initial=np.inf))
        if origin is None:
            origin = 'midnight' if self._has_dates else 0.0
        if origin == 'first':
            return earliest
        if origin == 'midnight':
            lag = self._lag()
            return (earliest + lag) // _DAY * _DAY - lag
        if not isinstance(origin, str):
            checks.number('origin', origin)
            checks.finite('origin', origin)
            return float(self._seconds_per_unit * origin)
        try:
            date = datetime.datetime.fromisoformat(origin)
        except ValueError:
            names = ('first', 'midnight')
            raise errors.unknown_name('origin', origin, names) from None
        on_clients_clock = self._seconds_of(date)  # May set the clients' clock.
        return on_clients_clock - self._lag()

    def _lag(self) -> float:
        """Returns by how many seconds times of the file lag behind the clients' clock."""
        if self._has_dates or self._hours_ahead is None:
            return 0.0
        return _HOUR * self._hours_ahead

    def _read_cell(self, argument: str, text: str, line: int) -> float:
        """Reads a finite number or a date; raises where the column mixes the two."""
        is_date = False
        try:
            seconds = self._seconds_per_unit * float(text)
        except ValueError:
            is_date = True
            seconds = self._read_date(argument, text, line)
        if not math.isfinite(seconds):
            raise errors.invalid(argument, 'be finite', f'{text!r} on line {line}')
        if abs(seconds) > _MAX_SECONDS:
            requirement = f'be at most {_MAX_SECONDS:g} s'
            raise errors.invalid(argument, requirement, f'{text!r} on line {line}')
        if self._has_dates not in (None, is_date):
            requirement = 'be of one kind, numbers or dates'
            raise errors.invalid(argument, requirement, f'both, on line {line}')
        self._has_dates = is_date
        return seconds

    def _read_date(self, argument: str, text: str, line: int) -> float:
        try:
            date = datetime.datetime.fromisoformat(text)
        except ValueError:
            requirement = (
                'be a number or a date of ISO 8601, such as 2026-03-02T07:15:34+01:00'
            )
            got = f'{text!r} on line {line}'
            raise errors.invalid(argument, requirement, got) from None
        return self._seconds_of(date)

    def _seconds_of(self, date: datetime.datetime) -> float:
        """Counts seconds on the clients' clock."""
        offset = date.utcoffset()
        if offset is None:
            # The date is on the clients' clock already.
            self._hours_ahead = self._hours_ahead or 0.0
            self._offsets.add(self._hours_ahead)
            return date.replace(tzinfo=datetime.UTC).timestamp()
        hours = offset.total_seconds() / _HOUR
        self._offsets.add(hours)
        if self._hours_ahead is None:
            self._hours_ahead = hours
        return date.timestamp() + _HOUR * self._hours_ahead
