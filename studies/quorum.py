"""Computes accuracy by the clock where rounds end with the first k of n, from the recorded run.

python -m studies.quorum

Links are drawn again without training: the length of a round depends on seed and pattern alone.
"""

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

import jax
import numpy as np

from fedjax_links import base, evaluation, experiment, runs, simulation
from fedjax_links.report import run_view

RECORD = Path(__file__).parent / 'records' / 'quorum'
ALGORITHMS = {'fedavg': 'FedAvg', 'fedau': 'FedAU', 'scaffold': 'SCAFFOLD'}
BUDGETS = (1.0, 2.0, 5.0, 10.0, 20.0)
"""Minutes."""


def clocks(view: run_view.RunView) -> dict[str, np.ndarray]:
    """Computes the minutes until each evaluation, float64[S, E], by pattern."""
    facts, config = runs.read_description(RECORD)
    planned = experiment.build(config)
    point = planned.plan.points[0]
    num_rounds = int(view.rounds[-1])
    minutes: dict[str, np.ndarray] = {}
    for pattern in view.patterns:
        links = planned.pattern_at(pattern, point)
        draw = jax.jit(
            functools.partial(_durations, pattern=links, num_rounds=num_rounds)
        )
        keys = [
            planned.plan.draws.key_of('links', seed, point) for seed in facts['seeds']
        ]
        ends = (
            np.cumsum([np.asarray(draw(key), np.float64) for key in keys], axis=1) / 60
        )
        minutes[pattern] = ends[:, view.rounds - 1]
    return minutes


def _durations(
    key: base.Key, *, pattern: base.Participation, num_rounds: int
) -> base.Array:
    return simulation.realised_links(key, pattern, num_rounds=num_rounds).duration


def rows(view: run_view.RunView, minutes: Mapping[str, np.ndarray]) -> Iterator[str]:
    """Yields rows by algorithm and k: minutes of 1,000 rounds, accuracies by time and at the end.

    Means over the seeds with 95 % intervals.

    Args:
      view: of the recorded run.
      minutes: its `clocks`.
    """
    metric = view.metric(None)
    titles = ' | '.join(f'{budget:g} min' for budget in BUDGETS)
    yield f'| algorithm | round ends with | 1,000 rounds, min | {titles} | at the end |'
    yield f'{"| --- " * (4 + len(BUDGETS))}|'
    for algorithm, title in ALGORITHMS.items():
        for pattern, clock in minutes.items():
            key = run_view.FinalKey(pattern, algorithm, 'server')
            values = view.curve(metric.name, key)
            cells = []
            for budget in BUDGETS:
                last = (clock <= budget).sum(axis=1) - 1  # -1 for no evaluation by then
                is_known = last.min() >= 0
                cells.append(values[np.arange(len(values)), last] if is_known else None)
            cells.append(values[:, -10:].mean(axis=1))
            shown = [
                '-' if each is None else metric.interval(evaluation.seed_interval(each))
                for each in cells
            ]
            yield f'| {title} | {pattern} | {clock[:, -1].mean():.1f} | {" | ".join(shown)} |'


if __name__ == '__main__':
    recorded = run_view.from_run(runs.read(RECORD))
    print(*rows(recorded, clocks(recorded)), sep='\n')
