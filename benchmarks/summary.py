"""Formats records of benchmarks as the table of docs/speed.md, and draws them.

A record becomes rows, one per target: what was measured, in which unit, and whether that is enough.
"""

import json
import statistics
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

RESULTS = Path(__file__).parent / 'results'
_HEADING = ('| benchmark | what | measured | target |', '| --- | --- | --- | --- |')
Record = Mapping[str, Any]


class Row(NamedTuple):
    """Holds one line of the table.

    Attributes:
      benchmark: name of the record.
      what: the work, and what it is compared with.
      measured: the value that the target bounds.
      unit: of value and target; ``'x'`` for ratios.
      target: bound on the value; None for none.
      at_most: whether the target is an upper bound.
      detail: more about the measurement; may be empty.
      spread: least and largest value of the repeats; None for a single one.
      previous: value of the previous release; None where that is not compared.
    """

    benchmark: str
    what: str
    measured: float
    unit: str
    target: float | None = None
    at_most: bool = False
    detail: str = ''
    spread: tuple[float, float] | None = None
    previous: float | None = None

    @property
    def met(self) -> bool | None:
        """Returns whether the target is met; None without one."""
        if self.target is None:
            return None
        if self.at_most:
            return self.measured <= self.target
        return self.measured >= self.target

    @property
    def reference(self) -> float | None:
        """Returns what a value is compared with: target, previous release, or a ratio of 1."""
        reference = self.previous if self.target is None else self.target
        return 1.0 if reference is None and self.unit == 'x' else reference

    def times_better(self, value: float) -> float:
        """Returns how many times better than `reference` a value is; more is always better."""
        assert self.reference is not None
        return self.reference / value if self.at_most else value / self.reference

    def cells(self) -> list[str]:
        """Returns the texts of the table's columns."""
        spread = ''
        if self.spread is not None:
            least, largest = self.spread
            spread = f' ({_number(least)} to {_number(largest)})'
        detail = f'; {self.detail}' if self.detail else ''
        if self.previous is not None:
            detail += f'; previous release {_number(self.previous)}'
        measured = f'{_number(self.measured)} {self.unit}{spread}{detail}'
        if self.target is None:
            return [self.benchmark, self.what, measured, '']
        bound = f'{"at most" if self.at_most else "at least"} {_number(self.target)}'
        return [self.benchmark, self.what, measured, bound]


def rows(record: Record) -> list[Row]:
    """Returns the rows of a record, which may have none."""
    parsed = []
    for fields in record.get('rows', ()):
        spread = tuple(fields['spread']) if fields.get('spread') else None
        parsed.append(Row(record['benchmark'], **{**fields, 'spread': spread}))
    return parsed


