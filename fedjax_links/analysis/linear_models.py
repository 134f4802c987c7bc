r"""Computes losses of linear models under client weights, and their derivatives.

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

# BLAS computes a product of at most this many multiplications in one thread. On busy cores,
# threads that wait for each other cost tens of times the work of such a small product.
_SMALL = 2**18

SOFTMAX = 'softmax'
LOGISTIC = 'logistic'
LEAST_SQUARES = 'least_squares'


class LinearModel(NamedTuple):
    """Holds a model whose scores are linear in the features.

    Attributes:
      coefficients: float64[d, C], B.
      intercept: float64[C], b.
    """

    coefficients: np.ndarray
    intercept: np.ndarray

    def scores(self, features: ArrayLike) -> np.ndarray:
        """Returns the scores float64[E, C] of features [E, ...]."""
        rows = as_rows(features)
        return rows.reshape(len(rows), -1) @ self.coefficients + self.intercept

    @property
    def parameters(self) -> np.ndarray:
        """Returns float64[d + 1, C], the intercept below the coefficients."""
        rows = np.concatenate([self.coefficients, self.intercept[None]])
        return rows.astype(np.float64)


class LossOptions(TypedDict, total=False):
    """Types the options of a loss, see `weighted_minimiser`."""

    loss: str
    num_classes: int | None
    l2: float


class _Loss(NamedTuple):
    """Holds a loss of scores [E, C].

    Attributes:
      value_and_slope: (scores, targets) -> losses [E] and their derivatives [E, C].
      curvature: scores -> second derivatives [E, C, C].
      max_curvature: number of scores -> upper bound of the eigenvalues of second derivatives.
      invariant: whether the loss stays the same if a number is added to all scores of an example.
      decide: scores -> predicted labels [E]; None where labels are numbers.
    """

    value_and_slope: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
    curvature: Callable[[np.ndarray], np.ndarray]
    max_curvature: Callable[[int], float]
    invariant: bool
    decide: Callable[[np.ndarray], np.ndarray] | None


def _softmax(scores: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows = np.arange(len(scores))
    logs = special.log_softmax(scores, axis=1)
    slopes = np.exp(logs)
    slopes[rows, targets] -= 1
    return -logs[rows, targets], slopes


def _softmax_curvature(scores: np.ndarray) -> np.ndarray:
    probs = special.softmax(scores, axis=1)
    return probs[:, :, None] * (np.eye(scores.shape[1]) - probs[:, None, :])


def _logistic(scores: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    score = scores[:, 0]
    values = np.logaddexp(0, score) - targets * score
    return values, (special.expit(score) - targets)[:, None]


def _logistic_curvature(scores: np.ndarray) -> np.ndarray:
    return (special.expit(scores) * special.expit(-scores))[:, :, None]


def _squares(scores: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    residuals = scores - targets
    return np.mean(residuals**2, axis=1), 2 / scores.shape[1] * residuals


def _squares_curvature(scores: np.ndarray) -> np.ndarray:
    size = scores.shape[1]
    return np.broadcast_to(2 / size * np.eye(size), (len(scores), size, size))


_LOSSES = {
    SOFTMAX: _Loss(
        value_and_slope=_softmax,
        curvature=_softmax_curvature,
        max_curvature=lambda size: 0.5,
        invariant=True,
        decide=lambda scores: scores.argmax(axis=1),
    ),
    LOGISTIC: _Loss(
        value_and_slope=_logistic,
        curvature=_logistic_curvature,
        max_curvature=lambda size: 0.25,
        invariant=False,
        decide=lambda scores: scores[:, 0] > 0,
    ),
    LEAST_SQUARES: _Loss(
        value_and_slope=_squares,
        curvature=_squares_curvature,
        max_curvature=lambda size: 2 / size,
        invariant=False,
        decide=None,
    ),
}


def linear_loss(
    model: LinearModel,
    features: ArrayLike,
    labels: ArrayLike,
    **options: Unpack[LossOptions],
) -> float:
    """Computes the mean loss of a linear model over examples, ``l2 / 2 |B|^2`` included.

    Args:
      model: the model.
      features: float[E, ...].
      labels: as in `weighted_minimiser`.
      **options: ``loss`` and ``l2``, as in `weighted_minimiser`.

    Returns:
      The loss.

    Raises:
      ValueError: if ``model`` is no `LinearModel`, or an argument is out of range.
    """
    _checks.checked_kind('model', model, LinearModel, 'a LinearModel')
    owners = np.zeros(as_rows(features).shape[:1], int)
    options.setdefault('num_classes', max(2, np.size(model.intercept)))
    objective = weighted_loss(features, labels, owners, [1.0], **options)
    return objective.value_and_gradient(objective.checked_parameters('model', model))[0]


class WeightedLoss(NamedTuple):
    """Holds the objective F, a function of parameters float64[D, C] or flat.

    Parameters have a row for each feature and a last row for the intercept b.

    Attributes:
      design: float64[E, D], features and a last column of ones; examples of clients
        without weight are left out.
      targets: int64[E] or float64[E, C].
      owners: int64[E], the client of each example.
      shares: float64[E], ``w_i / n_i`` of each example's owner.
      blocks: blocks of examples; products of matrices are computed block by block.
      num_outputs: C.
      loss: the loss.
      penalty: float64[D], weights of ``|parameters|^2 / 2``: ``l2``, and 0 for b.
    """

    design: np.ndarray
    targets: np.ndarray
    owners: np.ndarray
    shares: np.ndarray
    blocks: list[slice]
    num_outputs: int
    loss: _Loss
    penalty: np.ndarray

    def of_client(self, client: int) -> 'WeightedLoss':
        """Returns the mean loss of a client with examples, the penalty included."""
        is_owned = self.owners == client
        num_examples = is_owned.sum()
        return self._replace(
            design=self.design[is_owned],
            targets=self.targets[is_owned],
            owners=self.owners[is_owned],
            shares=np.full(num_examples, 1.0 / num_examples),
            blocks=[block for block in self.blocks if block.start < num_examples],
        )

    def checked_parameters(self, name: str, model: LinearModel) -> np.ndarray:
        """Returns the parameters of a model for these features and outputs, float64[D C].

        Args:
          name: name of the argument that holds the model.
          model: the model.

        Raises:
          ValueError: if ``model`` is no `LinearModel`, has another shape, or is not finite.
        """
        _checks.checked_kind(name, model, LinearModel, 'a LinearModel')
        coefficients = _checks.as_doubles(name, model.coefficients)
        intercept = _checks.as_doubles(name, model.intercept)
        shape = self.design.shape[1] - 1, self.num_outputs
        fits = coefficients.shape == shape and intercept.shape == shape[1:]
        requirement = (
            f'have coefficients {list(shape)} and an intercept for each output'
        )
        got = f'{list(coefficients.shape)} and {list(intercept.shape)}'
        _checks.require(fits, name, requirement, got)
        parameters = np.concatenate([coefficients, intercept[None]]).ravel()
        return _checks.checked(name, parameters, np.isfinite(parameters), 'be finite')

    def scores(self, parameters: np.ndarray) -> np.ndarray:
        """Returns the scores of all examples, float64[E, C]."""
        table = parameters.reshape(-1, self.num_outputs)
        return np.concatenate([self.design[block] @ table for block in self.blocks])

    def _design_product(self, rows: np.ndarray) -> np.ndarray:
        """Returns ``design^T rows``, summed block by block."""
        return sum(self.design[block].T @ rows[block] for block in self.blocks)

    def value_and_gradient(self, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        """Returns F and its gradient, flat: float64[D C]."""
        scores = self.scores(parameters)
        values, slopes = self.loss.value_and_slope(scores, self.targets)
        pull = np.repeat(self.penalty, self.num_outputs) * parameters.ravel()
        value = np.sum(self.shares * values) + 0.5 * pull @ parameters.ravel()
        gradient = self._design_product(self.shares[:, None] * slopes).ravel() + pull
        return float(value), gradient

    def check_hessian_fits(self, num_classes: int | None) -> None:
        """Raises if memory cannot hold the Hessian; ``num_classes`` as in `weighted_loss`."""
        outputs = self.num_outputs
        size, width = self.design.shape
        entries = 2 * (width * outputs) ** 2 + size * outputs**2
        _check_memory(num_classes, outputs, 8 * entries)

    def hessian(self, parameters: np.ndarray) -> np.ndarray:
        """Returns the Hessian float64[D C, D C].

        An invariant loss does not change if a number is added to all scores. Along these
        directions, where F is flat, the matrix is made positive.
        """
        curvature = self.loss.curvature(self.scores(parameters))
        size = self.design.shape[1]
        outputs = self.num_outputs
        hessian = np.zeros((size, outputs, size, outputs))
        for a, b in itertools.combinations_with_replacement(range(outputs), 2):
            rows = (self.shares * curvature[:, a, b])[:, None] * self.design
            hessian[:, a, :, b] = hessian[:, b, :, a] = self._design_product(rows)
        if self.loss.invariant:
            mean_diagonal = np.einsum('iaia->', hessian) / (outputs * size)
            hessian[np.arange(size), :, np.arange(size), :] += mean_diagonal / outputs
        penalty = np.diag(np.repeat(self.penalty, outputs))
        return hessian.reshape(size * outputs, size * outputs) + penalty

    def smoothness(self) -> float:
        """Returns a bound of the Hessian's largest eigenvalue, for all parameters."""
        gram = self._design_product(self.shares[:, None] * self.design)
        curvature = self.loss.max_curvature(self.num_outputs)
        return float(curvature * np.linalg.eigvalsh(gram)[-1] + self.penalty.max())

    def separates(self, parameters: np.ndarray) -> bool:
        """Returns whether all examples are classified correctly.

        Then scaling the parameters up always lowers the loss.
        """
        if self.loss.decide is None:
            return False
        predicted = self.loss.decide(self.scores(parameters))
        return bool(np.all(predicted == self.targets))

    def model(self, parameters: np.ndarray) -> LinearModel:
        """Splits parameters into coefficients and intercept."""
        table = parameters.reshape(-1, self.num_outputs)
        return LinearModel(table[:-1], table[-1])


