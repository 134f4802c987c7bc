"""Differences by rule and link pattern, of recorded runs whose reports have a line for each pair.

python -m studies.by_pattern comparison
python -m studies.by_pattern papers/xiang2024_table1_gaussians
python -m studies.by_pattern shocks alone    # every rule against itself under that pattern
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from fedjax_links import runs
from fedjax_links.report import layouts, run_view

RECORDS = Path(__file__).parent / 'records'


def rows(name: str) -> Iterator[str]:
    """Lines of the table: the base's level, every other rule's difference to it, by pattern.

    A star is behind what survives Benjamini-Hochberg, an interval in brackets allows for tuning.
    """
    view = run_view.of_run(runs.read(RECORDS / name))
    (table,) = layouts.levels(view).tables
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for row in table.rows:
        pattern, label, model, level, difference, _ = row
        shown = difference.removesuffix(' *').replace('**', '*') or level
        # An arrow marks a rate at the edge of its grid, on this pattern alone.
        rule = label.rstrip(' ↑↓')
        arrow = label.removeprefix(rule)
        cells.setdefault((rule, model), {})[pattern] = f'{shown}{arrow}'
    patterns = list(dict.fromkeys(row[0] for row in table.rows))
    yield f'| algorithm | {" | ".join(patterns)} |'
    yield f'{"| --- " * (1 + len(patterns))}|'
    for (rule, model), own in cells.items():
        title = rule if model == 'server' else f'{rule}, {model}'
        yield f'| {title} | {" | ".join(own[pattern] for pattern in patterns)} |'


def against(name: str, base: str) -> Iterator[str]:
    """Lines of the table: every rule under other patterns minus itself under one, seed by seed."""
    view = run_view.of_run(runs.read(RECORDS / name))
    ends = view.final_metrics(None, None)
    models = view.main_models
    others = [pattern for pattern in view.patterns if pattern != base]
    yield f'| algorithm | {base} | {" | ".join(others)} |'
    yield f'{"| --- " * (2 + len(others))}|'
    for rule, model in models.items():
        cells = []
        for pattern in others:
            pair = (ends.choices[at, rule, model] for at in (pattern, base))
            apart = view.difference(ends.metric, *pair, None)
            cells.append(ends.metric.interval(apart, signed=True, wide=apart.wide))
        yield f'| {rule} | {ends.text((base, rule, model))} | {" | ".join(cells)} |'


if __name__ == '__main__':
    print(
        *(rows(sys.argv[1]) if len(sys.argv) == 2 else against(*sys.argv[1:])), sep='\n'
    )
