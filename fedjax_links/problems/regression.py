"""Regression over clients that differ: least squares whose least error is known, and robust."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from fedjax_links.base import Array, Key, Params, Problem
from fedjax_links.core import checks
from fedjax_links.problems import draws
from fedjax_links.problems.arrays import Batch, from_arrays
from fedjax_links.problems.partials import Partial

_Doubles = NDArray[np.float64]


def gaussian_regression(
    *,
    num_clients: int = 100,
    examples_per_client: int = 100,
    dimension: int = 20,
    heterogeneity: float = 1.0,
    shift: float = 0.0,
    sigma: float = 0.5,
    seed: int = 0,
    data_seed: int | None = None,
    partition_seed: int | None = None,
) -> Problem:
    """Least squares on ``y = <x, v_i> + sigma e`` with ``x ~ N(s_i, I)`` on client i.

    Clients have regression vectors ``v_i = v + h e_i`` and shifts ``s_i = c f_i``: the common v is
    uniform on the unit sphere, e_i and f_i are ``N(0, I / d)``, of mean square length one.

    Models are vectors without an intercept, from 0. They are evaluated on the population, all
    clients counting equally: ``loss`` is the exact mean squared error, ``error + (w - w*)^T S
    (w - w*)``, no sample of it, and ``attainable['loss']`` the least there is
    (`analysis.best_linear_fit`). Clients descend the mean squared error of their examples.

    Args:
      num_clients: N.
      examples_per_client: n.
      dimension: d.
      heterogeneity: h, at least 0: how far regression vectors are from the common one.
      shift: c, at least 0: how far the clients' features are from the origin.
      sigma: standard deviation of the noise, at least 0.
      seed: integer in ``[0, 2**32)``.
      data_seed: seed of the examples in place of ``seed``.
      partition_seed: seed of the clients' vectors and shifts in place of ``seed``.

    Returns:
      A problem whose parameters are a vector float[d], with metrics ``loss`` and ``distance`` (L2,
      to the population's best model).

    Raises:
      ValueError: if an argument is out of range.
    """
    from fedjax_links import analysis  # brings SciPy, which takes longest to import

    data_seed, partition_seed = draws.seeds(seed, data_seed, partition_seed)
    checks.counts(num_clients=num_clients, examples_per_client=examples_per_client)
    checks.counts(dimension=dimension)
    checks.within('heterogeneity', heterogeneity, 0, 1e30)
    checks.within('shift', shift, 0, 1e30)
    checks.within('sigma', sigma, 0, 1e30)
    checks.fits('dimension', dimension, 16 * dimension * (num_clients + dimension))
    needed = 20 * num_clients * examples_per_client * dimension
    checks.fits('examples_per_client', examples_per_client, needed)
    rng = draws.generator(partition_seed, 'RC')
    common = rng.standard_normal(dimension)
    common /= np.linalg.norm(common)
    spread = rng.standard_normal((2, num_clients, dimension)) / np.sqrt(dimension)
    vectors, shifts = common + heterogeneity * spread[0], shift * spread[1]
    rng = draws.generator(data_seed, 'RD')
    features = rng.standard_normal((num_clients, examples_per_client, dimension)) + shifts[:, None]
    labels = np.einsum('ijk,ik->ij', features, vectors)
    labels += sigma * rng.standard_normal(labels.shape)
    fit = analysis.best_linear_fit(vectors, shifts, sigma=sigma)
    return dataclasses.replace(
        _of_vectors(features, labels, _squared_error),
        eval_data=jax.tree.map(lambda part: jnp.asarray(part, jnp.result_type(float)), fit),
        metrics=_population_metrics,
        attainable={'loss': np.asarray(fit.error, np.float64)},
    )


def _squared_error(params: Params, batch: Batch) -> Array:
    return jnp.mean(jnp.square(batch.features @ params - batch.labels))


def _population_metrics(params: Params, fit: Any) -> dict[str, Array]:
    """The error of a model on the population, of which ``fit`` is an `analysis.LinearFit`."""
    off = params - fit.vector
    return {'loss': fit.error + off @ fit.moment @ off, 'distance': jnp.linalg.norm(off)}


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
      `regression.robust_optimum`).

    Raises:
      ValueError: if an argument is out of range.

    References:
      Sun et al. 2025, section 6.
    """
    checks.counts(num_clients=num_clients, examples_per_client=examples_per_client)
    checks.counts(dimension=dimension)
    checks.fits('num_clients', num_clients, 16 * num_clients * examples_per_client * dimension)
    rng = draws.generator(seed, 'RS')
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
    problem = _of_vectors(features, labels, _robust_loss)
    evaluation = RobustEvaluation(problem.data, jnp.asarray(optimum, jnp.result_type(float)))
    return dataclasses.replace(problem, eval_data=evaluation, metrics=_robust_metrics)


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


def _of_vectors(
    features: _Doubles, labels: _Doubles, loss_fn: Callable[[Params, Batch], Array]
) -> Problem:
    """Examples [N, n, d] and [N, n] for a vector, from 0, in float64 if x64 is enabled."""
    num_clients, num_examples, dimension = features.shape
    problem = from_arrays(
        features.reshape(-1, dimension),
        labels.ravel(),
        np.repeat(np.arange(num_clients), num_examples),
        init_params=Partial(_zeros, dimension),
        loss_fn=loss_fn,
        larger_is_better=(),
    )
    return dataclasses.replace(problem, held_out=None)


def _zeros(dimension: int, key: Key) -> Array:
    del key
    return jnp.zeros(dimension, jnp.result_type(float))
