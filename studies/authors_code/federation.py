"""Makes one small federation for both sides, and runs our algorithms on it.

Softmax regression in double precision on clients of unequal volume, each of whom takes all of its
examples in every step. So both sides see the same gradients, whatever order batches come in.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import local_training, participation, problems, simulation
from fedjax_links.base import Algorithm, Problem
from fedjax_links.clients import rates

NUM_CLIENTS = 8
NUM_FEATURES = 3
NUM_CLASSES = 3
VOLUMES = (3, 5, 4, 2, 6, 3, 1, 4)


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draws features [E, 3], labels [E] and owners [E], sorted by owner."""
    rng = np.random.default_rng(5)
    owners = np.repeat(np.arange(NUM_CLIENTS), VOLUMES)
    features = rng.normal(size=(len(owners), NUM_FEATURES)) + 0.4 * owners[:, None] - 1
    return features, rng.integers(0, NUM_CLASSES, len(owners)), owners


def start() -> tuple[np.ndarray, np.ndarray]:
    """Returns the initial weight [C, d] and bias [C]."""
    rng = np.random.default_rng(6)
    weight = 0.3 * rng.normal(size=(NUM_CLASSES, NUM_FEATURES))
    bias = 0.1 * rng.normal(size=NUM_CLASSES)
    return weight, bias


def problem() -> Problem:
    """Returns the same data as our problem."""

    def loss_fn(params: Any, batch: Any) -> Any:
        scores = jax.nn.log_softmax(
            batch.features @ params['weight'].T + params['bias'][None]
        )
        return -jnp.mean(jnp.take_along_axis(scores, batch.labels[:, None], axis=1))

    weight, bias = start()
    return problems.from_arrays(
        *data(),
        init_params=lambda key: {
            'bias': jnp.asarray(bias),
            'weight': jnp.asarray(weight),
        },
        loss_fn=loss_fn,
    )


def program(
    learning_rate: float, steps: int, decay: str = 'constant', **options: Any
) -> Any:
    """Returns the client program: full-batch steps at a rate that decays."""
    rate = rates.LEARNING_RATES[decay](learning_rate)
    return local_training.local_sgd(rate, local_steps=steps, **options)


def ours(
    algorithm: Algorithm,
    masks: np.ndarray,
    probs: np.ndarray | None = None,
    model: str = 'server',
) -> np.ndarray:
    """Returns our model after every round under the links, flat as theirs: float64[T, C d + C]."""

    def measured(params: Any, key: Any, problem: Problem) -> Any:
        return jnp.concatenate([params['weight'].ravel(), params['bias']])

    with jax.enable_x64(True):
        result = simulation.simulate(
            jax.random.key(0),
            algorithm,
            participation.replay(masks, probs),
            problem(),
            num_rounds=len(masks),
            eval_every=1,
            eval_fn=measured,
        )
    return np.asarray(result.evals[model], np.float64)


class Row(NamedTuple):
    """Holds a comparison of two paths.

    Attributes:
      theirs: what ran of theirs.
      ours: our algorithm.
      links: what decided who takes part.
      difference: the largest of any parameter in any round.
      moved: how far theirs is from its start at most, in one parameter.
    """

    theirs: str
    ours: str
    links: str
    difference: float
    moved: float


def row(theirs: str, ours: str, links: str, path: np.ndarray, other: np.ndarray) -> Row:
    """Compares two paths float64[T, D]."""
    begin = np.concatenate([part.ravel() for part in start()])
    moved = float(np.abs(path - begin).max())
    return Row(theirs, ours, links, float(np.abs(path - other).max()), moved)
