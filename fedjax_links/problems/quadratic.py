"""Quadratics, of equal curvature or not: limits, biases and variances are known exactly."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.base import Array, Key, Params, Problem, Rows
from fedjax_links.core import checks, errors
from fedjax_links.problems.partials import Partial


class Bowls(NamedTuple):
    """Quadratics of unequal curvature.

    Attributes:
      target: float[N, d], u_i.
      curvature: float[N, d], h_i.
    """

    target: Array
    curvature: Array


def quadratic(
    targets: ArrayLike,
    *,
    initial_point: ArrayLike | None = None,
    curvature: ArrayLike | None = None,
    noise: float = 0.0,
) -> Problem:
    """``F_i(x) = 0.5 ||x - u_i||^2`` with exact gradients; the optimum is the mean of the u_i.

    Args:
      targets: float[N, d], u_i of each client.
      initial_point: float[d], x^0; zero by default.
      curvature: h_i, positive, one number for each client or coordinate, float[N] or float[N, d]:
        ``F_i(x) = 0.5 sum h_i (x - u_i)^2``, and the optimum is the mean weighted by them.
      noise: standard deviation of what is added to every coordinate of a local gradient, normal,
        afresh in every local step.

    Returns:
      A problem whose parameters are a vector float[d], in float64 if x64 is enabled. Its metrics
      are ``loss`` (the global objective) and ``distance`` (L2, to the optimum).

    Raises:
      ValueError: if the shapes do not fit.

    Example:
      >>> import jax.numpy as jnp
      >>> from fedjax_links import problems
      >>> problem = problems.quadratic([[0.0], [4.0]])
      >>> print(problem.metrics(jnp.array([1.0]), problem.eval_data))
      {'loss': Array(2.5, dtype=float32), 'distance': Array(1., dtype=float32)}

    References:
      Xiang et al. 2023, section III.
    """
    points = checks.numbers('targets', targets).astype(float)
    if points.ndim != 2 or 0 in points.shape:
        raise errors.invalid('targets', 'have shape [num_clients, d]', list(points.shape))
    checks.within('targets', points.T, -1e150, 1e150)
    start = np.zeros(points.shape[1])
    if initial_point is not None:
        start = checks.numbers('initial_point', initial_point)
    if start.shape != points.shape[1:]:
        requirement = f'have shape {list(points.shape[1:])}'
        raise errors.invalid('initial_point', requirement, list(start.shape))
    checks.within('noise', noise, 0, 1e150)
    target = jnp.asarray(points, jnp.result_type(float))
    data = target if curvature is None else Bowls(target, _bends(curvature, points))
    return Problem(
        data=data,
        owned=Rows(jnp.arange(len(points), dtype=jnp.int32), jnp.ones(len(points), jnp.int32)),
        eval_data=data,
        init_params=Partial(_start, tuple(start.tolist())),
        loss_fn=_loss,
        metrics=_metrics,
        min_examples=1,
        max_examples=1,
        larger_is_better=(),
        random_loss_fn=Partial(_noisy_loss, float(noise)) if noise else None,
    )


def _bends(curvature: ArrayLike, points: np.ndarray) -> Array:
    bends = checks.numbers('curvature', curvature).astype(float)
    checks.positive('curvature', bends)
    if bends.shape not in (points.shape[:1], points.shape):
        requirement = f'have shape {list(points.shape[:1])} or {list(points.shape)}'
        raise errors.invalid('curvature', requirement, list(bends.shape))
    by_client = bends.reshape(len(points), -1)
    return jnp.asarray(np.broadcast_to(by_client, points.shape), jnp.result_type(float))


def counterexample(*, num_clients: int = 100, dimension: int = 100, seed: int = 0) -> Problem:
    """The quadratics on which FedAvg fails: targets drift with the client's number.

    ``u_i ~ N((i / 1000) 1, 0.01 I)`` for i = 1..N (standard deviation 0.1), x^0 = 0. With links
    that differ between the first and the second half of the clients, FedAvg is drawn to one half.

    Args:
      num_clients: N.
      dimension: d.
      seed: seed of the targets.

    Returns:
      The problem, see `quadratic`.

    Raises:
      ValueError: for a count below 1.

    References:
      Xiang et al. 2023, section VI; Xiang et al. 2024, section 7.1.
    """
    checks.counts(num_clients=num_clients, dimension=dimension)
    checks.static_int('seed', seed, minimum=0, maximum=2**63 - 1)
    checks.fits('num_clients', num_clients, 8 * num_clients * dimension)
    noise = np.random.default_rng(seed).normal(scale=0.1, size=(num_clients, dimension))
    return quadratic(np.arange(1, num_clients + 1)[:, None] / 1000 + noise)


def _start(point: tuple[float, ...], key: Key) -> Params:
    del key
    return jnp.asarray(point, jnp.result_type(float))


def _loss(params: Params, batch: Array | Bowls) -> Array:
    """``0.5 mean_j ||x - u_j||^2``, as ``0.5 (||x - c||^2 + mean_j ||u_j - c||^2)``, c the mean.

    So the gradient, x - c, has no axis of examples, which would make the compiler copy the models
    of all clients in every local step. With curvature, centre and squares are weighted by it.
    """
    centre = _centre(batch)
    if isinstance(batch, Bowls):
        apart = jnp.square(batch.target - centre[None]) * batch.curvature
        bend = jnp.mean(batch.curvature, axis=0)
        return 0.5 * (jnp.sum(jnp.square(params - centre) * bend) + jnp.mean(jnp.sum(apart, -1)))
    spread = jnp.mean(jnp.sum(jnp.square(batch - centre[None]), axis=-1))
    return 0.5 * (jnp.sum(jnp.square(params - centre)) + spread)


def _centre(batch: Array | Bowls) -> Array:
    if isinstance(batch, Bowls):
        weighted = jnp.mean(batch.curvature * batch.target, axis=0)
        return weighted / jnp.mean(batch.curvature, axis=0)
    return jnp.mean(batch, axis=0)


def _noisy_loss(noise: float, params: Params, batch: Array | Bowls, key: Key) -> Array:
    return _loss(params, batch) + noise * jax.random.normal(key, params.shape) @ params


def _metrics(params: Params, data: Array | Bowls) -> dict[str, Array]:
    return {'loss': _loss(params, data), 'distance': jnp.linalg.norm(params - _centre(data))}
