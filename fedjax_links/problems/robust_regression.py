"""Robust regression: a smooth loss without convexity, and clients of very different scale."""

import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from fedjax_links.base import Array, Params, Problem
from fedjax_links.core import checks
from fedjax_links.problems.arrays import Batch, vector_regression

_Doubles = NDArray[np.float64]

_STREAM = 0x5253  # keeps these draws independent of others that use the same seed


class RobustEvaluation(NamedTuple):
    """What the robust regression is evaluated on.

    Attributes:
      examples: all clients' examples.
      optimum: float[d], x*.
    """

    examples: Batch
    optimum: Array


def robust_regression(
    *, num_clients: int = 100, dimension: int = 20, examples_per_client: int = 100, seed: int = 0
) -> Problem:
    """Regression under a loss that outliers hardly move, with exact local gradients.

    ``f_i(x) = mean_j log(1 + (<A_i[j], x> + b_i[j])^2 / 2)``, the global objective is the mean of
    the f_i, and x^0 = 0. The loss is not convex; the signs are as printed, so that
    the optimum is near minus the reference points theta_i.

    ``b_i = A_i theta_i + e_i``, entries of A_i from N(0, (i / 2)^-2) for i = 1..N (standard
    deviation 2 / i), theta_i from N(mu_i, I), mu_i from N(alpha, 1), alpha from N(0, 100) (standard
    deviation 10), entries of e_i from N(0, 1/4).

    Args:
      num_clients: N.
      dimension: d.
      examples_per_client: n, equal for all clients.
      seed: integer in ``[0, 2**32)``.

    Returns:
      A problem whose parameters are a vector float[d], in float64 if x64 is enabled. Its metrics
      are ``loss`` (the global objective) and ``distance`` (L2, to x*, see
      `robust_regression.robust_optimum`).

    Raises:
      ValueError: if an argument is out of range.

    References:
      Sun et al. 2025, section 6.
    """
    checks.static_int('num_clients', num_clients)
    checks.static_int('dimension', dimension)
    checks.static_int('examples_per_client', examples_per_client)
    checks.seed('seed', seed)
    checks.fits('num_clients', num_clients, 16 * num_clients * examples_per_client * dimension)
    rng = np.random.default_rng([int(seed), _STREAM])
    common_mean = 10 * rng.standard_normal()
    reference_means = common_mean + rng.standard_normal(num_clients)
    references = reference_means[:, None] + rng.standard_normal((num_clients, dimension))
    deviations = 2 / np.arange(1, num_clients + 1)
    shape = (num_clients, examples_per_client, dimension)
    features = deviations[:, None, None] * rng.standard_normal(shape)
    noise = 0.5 * rng.standard_normal(shape[:2])
    labels = np.einsum('ijk,ik->ij', features, references) + noise
    starts = -np.concatenate([references[:3], references.mean(axis=0)[None]])
    optimum = robust_optimum(features.reshape(-1, dimension), labels.ravel(), starts=starts)
    problem = vector_regression(features, labels, loss_fn=_robust_loss)
    evaluation = RobustEvaluation(problem.data, jnp.asarray(optimum, jnp.result_type(float)))
    return dataclasses.replace(
        problem, eval_data=evaluation, metrics=_robust_metrics, held_out=None
    )


def robust_optimum(features: _Doubles, labels: _Doubles, *, starts: _Doubles) -> _Doubles:
    """The lowest minimum of ``mean_j log(1 + (<a_j, x> + b_j)^2 / 2)`` that is reached.

    A trust-region Newton method with the exact Hessian goes down from every start, and Newton steps
    refine the best point.

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

    # Plain sums: BLAS threads that fight for busy cores cost a hundred times the work itself.
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
        return np.einsum('ji,jk->ik', features, features * curvatures[:, None]) / len(labels)

    newton: Any = {'jac': gradient, 'hess': hessian, 'method': 'trust-exact'}
    for precision in (1e-4, 1e-9):  # of many clients, most move the mean too little for the first
        reached = [minimize(value, start, tol=precision, **newton).x for start in starts]
        best: _Doubles = min(reached, key=value)
        for _ in range(10):
            if np.max(np.abs(gradient(best))) < 1e-11:
                return best
            best = best - np.linalg.solve(hessian(best), gradient(best))
    raise RuntimeError(f'no minimum was found: the gradient stays at {gradient(best)}.')


def _robust_loss(params: Params, batch: Batch) -> Array:
    residuals = batch.features @ params + batch.labels
    return jnp.mean(jnp.log1p(0.5 * jnp.square(residuals)))


def _robust_metrics(params: Params, evaluation: RobustEvaluation) -> dict[str, Array]:
    return {
        'loss': _robust_loss(params, evaluation.examples),
        'distance': jnp.linalg.norm(params - evaluation.optimum),
    }
