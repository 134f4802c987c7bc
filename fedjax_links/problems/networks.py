"""Builds problems whose model is a flax module."""

import dataclasses
import inspect
import re
import warnings
from collections.abc import Callable, Collection, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import errors as flax_errors
from flax import linen as nn
from numpy.typing import ArrayLike

from fedjax_links.base import Array, Key, LinearObjective, Params, Problem, PyTree
from fedjax_links.core import checks, errors, tree
from fedjax_links.datasets import columns
from fedjax_links.problems import arrays, losses, model_outputs, models
from fedjax_links.problems.arrays import Batch, Partial

_Augment = Callable[[Key, Array], Array]
# Examples in which whole numbers are looked for.
_MOST_ROWS_SEEN = 256
_OBJECTIVES = {'cross_entropy': 'softmax', 'squared_error': 'least_squares'}


def from_flax(
    features: ArrayLike,
    labels: ArrayLike,
    clients: ArrayLike,
    *,
    module: nn.Module,
    loss: str | Callable[[Array, Array], Array] = 'cross_entropy',
    metrics: Collection[str] | None = None,
    eval_data: tuple[ArrayLike, ...] | None = None,
    preprocess: Callable[[Array], Array] | None = None,
    augment: _Augment | None = None,
    larger_is_better: Collection[str] | None = None,
    client_names: Sequence[object] | None = None,
) -> Problem:
    """Builds a federated problem for a flax linen module.

    Args:
      features: [E, ...], what the module is applied to.
      labels: int[E] for ``'cross_entropy'``, int[E, L] for ``'token_cross_entropy'``, float[E, ...]
        of the outputs' shape for the losses of regression. In regression, [E] and [E, 1] mean the
        same and are kept in the shape that goes with the outputs.
      clients: int[E], owner of each example.
      module: a flax linen module whose only variables are parameters. If it takes a flag ``train``,
        clients train with ``train=True`` and a ``dropout`` key; all else is with ``train=False``.
      loss: a name in `losses.LOSSES` (``'cross_entropy'``, ``'squared_error'``, ...), or
        ``(outputs, labels) -> []``.
      metrics: what to measure beside the loss, by name: ``'accuracy'``; ``'mse'``, ``'rmse'``,
        ``'mae'``, ``'r2'``; of tokens ``'accuracy'`` and ``'perplexity'``. By default all metrics
        for losses of classes and tokens, and none for other losses.
      eval_data: as in `from_arrays`.
      preprocess: ``features -> features``, [B, ...], applied to every batch inside the program, in
        training and in evaluation; the module gets what it returns. The data stay as given. With
        None the module gets the features as they are. A warning then names bytes, which a
        ``Dataset`` would scale, and images of whole numbers, which nothing scales.
      augment: ``(key, features) -> features``, [B, ...], applied after ``preprocess`` in training
        alone. The key is the one of `from_arrays`'s ``random_loss_fn``. If the module draws too,
        this key is split: the first half augments, and the second half is the ``dropout`` key. A
        batch is a client's minibatch, or its full data. Full data of unequal size are augmented
        example by example, each with a key of its own.
      larger_is_better: as in `from_arrays`; by default it follows from the names of the metrics.
        For a loss of your own it is ``()``, no metric.
      client_names: as in `from_arrays`.

    Returns:
      The problem. Its metrics are ``loss`` and ``metrics``; accuracies are fractions. It states its
      `LinearObjective` for `models.Softmax` and ``nn.Dense`` without augmentation.

    Raises:
      ValueError: for an unknown loss or metric, a module with variables besides parameters, labels
        that do not go with its outputs, or ids that it has no embedding for.
    """
    outputs_loss, measured = losses.look_up(loss, metrics)
    check_linen('module', module)
    checks.optional_functions(preprocess=preprocess, augment=augment)
    prepare = unchanged if preprocess is None else preprocess
    num_examples = len(checks.ids('clients', clients))
    rows = columns.as_array('features', features)
    targets = columns.as_array('labels', labels)
    for argument, array in (('features', rows), ('labels', targets)):
        columns.check_rows(argument, array, 'entry of `clients`', num_examples)
    held_out = arrays.examples_held_out(eval_data, rows)
    row = jax.ShapeDtypeStruct((1, *rows.shape[1:]), jnp.asarray(rows[:1]).dtype)
    network = _Network(module, prepare, jax.eval_shape(prepare, row))
    init_params = Partial(_Network.init, network)
    predict = Partial(_Network.predict, network)
    params = _params_shape(network)
    features_by_argument = {'features': rows}
    if held_out:
        features_by_argument['eval_data'] = held_out[0]
    evaluated = _eval_outputs(predict, params, features_by_argument)
    if preprocess is None and not evaluated.embeds_features:
        _warn_of_pixels(rows)
    loss_fn: Any = loss
    metrics_fn: Any = metrics
    if callable(loss):
        # One of outputs and labels is a vector, the other a column: they broadcast to a matrix.
        if {evaluated.outputs.shape[1:], targets.shape[1:]} == {(), (1,)}:
            _check_pairs(loss, evaluated.outputs, targets)
        if larger_is_better is None:
            larger_is_better = ()
        loss_fn = Partial(arrays.loss_of_outputs, loss, predict)
        metrics_fn = None
        if evaluated.by_batch:
            # A layer normalises by the batch, so the metrics must be measured in whole batches.
            metrics_fn = losses.ByName(
                tuple(measured.items()), predict, evaluated.by_batch
            )
    random_loss = None
    if network.options or augment is not None:
        random_loss = Partial(_Network.random_loss, network, outputs_loss, augment)
    objective = None
    if augment is None:
        objective = _linear_objective(network, loss, params)
    return arrays.from_arrays(
        rows,
        targets,
        clients,
        init_params=init_params,
        loss_fn=loss_fn,
        metrics=metrics_fn,
        predict=None if callable(loss) else predict,
        eval_data=tuple(held_out) or None,
        random_loss_fn=random_loss,
        larger_is_better=larger_is_better,
        objective=objective,
        client_names=client_names,
    )


