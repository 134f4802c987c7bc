r"""Linear models under client weights.

``F(B, b) = sum_i w_i mean_{e of i} loss(B^T x_e + b, y_e)``, with one of three losses of the
scores ``s = B^T x + b``:

* ``softmax``: ``log sum_c exp(s_c) - s_y``, labels 0 to C - 1;
* ``logistic``: ``log(1 + exp(s)) - y s`` of one score, labels 0 and 1;
* ``least_squares``: the mean over outputs of ``(s - y)^2``.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fedjax_links.analysis import _checks

# Multiplications in a product that BLAS leaves to one thread. Threads that wait for each other cost
# such small ones tens of times their work where cores are busy with something else.
_SMALL = 2**18

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
        return rows.reshape(len(rows), -1) @ self.coefficients + self.intercept

    @property
    def parameters(self) -> np.ndarray:
        """float64[d + 1, C], the intercept below the coefficients."""
        return np.concatenate([self.coefficients, self.intercept[None]]).astype(
            np.float64
        )


class LossOptions(TypedDict, total=False):
    """What a loss takes besides examples and weights, see `weighted_minimiser`."""

    loss: str
    num_classes: int | None
    l2: float


class _Loss(NamedTuple):
    """A loss of scores [E, C].

    Attributes:
      value_and_slope: (scores, targets) -> losses [E] and their derivatives [E, C].
      curvature: scores -> second derivatives [E, C, C].
      most_curved: number of scores -> a bound of the largest eigenvalue of any second derivative.
      invariant: whether the same number added to all scores of an example changes nothing.
      decide: scores -> the label on whose side they are [E]; None where labels are numbers.
    """

    value_and_slope: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
    curvature: Callable[[np.ndarray], np.ndarray]
    most_curved: Callable[[int], float]
    invariant: bool
    decide: Callable[[np.ndarray], np.ndarray] | None


def _softmax(scores: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows = np.arange(len(scores))
    logs = special.log_softmax(scores, axis=1)
    slopes = np.exp(logs)
    slopes[rows, targets] -= 1
    return -logs[rows, targets], slopes


def _softmax_curvature(scores: np.ndarray) -> np.ndarray:
    chances = special.softmax(scores, axis=1)
    return chances[:, :, None] * (np.eye(scores.shape[1]) - chances[:, None, :])


def _logistic(scores: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    score = scores[:, 0]
    values = np.logaddexp(0, score) - targets * score
    return values, (special.expit(score) - targets)[:, None]


def _logistic_curvature(scores: np.ndarray) -> np.ndarray:
    return (special.expit(scores) * special.expit(-scores))[:, :, None]


def _squares(scores: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    off = scores - targets
    return np.mean(off**2, axis=1), 2 / scores.shape[1] * off


def _squares_curvature(scores: np.ndarray) -> np.ndarray:
    size = scores.shape[1]
    return np.broadcast_to(2 / size * np.eye(size), (len(scores), size, size))


_LOSSES = {
    SOFTMAX: _Loss(
        _softmax, _softmax_curvature, lambda _: 0.5, True, lambda s: s.argmax(axis=1)
    ),
    LOGISTIC: _Loss(
        _logistic, _logistic_curvature, lambda _: 0.25, False, lambda s: s[:, 0] > 0
    ),
    LEAST_SQUARES: _Loss(
        _squares, _squares_curvature, lambda size: 2 / size, False, None
    ),
}


def linear_loss(
    model: LinearModel,
    features: ArrayLike,
    labels: ArrayLike,
    **options: Unpack[LossOptions],
) -> float:
    """Mean loss of a linear model over examples, ``l2 / 2 |B|^2`` included.

    Args:
      model: the model.
      features: float[E, ...].
      labels: as in `weighted_minimiser`.
      **options: ``loss`` and ``l2``, as there.

    Returns:
      The loss.
    """
    owners = np.zeros(len(np.asarray(labels)), int)
    options.setdefault('num_classes', model.intercept.size)
    objective = weighted_loss(features, labels, owners, [1.0], **options)
    return objective.value_and_gradient(model.parameters)[0]


class WeightedLoss(NamedTuple):
    """The objective F over parameters float64[D, C], a row for each feature and one for b; or flat.

    Attributes:
      design: float64[E, D], features and a last column of ones; examples of clients without
        weight are left out.
      targets: int64[E] or float64[E, C].
      shares: float64[E], ``w_i / n_i`` of the owner.
      blocks: of examples that are multiplied at a time.
      num_outputs: C.
      loss: the loss.
      penalty: float64[D], what ``|parameters|^2 / 2`` is weighted by: `l2`, 0 for b.
    """

    design: np.ndarray
    targets: np.ndarray
    shares: np.ndarray
    blocks: list[slice]
    num_outputs: int
    loss: _Loss
    penalty: np.ndarray

    def scores(self, parameters: np.ndarray) -> np.ndarray:
        """float64[E, C]."""
        table = parameters.reshape(-1, self.num_outputs)
        return np.concatenate([self.design[block] @ table for block in self.blocks])

    def _summed(self, second: np.ndarray) -> np.ndarray:
        """``design^T second``, block by block."""
        return sum(self.design[block].T @ second[block] for block in self.blocks)

    def value_and_gradient(self, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        """F and its gradient, flat: float64[D C]."""
        values, slopes = self.loss.value_and_slope(
            self.scores(parameters), self.targets
        )
        pull = np.repeat(self.penalty, self.num_outputs) * parameters.ravel()
        gradient = self._summed(self.shares[:, None] * slopes).ravel() + pull
        return float(
            np.sum(self.shares * values) + 0.5 * pull @ parameters.ravel()
        ), gradient

    def hessian(self, parameters: np.ndarray) -> np.ndarray:
        """float64[D C, D C]; positive along shifts of all scores, where F is flat."""
        curvature = self.loss.curvature(self.scores(parameters))
        size, outputs = self.design.shape[1], self.num_outputs
        blocks = np.zeros((size, outputs, size, outputs))
        for a, b in itertools.combinations_with_replacement(range(outputs), 2):
            rows = (self.shares * curvature[:, a, b])[:, None] * self.design
            blocks[:, a, :, b] = blocks[:, b, :, a] = self._summed(rows)
        if self.loss.invariant:
            level = np.einsum('iaia->', blocks) / (outputs * size)
            blocks[np.arange(size), :, np.arange(size), :] += level / outputs
        penalty = np.diag(np.repeat(self.penalty, outputs))
        return blocks.reshape(size * outputs, size * outputs) + penalty

    def smoothness(self) -> float:
        """A bound of the largest eigenvalue of the Hessian, anywhere."""
        gram = self._summed(self.shares[:, None] * self.design)
        curved = self.loss.most_curved(self.num_outputs)
        return float(curved * np.linalg.eigvalsh(gram)[-1] + self.penalty.max())

    def separates(self, parameters: np.ndarray) -> bool:
        """Whether every example is on its own side: then larger parameters are always better."""
        decide = self.loss.decide
        return decide is not None and bool(
            np.all(decide(self.scores(parameters)) == self.targets)
        )

    def model(self, parameters: np.ndarray) -> LinearModel:
        """Parameters as coefficients and intercept."""
        table = parameters.reshape(-1, self.num_outputs)
        return LinearModel(table[:-1], table[-1])


def weighted_loss(
    features: ArrayLike,
    labels: ArrayLike,
    clients: ArrayLike,
    weights: ArrayLike,
    *,
    loss: str = SOFTMAX,
    num_classes: int | None = None,
    l2: float = 0.0,
) -> WeightedLoss:
    """The objective, its arguments checked; see `weighted_minimiser` for them."""
    _checks.require(
        loss in _LOSSES, 'loss', f'be one of {", ".join(_LOSSES)}', f'{loss!r}'
    )
    rows = np.asarray(features, np.float64)
    fine = rows.ndim > 1 and rows.size > 0 and np.isfinite(rows).all()
    _checks.require(fine, 'features', 'be finite, [E, d]', f'shape {list(rows.shape)}')
    shares = _shares(
        _checks.checked_client_weights('weights', weights), clients, len(rows)
    )
    targets, outputs = _targets(np.asarray(labels), loss, num_classes, len(rows))
    _checks.require(0 <= l2 < np.inf, 'l2', 'be finite and at least 0', l2)
    counted = shares > 0
    rows = rows.reshape(len(rows), -1)[counted]
    design = np.append(rows, np.ones((len(rows), 1)), axis=1)
    size, width = design.shape
    block = min(max(_SMALL // width**2, 16), 256)
    blocks = [slice(start, start + block) for start in range(0, size, block)]
    penalty = np.append(np.full(width - 1, float(l2)), 0.0)
    examples = design, targets[counted], shares[counted]
    return WeightedLoss(*examples, blocks, outputs, _LOSSES[loss], penalty)


def _shares(weights: np.ndarray, clients: ArrayLike, num_examples: int) -> np.ndarray:
    """``w_i / n_i`` of each example's owner."""
    owners, last = np.asarray(clients), weights.size - 1
    wanted = f'be int[{num_examples}], an owner for each example'
    fine = owners.shape == (num_examples,) and owners.dtype.kind in 'iu'
    _checks.require(fine, 'clients', wanted, f'{owners.dtype}{list(owners.shape)}')
    known = (owners >= 0) & (owners <= last)
    _checks.checked('clients', owners, known, f'hold ids from 0 to {last}')
    counts = np.bincount(owners, minlength=weights.size)
    idle = (counts == 0) & (weights > 0)
    got = f'none for client {np.argmax(idle)}'
    _checks.require(
        not idle.any(), 'clients', 'give every client with a weight an example', got
    )
    return (weights / np.maximum(counts, 1))[owners]


def _targets(
    labels: np.ndarray, loss: str, num_classes: int | None, num_examples: int
) -> tuple[np.ndarray, int]:
    """Labels as the loss takes them, and the number of outputs."""
    wanted, shape = f'have one row per example ({num_examples})', list(labels.shape)
    _checks.require(shape[:1] == [num_examples], 'labels', wanted, f'shape {shape}')
    if loss == LEAST_SQUARES:
        targets = labels.astype(np.float64).reshape(num_examples, -1)
        return targets, targets.shape[1]
    fine, got = labels.ndim == 1 and labels.dtype.kind in 'iu', f'{labels.dtype}{shape}'
    _checks.require(fine, 'labels', f'be int[{num_examples}]', got)
    if loss == LOGISTIC:
        num_classes = 2
    top = int(labels.max()) if num_classes is None else num_classes - 1
    _checks.checked(
        'labels', labels, (labels >= 0) & (labels <= top), f'lie in 0 to {top}'
    )
    return labels.astype(np.int64), 1 if loss == LOGISTIC else top + 1
