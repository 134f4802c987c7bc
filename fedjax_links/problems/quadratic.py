"""Quadratics with equal curvature: every limit, bias and variance is known in closed form."""

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.base import Array, Key, Params, Problem, Rows
from fedjax_links.core import checks, errors
from fedjax_links.problems.partials import Partial


def quadratic(targets: ArrayLike, *, initial_point: ArrayLike | None = None) -> Problem:
    """``F_i(x) = 0.5 ||x - u_i||^2`` with exact gradients; the optimum is the mean of the u_i.

    Args:
      targets: float[N, d], u_i of each client.
      initial_point: float[d], x^0; zero by default.

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
    targets = jnp.asarray(points, jnp.result_type(float))
    return Problem(
        data=targets,
        owned=Rows(jnp.arange(len(points), dtype=jnp.int32), jnp.ones(len(points), jnp.int32)),
        eval_data=targets,
        init_params=Partial(_start, tuple(start.tolist())),
        loss_fn=_loss,
        metrics=_metrics,
        min_examples=1,
        max_examples=1,
        larger_is_better=(),
    )


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
    checks.static_int('num_clients', num_clients)
    checks.static_int('dimension', dimension)
    checks.static_int('seed', seed, minimum=0, maximum=2**63 - 1)
    checks.fits('num_clients', num_clients, 8 * num_clients * dimension)
    noise = np.random.default_rng(seed).normal(scale=0.1, size=(num_clients, dimension))
    return quadratic(np.arange(1, num_clients + 1)[:, None] / 1000 + noise)


def _start(point: tuple[float, ...], key: Key) -> Params:
    del key
    return jnp.asarray(point, jnp.result_type(float))


def _loss(params: Params, batch: Array) -> Array:
    """``0.5 mean_j ||x - u_j||^2``, as ``0.5 (||x - c||^2 + mean_j ||u_j - c||^2)``, c the mean.

    So the gradient, x - c, has no axis of examples, which would make the compiler copy the models
    of all clients in every local step.
    """
    centre = jnp.mean(batch, axis=0)
    spread = jnp.mean(jnp.sum(jnp.square(batch - centre[None]), axis=-1))
    return 0.5 * (jnp.sum(jnp.square(params - centre)) + spread)


def _metrics(params: Params, targets: Array) -> dict[str, Array]:
    optimum = jnp.mean(targets, axis=0)
    return {'loss': _loss(params, targets), 'distance': jnp.linalg.norm(params - optimum)}