def _params_shape(network: '_Network') -> Params:
    """Finds the shapes of the parameters; raises for a module that the features do not suit."""
    try:
        params = jax.eval_shape(Partial(_Network.init, network), jax.random.key(0))
    except errors.InvalidError as error:
        raise error.under('module') from error
    except Exception as error:  # whatever the layers say
        requirement = f'suit features of shape {list(network.example.shape[1:])}'
        got = errors.describe(error)
        if not network.options and re.search('deterministic|train|rngs', got):
            requirement += ', and take a flag `train` where it draws'
            requirement += ', as Dropout(deterministic=not train)'
        raise errors.invalid('module', requirement, got) from error
    checks.fits('module', type(network.module).__name__, tree.num_bytes(params))
    return params


def _eval_outputs(
    predict: Callable[..., Array], params: Params, features: dict[str, np.ndarray]
) -> model_outputs.ModelOutputs:
    """Evaluates the module abstractly; raises for one that draws where it may not."""
    try:
        return model_outputs.eval_outputs('module', predict, params, features)
    except flax_errors.InvalidRngError:
        requirement = (
            'draw only if its flag `train` is set, as Dropout(deterministic=not train)'
        )
        raise errors.invalid(
            'module', requirement, 'one that draws in evaluation'
        ) from None


@dataclasses.dataclass(frozen=True)
class _Network:
    """Holds a module, and an example of the prepared features that it is applied to."""

    module: nn.Module
    prepare: Callable[[Array], Array]
    example: jax.ShapeDtypeStruct

    @property
    def options(self) -> dict[str, Any]:
        """Returns the options of the module in evaluation."""
        takes_train = (
            'train' in inspect.signature(type(self.module).__call__).parameters
        )
        return {'train': False} if takes_train else {}

    def init(self, key: Key) -> Params:
        variables = self.module.init(key, jnp.zeros_like(self.example), **self.options)
        if variables.keys() - {'params'}:
            also = f'also {sorted(variables.keys() - {"params"})}'
            if 'batch_stats' in variables:
                also = f'{also} (GroupNorm and LayerNorm have parameters only)'
            raise errors.InvalidError('module', 'have parameters only', also)
        return variables.get('params', {})

    def predict(self, params: Params, features: Array) -> PyTree:
        return self.module.apply(
            {'params': params}, self.prepare(features), **self.options
        )

    def inputs(self, data: Batch) -> tuple[Array, Array]:
        return self.prepare(data.features), data.labels

    def random_loss(
        self,
        loss: losses.OutputsLoss,
        augment: _Augment | None,
        params: Params,
        batch: Batch,
        key: Key,
    ) -> Array:
        features = self.prepare(batch.features)
        options = self.options
        augment_key = key
        dropout_key = key
        if augment is not None and options:
            augment_key, dropout_key = jax.random.split(key)
        if augment is not None:
            features = augment(augment_key, features)
        if options:
            options = {'train': True, 'rngs': {'dropout': dropout_key}}
        outputs: Any = self.module.apply({'params': params}, features, **options)
        return loss(outputs, batch.labels)


