"""Prints differences by algorithm and link pattern, of recorded runs.

python -m studies.by_pattern comparison
python -m studies.by_pattern papers/xiang2024_table1_gaussians
python -m studies.by_pattern shocks alone    # each algorithm minus itself under that pattern
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from fedjax_links import runs
from fedjax_links.report import layouts, run_view

RECORDS = Path(__file__).parent / 'records'


def rows(name: str) -> Iterator[str]:
    """Yields the lines of a table: each algorithm's difference to the baseline, by pattern.

    The row of the baseline has its final metric. A star marks what survives Benjamini-Hochberg. The
    interval in brackets includes tuning.
    """
    view = run_view.from_run(runs.read(RECORDS / name))
    (table,) = layouts.comparison(view).tables
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for row in table.rows:
        pattern, label, model, final_metric, difference, _ = row
        shown = difference.removesuffix(' *').replace('**', '*') or final_metric
        # An arrow marks a rate at the edge of its grid, on this pattern alone.
        algorithm = label.rstrip(' ↑↓')
        arrow = label.removeprefix(algorithm)
        cells.setdefault((algorithm, model), {})[pattern] = f'{shown}{arrow}'
    patterns = list(dict.fromkeys(row[0] for row in table.rows))
    yield f'| algorithm | {" | ".join(patterns)} |'
    yield f'{"| --- " * (1 + len(patterns))}|'
    for (algorithm, model), by_pattern in cells.items():
        title = algorithm if model == 'server' else f'{algorithm}, {model}'
        yield f'| {title} | {" | ".join(by_pattern[pattern] for pattern in patterns)} |'


def against(name: str, base: str) -> Iterator[str]:
    """Yields the lines of a table: each algorithm under other patterns minus itself under one.

    Differences are paired by seed.
    """
    view = run_view.from_run(runs.read(RECORDS / name))
    final_metrics = view.final_metrics(None, None)
    models = view.main_models
    others = [pattern for pattern in view.patterns if pattern != base]
    yield f'| algorithm | {base} | {" | ".join(others)} |'
    yield f'{"| --- " * (2 + len(others))}|'
    metric = final_metrics.metric
    for algorithm, model in models.items():
        under_base = final_metrics.choices[base, algorithm, model]
        cells = []
        for pattern in others:
            under_pattern = final_metrics.choices[pattern, algorithm, model]
            difference = view.difference(metric, under_pattern, under_base, None)
            cells.append(metric.interval(difference, signed=True, wide=difference.wide))
        text = final_metrics.text((base, algorithm, model))
        yield f'| {algorithm} | {text} | {" | ".join(cells)} |'


def main(arguments: list[str]) -> None:
    """Prints the table of a record, or of a record and a pattern."""
    lines = rows(*arguments) if len(arguments) == 1 else against(*arguments)
    print(*lines, sep='\n')


if __name__ == '__main__':
    main(sys.argv[1:])