def as_rows(features: ArrayLike) -> np.ndarray:
    """Returns features as float64; True and False are 1 and 0."""
    rows = _checks.as_array('features', features, 'hold numbers')
    is_flags = rows.dtype == np.bool_
    return _checks.as_doubles('features', rows.astype(int) if is_flags else rows)


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
    """Checks the arguments, which are as in `weighted_minimiser`, and builds the objective."""
    _checks.checked_choice('loss', loss, _LOSSES)
    rows = as_rows(features)
    is_table = rows.ndim > 1 and rows.size > 0
    got = f'shape {list(rows.shape)}'
    _checks.require(is_table, 'features', 'be a non-empty [E, ...]', got)
    _checks.checked('features', rows, np.isfinite(rows), 'be finite')
    client_weights = _checks.checked_client_weights('weights', weights)
    shares = _shares(client_weights, clients, len(rows))
    targets, outputs = _targets(labels, loss, num_classes, len(rows))
    _check_memory(num_classes, outputs, 8 * len(rows) * outputs)
    penalty = _checks.checked_at_least_zero('l2', l2)
    counted = shares > 0
    rows = rows.reshape(len(rows), -1)[counted]
    design = np.append(rows, np.ones((len(rows), 1)), axis=1)
    size, width = design.shape
    # The largest products of matrices, for the Hessian, have width x width entries.
    block = min(max(_SMALL // width**2, 16), 256)
    return WeightedLoss(
        design=design,
        targets=targets[counted],
        owners=np.asarray(clients)[counted],
        shares=shares[counted],
        blocks=[slice(start, start + block) for start in range(0, size, block)],
        num_outputs=outputs,
        loss=_LOSSES[loss],
        penalty=np.append(np.full(width - 1, penalty), 0.0),
    )


def _check_memory(num_classes: int | None, outputs: int, num_bytes: int) -> None:
    """Raises if memory is too small; the error names ``num_classes`` if given, else ``labels``."""
    name = 'labels' if num_classes is None else 'num_classes'
    value = f'{outputs} classes' if num_classes is None else num_classes
    _checks.check_memory(name, value, num_bytes)


def _shares(weights: np.ndarray, clients: ArrayLike, num_examples: int) -> np.ndarray:
    """Returns ``w_i / n_i`` of each example's owner."""
    last = weights.size - 1
    requirement = f'be int[{num_examples}], an owner for each example'
    owners = _checks.as_array('clients', clients, requirement)
    is_valid = owners.shape == (num_examples,) and owners.dtype.kind in 'iu'
    got = f'{owners.dtype}{list(owners.shape)}'
    _checks.require(is_valid, 'clients', requirement, got)
    known = (owners >= 0) & (owners <= last)
    _checks.checked('clients', owners, known, f'hold ids from 0 to {last}')
    counts = np.bincount(owners, minlength=weights.size)
    lacks_examples = (counts == 0) & (weights > 0)
    requirement = 'give every client with a weight an example'
    got = f'none for client {np.argmax(lacks_examples)}'
    _checks.require(not lacks_examples.any(), 'clients', requirement, got)
    return (weights / np.maximum(counts, 1))[owners]


def _targets(
    raw_labels: ArrayLike, loss: str, num_classes: int | None, num_examples: int
) -> tuple[np.ndarray, int]:
    """Returns labels as the loss takes them, and the number of outputs."""
    requirement = f'have one row per example ({num_examples})'
    labels = _checks.as_array('labels', raw_labels, requirement)
    shape = list(labels.shape)
    has_rows = shape[:1] == [num_examples]
    _checks.require(has_rows, 'labels', requirement, f'shape {shape}')
    if loss == LEAST_SQUARES:
        labels = labels.astype(np.int64) if labels.dtype == bool else labels
        targets = _checks.as_doubles('labels', labels).reshape(num_examples, -1)
        _checks.checked('labels', targets, np.isfinite(targets), 'be finite')
        return targets, targets.shape[1]
    is_valid = labels.ndim == 1 and labels.dtype.kind in 'iu'
    _checks.require(
        is_valid, 'labels', f'be int[{num_examples}]', f'{labels.dtype}{shape}'
    )
    if loss == LOGISTIC:
        num_classes = 2
    if num_classes is not None:
        _checks.checked_int('num_classes', num_classes, minimum=2)
    if num_classes is None:
        _checks.checked('labels', labels, labels >= 0, 'be at least 0')
        num_classes = int(labels.max()) + 1
    is_known = (labels >= 0) & (labels < num_classes)
    _checks.checked('labels', labels, is_known, f'lie in 0 to {num_classes - 1}')
    num_outputs = 1 if loss == LOGISTIC else num_classes
    return labels.astype(np.int64), num_outputs
