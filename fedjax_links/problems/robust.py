"""Builds a robust regression with exact gradients.

Its loss is smooth and not convex, and clients are of very different scale.
"""

import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from fedjax_links.base import Array, Params, Problem
from fedjax_links.core import checks, errors, numpy_random
from fedjax_links.problems.arrays import Batch
from fedjax_links.problems.vectors import vector_regression

_Doubles = NDArray[np.float64]


class RobustEvaluation(NamedTuple):
    """Holds the evaluation data of the robust regression.

    Attributes:
      examples: all clients' examples.
      optimum: float[d], x*, see `robust_optimum`.
    """

    examples: Batch
    optimum: Array


def robust_regression(
    *,
    num_clients: int = 100,
    dimension: int = 20,
    examples_per_client: int = 100,
    seed: int = 0,
) -> Problem:
    """Builds a regression under a loss that outliers hardly move, with exact gradients.

    ``f_i(x) = mean_j log(1 + (<A_i[j], x> + b_i[j])^2 / 2)``, the global objective is the mean of
    the f_i, and x^0 = 0. The signs are the paper's, so the optimum lies near minus the reference
    points theta_i. The loss is not convex: x* is the lowest minimum that descents from four points
    find. With few examples for each dimension there may be a lower one.

    The data are ``b_i = A_i theta_i + e_i`` for i = 1..N:

    * entries of A_i from N(0, (2 / i)^2), so later clients have smaller examples;
    * theta_i from N(mu_i, I), mu_i from N(alpha, 1), and one alpha from N(0, 100);
    * entries of e_i from N(0, 1/4).

    Args:
      num_clients: N.
      dimension: d, at most N n: with fewer examples no minimum is unique.
      examples_per_client: n, equal for all clients.
      seed: integer in ``[0, 2**32)``.

    Returns:
      A problem whose parameters are a vector float[d], in float64 if x64 is enabled. Its metrics
      are ``loss`` (the global objective) and ``distance`` (L2, to x*, see
      `robust.robust_optimum`).

    Raises:
      ValueError: if an argument is out of range.

    Example:
      >>> from fedjax_links import problems
      >>> problem = problems.robust_regression(num_clients=5, dimension=3)
      >>> optimum = problem.eval_data.optimum
      >>> print(problem.metrics(optimum, problem.eval_data)['distance'])
      0.0

    References:
      Sun et al. 2025, section 6.
    """
    checks.counts(
        num_clients=num_clients,
        examples_per_client=examples_per_client,
        dimension=dimension,
    )
    num_examples = num_clients * examples_per_client
    # The measured peak while the problem is built.
    checks.fits('num_clients', num_clients, num_examples * (21 * dimension + 50))
    if dimension > num_examples:
        requirement = f'be at most {num_examples}, the number of examples'
        raise errors.invalid('dimension', requirement, dimension)
    rng = numpy_random.generator(seed, 'RS')
    reference_means = 10 * rng.standard_normal() + rng.standard_normal(num_clients)
    references = reference_means[:, None] + rng.standard_normal(
        (num_clients, dimension)
    )
    deviations = 2 / np.arange(1, num_clients + 1)
    shape = (num_clients, examples_per_client, dimension)
    features = deviations[:, None, None] * rng.standard_normal(shape)
    noise = 0.5 * rng.standard_normal(shape[:2])
    labels = np.einsum('ijk,ik->ij', features, references) + noise
    # The first clients have the largest examples, so the optimum is near minus their points.
    starts = -np.concatenate([references[:3], references.mean(axis=0)[None]])
    optimum = robust_optimum(
        features.reshape(-1, dimension), labels.ravel(), starts=starts
    )
    problem = vector_regression(features, labels, _robust_loss)
    evaluation = RobustEvaluation(
        problem.data, jnp.asarray(optimum, jnp.result_type(float))
    )
    return dataclasses.replace(problem, eval_data=evaluation, metrics=_robust_metrics)


def robust_optimum(
    features: _Doubles, labels: _Doubles, *, starts: _Doubles
) -> _Doubles:
    """Finds the lowest minimum of the robust regression that descents from several starts reach.

    It minimises ``mean_j log(1 + (<a_j, x> + b_j)^2 / 2)``. A trust-region Newton method with the
    exact Hessian descends from each start, and Newton steps refine the lowest point.

    Args:
      features: float64[E, d], rows a_j.
      labels: float64[E], b_j.
      starts: float64[S, d].

    Returns:
      float64[d]. The gradient's entries are below 1e-11 there.

    Raises:
      RuntimeError: if the gradient does not get that small.
    """
    from scipy.optimize import minimize  # slow to import, so only here

    # einsum stays on one thread. On busy cores the threads of BLAS wait longer than they compute.
    def residuals_at(x: _Doubles) -> _Doubles:
        return np.einsum('ji,i->j', features, x) + labels

    def value(x: _Doubles) -> float:
        return float(np.mean(np.log1p(np.square(residuals_at(x)) / 2)))

    def gradient(x: _Doubles) -> _Doubles:
        residuals = residuals_at(x)
        slopes = residuals / (1 + residuals**2 / 2)
        return np.einsum('ji,j->i', features, slopes) / len(labels)

    def hessian(x: _Doubles) -> _Doubles:
        squares = np.square(residuals_at(x)) / 2
        curvatures = (1 - squares) / (1 + squares) ** 2
        weighted = features * curvatures[:, None]
        return np.einsum('ji,jk->ik', features, weighted) / len(labels)

    newton: dict[str, Any] = {'jac': gradient, 'hess': hessian, 'method': 'trust-exact'}
    # The first tolerance may end too early: the mean over many clients has small gradients.
    for tolerance in (1e-4, 1e-9):
        minima = [minimize(value, start, tol=tolerance, **newton).x for start in starts]
        best: _Doubles = min(minima, key=value)
        for _ in range(10):
            if np.max(np.abs(gradient(best))) < 1e-11:
                return best
            best = best - np.linalg.solve(hessian(best), gradient(best))
    raise RuntimeError(f'no minimum was found: the gradient stays at {gradient(best)}.')


def _robust_loss(params: Params, batch: Batch) -> Array:
    residuals = batch.features @ params + batch.labels
    return jnp.mean(jnp.log1p(0.5 * jnp.square(residuals)))


def _robust_metrics(params: Params, evaluation: RobustEvaluation) -> dict[str, Array]:
    distance = jnp.linalg.norm(params - evaluation.optimum)
    return {'loss': _robust_loss(params, evaluation.examples), 'distance': distance}
