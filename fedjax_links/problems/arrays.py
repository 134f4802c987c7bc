"""Problems from arrays: features, labels, and who owns which example."""

import dataclasses
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from numpy.typing import ArrayLike

from fedjax_links.base import Array, Key, LinearObjective, Params, Problem, Rows
from fedjax_links.core import checks, errors
from fedjax_links.problems import array_checks, losses, models

Metrics = Callable[[Params, 'Batch'], Mapping[str, Array]]
_Pair = tuple[np.ndarray, np.ndarray]

_EVAL_CHUNK = 1024


class Batch(NamedTuple):
    """Examples side by side.

    Attributes:
      features: [B, ...].
      labels: [B, ...].
    """

    features: Array
    labels: Array


def from_arrays(
    features: ArrayLike,
    labels: ArrayLike,
    clients: ArrayLike,
    *,
    init_params: Callable[[Key], Params],
    loss_fn: str | Callable[[Params, Batch], Array],
    metrics: Metrics | Collection[str] | None = None,
    predict: Callable[[Params, Array], Array] | None = None,
    eval_data: tuple[ArrayLike, ArrayLike] | None = None,
    random_loss_fn: Callable[[Params, Batch, Key], Array] | None = None,
    larger_is_better: Collection[str] | None = None,
    objective: LinearObjective | None = None,
) -> Problem:
    """A federated problem from arrays and the owner of each example.

    Args:
      features: [E, ...], one row per example.
      labels: [E, ...]; for a loss by name as in `from_flax`.
      clients: int[E], owner of each example; ids 0 to N-1, each owning at least one example.
      init_params: ``key -> params``.
      loss_fn: ``(params, batch) -> []``, mean loss over a `Batch` (``batch.features``,
        ``batch.labels``; it unpacks as a pair). Or a name in `losses.LOSSES`, of ``predict``.
      metrics: ``(params, batch) -> {name: []}``, means over a `Batch`; the loss alone by default.
        For a loss by name, as in `from_flax`.
      predict: ``(params, features) -> outputs``, [B, ...] each, for a loss by name.
      eval_data: a pair (features, labels) to evaluate on; by default the clients' own data, and
        what experiments measure there is called ``train_...``.
      random_loss_fn: ``(params, batch, key) -> []``, to train on instead of ``loss_fn``; the key is
        of the seed, round, client and local step.
      larger_is_better: names of the ``metrics`` that are better when larger; all others are then
        better when smaller. None: not stated.
      objective: states that ``loss_fn`` is that of a linear model, so that limits and accuracies
        can be predicted; None: not stated.

    Returns:
      The problem. Examples are stored once, sorted by owner.

    Raises:
      ValueError: if lengths differ, an owner is not a client id, a client owns nothing, or
        ``larger_is_better`` names what is not measured; for an unknown loss or metric, or one by
        name without ``predict``, or beside labels that it does not read.
    """
    owners = np.asarray(clients)
    counts = array_checks.count_by_owner(owners)
    rows, targets = np.asarray(features), np.asarray(labels)
    array_checks.rows('features', rows, 'entry of `clients`', owners.shape)
    array_checks.rows('labels', targets, 'entry of `clients`', owners.shape)
    held_out = _held_out(eval_data)
    finish: Callable[[Mapping[str, Array], Batch], Mapping[str, Array]] | None = None
    if isinstance(loss_fn, str):
        if predict is None:
            raise errors.invalid('predict', 'be given for a loss by name', None)
        if callable(metrics):
            raise errors.invalid('metrics', 'be names for a loss by name', metrics)
        name = loss_fn
        loss_fn, metrics, finish, larger = _by_name(name, metrics, predict)
        larger_is_better = larger if larger_is_better is None else larger_is_better
        params = jax.eval_shape(init_params, jax.random.key(0))
        outputs = array_checks.outputs('predict', predict, params, rows)
        targets, held_out = _fitted(name, outputs, targets, held_out)
    elif metrics is not None and not callable(metrics):
        raise errors.invalid('metrics', 'be a function, as `loss_fn` is', metrics)
    order = np.argsort(owners, kind='stable')
    data = Batch(jnp.asarray(rows[order]), jnp.asarray(targets[order]))
    own_loss = loss_fn
    per_batch = metrics or (lambda params, batch: {'loss': own_loss(params, batch)})
    if larger_is_better is not None:
        params = jax.eval_shape(init_params, jax.random.key(0))
        measured = jax.eval_shape(per_batch, params, data)
        larger_is_better = names_of_metrics(larger_is_better, measured)
    return Problem(
        data=data,
        owned=Rows(
            offsets=jnp.asarray(np.concatenate([[0], np.cumsum(counts)[:-1]]), jnp.int32),
            counts=jnp.asarray(counts, jnp.int32),
        ),
        eval_data=data if held_out is None else Batch(*map(jnp.asarray, held_out)),
        init_params=init_params,
        loss_fn=loss_fn,
        metrics=lambda params, examples: _measured(per_batch, finish, params, examples),
        min_examples=int(counts.min()),
        max_examples=int(counts.max()),
        random_loss_fn=random_loss_fn,
        larger_is_better=larger_is_better,
        objective=objective,
        held_out=held_out is not None,
    )