def _warn_of_pixels(rows: np.ndarray) -> None:
    """Warns of bytes and of images of whole numbers, which reach a module as they are."""
    first_rows = rows[:_MOST_ROWS_SEEN]
    is_image = rows.ndim == 4
    are_pixels = rows.dtype == np.uint8
    if rows.dtype.kind in 'iu':
        are_pixels = are_pixels or is_image
    elif rows.dtype.kind == 'f':
        are_pixels = is_image and bool((first_rows == np.rint(first_rows)).all())
    if are_pixels and first_rows.max(initial=0) > 1:
        brightest = rows.max()
        # Whatever type holds them, pixels have 8 or 16 bits.
        largest = 255 if brightest <= 255 else max(65_535, brightest)
        warnings.warn(
            f'`features` are {rows.dtype} up to {brightest:g}, which reach the module as they '
            f'are; `preprocess=lambda pixels: pixels / {float(largest)}` scales pixels (a '
            '`Dataset` of bytes does).',
            stacklevel=3,
        )


def unchanged(features: Array) -> Array:
    """Returns features as they are: a ``preprocess`` for tokens in a byte."""
    return features


def check_linen(argument: str, module: object) -> None:
    """Raises unless a module is one of flax linen."""
    if not isinstance(module, nn.Module):
        nnx = 'one of flax.nnx (`from_arrays` trains these)'
        got = nnx if is_nnx(module) else f'a {type(module).__name__}'
        raise errors.invalid(argument, 'be a flax linen module', got)


def is_nnx(module: object) -> bool:
    """Returns whether an object is a module of flax.nnx, which linen's functions do not take."""
    return any(base.__module__.startswith('flax.nnx') for base in type(module).__mro__)


def _linear_objective(
    network: _Network, loss: str | Callable[..., Array], params: Params
) -> LinearObjective | None:
    """Returns the objective of a single plain layer; None for other modules or losses."""
    module = network.module
    is_dense = type(module) is nn.Dense and module == nn.Dense(module.features)
    is_softmax = type(module) is models.Softmax and module.dtype is None
    kind = _OBJECTIVES.get(loss) if isinstance(loss, str) else None
    if kind is None or not (is_dense or is_softmax):
        return None
    inputs = Partial(_Network.inputs, network)
    layer = Partial(_layer, jax.tree.structure(params))
    return LinearObjective(kind, inputs, _coefficients, layer)


def _coefficients(params: Params) -> tuple[Array, Array]:
    bias, kernel = jax.tree.leaves(params)  # by name
    return kernel, bias


def _layer(treedef: Any, kernel: Array, bias: Array) -> Params:
    return jax.tree.unflatten(treedef, [bias, kernel])


def _check_pairs(
    loss: losses.OutputsLoss, outputs: jax.ShapeDtypeStruct, labels: np.ndarray
) -> None:
    """Raises an error for a user's loss that pairs all outputs with all labels.

    The outputs of two examples are set to the labels of these examples. A loss that pairs all
    outputs with all labels then differs from the mean of the losses of the single examples. It
    would not differ if labels had the outputs' shape.
    """
    others = np.flatnonzero(labels.ravel() != labels.ravel()[0])
    two_labels = jnp.asarray(labels[[0, *others[:1]]])
    predicted = two_labels.reshape(-1, *outputs.shape[1:]).astype(outputs.dtype)

    def is_mean(targets: Array) -> bool:
        single = []
        for i in range(len(targets)):
            single.append(loss(predicted[i : i + 1], targets[i : i + 1]))
        error = abs(loss(predicted, targets) - sum(single) / len(single))
        # A loss of NaN shows nothing, and counts as a mean.
        return not error > 1e-4 * sum(map(abs, single))

    if not is_mean(two_labels) and is_mean(two_labels.reshape(predicted.shape)):
        shape = losses.show_shape(predicted.shape)
        requirement = f'have shape {shape}, that of the outputs, for this loss'
        raise errors.invalid('labels', requirement, losses.show_shape(two_labels.shape))
