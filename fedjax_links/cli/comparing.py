"""The body of the sweep command: describe, run with one live line, report."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from tqdm import tqdm

from fedjax_links import comparison, errors, tree
from fedjax_links.cli import memory
from fedjax_links.comparison import Comparison, Outcome
from fedjax_links.report import layouts, results

MAY_DIFFER = ('baseline', 'caption', 'names', 'reports', 'title')
"""Fields of a config that change how results are shown, but no result."""


def check(plan: Comparison) -> None:
    """Builds every page of the report from made-up numbers, so mistakes show before anything runs.

    Args:
      plan: the comparison.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    reserved = Path(results.LINKS).stem
    for field in ('algorithms', 'reports'):
        if reserved in getattr(plan.config, field):
            raise errors.invalid(f'config.{field}', 'leave the name of the links free', reserved)
    blank = {label: comparison.blank(plan, label) for label in plan.config.algorithms}
    layouts.build(results.from_comparison(plan.config, blank), plan.config.reports)


def describe(plan: Comparison) -> str:
    """A few lines: what runs, how much of it, and what it keeps in memory."""
    config = plan.config
    labels = list(config.algorithms)
    total = sum(comparison.rounds_of(plan, label) for label in labels)
    problems = comparison.set_of(plan.problems)
    tuning = ' and tuning' if any(map(plan.is_tuned, labels)) else ''
    params = jax.eval_shape(problems[0].init_params, jax.random.key(0))
    lines = [
        config.title,
        f'problem  {config.problem["name"]}: {problems[0].num_clients} clients with '
        f'{problems[0].min_examples} to {problems[0].max_examples} examples, '
        f'{tree.size(params):,} parameters',
        f'work     {len(labels)} algorithms x {len(plan.patterns)} patterns x '
        f'{config.num_seeds} seeds x {config.num_rounds:,} rounds{tuning}: {total:,} '
        f'rounds in {len(labels) * len(problems)} programs',
        f'memory   data {memory.size(sum(tree.num_bytes(p.data) for p in problems))}; states '
        'and links beside them, without the work space of a round:',
    ]
    for label in labels:
        needed = comparison.memory(plan, label)
        lines.append(
            f'         {label:16s} {memory.size(needed.state_bytes)} per lane, '
            f'{memory.size(needed.total)} for {needed.num_lanes} at a time'
        )
    return '\n'.join(lines)


def refuse_if_too_large(plan: Comparison, folder: Path) -> None:
    """Raises if an algorithm that is still to run cannot fit beside the data, which are there.

    Args:
      plan: the comparison.
      folder: of its outcomes, which need not exist.

    Raises:
      ValueError: naming the algorithm that needs most.
    """
    needed = {
        label: comparison.memory(plan, label).total
        for label in plan.config.algorithms
        if not (folder / f'{label}.npz').exists()
    }
    if needed:
        most = max(needed, key=lambda label: needed[label])
        memory.refuse_if_above(memory.available_bytes(), needed[most], most)


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
    path = folder / results.LINKS
    partial = path.with_suffix('.partial.npz')
    np.savez_compressed(partial, num_clients=num_clients, **masks)
    partial.replace(path)