def read(folder: Path = RESULTS) -> list[Record]:
    """Reads the records of a folder, in the order of their names."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob('*.json'))]


def table(records: Iterable[Record]) -> str:
    """Formats records as Markdown.

    Args:
      records: what was measured.

    Returns:
      A table of the rows; a second one of those that miss their target, if any; and below them
      device, versions and dates of the records.
    """
    lines = [*_HEADING]
    missed = []
    groups: dict[str, list[Record]] = {}
    for record in records:
        for row in rows(record):
            line = f'| {" | ".join(row.cells())} |'
            if row.met is False:
                missed.append(line)
            else:
                lines.append(line)
        groups.setdefault(_where(record), []).append(record)
    if missed:
        lines += ['', '**Not yet**: what we want and have not reached.', '']
        lines += [*_HEADING, *missed]
    notes = [
        f'{", ".join(record["benchmark"] for record in group)}: {where}{_cost(group)}.'
        for where, group in groups.items()
    ]
    return '\n'.join([*lines, '', *notes])


def rows_with_reference(records: Iterable[Record]) -> list[Row]:
    """Returns the rows that are compared with something."""
    return [
        row for record in records for row in rows(record) if row.reference is not None
    ]


def picture(records: Iterable[Record], path: Path) -> None:
    """Draws each row that has a reference as a multiple of it.

    Args:
      records: what was measured.
      path: of the PNG.
    """
    import matplotlib

    matplotlib.use('Agg')
    import matplotlib.pyplot as plt

    compared = rows_with_reference(records)
    figure, axes = plt.subplots(
        figsize=(10, 0.37 * len(compared) + 1.4), layout='constrained'
    )
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
    draw(axes, compared)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def draw(axes: Any, rows_shown: Sequence[Row]) -> None:
    """Draws a row for every measurement, the first on top; further right is always better."""
    from matplotlib.ticker import LogLocator, NullLocator

    axes.axvline(1, color='black', linewidth=1.5, zorder=1)
    for position, row in enumerate(rows_shown):
        colour = '#0072B2' if row.met is not False else '#D55E00'
        fill = 'white' if row.target is None else colour
        if row.spread is not None:
            ends = [row.times_better(end) for end in row.spread]
            axes.plot(ends, (position, position), color=colour, linewidth=2)
        point = row.times_better(row.measured)
        axes.plot(
            point, position, 'o', color=colour, markerfacecolor=fill, markersize=7
        )
        if position and row.benchmark != rows_shown[position - 1].benchmark:
            axes.axhline(position - 0.5, color='0.85', linewidth=0.8)
        text = f'{_number(row.measured)} {row.unit}'
        if row.target is not None:
            text += f' ({"≤" if row.at_most else "≥"} {_number(row.target)})'
        elif row.previous is not None:
            text += f' (was {_number(row.previous)})'
        axes.annotate(
            text,
            (1.01, position),
            xycoords=('axes fraction', 'data'),
            va='center',
            fontsize=8.5,
        )
    labels = [textwrap.fill(f'{row.benchmark}: {row.what}', 58) for row in rows_shown]
    axes.set_yticks(range(len(rows_shown)), labels, fontsize=8.5, linespacing=1.05)
    axes.tick_params(axis='y', length=0)
    axes.tick_params(axis='x', labeltop=True, labelsize=8.5)
    axes.set_ylim(len(rows_shown) - 0.4, -0.6)
    axes.set_xscale('log')
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
    axes.xaxis.set_major_formatter(lambda value, _: f'{value:g}')
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(axis='x', alpha=0.25)
    axes.set_xlabel(
        'times as good as the target (\N{BLACK CIRCLE}), or as what it is compared with where '
        'there is none (\N{WHITE CIRCLE})\nbar: least to largest repeat; orange: target missed'
    )


def ratio_row(
    what: str,
    numerator: Sequence[float],
    denominator: Sequence[float],
    target: float | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Returns a record's row for a ratio of seconds that were measured alternately.

    Args:
      what: the work and what it is compared with.
      numerator: seconds, one per repeat.
      denominator: seconds, one per repeat.
      target: bound on the median ratio.
      **more: further fields of `Row`.

    Returns:
      The row as plain values: the median, least and largest ratio over the repeats.
    """
    ratios = [a / b for a, b in zip(numerator, denominator, strict=True)]
    return {**values_row(what, ratios, 'x', target), **more}


def values_row(
    what: str,
    values: Sequence[float],
    unit: str,
    target: float | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Returns a record's row for a repeated measurement; less is better, except of ratios.

    Args:
      what: the work.
      values: one per repeat.
      unit: of the values.
      target: bound on their median.
      **more: further fields of `Row`.

    Returns:
      The row as plain values: the median, and the least and largest value.
    """
    spread = None
    if len(values) > 1:
        spread = [round(min(values), 3), round(max(values), 3)]
    row = {
        'what': what,
        'measured': round(statistics.median(values), 3),
        'unit': unit,
        'target': target,
        'at_most': unit != 'x',
        'spread': spread,
    }
    return {**row, **more}


def _where(record: Record) -> str:
    """Describes device, versions and date of a record."""
    device = record['device']
    cores = f'{device["cores"]} cores of ' if device['platform'] == 'cpu' else ''
    versions = f'jax {device["jax"]}, Python {device["python"]}'
    return f'{cores}{device["kind"]}, {versions}, {record["date"][:10]}'


def _cost(group: Iterable[Record]) -> str:
    """Says how busy other work kept the machine, and how long the records took together."""
    busy_cores = [
        record['device']['busy_cores']
        for record in group
        if 'busy_cores' in record['device']
    ]
    seconds = [record['took_seconds'] for record in group if 'took_seconds' in record]
    text = ''
    if busy_cores:
        text += f'; other work kept at most {max(busy_cores):.2g} cores busy'
    if seconds:
        text += f'; {sum(seconds) / 60:.1f} minutes in all'
    return text


def _number(value: float) -> str:
    """Formats a value with three digits, or whole from 100 on."""
    return f'{value:,.0f}' if abs(value) >= 100 else f'{value:.3g}'
