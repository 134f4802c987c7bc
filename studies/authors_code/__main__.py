"""Compares algorithms with released code: ``python -m studies.authors_code NAME PATH [...]``.

With ``--record`` in front, the results replace those of these comparisons in the record, from which
the tables of `studies/authors_code.md` are made.
"""

import csv
import datetime
import sys
from pathlib import Path

from fedjax_links.core import checks, errors
from studies.authors_code import standing
from studies.authors_code.comparisons import COMPARISONS
from studies.authors_code.federation import Row

RECORD = Path(__file__).parents[1] / 'records' / 'authors_code.csv'
TITLES = '| their code | our algorithm | links | largest difference | moved |'


def table(rows: list[Row]) -> str:
    """Returns the rows as a table of the page."""
    lines = [TITLES, '| --- | --- | --- | --- | --- |']
    for row in rows:
        numbers = f'{row.difference:.0e} | {row.moved:.2f}'
        ours = row.ours.replace('|', '\\|')
        lines.append(f'| `{row.theirs}` | {ours} | {row.links} | {numbers} |')
    return '\n'.join(lines)


def recorded() -> dict[str, list[Row]]:
    """Returns the recorded rows, by name of the comparison."""
    rows: dict[str, list[Row]] = {}
    if RECORD.exists():
        with RECORD.open(newline='') as file:
            for name, _, *texts, difference, moved in list(csv.reader(file))[1:]:
                row = Row(*texts, float(difference), float(moved))
                rows.setdefault(name, []).append(row)
    return rows


def record(name: str, rows: list[Row]) -> None:
    """Replaces the record of one comparison."""
    lines = []
    if RECORD.exists():
        with RECORD.open(newline='') as file:
            lines = [line for line in list(csv.reader(file))[1:] if line[0] != name]
    today = datetime.date.today().isoformat()
    lines += [[name, today, *map(str, row)] for row in rows]
    order = [*COMPARISONS]
    lines.sort(key=lambda line: order.index(line[0]))
    with RECORD.open('w', newline='') as file:
        writer = csv.writer(file, lineterminator='\n')
        writer.writerows([['comparison', 'date', *Row._fields], *lines])


def main(words: list[str]) -> int:
    """Prints a table for every checkout, and returns the exit status."""
    replaces_record = words[:1] == ['--record']
    if replaces_record:
        words = words[1:]
    try:
        if not words or len(words) % 2:
            known = ', '.join(COMPARISONS)
            raise errors.invalid(
                'arguments', f'be pairs of NAME ({known}) and PATH', words
            )
        pairs = list(zip(words[::2], words[1::2], strict=True))
        chosen = [checks.entry('NAME', name, COMPARISONS) for name, _ in pairs]
        folders = [
            standing.checkout(path, *files)
            for (_, path), (_, files) in zip(pairs, chosen, strict=True)
        ]
        for (name, _), (compare, _), folder in zip(pairs, chosen, folders, strict=True):
            rows = list(compare(folder))
            print(f'\n{name}\n\n{table(rows)}', flush=True)
            if replaces_record:
                record(name, rows)
    except (errors.InvalidError, errors.MissingPackageError) as error:
        print(f'error: {error}', file=sys.stderr)
        return 2
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
