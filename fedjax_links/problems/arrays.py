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

from fedjax_links import checks, errors
from fedjax_links.base import Array, Key, LinearObjective, Params, Problem, Rows
from fedjax_links.problems import losses, models

Metrics = Callable[[Params, 'Batch'], Mapping[str, Array]]

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
      labels: [E, ...].
      clients: int[E], owner of each example; ids 0 to N-1, each owning at least one example.
      init_params: ``key -> params``.
      loss_fn: ``(params, batch) -> []``, mean loss over a `Batch` (``batch.features``,
        ``batch.labels``; it unpacks as a pair). Or a name in `losses.LOSSES`, of ``predict``.
      metrics: ``(params, batch) -> {name: []}``, means over a `Batch`; the loss alone by default.
        For a loss by name, as in `from_flax`.
      predict: ``(params, features) -> outputs``, [B, ...] each, for a loss by name.
      eval_data: a pair (features, labels) to evaluate on; the clients' own data by default.
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
        name without ``predict``.
    """
    finish: Callable[[Mapping[str, Array], Batch], Mapping[str, Array]] | None = None
    if isinstance(loss_fn, str):
        if predict is None:
            raise errors.invalid('predict', 'be given for a loss by name', None)
        if callable(metrics):
            raise errors.invalid('metrics', 'be names for a loss by name', metrics)
        loss_fn, metrics, finish, larger = _by_name(loss_fn, metrics, predict)
        larger_is_better = larger if larger_is_better is None else larger_is_better
    elif metrics is not None and not callable(metrics):
        raise errors.invalid('metrics', 'be a function, as `loss_fn` is', metrics)
    owners = np.asarray(clients)
    num_examples = len(owners)
    rows, targets = np.asarray(features), np.asarray(labels)
    for name, array in (('features', rows), ('labels', targets)):
        if len(array) != num_examples:
            raise errors.invalid(
                name, f'have one row per entry of `clients` ({num_examples})', len(array)
            )
    counts = _count_examples(owners)
    order = np.argsort(owners, kind='stable')
    data = Batch(jnp.asarray(rows[order]), jnp.asarray(targets[order]))
    if eval_data is not None and len(eval_data) != 2:
        raise errors.invalid('eval_data', 'be a pair (features, labels)', len(eval_data))
    own_loss = loss_fn
    per_batch = metrics or (lambda params, batch: {'loss': own_loss(params, batch)})
    if larger_is_better is not None:
        params = jax.eval_shape(init_params, jax.random.key(0))
        measured = jax.eval_shape(per_batch, params, data)
        larger_is_better = _names_of_metrics(larger_is_better, measured)
    return Problem(
        data=data,
        owned=Rows(
            offsets=jnp.asarray(np.concatenate([[0], np.cumsum(counts)[:-1]]), jnp.int32),
            counts=jnp.asarray(counts, jnp.int32),
        ),
        eval_data=data if eval_data is None else Batch(*map(jnp.asarray, eval_data)),
        init_params=init_params,
        loss_fn=loss_fn,
        metrics=lambda params, examples: _measured(per_batch, finish, params, examples),
        min_examples=int(counts.min()),
        max_examples=int(counts.max()),
        random_loss_fn=random_loss_fn,
        larger_is_better=larger_is_better,
        objective=objective,
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
        for the losses of regression.
      clients: int[E], owner of each example.
      module: a flax linen module whose only variables are parameters. If it takes a flag ``train``,
        clients train with ``train=True`` and a ``dropout`` key; all else is with ``train=False``.
      loss: a name in `losses.LOSSES` (``'cross_entropy'``, ``'squared_error'``, ...), or
        ``(outputs, labels) -> []``.
      metrics: what to measure beside the loss, by name: ``'accuracy'``; ``'mse'``, ``'rmse'``,
        ``'mae'``, ``'r2'``; of tokens ``'accuracy'`` and ``'perplexity'``. Those of classes and of
        tokens by default.
      eval_data: a pair (features, labels) to evaluate on; the clients' own data by default.
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
      ValueError: for an unknown loss or metric, or a module with variables besides parameters.
    """
    outputs_loss, beside, larger = losses.of(loss, metrics)
    better = larger if larger_is_better is None else larger_is_better
    better = _names_of_metrics(better, ('loss', *beside))
    prepare = preprocess or (lambda features: features)
    first = np.asarray(features)[:1]
    example = prepare(jnp.zeros(first.shape, jnp.asarray(first).dtype))  # only its shape matters
    takes_train = 'train' in inspect.signature(type(module).__call__).parameters
    evaluating: dict[str, Any] = {'train': False} if takes_train else {}

    apply: Callable[..., Any] = module.apply

    def init(key: Key) -> Mapping[str, Params]:
        return module.init(key, example, **evaluating)

    collections = jax.eval_shape(init, jax.random.key(0)).keys() - {'params'}
    if collections:
        raise errors.invalid('module', 'have parameters only', f'also {sorted(collections)}')

    def evaluate(params: Params, batch: Batch) -> Array:
        outputs: Array = apply({'params': params}, prepare(batch.features), **evaluating)
        return outputs

    if loss == 'cross_entropy':
        two = jnp.zeros((2, *first.shape[1:]), jnp.asarray(first).dtype)  # a batch, to any module
        of_two = Batch(two, jnp.zeros(2, int))
        params = jax.eval_shape(init, jax.random.key(0))['params']
        num_outputs = jax.eval_shape(evaluate, params, of_two).shape[-1]
        for argument, given in (('labels', labels), ('eval_data', (eval_data or (0, None))[1])):
            if given is not None:
                _check_classes(argument, given, num_outputs)

    def loss_fn(params: Params, batch: Batch) -> Array:
        return outputs_loss(evaluate(params, batch), batch.labels)

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

    measure = losses.means(outputs_loss, beside)

    def per_batch(params: Params, batch: Batch) -> Mapping[str, Array]:
        return measure(evaluate(params, batch), batch.labels)

    def finish(found: Mapping[str, Array], examples: Batch) -> Mapping[str, Array]:
        return losses.finished(found, beside, examples.labels)

    problem = from_arrays(
        features,
        labels,
        clients,
        init_params=lambda key: init(key)['params'],
        loss_fn=loss_fn,
        eval_data=eval_data,
        random_loss_fn=random_loss_fn if takes_train or augment is not None else None,
        objective=None if augment is not None else _linear_objective(module, loss, prepare),
    )
    return dataclasses.replace(
        problem,
        larger_is_better=better,
        metrics=lambda params, examples: _measured(per_batch, finish, params, examples),
    )


