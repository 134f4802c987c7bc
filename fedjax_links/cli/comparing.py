"""The body of the sweep command: describe, run with one live line, report."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from tqdm import tqdm

from fedjax_links import comparison, tree
from fedjax_links.comparison import Comparison, Outcome
from fedjax_links.report import layouts, results


def describe(plan: Comparison) -> str:
    """A few lines: what runs, and how much of it."""
    config = plan.config
    total = sum(comparison.rounds_of(plan, label) for label in config.algorithms)
    num_problems = len({id(problem) for problem in plan.problems.values()})
    programs = len(config.algorithms) * num_problems
    problem = next(iter(plan.problems.values()))
    params = jax.eval_shape(problem.init_params, jax.random.key(0))
    links = 5 * config.num_rounds * problem.num_clients
    lanes = 1 if jax.default_backend() == 'cpu' else len(plan.patterns) * config.num_seeds
    return '\n'.join(
        [
            config.title,
            f'problem  {config.problem["name"]}: {problem.num_clients} clients with '
            f'{problem.min_examples} to {problem.max_examples} examples, '
            f'{tree.size(params):,} parameters',
            f'work     {len(config.algorithms)} algorithms x {len(plan.patterns)} patterns x '
            f'{config.num_seeds} seeds x {config.num_rounds:,} rounds, and tuning: {total:,} '
            f'rounds in {programs} programs',
            f'memory   data {tree.num_bytes(problem.data) / 2**20:.1f} MiB, links of the lanes '
            f'that run together {lanes * links / 2**20:.1f} MiB',
        ]
    )


def run(plan: Comparison, folder: Path) -> dict[str, Outcome]:
    """Runs every algorithm that has not run yet."""
    _record_links(plan, folder)
    outcomes = {}
    labels = list(plan.config.algorithms)
    for place, label in enumerate(labels, start=1):
        with tqdm(
            total=comparison.rounds_of(plan, label),
            desc=f'{label:16s} {place}/{len(labels)}',
            unit='round',
            file=sys.stdout,
            bar_format='{desc} |{bar:24}| {n_fmt}/{total_fmt} rounds [{elapsed}<{remaining}, '
            '{rate_fmt}]',
            mininterval=0.5,
        ) as progress:
            outcomes[label] = comparison.run(plan, label, folder, progress.update)
    return outcomes


def report(plan: Comparison, outcomes: Mapping[str, Outcome], folder: Path) -> str:
    """The tables as text; writes the report."""
    found = results.from_comparison(plan.config, outcomes)
    return write_report(folder, found, plan.config.reports)


def write_report(
    folder: Path, found: results.Results, reports: Mapping[str, Mapping[str, object]]
) -> str:
    """Writes report and pictures to a folder; returns the tables as text."""
    pages = layouts.build(found, reports)
    written = layouts.write(folder, found, pages, results.recorded_masks(folder))
    return f'\n{layouts.text(pages)}\n\nWrote {", ".join(written)} to {folder}'


def _record_links(plan: Comparison, folder: Path) -> None:
    """Keeps the links that the first seed meets, one bit each."""
    config = plan.config
    masks: dict[str, Any] = {
        f'mask/{label}': np.packbits(
            np.asarray(
                realise(jax.random.key(config.first_seed), num_rounds=config.num_rounds).mask
            ),
            axis=-1,
        )
        for label, realise in plan.links.items()
    }
    num_clients = next(iter(plan.problems.values())).num_clients
    np.savez_compressed(folder / results.LINKS, num_clients=num_clients, **masks)
