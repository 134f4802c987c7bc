r"""Runs FedPBC, FedAvg and amplified FedAvg with full gradients along given links, in float64.

`TrainedClients.train` makes the local steps of some clients in a round. For quadratics it makes all
local steps in one product, for linear models one step at a time.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.analysis import _checks, linear_models
from fedjax_links.analysis.theorems import _numbers


class TrainedClients(NamedTuple):
    """Holds the functions of a problem that the runs need.

    Attributes:
      train: (models float64[K, P], ids int[K]) -> the models of these K clients after a round's
        local steps.
      gradient: model float64[P] -> the gradient of F at this model, float64[P].
      initial_point: float64[P], the model at the start.
      num_clients: N.
    """

    train: Callable[[np.ndarray, np.ndarray], np.ndarray]
    gradient: Callable[[np.ndarray], np.ndarray]
    initial_point: np.ndarray
    num_clients: int


def quadratic_clients(
    targets: ArrayLike,
    learning_rate: ArrayLike,
    local_steps: int,
    *,
    curvatures: ArrayLike | None = None,
    initial_point: ArrayLike | None = None,
) -> TrainedClients:
    r"""Builds clients with ``F_i(x) = h_i / 2 ||x - u_i||^2``.

    Args:
      targets: float[N, d] (or float[N]), u_i.
      learning_rate: the local rate, or float[N] with one rate per client; rate times curvature lies
        in (0, 2).
      local_steps: s, at least 1.
      curvatures: float[N], h_i, positive; 1 by default.
      initial_point: float[d], the model at the start; zeros by default.

    Returns:
      The clients.

    Raises:
      ValueError: if an argument is out of range or the shapes disagree.

    Example:
      >>> import numpy as np
      >>> from fedjax_links.analysis.theorems import gradient_runs
      >>> clients = gradient_runs.quadratic_clients([0.0, 4.0], 0.5, 2)
      >>> print(clients.train(np.zeros((2, 1)), np.array([0, 1])).ravel())
      [0. 3.]
    """
    points, h, start = _numbers.quadratics(targets, curvatures, initial_point)
    num_clients = len(points)
    rate_curvatures = _rates_of(learning_rate, num_clients) * h
    in_range = bool(np.all((rate_curvatures > 0.0) & (rate_curvatures < 2.0)))
    requirement = 'have a product with `curvatures` in (0, 2)'
    _checks.require(in_range, 'learning_rate', requirement, learning_rate)
    steps = _numbers.at_least_one('local_steps', local_steps)
    factors = ((1.0 - rate_curvatures) ** steps)[:, None]
    centre = h @ points / h.sum()

    def train(models: np.ndarray, ids: np.ndarray) -> np.ndarray:
        # Local steps contract the distance to the target by (1 - eta h_i)^s.
        factor = factors[ids]
        return factor * models + (1.0 - factor) * points[ids]

    def gradient(model: np.ndarray) -> np.ndarray:
        return np.asarray(h.mean() * (model - centre))

    return TrainedClients(train, gradient, start, num_clients)


def linear_clients(
    features: ArrayLike,
    labels: ArrayLike,
    owners: ArrayLike,
    learning_rate: ArrayLike,
    local_steps: int,
    *,
    start: linear_models.LinearModel | None = None,
    **options: Any,
) -> TrainedClients:
    r"""Builds clients with linear models, whose parameters (B, b) are one vector.

    Args:
      features: float[E, ...], one row for each example.
      labels: as in `fedjax_links.analysis.weighted_minimiser`.
      owners: int[E], the client of each example, 0 to N - 1; every client has an example.
      learning_rate: the local rate, or float[N] with one rate per client, positive.
      local_steps: s, at least 1.
      start: the model at the start; zero by default.
      **options: ``loss``, ``num_classes`` and ``l2``, as in `weighted_minimiser`.

    Returns:
      The clients.

    Raises:
      ValueError: if an argument is out of range or the shapes disagree.

    Example:
      >>> from fedjax_links.analysis.theorems import gradient_runs
      >>> clients = gradient_runs.linear_clients(
      ...     [[1.0], [2.0]], [1.0, 1.0], [0, 1], 0.1, 1, loss='least_squares'
      ... )
      >>> print(clients.gradient(clients.initial_point))
      [-3. -2.]
    """
    steps = _numbers.at_least_one('local_steps', local_steps)
    objectives = client_objectives(features, labels, owners, **options)
    rates = _rates_of(learning_rate, len(objectives))

    def train(models: np.ndarray, ids: np.ndarray) -> np.ndarray:
        trained = np.array(models)
        for row, client in enumerate(ids):
            for _ in range(steps):
                _, slope = objectives[client].value_and_gradient(trained[row])
                trained[row] -= rates[client] * slope
        return trained

    def gradient(model: np.ndarray) -> np.ndarray:
        slopes = [each.value_and_gradient(model)[1] for each in objectives]
        return np.asarray(np.mean(slopes, axis=0))

    initial_point = start_parameters(objectives, start)
    return TrainedClients(train, gradient, initial_point, len(objectives))


def client_objectives(
    features: ArrayLike, labels: ArrayLike, owners: ArrayLike, **options: Any
) -> list[linear_models.WeightedLoss]:
    """Builds the objective of every client of a linear model.

    Args:
      features: float[E, ...].
      labels: as in `fedjax_links.analysis.weighted_minimiser`.
      owners: int[E], the client of each example; every client has an example.
      **options: ``loss``, ``num_classes`` and ``l2``, as in `weighted_minimiser`.

    Returns:
      One objective per client, in float64.

    Raises:
      ValueError: if an argument is out of range or the shapes disagree.
    """
    rows = linear_models.as_rows(features)
    is_table = rows.ndim > 1 and rows.size > 0
    got = f'shape {rows.shape}'
    _checks.require(is_table, 'features', 'be a non-empty [E, ...]', got)
    fits = f'have {len(rows)} entries'
    ids = _checks.as_array('owners', owners, fits)
    _checks.require(ids.shape == (len(rows),), 'owners', fits, f'shape {ids.shape}')
    are_ids = ids.dtype.kind in 'iu' and ids.min(initial=0) >= 0
    _checks.require_value(are_ids, 'owners', 'be int[E], from 0', owners)
    fits = f'have one row per example ({len(rows)})'
    targets = _checks.as_array('labels', labels, fits)
    has_rows = targets.shape[:1] == (len(rows),)
    _checks.require(has_rows, 'labels', fits, f'shape {targets.shape}')
    loss = options.get('loss', linear_models.SOFTMAX)
    is_softmax = isinstance(loss, str) and loss == linear_models.SOFTMAX
    if is_softmax and options.get('num_classes') is None:
        are_classes = targets.dtype.kind in 'iu'
        _checks.require(are_classes, 'labels', 'be int[E]', f'dtype {targets.dtype}')
        _checks.checked('labels', targets, targets >= 0, 'be at least 0')
        options['num_classes'] = int(targets.max()) + 1
    named = np.unique(ids)
    num_clients = int(named[-1]) + 1
    requirement = f'name every client from 0 to {num_clients - 1}'
    # Sorted ids exceed their index from the first client on that has no example.
    got = f'none of client {np.argmax(named > np.arange(named.size))}'
    _checks.require(named.size == num_clients, 'owners', requirement, got)
    objectives = []
    for client in range(num_clients):
        is_owned = ids == client
        alone = np.zeros(int(is_owned.sum()), np.int64)
        objective = linear_models.weighted_loss(
            rows[is_owned], targets[is_owned], alone, [1.0], **options
        )
        objectives.append(objective)
    return objectives


def start_parameters(
    objectives: list[linear_models.WeightedLoss],
    start: linear_models.LinearModel | None,
) -> np.ndarray:
    """Returns the parameters (B, b) of a start as one vector float64[P]; zeros by default.

    Raises:
      ValueError: if the model's size is not that of the objectives.
    """
    if start is None:
        return np.zeros(objectives[0].design.shape[1] * objectives[0].num_outputs)
    return objectives[0].checked_parameters('start', start)


def fedpbc_gradient_squares(masks: ArrayLike, clients: TrainedClients) -> np.ndarray:
    r"""Runs FedPBC with full gradients.

    Args:
      masks: bool[T, N], whose uploads arrive.
      clients: from `quadratic_clients` or `linear_clients`.

    Returns:
      float64[T], ``||grad F(xbar^t)||^2`` at the mean client model for t = 0 to T - 1. On
      quadratics of one curvature the result is the same for any masks, because mixing keeps the
      mean.

    Raises:
      ValueError: if the masks are not of these clients.

    Example:
      >>> from fedjax_links.analysis.theorems import gradient_runs
      >>> clients = gradient_runs.quadratic_clients([[0.0], [4.0]], 0.5, 1)
      >>> print(gradient_runs.fedpbc_gradient_squares([[1, 0], [1, 1]], clients))
      [4. 1.]

    References:
      Xiang et al., CDC 2023, Algorithm 2.
    """
    active = _masks_of(masks, clients)
    ids = np.arange(clients.num_clients)
    models = np.tile(clients.initial_point, (clients.num_clients, 1))
    squares = np.zeros(len(active))
    for t, uploads in enumerate(active):
        squares[t] = np.sum(clients.gradient(models.mean(axis=0)) ** 2)
        models = clients.train(models, ids)
        if uploads.any():
            models[uploads] = models[uploads].mean(axis=0)
    return squares


def amplified_fedavg_gradient_squares(
    masks: ArrayLike,
    clients: TrainedClients,
    *,
    period: int = 1,
    amplification: float = 1.0,
) -> np.ndarray:
    r"""Runs amplified FedAvg with full gradients.

    Args:
      masks: bool[T, N], who takes part. An empty round leaves the model as it is.
      clients: from `quadratic_clients` or `linear_clients`.
      period: P, at least 1; with 1 and no amplification this is FedAvg.
      amplification: eta, positive.

    Returns:
      float64[T], ``||grad f(x_t)||^2`` at the server model for t = 0 to T - 1. Blocks start at
      t = 0, P, 2 P, and so on.

    Raises:
      ValueError: if the masks are not of these clients or an argument is out of range.

    Example:
      >>> from fedjax_links.analysis.theorems import gradient_runs
      >>> clients = gradient_runs.quadratic_clients([[0.0], [4.0]], 0.5, 1)
      >>> print(gradient_runs.amplified_fedavg_gradient_squares(
      ...     [[1, 0], [0, 1], [1, 1]], clients, period=2, amplification=2.0
      ... ))
      [4. 4. 4.]

    References:
      Wang and Ji, NeurIPS 2022, Algorithm 1.
    """
    active = _masks_of(masks, clients)
    size = _checks.checked_int('period', period, minimum=1)
    eta = _checks.checked_positive('amplification', amplification)
    model = np.array(clients.initial_point)
    block_start = model
    squares = np.zeros(len(active))
    for t, participants in enumerate(active):
        if t % size == 0:
            block_start = model
        squares[t] = np.sum(clients.gradient(model) ** 2)
        ids = np.flatnonzero(participants)
        if ids.size:
            model = clients.train(np.tile(model, (ids.size, 1)), ids).mean(axis=0)
        if (t + 1) % size == 0:
            model = block_start + eta * (model - block_start)
    return squares


def _rates_of(learning_rate: ArrayLike, num_clients: int) -> np.ndarray:
    """Returns positive local rates float64[N]."""
    rates = _checks.as_doubles('learning_rate', learning_rate)
    what = f'one for each of {num_clients} clients'
    rates = _checks.checked_shape('learning_rate', rates, (num_clients,), what)
    rates = _checks.checked('learning_rate', rates, rates > 0, 'be positive')
    return _checks.checked('learning_rate', rates, np.isfinite(rates), 'be finite')


def _masks_of(masks: ArrayLike, clients: TrainedClients) -> np.ndarray:
    """Returns masks bool[T, N] of these clients."""
    what = 'clients, as `quadratic_clients` makes them'
    _checks.checked_kind('clients', clients, TrainedClients, what)
    active = _checks.checked_masks('masks', masks, ndim=2)
    fits = f'have {clients.num_clients} clients'
    _checks.require(
        active.shape[1] == clients.num_clients, 'masks', fits, active.shape[1]
    )
    return active
