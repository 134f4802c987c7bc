"""A small federation that exercises every path: uneven clients, empty rounds, a silent client."""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.base import Participation, Problem
from fedjax_links.participation.replay import replay
from fedjax_links.problems.arrays import from_arrays

NUM_CLIENTS = 6
NUM_ROUNDS = 12
SILENT = 3  # never active in `masks`


def masks() -> np.ndarray:
    """bool[T, N]: two empty rounds in a row, a single client, almost everyone, one never."""
    mask = np.random.default_rng(7).random((NUM_ROUNDS, NUM_CLIENTS)) < 0.45
    mask[4:6] = False
    mask[7] = np.arange(NUM_CLIENTS) == 1
    mask[8] = True
    mask[:, SILENT] = False
    return mask


def realised_links(
    order: Sequence[int] | None = None, *, peers: bool = False, everyone: bool = False
) -> tuple[np.ndarray, ...]:
    """What `pattern` replays: masks and their probabilities; neighbours, edges and theirs.

    Args:
      order: of the clients, as in `problem`.
      peers: whether there are links between clients, everyone a neighbour of everyone.
      everyone: whether all that there is is up in every round.
    """
    chosen = list(range(NUM_CLIENTS) if order is None else order)
    prob = np.broadcast_to(np.linspace(0.3, 0.8, NUM_CLIENTS), (NUM_ROUNDS, NUM_CLIENTS))
    mask = masks()
    up = np.triu(np.random.default_rng(8).random((NUM_ROUNDS, NUM_CLIENTS, NUM_CLIENTS)) < 0.5, 1)
    up[:, SILENT] = up[:, :, SILENT] = False
    up |= up.transpose(0, 2, 1)
    if everyone:
        mask, prob, up = np.ones_like(mask), np.ones_like(prob), np.ones_like(up)
    found = mask[:, chosen], prob[:, chosen]
    if not peers:
        return found
    clients = np.arange(NUM_CLIENTS)
    neighbours = np.array([np.delete(clients, i) for i in clients])
    up = up[:, chosen][:, :, chosen]
    edges = up[:, clients[:, None], neighbours]
    return *found, neighbours, edges, np.full(edges.shape, 1.0 if everyone else 0.5)


def pattern(mask: ArrayLike, prob: ArrayLike, *between: ArrayLike) -> Participation:
    """The links replayed, as arguments of a program perhaps."""
    names = 'neighbours', 'edges', 'edge_prob'
    return replay(mask, prob, **dict(zip(names, between, strict=False)))


def problem(order: Sequence[int] | None = None, spoil: int | None = None) -> Problem:
    """Softmax regression on uneven clients.

    Args:
      order: ``order[i]`` is the original client that is now called i.
      spoil: a client, by its new name, whose features are NaN.

    Returns:
      The problem.
    """
    rng = np.random.default_rng(3)
    owners = np.repeat(np.arange(NUM_CLIENTS), [3, 5, 4, 2, 6, 3])
    features = rng.normal(size=(len(owners), 4)) + 0.3 * owners[:, None]
    labels = rng.integers(0, 3, len(owners))
    if order is not None:
        owners = np.argsort(np.asarray(order))[owners]
    features = features.astype(jnp.result_type(float))
    made = from_arrays(features, labels, owners, init_params=_init_params, loss_fn=_loss_fn)
    if spoil is None:
        return made
    spoiled = jnp.where((np.sort(owners) == spoil)[:, None], jnp.nan, made.data.features)
    data = made.data._replace(features=spoiled)
    return dataclasses.replace(made, data=data, eval_data=data)


def _init_params(key):
    return {'weights': jnp.zeros((4, 3)), 'bias': jnp.zeros(3)}


def _loss_fn(params, batch):
    log_probs = jax.nn.log_softmax(batch.features @ params['weights'] + params['bias'][None])
    return -jnp.mean(jnp.take_along_axis(log_probs, batch.labels[:, None], axis=1))