def from_flax(
    features: ArrayLike,
    labels: ArrayLike,
    clients: ArrayLike,
    *,
    module: nn.Module,
    loss: str | Callable[[Array, Array], Array] = 'cross_entropy',
    metrics: Collection[str] | None = None,
    eval_data: tuple[ArrayLike, ArrayLike] | None = None,
    preprocess: Callable[[Array], Array] | None = None,
    augment: Callable[[Key, Array], Array] | None = None,
    larger_is_better: Collection[str] | None = None,
) -> Problem:
    """A federated problem for a flax linen module.

    Args:
      features: [E, ...], what the module is applied to.
      labels: int[E] for ``'cross_entropy'``, int[E, L] for ``'token_cross_entropy'``, float[E, ...]
        of the outputs' shape for the losses of regression. [E] and [E, 1] are the same there, and
        kept in the shape that goes with the outputs.
      clients: int[E], owner of each example.
      module: a flax linen module whose only variables are parameters. If it takes a flag ``train``,
        clients train with ``train=True`` and a ``dropout`` key; all else is with ``train=False``.
      loss: a name in `losses.LOSSES` (``'cross_entropy'``, ``'squared_error'``, ...), or
        ``(outputs, labels) -> []``.
      metrics: what to measure beside the loss, by name: ``'accuracy'``; ``'mse'``, ``'rmse'``,
        ``'mae'``, ``'r2'``; of tokens ``'accuracy'`` and ``'perplexity'``. Those of classes and of
        tokens by default.
      eval_data: as in `from_arrays`.
      preprocess: ``features -> features``, [B, ...], applied to every batch inside the program, in
        training and in evaluation; the module gets what it returns. The data stay as given.
      augment: ``(key, features) -> features``, [B, ...], applied after ``preprocess`` in training
        alone. The key is that of `from_arrays`'s ``random_loss_fn``; if the module draws too, the
        first half of its ``jax.random.split`` augments and the second is the ``dropout`` key. A
        batch is a client's minibatch, or its full data; but full data of unequal size are taken
        example by example, each with a key of its own.
      larger_is_better: as in `from_arrays`; by default what is known of the metrics by name, and
        ``()``, no metric, for a loss of your own.

    Returns:
      The problem; its metrics are ``loss`` and those above, shares as fractions. It states its
      `LinearObjective` for `models.Softmax` and ``nn.Dense`` without augmentation.

    Raises:
      ValueError: for an unknown loss or metric, a module with variables besides parameters, labels
        that do not go with its outputs, or ids that it has no embedding for.
    """
    outputs_loss, beside, larger = losses.of(loss, metrics)
    better = larger if larger_is_better is None else larger_is_better
    better = names_of_metrics(better, ('loss', *beside))
    prepare = preprocess or (lambda features: features)
    rows, targets, held_out = np.asarray(features), np.asarray(labels), _held_out(eval_data)
    array_checks.numbers('features', rows)
    array_checks.rows('labels', targets, 'row of `features`', rows.shape[:1])
    example = prepare(jnp.zeros((1, *rows.shape[1:]), jnp.asarray(rows[:1]).dtype))
    takes_train = 'train' in inspect.signature(type(module).__call__).parameters
    evaluating: dict[str, Any] = {'train': False} if takes_train else {}

    apply: Callable[..., Any] = module.apply

    def init(key: Key) -> Mapping[str, Params]:
        return module.init(key, example, **evaluating)

    shapes = jax.eval_shape(init, jax.random.key(0))
    if shapes.keys() - {'params'}:
        also = f'also {sorted(shapes.keys() - {"params"})}'
        raise errors.invalid('module', 'have parameters only', also)

    def evaluate(params: Params, features: Array) -> Array:
        outputs: Array = apply({'params': params}, prepare(features), **evaluating)
        return outputs

    read = {'features': rows} | ({'eval_data': held_out[0]} if held_out else {})
    outputs = array_checks.outputs(
        'module', array_checks.with_ids_checked(evaluate, read), shapes.get('params', {}), rows
    )
    if isinstance(loss, str):
        targets, held_out = _fitted(loss, outputs, targets, held_out)
    elif {outputs.shape[1:], targets.shape[1:]} == {(), (1,)}:
        array_checks.one_by_one(outputs_loss, outputs, targets)

    def random_loss_fn(params: Params, batch: Batch, key: Key) -> Array:
        features = prepare(batch.features)
        training: dict[str, Any] = {}
        if augment is not None:
            augment_key, key = jax.random.split(key) if takes_train else (key, key)
            features = augment(augment_key, features)
        if takes_train:
            training = {'train': True, 'rngs': {'dropout': key}}
        outputs = apply({'params': params}, features, **training)
        return outputs_loss(outputs, batch.labels)

    loss_fn, per_batch, finish, _ = _by_name(loss, metrics, evaluate)
    problem = from_arrays(
        rows,
        targets,
        clients,
        init_params=lambda key: init(key)['params'],
        loss_fn=loss_fn,
        eval_data=held_out,
        random_loss_fn=random_loss_fn if takes_train or augment is not None else None,
        objective=None if augment is not None else _linear_objective(module, loss, prepare),
    )
    return dataclasses.replace(
        problem,
        larger_is_better=better,
        metrics=lambda params, examples: _measured(per_batch, finish, params, examples),
    )


