"""Records of benchmarks as a table for README.md and a picture of ratios.

A record becomes rows, one per target: what was measured, in which unit, and whether that is enough.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

RESULTS = Path(__file__).parent / 'results'
Record = Mapping[str, Any]


class Row(NamedTuple):
    """One line of the table.

    Attributes:
      benchmark: name of the record.
      what: the work, and what it is compared with.
      measured: value of what the target is about.
      unit: of both; ``'x'`` for ratios, which the picture shows.
      target: bound on the value; None for none.
      at_most: whether the target is an upper bound.
      detail: more about the measurement; may be empty.
      spread: least and largest of the timed turns, or None.
    """

    benchmark: str
    what: str
    measured: float
    unit: str
    target: float | None = None
    at_most: bool = False
    detail: str = ''
    spread: tuple[float, float] | None = None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one."""
        if self.target is None:
            return None
        if self.at_most:
            return self.measured <= self.target
        return self.measured >= self.target

    def cells(self) -> list[str]:
        """Texts of the table's columns."""
        spread = '' if self.spread is None else f' ({self.spread[0]:.3g} to {self.spread[1]:.3g})'
        detail = f'; {self.detail}' if self.detail else ''
        measured = f'{_number(self.measured)} {self.unit}{spread}{detail}'
        if self.target is None:
            return [self.benchmark, self.what, measured, '']
        bound = f'{"at most" if self.at_most else "at least"} {_number(self.target)}'
        return [self.benchmark, self.what, measured, bound + ('' if self.met else ': **missed**')]


def rows(record: Record) -> list[Row]:
    """The rows that a record's benchmark states; none if it states none."""
    return [
        Row(
            record['benchmark'],
            **{**row, 'spread': tuple(row['spread']) if row.get('spread') else None},
        )
        for row in record.get('rows', ())
    ]


def read(folder: Path = RESULTS) -> list[Record]:
    """The records of a folder, in the order of their names."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob('*.json'))]


def table(records: Iterable[Record]) -> str:
    """Markdown, with device, versions and dates of the records below the rows."""
    lines = ['| benchmark | what | measured | target |', '| --- | --- | --- | --- |']
    made: dict[str, list[str]] = {}
    for record in records:
        lines += [f'| {" | ".join(row.cells())} |' for row in rows(record)]
        made.setdefault(_where(record), []).append(record['benchmark'])
    notes = [f'{", ".join(names)}: {where}.' for where, names in made.items()]
    return '\n'.join([*lines, '', *notes])


def picture(records: Iterable[Record], path: Path) -> None:
    """All ratios beside their targets.

    Args:
      records: what was measured.
      path: of the PNG.
    """
    import matplotlib

    matplotlib.use('Agg')
    import matplotlib.pyplot as plt

    found = [row for record in records for row in rows(record) if row.unit == 'x']
    figure, axes = plt.subplots(figsize=(11, 0.3 * len(found) + 1.2), layout='constrained')
    figure.get_layout_engine().set(w_pad=0.15, h_pad=0.1)
    draw(axes, found)
    figure.supxlabel(
        'ratio (\N{BLACK RIGHT-POINTING TRIANGLE} more is better, \N{BLACK LEFT-POINTING TRIANGLE} '
        'less is better; thick: target; thin: spread; orange: missed)',
        fontsize='medium',
    )
    figure.savefig(path, dpi=120)
    plt.close(figure)


def draw(axes: Any, found: Sequence[Row]) -> None:
    """A row for every ratio, the first on top: a point that shows which way is better."""
    for place, row in enumerate(found):
        colour = '#0072B2' if row.met is not False else '#D55E00'
        marker = 'o' if row.target is None else '<' if row.at_most else '>'
        axes.plot(row.measured, place, marker, color=colour, markersize=8)
        if row.spread is not None:
            axes.plot(row.spread, (place, place), color=colour, linewidth=1)
        if row.target is not None:
            axes.plot((row.target,) * 2, (place - 0.4, place + 0.4), color='black', linewidth=2)
    axes.set_yticks(range(len(found)), [f'{row.benchmark}: {row.what}' for row in found])
    axes.set_ylim(len(found) - 0.3, -0.7)
    axes.set_xscale('log')
    axes.xaxis.set_major_formatter(lambda value, _: f'{value:g}')
    axes.grid(axis='x', alpha=0.25)


def ratio_row(
    what: str,
    numerator: Sequence[float],
    denominator: Sequence[float],
    target: float | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A record's row for a ratio of seconds that were measured in turns.

    Args:
      what: the work and what it is compared with.
      numerator: seconds by turn.
      denominator: likewise.
      target: bound on the median ratio.
      **more: further fields of `Row`.

    Returns:
      The row as plain values: the median over the turns, and the least and largest ratio.
    """
    ratios = sorted(a / b for a, b in zip(numerator, denominator, strict=True))
    middle = len(ratios) // 2
    median = ratios[middle] if len(ratios) % 2 else (ratios[middle - 1] + ratios[middle]) / 2
    spread = [round(ratios[0], 3), round(ratios[-1], 3)]
    row = {'what': what, 'measured': round(median, 3), 'unit': 'x', 'target': target}
    return {**row, 'spread': spread, **more}


def _where(record: Record) -> str:
    device = record['device']
    cores = f'{device["cores"]} cores of ' if device['platform'] == 'cpu' else ''
    load = f', load {device["load"]}' if 'load' in device else ''
    versions = f'jax {device["jax"]}, Python {device["python"]}'
    return f'{cores}{device["kind"]}, {versions}, {record["date"][:10]}{load}'


def _number(value: float) -> str:
    return f'{value:,.0f}' if abs(value) >= 100 else f'{value:.3g}'
