r"""Linear models under client weights: ``F(B, b) = sum_i w_i mean_{e of i} loss(B^T x_e + b, y_e)``.

Three losses of the scores ``s = B^T x + b``:

* ``softmax``: ``log sum_c exp(s_c) - s_y``, labels 0 to C - 1;
* ``logistic``: ``log(1 + exp(s)) - y s`` of one score, labels 0 and 1;
* ``least_squares``: the mean over outputs of ``(s - y)^2``.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fedjax_links.analysis import _checks

SOFTMAX, LOGISTIC, LEAST_SQUARES = 'softmax', 'logistic', 'least_squares'


class LinearModel(NamedTuple):
    """Scores that are linear in the features.

    Attributes:
      coefficients: float64[d, C], B.
      intercept: float64[C], b.
    """

    coefficients: np.ndarray
    intercept: np.ndarray

    def scores(self, features: ArrayLike) -> np.ndarray:
        """float64[E, C] of features [E, ...]."""
        rows = np.asarray(features, np.float64)
        found: np.ndarray = rows.reshape(len(rows), -1) @ self.coefficients + self.intercept
        return found


class _Loss(NamedTuple):
    """A loss of scores [E, C].

    Attributes:
      value_and_slope: (scores, targets) -> losses [E] and their derivatives [E, C].
      curvature: scores -> second derivatives [E, C, C], none of them positive off the diagonal.
      most_curved: a bound of the largest eigenvalue of any second derivative.
      invariant: whether the same number added to all scores of an example changes nothing.
    """

    value_and_slope: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
    curvature: Callable[[np.ndarray], np.ndarray]
    most_curved: Callable[[int], float]
    invariant: bool


def _softmax(scores: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows = np.arange(len(scores))
    shifted = scores - scores.max(axis=1, keepdims=True)
    slopes = np.exp(shifted)
    total = slopes.sum(axis=1)
    values = np.log(total) - shifted[rows, targets]
    slopes /= total[:, None]
    slopes[rows, targets] -= 1
    return values, slopes


def _softmax_curvature(scores: np.ndarray) -> np.ndarray:
    chances = special.softmax(scores, axis=1)
    curved: np.ndarray = chances[:, :, None] * (np.eye(scores.shape[1]) - chances[:, None, :])
    return curved


def _logistic(scores: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    score = scores[:, 0]
    values = np.logaddexp(0, score) - targets * score
    return values, (special.expit(score) - targets)[:, None]


def _logistic_curvature(scores: np.ndarray) -> np.ndarray:
    curved: np.ndarray = (special.expit(scores) * special.expit(-scores))[:, :, None]
    return curved


def _squares(scores: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    off = scores - targets
    return np.mean(off**2, axis=1), 2 / scores.shape[1] * off


def _squares_curvature(scores: np.ndarray) -> np.ndarray:
    size = scores.shape[1]
    return np.broadcast_to(2 / size * np.eye(size), (len(scores), size, size))


_LOSSES = {
    SOFTMAX: _Loss(_softmax, _softmax_curvature, lambda _: 0.5, True),
    LOGISTIC: _Loss(_logistic, _logistic_curvature, lambda _: 0.25, False),
    LEAST_SQUARES: _Loss(_squares, _squares_curvature, lambda size: 2 / size, False),
}


class WeightedLoss(NamedTuple):
    """The objective F over parameters float64[D, C], a row for each feature and one for b.

    Attributes:
      design: float64[E, D], features and a last column of ones.
      targets: int64[E] or float64[E, C]; examples of clients without weight are left out.
      shares: float64[E], ``w_i / n_i`` of the owner.
      num_outputs: C.
      loss: the loss.
      penalty: float64[D], what ``|parameters|^2 / 2`` is weighted by: `l2`, 0 for b.
    """

    design: np.ndarray
    targets: np.ndarray
    shares: np.ndarray
    num_outputs: int
    loss: _Loss
    penalty: np.ndarray

    def value_and_gradient(self, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        """F and its gradient, float64[D, C]."""
        values, slopes = self.loss.value_and_slope(self.design @ parameters, self.targets)
        pull = self.penalty[:, None] * parameters
        gradient = self.design.T @ (self.shares[:, None] * slopes) + pull
        return float(self.shares @ values + 0.5 * np.sum(pull * parameters)), gradient

    def hessian(self, parameters: np.ndarray) -> np.ndarray:
        """float64[D C, D C]; positive along shifts of all scores, where F is flat."""
        curvature = self.loss.curvature(self.design @ parameters)
        size, outputs = self.design.shape[1], self.num_outputs
        found = np.zeros((size, outputs, size, outputs))
        for a in range(outputs):
            for b in range(a, outputs):
                curved = curvature[:, a, b]  # of one sign: a product of a matrix with itself
                if not curved.any():
                    continue
                rows = np.sqrt(self.shares * np.abs(curved))[:, None] * self.design
                block = (1 if a == b else -1) * (rows.T @ rows)
                found[:, a, :, b] = found[:, b, :, a] = block
        places = np.arange(size)
        for a in range(outputs):
            found[places, a, places, a] += self.penalty
        if self.loss.invariant:
            level = np.mean([np.trace(found[:, a, :, a]) for a in range(outputs)]) / size
            found[places, :, places, :] += level / outputs
        return found.reshape(size * outputs, size * outputs)

    def smoothness(self) -> float:
        """A bound of the largest eigenvalue of the Hessian, anywhere."""
        gram = self.design.T @ (self.shares[:, None] * self.design)
        curved = self.loss.most_curved(self.num_outputs)
        return float(curved * np.linalg.eigvalsh(gram)[-1] + self.penalty.max())

    def separates(self, parameters: np.ndarray) -> bool:
        """Whether every example is on its own side: then larger parameters are always better."""
        scores = self.design @ parameters
        if self.loss is _LOSSES[LOGISTIC]:
            return bool(np.all((2 * self.targets - 1) * scores[:, 0] > 0))
        if self.loss is _LOSSES[LEAST_SQUARES]:
            return False
        rows = np.arange(len(scores))
        own = scores[rows, self.targets]
        scores[rows, self.targets] = -np.inf
        return bool(np.all(own > scores.max(axis=1)))

    def model(self, parameters: np.ndarray) -> LinearModel:
        """Parameters float64[D, C] as coefficients and intercept."""
        return LinearModel(parameters[:-1], parameters[-1])


def weighted_loss(
    features: ArrayLike,
    labels: ArrayLike,
    clients: ArrayLike,
    weights: ArrayLike,
    *,
    loss: str,
    num_classes: int | None,
    l2: float,
) -> WeightedLoss:
    """The objective, its arguments checked; see `weighted_minimiser` for them."""
    if loss not in _LOSSES:
        raise ValueError(f'`loss` must be one of {", ".join(_LOSSES)}, got {loss!r}.')
    rows = np.asarray(features, np.float64)
    if rows.ndim < 2 or rows.size == 0 or not np.isfinite(rows).all():
        raise ValueError(f'`features` must be finite, [E, d], got shape {list(rows.shape)}.')
    rows = rows.reshape(len(rows), -1)
    shares = _shares(_checks.checked_vector('weights', weights), clients, len(rows))
    targets, outputs = _targets(np.asarray(labels), loss, num_classes, len(rows))
    if not 0 <= l2 < np.inf:
        raise ValueError(f'`l2` must be finite and at least 0, got {l2}.')
    counted = shares > 0
    design = np.empty((int(counted.sum()), rows.shape[1] + 1))
    design[:, :-1], design[:, -1] = rows[counted], 1.0
    penalty = np.append(np.full(rows.shape[1], float(l2)), 0.0)
    return WeightedLoss(design, targets[counted], shares[counted], outputs, _LOSSES[loss], penalty)


def _shares(weights: np.ndarray, clients: ArrayLike, num_examples: int) -> np.ndarray:
    """``w_i / n_i`` of each example's owner."""
    owners = np.asarray(clients)
    if owners.shape != (num_examples,) or not np.issubdtype(owners.dtype, np.integer):
        raise ValueError(
            f'`clients` must be int[{num_examples}], an owner for each example, got '
            f'{owners.dtype}{list(owners.shape)}.'
        )
    _checks.raise_where('weights', weights, weights < 0, 'be at least 0')
    if not weights.any():
        raise ValueError(f'`weights` must hold a positive weight, got {weights.size} zeros.')
    if owners.min() < 0 or owners.max() >= weights.size:
        wrong = owners.min() if owners.min() < 0 else owners.max()
        raise ValueError(f'`clients` must hold ids from 0 to {weights.size - 1}, got {wrong}.')
    counts = np.bincount(owners, minlength=weights.size)
    idle = (counts == 0) & (weights > 0)
    if idle.any():
        raise ValueError(
            f'`clients` must give every client with a weight an example, got none for client '
            f'{int(np.argmax(idle))}.'
        )
    shares: np.ndarray = (weights / np.maximum(counts, 1))[owners]
    return shares


def _targets(
    labels: np.ndarray, loss: str, num_classes: int | None, num_examples: int
) -> tuple[np.ndarray, int]:
    """Labels as the loss takes them, and the number of outputs."""
    if len(labels) != num_examples or labels.ndim < 1:
        raise ValueError(
            f'`labels` must have one row per example ({num_examples}), got shape '
            f'{list(labels.shape)}.'
        )
    if loss == LEAST_SQUARES:
        targets = labels.astype(np.float64).reshape(num_examples, -1)
        return targets, targets.shape[1]
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(
            f'`labels` must be int[{num_examples}], got {labels.dtype}{list(labels.shape)}.'
        )
    top = int(labels.max()) if num_classes is None else num_classes - 1
    top = 1 if loss == LOGISTIC else top
    if labels.min() < 0 or labels.max() > top:
        wrong = labels.min() if labels.min() < 0 else labels.max()
        raise ValueError(f'`labels` must lie in 0 to {top}, got {wrong}.')
    return labels.astype(np.int64), 1 if loss == LOGISTIC else top + 1
