"""Builds problems whose model is a vector and whose gradients are exact.

The limits, biases and variances of algorithms on quadratics are known exactly.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.base import Array, Key, Params, Problem, Rows
from fedjax_links.core import checks, errors
from fedjax_links.problems.arrays import Batch, Partial, from_arrays

_Doubles = NDArray[np.float64]


class CurvedTargets(NamedTuple):
    """Holds the data of quadratics of unequal curvature.

    Attributes:
      target: float[N, d], u_i.
      curvature: float[N, d], h_i.
    """

    target: Array
    curvature: Array


class Quadratics(NamedTuple):
    """Holds the losses ``0.5 sum_k h_ik (x_k - u_ik)^2`` of a problem, on the host.

    Attributes:
      targets: float64[N, d], u_i.
      curvature: float64[N, d], h_i.
      noise: standard deviation of each coordinate of a local gradient.
      initial_point: float64[d], x^0.
    """

    targets: _Doubles
    curvature: _Doubles
    noise: float
    initial_point: _Doubles


def quadratics_of(problem: Problem) -> Quadratics | None:
    """Returns the quadratics that a problem consists of; None for any other problem.

    Args:
      problem: any.
    """
    random_loss = problem.random_loss_fn
    if problem.loss_fn is not _loss:
        return None
    if (
        random_loss is not None
        and getattr(random_loss, 'func', None) is not _noisy_loss
    ):
        return None
    targets = np.asarray(jax.tree.leaves(problem.data)[0], np.float64)
    curvature = np.ones_like(targets)
    if isinstance(problem.data, CurvedTargets):
        curvature = np.asarray(problem.data.curvature, np.float64)
    noise = float(random_loss.args[0]) if isinstance(random_loss, Partial) else 0.0
    start = np.asarray(problem.init_params(jax.random.key(0)), np.float64)
    return Quadratics(targets, curvature, noise, start)


def quadratic(
    targets: ArrayLike,
    *,
    initial_point: ArrayLike | None = None,
    curvature: ArrayLike | None = None,
    noise: float = 0.0,
) -> Problem:
    """Builds quadratics ``F_i(x) = 0.5 ||x - u_i||^2``, with exact gradients.

    The optimum is the mean of the u_i.

    Args:
      targets: float[N, d], u_i of each client.
      initial_point: float[d], x^0; zero by default.
      curvature: h_i, positive, one number for each client or coordinate, float[N] or float[N, d]:
        ``F_i(x) = 0.5 sum h_i (x - u_i)^2``, and the optimum is the mean of the u_i, weighted by
        the h_i.
      noise: standard deviation of the normal noise in each coordinate of a local gradient, drawn
        in each local step.

    Returns:
      A problem whose parameters are a vector float[d], in float64 if x64 is enabled. Its metrics
      are ``loss`` (the global objective) and ``distance`` (L2, to the optimum).

    Raises:
      ValueError: if shapes do not fit, or a number is beyond those of float32, under x64 beyond
        1e150.

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
        requirement = 'have shape [num_clients, d]'
        raise errors.invalid('targets', requirement, list(points.shape))
    largest = _largest_coordinate()
    # The error of `within` names the client by the last axis.
    checks.within('targets', points.T, -largest, largest)
    checks.number_within('noise', noise, 0, largest)
    start = _checked_start(initial_point, points)
    data: Any = jnp.asarray(points, jnp.result_type(float))
    if curvature is not None:
        table = _checked_curvatures(curvature, points)
        data = CurvedTargets(data, jnp.asarray(table, data.dtype))
    return Problem(
        data=data,
        owned=Rows(
            jnp.arange(len(points), dtype=jnp.int32), jnp.ones(len(points), jnp.int32)
        ),
        eval_data=data,
        init_params=Partial(_start, tuple(start.tolist())),
        loss_fn=_loss,
        metrics=_metrics,
        min_examples=1,
        max_examples=1,
        larger_is_better=(),
        random_loss_fn=Partial(_noisy_loss, float(noise)) if noise else None,
    )


def _largest_coordinate() -> float:
    """Returns the largest coordinate: JAX's default float holds it, and float64 its square."""
    return min(1e150, float(np.finfo(jnp.result_type(float)).max))


def _checked_start(initial_point: ArrayLike | None, points: _Doubles) -> np.ndarray:
    """Returns the initial point [d] of targets [N, d], zero by default."""
    if initial_point is None:
        return np.zeros(points.shape[1])
    start = checks.numbers('initial_point', initial_point)
    if start.shape != points.shape[1:]:
        requirement = f'have shape {list(points.shape[1:])}'
        raise errors.invalid('initial_point', requirement, list(start.shape))
    largest = _largest_coordinate()
    checks.within('initial_point', start, -largest, largest, axis='coordinate')
    return start


