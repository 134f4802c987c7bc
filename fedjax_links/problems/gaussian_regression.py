"""Linear regression over clients that differ by chosen degrees; the least error is known."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links.base import Array, Params, Problem
from fedjax_links.core import checks
from fedjax_links.problems.arrays import Batch, vector_regression
from fedjax_links.problems.partition import draws

_DATA, _CLIENTS = 0x5244, 0x5243  # keep these draws apart from others that use the same seed


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
    checks.static_int('num_clients', num_clients)
    checks.static_int('examples_per_client', examples_per_client)
    checks.static_int('dimension', dimension)
    checks.within('heterogeneity', heterogeneity, 0, 1e30)
    checks.within('shift', shift, 0, 1e30)
    checks.within('sigma', sigma, 0, 1e30)
    checks.fits('dimension', dimension, 16 * dimension * (num_clients + dimension))
    needed = 20 * num_clients * examples_per_client * dimension
    checks.fits('examples_per_client', examples_per_client, needed)
    rng = np.random.default_rng([int(partition_seed), _CLIENTS])
    common = rng.standard_normal(dimension)
    common /= np.linalg.norm(common)
    spread = rng.standard_normal((2, num_clients, dimension)) / np.sqrt(dimension)
    vectors, shifts = common + heterogeneity * spread[0], shift * spread[1]
    rng = np.random.default_rng([int(data_seed), _DATA])
    features = rng.standard_normal((num_clients, examples_per_client, dimension)) + shifts[:, None]
    labels = np.einsum('ijk,ik->ij', features, vectors)
    labels += sigma * rng.standard_normal(labels.shape)
    fit = analysis.best_linear_fit(vectors, shifts, sigma=sigma)
    return dataclasses.replace(
        vector_regression(features, labels, loss_fn=_squared_error),
        eval_data=jax.tree.map(lambda part: jnp.asarray(part, jnp.result_type(float)), fit),
        metrics=_metrics,
        held_out=None,
        attainable={'loss': np.asarray(fit.error, np.float64)},
    )


def _squared_error(params: Params, batch: Batch) -> Array:
    return jnp.mean(jnp.square(batch.features @ params - batch.labels))


def _metrics(params: Params, fit: Any) -> dict[str, Array]:
    """The error of a model on the population, of which ``fit`` is an `analysis.LinearFit`."""
    off = params - fit.vector
    return {'loss': fit.error + off @ fit.moment @ off, 'distance': jnp.linalg.norm(off)}
