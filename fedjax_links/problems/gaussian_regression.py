"""Linear regression over clients that differ by chosen degrees; the least error is known."""

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from fedjax_links.base import Array, Params, Problem
from fedjax_links.core import checks
from fedjax_links.problems.arrays import Batch, from_arrays, zero_vector
from fedjax_links.problems.partials import Partial
from fedjax_links.problems.partition import draws

_DATA, _CLIENTS = 0x5244, 0x5243  # keep these draws apart from others that use the same seed


class GaussianClients(NamedTuple):
    """What clients of a Gaussian regression are.

    Attributes:
      vectors: float64[N, d], v_i, the regression vector of each client.
      shifts: float64[N, d], s_i, the mean of each client's features.
    """

    vectors: NDArray[np.float64]
    shifts: NDArray[np.float64]


class RegressionEvaluation(NamedTuple):
    """What a Gaussian regression is evaluated on: its population.

    Attributes:
      optimum: float[d], w*, the best linear model.
      moment: float[d, d], the clients' mean of ``E[x x^T]``.
      error: float[], the mean squared error of w*.
    """

    optimum: Array
    moment: Array
    error: Array


def draw_clients(
    *, num_clients: int, dimension: int, heterogeneity: float, shift: float, seed: int
) -> GaussianClients:
    """Draws regression vectors ``v_i = v + h e_i`` and shifts ``s_i = c f_i`` of N clients.

    Args:
      num_clients: N.
      dimension: d. The common vector v is uniform on the unit sphere; e_i and f_i are
        ``N(0, I / d)``, of mean square length one.
      heterogeneity: h, at least 0: how far regression vectors are from the common one.
      shift: c, at least 0: how far the clients' features are from the origin.
      seed: integer in ``[0, 2**32)``.

    Returns:
      The clients.

    Raises:
      ValueError: if an argument is out of range.
    """
    for name, value in (('num_clients', num_clients), ('dimension', dimension)):
        checks.static_int(name, value)
    checks.within('heterogeneity', heterogeneity, 0, 1e30)
    checks.within('shift', shift, 0, 1e30)
    checks.seed('seed', seed)
    checks.fits('dimension', dimension, 16 * dimension * (num_clients + dimension))
    rng = np.random.default_rng([int(seed), _CLIENTS])
    common = rng.standard_normal(dimension)
    common /= np.linalg.norm(common)
    spread = rng.standard_normal((2, num_clients, dimension)) / np.sqrt(dimension)
    return GaussianClients(common + heterogeneity * spread[0], shift * spread[1])


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

    Models are vectors without an intercept, from 0. They are evaluated on the population, all
    clients counting equally: ``loss`` is the exact mean squared error, ``error + (w - w*)^T S
    (w - w*)``, no sample of it, and ``attainable['loss']`` the least there is
    (`analysis.best_linear_fit`). Clients descend the mean squared error of their examples.

    Args:
      num_clients: N.
      examples_per_client: n.
      dimension: d.
      heterogeneity: h, how much regression vectors differ, see `gaussian_regression.draw_clients`.
      shift: c, how much the means of the features differ.
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
    checks.static_int('examples_per_client', examples_per_client)
    checks.within('sigma', sigma, 0, 1e30)
    clients = draw_clients(
        num_clients=num_clients,
        dimension=dimension,
        heterogeneity=heterogeneity,
        shift=shift,
        seed=partition_seed,
    )
    needed = 20 * num_clients * examples_per_client * dimension
    checks.fits('examples_per_client', examples_per_client, needed)
    rng = np.random.default_rng([int(data_seed), _DATA])
    features = rng.standard_normal((num_clients, examples_per_client, dimension))
    features += clients.shifts[:, None]
    labels = np.einsum('ijk,ik->ij', features, clients.vectors)
    labels += sigma * rng.standard_normal(labels.shape)
    fit = analysis.best_linear_fit(clients.vectors, clients.shifts, sigma=sigma)
    dtype = jnp.result_type(float)

    problem = from_arrays(
        features.reshape(-1, dimension).astype(dtype),
        labels.ravel().astype(dtype),
        np.repeat(np.arange(num_clients), examples_per_client),
        init_params=Partial(zero_vector, dimension),
        loss_fn=_squared_error,
    )
    evaluation = RegressionEvaluation(
        *(jnp.asarray(part, dtype) for part in (fit.vector, fit.moment, fit.error))
    )
    return dataclasses.replace(
        problem,
        eval_data=evaluation,
        metrics=_metrics,
        larger_is_better=(),
        held_out=None,
        attainable={'loss': np.asarray(fit.error, np.float64)},
    )


def _squared_error(params: Params, batch: Batch) -> Array:
    return jnp.mean(jnp.square(batch.features @ params - batch.labels))


def _metrics(params: Params, evaluation: RegressionEvaluation) -> dict[str, Array]:
    off = params - evaluation.optimum
    return {
        'loss': evaluation.error + off @ evaluation.moment @ off,
        'distance': jnp.linalg.norm(off),
    }