def _checked_curvatures(curvature: ArrayLike, points: _Doubles) -> _Doubles:
    """Returns the curvature of each coordinate of targets [N, d]."""
    curvatures = checks.numbers('curvature', curvature).astype(float)
    by_client_last = curvatures.T  # Errors name the client by the last axis.
    checks.positive('curvature', by_client_last)
    smallest = float(np.finfo(jnp.result_type(float)).tiny)
    checks.within('curvature', by_client_last, smallest, _largest_coordinate())
    by_client = points.shape[:1]
    if curvatures.shape not in (by_client, points.shape):
        requirement = f'have shape {list(by_client)} or {list(points.shape)}'
        raise errors.invalid('curvature', requirement, list(curvatures.shape))
    return np.broadcast_to(curvatures.reshape(len(points), -1), points.shape)


def counterexample(
    *, num_clients: int = 100, dimension: int = 100, seed: int = 0
) -> Problem:
    """Builds the quadratics on which FedAvg fails: targets grow with the client's number.

    ``u_i ~ N((i / 1000) 1, 0.01 I)`` for i = 1..N (standard deviation 0.1), x^0 = 0. With links
    that differ between the first and the second half of the clients, FedAvg is drawn to one half.

    Args:
      num_clients: N.
      dimension: d.
      seed: of the targets, an integer in ``[0, 2**63)``.

    Returns:
      The problem, see `quadratic`.

    Raises:
      ValueError: for a count below 1, or a seed that is no integer in ``[0, 2**63)``.

    Example:
      >>> from fedjax_links import problems
      >>> problem = problems.counterexample(num_clients=10, dimension=2)
      >>> print(problem.num_clients, problem.data.shape)
      10 (10, 2)

    References:
      Xiang et al. 2023, section VI; Xiang et al. 2024, section 7.1.
    """
    checks.counts(num_clients=num_clients, dimension=dimension)
    checks.static_int('seed', seed, minimum=0, maximum=2**63 - 1)
    # The measured peak while the problem is built.
    checks.fits('num_clients', num_clients, 32 * num_clients * dimension)
    noise = np.random.default_rng(seed).normal(scale=0.1, size=(num_clients, dimension))
    return quadratic(np.arange(1, num_clients + 1)[:, None] / 1000 + noise)


def _start(point: tuple[float, ...], key: Key) -> Params:
    del key
    return jnp.asarray(point, jnp.result_type(float))


def _loss(params: Params, batch: Array | CurvedTargets) -> Array:
    """Computes the mean loss of examples from their centre c.

    ``0.5 mean_j ||x - u_j||^2 = 0.5 (||x - c||^2 + mean_j ||u_j - c||^2)``. So the gradient, x - c,
    has no axis of examples. With such an axis the compiler would copy the models of all clients in
    each local step. Curvature weighs the centre and the squares.
    """
    centre = _centre(batch)
    if isinstance(batch, CurvedTargets):
        spread = jnp.square(batch.target - centre[None]) * batch.curvature
        curvature = jnp.mean(batch.curvature, axis=0)
        distance = jnp.sum(jnp.square(params - centre) * curvature)
        return 0.5 * (distance + jnp.mean(jnp.sum(spread, -1)))
    spread = jnp.mean(jnp.sum(jnp.square(batch - centre[None]), axis=-1))
    return 0.5 * (jnp.sum(jnp.square(params - centre)) + spread)


def _centre(batch: Array | CurvedTargets) -> Array:
    """Returns the mean of the targets, weighted by their curvature."""
    if isinstance(batch, CurvedTargets):
        weighted = jnp.mean(batch.curvature * batch.target, axis=0)
        return weighted / jnp.mean(batch.curvature, axis=0)
    return jnp.mean(batch, axis=0)


def _noisy_loss(
    noise: float, params: Params, batch: Array | CurvedTargets, key: Key
) -> Array:
    return _loss(params, batch) + noise * jax.random.normal(key, params.shape) @ params


def _metrics(params: Params, data: Array | CurvedTargets) -> dict[str, Array]:
    return {
        'loss': _loss(params, data),
        'distance': jnp.linalg.norm(params - _centre(data)),
    }


def vector_regression(
    features: _Doubles, labels: _Doubles, loss_fn: Callable[[Params, Batch], Array]
) -> Problem:
    """Builds a regression whose model is a vector [d] that starts at zero.

    Args:
      features: float64[N, n, d].
      labels: float64[N, n].
      loss_fn: ``(params, batch) -> loss``.

    Returns:
      The problem, in float64 if x64 is enabled, without held-out data.
    """
    num_clients, num_examples, dimension = features.shape
    problem = from_arrays(
        features.reshape(-1, dimension),
        labels.ravel(),
        np.repeat(np.arange(num_clients), num_examples),
        init_params=Partial(_start, (0.0,) * dimension),
        loss_fn=loss_fn,
        larger_is_better=(),
    )
    return dataclasses.replace(problem, held_out=None)
