"""The body of the sweep command: describe, run with one live line, report."""

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from tqdm import tqdm

from fedjax_links import comparison
from fedjax_links.comparison import Comparison, Outcome
from fedjax_links.report import comparison_tables

TABLE = 'table.md'


def describe(plan: Comparison) -> str:
    """A few lines: what runs, and how much of it."""
    config = plan.config
    lanes = len(plan.patterns) * config.num_seeds
    tuned = len(config.tuning['learning_rates']) * config.tuning['num_seeds']
    total = len(config.algorithms) * (
        lanes * config.num_rounds + tuned * config.tuning['num_rounds']
    )
    state = plan.problem.num_clients * len(plan.patterns) * config.num_seeds * config.num_rounds
    return '\n'.join(
        [
            config.title,
            f'work     {len(config.algorithms)} algorithms x {len(plan.patterns)} patterns x '
            f'{config.num_seeds} seeds x {config.num_rounds:,} rounds, and tuning: {total:,} '
            f'rounds in {2 * len(config.algorithms)} programs',
            f'memory   recorded links {5 * state / 2**20:.1f} MiB',
        ]
    )


def run(plan: Comparison, folder: Path) -> dict[str, Outcome]:
    """Runs every algorithm that has not run yet."""
    links = comparison.realise(plan)
    np.savez_compressed(folder / comparison.MASKS, mask=np.packbits(links.mask, axis=-1))
    outcomes = {}
    progress = tqdm(plan.config.algorithms, unit='algorithm', file=sys.stdout)
    for label in progress:
        progress.set_description(f'{label:16s}')
        outcomes[label] = comparison.run(plan, label, links, folder)
    return outcomes


def report(plan: Comparison, outcomes: Mapping[str, Outcome], folder: Path) -> str:
    """The tables as text; writes them as Markdown."""
    config = plan.config
    tail = max(1, round(0.1 * config.num_rounds / config.eval_every))
    finals = {
        label: {
            model: named[config.metric][..., -tail:].mean(axis=-1)
            for model, named in sorted(outcome.evals.items(), reverse=True)
        }
        for label, outcome in outcomes.items()
    }
    patterns = list(plan.patterns)
    rates = {label: outcome.learning_rate for label, outcome in outcomes.items()}
    levels = comparison_tables.level_table(finals, patterns, rates)
    differences = comparison_tables.difference_table(finals, patterns, config.baseline)
    order = [
        f'* {pattern}: {", ".join(labels)}'
        for pattern, labels in comparison_tables.orderings(finals, patterns).items()
    ]
    unit = f'{config.metric}, mean of the last {tail} evaluations'
    (folder / TABLE).write_text(
        f'# {config.title}\n\n{unit}\n\n{levels.markdown()}\n{differences.markdown()}\n'
        'Best to worst, each algorithm with its best model:\n\n' + '\n'.join(order) + '\n'
    )
    return f'\n{unit}\n\n{levels.text()}\n\n{differences.text()}\n\nWrote {TABLE} to {folder}'