def _by_name(
    loss: str, metrics: Collection[str] | None, predict: Callable[[Params, Array], Array]
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


def _names_of_metrics(names: Collection[str], measured: Collection[str]) -> tuple[str, ...]:
    """``larger_is_better`` as a tuple, all of which is measured."""
    names = checks.names('larger_is_better', names)
    for name in names:
        checks.choice('larger_is_better', name, measured)
    return names


def _count_examples(owners: np.ndarray) -> np.ndarray:
    if owners.ndim != 1 or not np.issubdtype(owners.dtype, np.integer):
        raise errors.invalid(
            'clients', 'be a vector of client ids', f'{owners.dtype}{list(owners.shape)}'
        )
    if owners.size == 0 or owners.min() < 0:
        lowest = 'no example' if owners.size == 0 else f'id {owners.min()}'
        raise errors.invalid('clients', 'hold ids from 0', lowest)
    counts = np.bincount(owners)
    if not counts.all():
        idle = int(np.flatnonzero(counts == 0)[0])
        raise errors.invalid('clients', 'give every client an example', f'none for client {idle}')
    return counts


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


def _check_classes(argument: str, labels: ArrayLike, num_outputs: int) -> None:
    """Raises unless labels are classes of which the module has an output each."""
    if not checks.is_concrete(labels):
        return
    given = np.asarray(labels)
    if not np.issubdtype(given.dtype, np.integer):
        raise errors.invalid(argument, 'be classes, integers', f'{given.dtype}')
    outside = np.flatnonzero((given < 0) | (given >= num_outputs))
    if outside.size:
        requirement = f"lie in [0, {num_outputs}), the module's outputs"
        shown = f'{given.ravel()[outside[0]]} at example {outside[0]}'
        raise errors.invalid(argument, requirement, shown)
