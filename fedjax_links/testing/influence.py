"""Finds whose data change the result of a round, by changing one client's data at a time."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import base, simulation
from fedjax_links.base import Algorithm, Array, Problem, PyTree
from fedjax_links.problems.vectors import quadratic

_NUM_CLIENTS = 8
_DIMENSION = 2
_ROUND = 4
"""The round that is examined. By then each client has delivered."""
_UPLINK_LOST = 0
_CANNOT_COMPUTE = 1
_SHIFT = 1000.0
"""Shift of a client's target, large since a small server rate makes influences small."""
_THRESHOLD = 1e-5
"""Least change that counts, for numbers of order one: rounding is smaller."""


class Influence(NamedTuple):
    """Holds which results of a round depend on which client's data, and the round's metrics.

    In the first round all clients are active. In the later round the uplink of one client is lost.
    Another client cannot compute, although its uplink is up.

    Attributes:
      server: bool[N], whether the server model after the round depends on the client's data.
      state: bool[N], whether anything in the state depends on the client's data.
      cannot_compute: bool[N], the clients that cannot compute.
      idle_uplink_matters: whether results change if the uplinks of clients that cannot compute are
        down.
      metrics: of the round.
      losses: float[N], the clients' losses at the initial model.
    """

    server: np.ndarray
    state: np.ndarray
    cannot_compute: np.ndarray
    idle_uplink_matters: bool
    metrics: base.RoundMetrics
    losses: np.ndarray


def of_first_round(algorithm: Algorithm) -> Influence:
    """Runs the first round, once for each client with the data of this client changed."""
    return _influence(algorithm, 0, _everyone())


def of_later_round(algorithm: Algorithm) -> Influence:
    """Runs a few rounds, then a round once for each client with this client's data changed."""
    clients = jnp.arange(_NUM_CLIENTS)
    links = _everyone()._replace(
        mask=clients != _UPLINK_LOST, compute=clients != _CANNOT_COMPUTE
    )
    return _influence(algorithm, _ROUND, links)


def _influence(
    algorithm: Algorithm, num_rounds: int, links: base.DuplexLinkSample
) -> Influence:
    """Runs rounds with six active clients each, in turn, and then a round with the given links."""
    key = jax.random.key(2)
    targets = np.random.default_rng(1).normal(size=(_NUM_CLIENTS, _DIMENSION))
    problem = quadratic(targets)
    params = problem.init_params(key)

    @jax.jit
    def step(
        state: PyTree, t: Array, links: base.Links, data: PyTree
    ) -> tuple[PyTree, base.RoundMetrics]:
        ctx = simulation.round_context(key, t, links)
        return algorithm.round_step(state, ctx, dataclasses.replace(problem, data=data))

    state = algorithm.init(params, problem)
    clients = jnp.arange(_NUM_CLIENTS)
    for t in range(num_rounds):
        active = (clients + 3 * t) % _NUM_CLIENTS < 6
        state, _ = step(
            state, np.int32(t), _everyone()._replace(mask=active), problem.data
        )
    # Row 0 is the unchanged round. Row 1 + i is the round with the data of client i changed.
    data = jnp.stack([problem.data, *_shifted(problem)])
    last_round = jax.vmap(step, (None, None, None, 0))
    states, metrics = last_round(state, np.int32(num_rounds), links, data)
    idle_uplinks_down = links._replace(mask=links.mask & links.compute)
    others, _ = last_round(state, np.int32(num_rounds), idle_uplinks_down, data)
    return Influence(
        server=_rows_that_differ(jax.vmap(_server_of(algorithm))(states)),
        state=_rows_that_differ(states),
        cannot_compute=~np.asarray(links.compute),
        idle_uplink_matters=_differ(states, others),
        metrics=jax.tree.map(lambda rows: np.asarray(rows)[0], metrics),
        losses=_losses(problem, params),
    )


def _server_of(algorithm: Algorithm) -> Callable[[PyTree], base.Params]:
    return lambda state: algorithm.models(state)['server']


def _everyone() -> base.DuplexLinkSample:
    """Makes the links of a round in which all clients are active."""
    everybody = jnp.ones(_NUM_CLIENTS, bool)
    probs = jnp.full(_NUM_CLIENTS, 0.7)
    return base.DuplexLinkSample(everybody, probs, everybody, everybody)


def _shifted(problem: Problem) -> list[Array]:
    """Returns, for each client, all targets with the targets of this client shifted."""
    return [problem.data.at[i].add(_SHIFT) for i in range(_NUM_CLIENTS)]


def _losses(problem: Problem, params: base.Params) -> np.ndarray:
    """Computes the loss of each client's one example: float[N]."""
    rows = jax.tree.map(lambda a: a[:, None], problem.data)
    return np.asarray(jax.vmap(problem.loss_fn, (None, 0))(params, rows))


def _rows_that_differ(tree: PyTree) -> np.ndarray:
    """Returns which of rows 1, 2, ... differ from row 0 by more than rounding: bool[N]."""
    differs = np.zeros(_NUM_CLIENTS, bool)
    for rows in _numbers(tree):
        differs |= _are_apart(rows[1:], rows[:1]).any(axis=1)
    return differs


def _differ(one: PyTree, other: PyTree) -> bool:
    """Returns whether two trees differ by more than rounding."""
    pairs = zip(_numbers(one), _numbers(other), strict=True)
    return any(_are_apart(a, b).any() for a, b in pairs)


def _numbers(tree: PyTree) -> list[np.ndarray]:
    """Returns the numeric leaves, float64[1 + N, k]; random keys are left out."""
    leaves = [
        leaf
        for leaf in jax.tree.leaves(tree)
        if not jnp.issubdtype(leaf.dtype, jax.dtypes.extended)
    ]
    return [np.asarray(leaf, float).reshape(_NUM_CLIENTS + 1, -1) for leaf in leaves]


def _are_apart(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return ~np.isclose(a, b, rtol=0, atol=_THRESHOLD, equal_nan=True)
