"""What one algorithm did in a comparison, and the file that keeps it."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What one algorithm did.

    Attributes:
      patterns: labels of the P patterns.
      learning_rates: float[P], the client rate under each pattern.
      server_lr: the server rate if it was tuned, else NaN.
      tuning: ``learning_rate``, ``server_lr`` and ``score``, float[K] each, the mean metric at each
        of the K points tried, NaN where it diverged; no points if the rate was given.
      rounds: int[E], rounds completed at each evaluation.
      evals: float[P, S, E] by model and metric.
    """

    patterns: tuple[str, ...]
    learning_rates: np.ndarray
    server_lr: float
    tuning: Mapping[str, np.ndarray]
    rounds: np.ndarray
    evals: Mapping[str, Mapping[str, np.ndarray]]


def save(path: Path, outcome: Outcome) -> None:
    """Writes an outcome in one step: a file that is there is whole.

    Args:
      path: of the npz file.
      outcome: the outcome.
    """
    arrays = {
        'patterns': np.array(outcome.patterns),
        'learning_rates': outcome.learning_rates,
        'server_lr': np.array(outcome.server_lr),
        'rounds': outcome.rounds,
        **{f'tuning/{name}': values for name, values in outcome.tuning.items()},
        **{
            f'evals/{model}/{metric}': values
            for model, named in outcome.evals.items()
            for metric, values in named.items()
        },
    }
    partial = path.with_suffix('.partial.npz')
    np.savez(partial, allow_pickle=False, **arrays)
    partial.replace(path)


def load(path: Path) -> Outcome:
    """Reads what `save` wrote.

    Args:
      path: of the npz file.

    Returns:
      The outcome.
    """
    tuning: dict[str, np.ndarray] = {}
    evals: dict[str, dict[str, np.ndarray]] = {}
    with np.load(path, allow_pickle=False) as stored:
        for name in stored.files:
            kind, *rest = name.split('/')
            if kind == 'tuning':
                tuning[rest[0]] = stored[name]
            elif kind == 'evals':
                evals.setdefault(rest[0], {})[rest[1]] = stored[name]
        return Outcome(
            patterns=tuple(str(label) for label in stored['patterns']),
            learning_rates=stored['learning_rates'],
            server_lr=float(stored['server_lr']),
            tuning=tuning,
            rounds=stored['rounds'],
            evals=evals,
        )
