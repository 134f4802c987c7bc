"""Computes the exact mean of linear algorithms on the problem of their pictures.

::

  python -m generate.exact_paths

It runs in the folder ``docs``, and writes ``exact_paths.csv`` beside this file. An algorithm takes
half a minute, so the build of the site reads the file. `tests/docs/test_exact_paths.py` computes
the first rounds again.
"""

import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fedjax_links import analysis
from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.analysis import linear_rounds, link_chains

NUM_ROUNDS = 300
_NUM_CLIENTS = 10
PROBS = np.linspace(0.1, 0.9, _NUM_CLIENTS)
TARGETS = np.linspace(-1, 1, _NUM_CLIENTS)[:, None]
START = -1.0
LEARNING_RATE = 0.02
LOCAL_STEPS = 5
EDGE_PROB = 0.5
"""The problem of the pictures."""

FILE = Path(__file__).with_name('exact_paths.csv')
_STEP = 5  # rounds from one line of the file to the next
_DIGITS = 6


def compute(
    names: list[str] | None = None, num_rounds: int = NUM_ROUNDS
) -> dict[str, np.ndarray]:
    """Computes the exact mean of models.

    Args:
      names: of algorithms, by default all.
      num_rounds: T.

    Returns:
      float64[T + 1], the mean after each round, by ``algorithm/model``. Algorithms that are not
      linear in models and memories are left out, and those that use links between clients.
    """
    chain = link_chains.independent(PROBS)
    paths: dict[str, np.ndarray] = {}
    for name in names or ALGORITHMS:
        entry = ALGORITHMS[name]
        if name not in linear_rounds.RULES or entry.traffic.peers:
            continue
        curve = analysis.linear_curve(
            name,
            chain,
            TARGETS - START,
            LEARNING_RATE,
            LOCAL_STEPS,
            num_rounds=num_rounds,
            **entry.example,
        )
        for model, means in curve.means.items():
            paths[f'{name}/{model}'] = means[:, 0] + START
    return paths


def read() -> Mapping[str, np.ndarray]:
    """Reads the file: float64[E] by ``algorithm/model``, and the rounds as ``round``."""
    with FILE.open(encoding='utf-8') as file:
        header, *rows = csv.reader(file)
    return dict(zip(header, np.array(rows, float).T, strict=True))


def write() -> None:
    """Computes all paths and writes the file."""
    paths = compute()
    rounds = np.arange(0, NUM_ROUNDS + 1, _STEP)
    with FILE.open('w', encoding='utf-8', newline='') as file:
        writer = csv.writer(file, lineterminator='\n')
        writer.writerow(['round', *paths])
        for round in rounds:
            # Adding zero turns -0.0 into 0.0.
            values = [np.round(path[round], _DIGITS) + 0.0 for path in paths.values()]
            writer.writerow([round, *values])


if __name__ == '__main__':
    write()
