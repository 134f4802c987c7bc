"""Differences by rule and link pattern, of recorded runs whose reports have a line for each pair.

python -m studies.by_pattern comparison
python -m studies.by_pattern papers/xiang2024_table1_gaussians
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from fedjax_links import runs
from fedjax_links.report import layouts, source

RECORDS = Path(__file__).parent / 'records'


def rows(name: str) -> Iterator[str]:
    """Lines of the table: the base's level, every other rule's difference to it, by pattern.

    A star is behind what survives Benjamini-Hochberg, an interval in brackets allows for tuning.
    """
    found = source.of_run(runs.read(RECORDS / name))
    (table,) = layouts.levels(found).tables
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for row in table.rows:
        pattern, rule, model, level, difference, _ = row
        shown = difference.removesuffix(' *').replace('**', '*')
        cells.setdefault((rule, model), {})[pattern] = shown or level
    patterns = list(dict.fromkeys(row[0] for row in table.rows))
    yield f'| rule | {" | ".join(patterns)} |'
    yield f'{"| --- " * (1 + len(patterns))}|'
    for (rule, model), own in cells.items():
        title = rule if model == 'server' else f'{rule}, {model}'
        yield f'| {title} | {" | ".join(own[pattern] for pattern in patterns)} |'


if __name__ == '__main__':
    print(*rows(sys.argv[1]), sep='\n')
