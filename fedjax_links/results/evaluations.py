"""What a simulation measured, as arrays."""

from typing import Any

import jax
import numpy as np

from fedjax_links.core import errors


def rounds_of(result: Any) -> tuple[np.ndarray, np.ndarray]:
    """Rounds completed at each evaluation of a simulation, and at each of its rounds."""
    last = int(np.ravel(np.asarray(result.state.round))[0])
    length = np.shape(result.rounds.num_active)[-1]
    every = last - length + np.arange(1, length + 1)
    measured = jax.tree.leaves(result.evals)
    count = int(measured[0].shape[np.ndim(result.state.round)]) if measured else 0
    return every[length // count - 1 :: length // count] if count else every[:0], every


def leaves(measured: Any) -> dict[str, np.ndarray]:
    """The leaves of nested results by path: ``server/loss``; ``value`` for a bare one."""
    return {
        jax.tree_util.keystr(path, simple=True, separator='/') or 'value': np.asarray(leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(measured)
    }


def by_model(result: Any) -> dict[str, dict[str, np.ndarray]]:
    """Evaluations float[G, S, E] of a simulation by candidate model and metric; NaN once diverged.

    Raises:
      ValueError: if there are none, or of a model none that is a single number.
    """
    if not result.evals:
        raise errors.invalid('data', 'have evaluations (`eval_every`)', 'a result without any')
    shape, (ends, _) = np.shape(result.state.round), rounds_of(result)
    full = shape[0] if len(shape) == 2 else 1, shape[-1] if shape else 1, len(ends)
    bad = np.asarray(result.state.first_bad_round).reshape(*full[:2], 1)
    found = {
        model: {
            name: np.where((bad < 0) | (ends <= bad), leaf.reshape(full), np.nan)
            for name, leaf in leaves(measured).items()
            if leaf.ndim == len(shape) + 1
        }
        for model, measured in result.evals.items()
    }
    for model, own in found.items():
        if not own:
            shapes = jax.tree.map(np.shape, result.evals[model])
            raise errors.invalid('data', 'have evaluations that are single numbers', shapes)
    return found