def _by_name(
    loss: str | Callable[[Array, Array], Array],
    metrics: Collection[str] | None,
    predict: Callable[[Params, Array], Array],
) -> tuple[
    Callable[[Params, Batch], Array],
    Metrics,
    Callable[[Mapping[str, Array], Batch], Mapping[str, Array]],
    tuple[str, ...],
]:
    """A loss by name as functions of parameters and batches, and what is better when larger."""
    outputs_loss, beside, larger = losses.of(loss, metrics)
    measure = losses.means(outputs_loss, beside)
    return (
        lambda params, batch: outputs_loss(predict(params, batch.features), batch.labels),
        lambda params, batch: measure(predict(params, batch.features), batch.labels),
        lambda found, examples: losses.finished(found, beside, examples.labels),
        larger,
    )


def _linear_objective(
    module: nn.Module, loss: str | Callable[..., Array], prepare: Callable[[Array], Array]
) -> LinearObjective | None:
    """What is known of a module's loss; None for all but a single plain layer."""
    wrapped = type(module) is models.Softmax
    plain = type(module) is nn.Dense and module == nn.Dense(module.features)
    if not (wrapped or plain) or not isinstance(loss, str) or loss not in _OBJECTIVES:
        return None

    def inputs(data: Batch) -> tuple[Array, Array]:
        return prepare(data.features), data.labels

    def coefficients(params: Params) -> tuple[Array, Array]:
        layer = params['Dense_0'] if wrapped else params
        return layer['kernel'], layer['bias']

    def params(kernel: Array, bias: Array) -> Params:
        layer = {'kernel': kernel, 'bias': bias}
        return {'Dense_0': layer} if wrapped else layer

    return LinearObjective(_OBJECTIVES[loss], inputs, coefficients, params)


_OBJECTIVES = {'cross_entropy': 'softmax', 'squared_error': 'least_squares'}


def names_of_metrics(names: Collection[str], measured: Collection[str]) -> tuple[str, ...]:
    """``larger_is_better`` as a tuple, all of which is measured."""
    names = checks.names('larger_is_better', names)
    for name in names:
        checks.choice('larger_is_better', name, measured)
    return names


def _measured(
    per_batch: Metrics,
    finish: Callable[[Mapping[str, Array], Batch], Mapping[str, Array]] | None,
    params: Params,
    examples: Batch,
) -> Mapping[str, Array]:
    found = _mean_over_chunks(per_batch, params, examples)
    return found if finish is None else finish(found, examples)


def _mean_over_chunks(per_batch: Metrics, params: Params, examples: Batch) -> Mapping[str, Array]:
    """Means over all examples, a bounded number of which are in flight at a time."""
    num_examples = len(examples.labels)
    num_chunks, rest = divmod(num_examples, _EVAL_CHUNK)
    if num_chunks == 0 or (num_chunks == 1 and rest == 0):
        return per_batch(params, examples)
    whole = num_chunks * _EVAL_CHUNK
    chunks = jax.tree.map(
        lambda a: a[:whole].reshape(num_chunks, _EVAL_CHUNK, *a.shape[1:]), examples
    )
    means = jax.lax.map(lambda chunk: per_batch(params, chunk), chunks)
    sums = jax.tree.map(lambda a: jnp.sum(a, axis=0) * _EVAL_CHUNK, means)
    if rest:
        last = per_batch(params, jax.tree.map(lambda a: a[whole:], examples))
        sums = jax.tree.map(lambda s, a: s + a * rest, sums, last)
    totals: Mapping[str, Array] = jax.tree.map(lambda s: s / num_examples, sums)
    return totals


def _held_out(eval_data: tuple[ArrayLike, ArrayLike] | None) -> _Pair | None:
    """What to evaluate on; raises unless it is a pair of one length."""
    if eval_data is None:
        return None
    if len(eval_data) != 2:
        raise errors.invalid('eval_data', 'be a pair (features, labels)', len(eval_data))
    features, labels = (np.asarray(part) for part in eval_data)
    array_checks.rows('eval_data', features, 'label', labels.shape[:1])
    array_checks.numbers('eval_data', labels)
    return features, labels


def _fitted(
    loss: str, outputs: jax.ShapeDtypeStruct, labels: np.ndarray, held_out: _Pair | None
) -> tuple[np.ndarray, _Pair | None]:
    """Labels for training and evaluation as a loss by name reads them; raises for others."""

    def fit(argument: str, given: np.ndarray) -> np.ndarray:
        return losses.fitting(loss, argument, given, (len(given), *outputs.shape[1:]))

    labels = fit('labels', labels)
    if held_out is not None:
        held_out = held_out[0], fit('eval_data', held_out[1])
    return labels, held_out
