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
from fedjax_links.core import checks, errors, tree
from fedjax_links.problems import array_checks, losses, models
from fedjax_links.problems.partials import Partial

Metrics = Callable[[Params, 'Batch'], Mapping[str, Array]]


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
    eval_data: tuple[ArrayLike, ...] | None = None,
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
      eval_data: a pair (features, labels) to evaluate on, or with the owners of these examples a
        triple, so that models are evaluated over clients too (`evaluation.over_clients`); owners
        from N on are clients that do not train. By default the clients' own data, and what
        experiments measure there is called ``train_...``.
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
    counts = np.bincount(checks.ids('clients', owners))
    if not counts.all():
        idle = int(np.argmin(counts))
        raise errors.invalid('clients', 'give every client an example', f'none for client {idle}')
    rows, targets = np.asarray(features), np.asarray(labels)
    array_checks.check_rows('features', rows, 'entry of `clients`', len(owners))
    array_checks.check_rows('labels', targets, 'entry of `clients`', len(owners))
    held_out = _held_out(eval_data)
    params = jax.eval_shape(init_params, jax.random.key(0))
    if isinstance(loss_fn, str):
        if predict is None:
            raise errors.invalid('predict', 'be given for a loss by name', None)
        if callable(metrics):
            raise errors.invalid('metrics', 'be names for a loss by name', metrics)
        by_name, measured, larger = losses.look_up(loss_fn, metrics)
        outputs = array_checks.eval_outputs('predict', predict, params, rows)
        targets = losses.fit_labels(loss_fn, 'labels', targets, outputs.shape[1:])
        if held_out is not None:
            fitted = losses.fit_labels(loss_fn, 'eval_data', held_out[1], outputs.shape[1:])
            held_out = held_out[0], fitted, *held_out[2:]
        larger_is_better = larger if larger_is_better is None else larger_is_better
        measure: Any = losses.ByName(tuple(measured.items()), predict)
        loss_fn = Partial(_loss_of_outputs, by_name, predict)
    elif metrics is not None and not callable(metrics):
        raise errors.invalid('metrics', 'be a function, as `loss_fn` is', metrics)
    else:
        measure = Partial(losses.measure, metrics or Partial(loss_alone, loss_fn))
    data, owned = _by_owner(rows, targets, owners)
    eval_data, eval_owned = data, None
    if held_out is not None and len(held_out) == 3:
        eval_data, eval_owned = _by_owner(*held_out, counts.size)
    elif held_out is not None:
        eval_data = Batch(*map(jnp.asarray, held_out))
    return Problem(
        data=data,
        owned=owned,
        eval_data=eval_data,
        eval_owned=eval_owned,
        init_params=init_params,
        loss_fn=loss_fn,
        metrics=measure,
        min_examples=int(counts.min()),
        max_examples=int(counts.max()),
        random_loss_fn=random_loss_fn,
        larger_is_better=directions(larger_is_better, measure, params, data),
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
    eval_data: tuple[ArrayLike, ...] | None = None,
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
    outputs_loss, _, larger = losses.look_up(loss, metrics)
    prepare = preprocess or _unchanged
    rows, held_out = np.asarray(features), _held_out(eval_data)
    array_checks.check_numbers('features', rows)
    given = jax.ShapeDtypeStruct((1, *rows.shape[1:]), jnp.asarray(rows[:1]).dtype)
    example = jax.eval_shape(prepare, given)
    network = _Network(module, prepare, example)
    init_params, predict = Partial(_Network.init, network), Partial(_Network.predict, network)
    try:
        params = jax.eval_shape(init_params, jax.random.key(0))
    except errors.InvalidError as error:
        raise error.under('module') from error
    except Exception as error:  # whatever the layers say
        requirement = f'suit features of shape {list(example.shape[1:])}'
        raise errors.invalid('module', requirement, errors.describe(error)) from error
    checks.fits('module', type(module).__name__, tree.num_bytes(params))
    read = {'features': rows} | ({'eval_data': held_out[0]} if held_out else {})
    checked = array_checks.with_ids_checked(predict, read)
    outputs = array_checks.eval_outputs('module', checked, params, rows)
    if callable(loss) and {outputs.shape[1:], np.shape(labels)[1:]} == {(), (1,)}:
        array_checks.check_pairs(loss, outputs, np.asarray(labels))
    random_loss = Partial(_Network.random_loss, network, outputs_loss, augment)
    return from_arrays(
        rows,
        labels,
        clients,
        init_params=init_params,
        loss_fn=Partial(_loss_of_outputs, loss, predict) if callable(loss) else loss,
        metrics=None if callable(loss) else metrics,
        predict=predict,
        eval_data=held_out,
        random_loss_fn=random_loss if network.options or augment is not None else None,
        larger_is_better=larger if larger_is_better is None else larger_is_better,
        objective=None if augment is not None else _linear_objective(module, loss, prepare, params),
    )


@dataclasses.dataclass(frozen=True)
class _Network:
    """A module, and what it is applied to: prepared features like this example."""

    module: nn.Module
    prepare: Callable[[Array], Array]
    example: jax.ShapeDtypeStruct

    @property
    def options(self) -> dict[str, Any]:
        """Those of the module in evaluation."""
        takes_train = 'train' in inspect.signature(type(self.module).__call__).parameters
        return {'train': False} if takes_train else {}

    def init(self, key: Key) -> Params:
        variables = self.module.init(key, jnp.zeros_like(self.example), **self.options)
        if variables.keys() - {'params'}:
            also = f'also {sorted(variables.keys() - {"params"})}'
            raise errors.InvalidError('module', 'have parameters only', also)
        return variables.get('params', {})

    def predict(self, params: Params, features: Array) -> Any:
        return self.module.apply({'params': params}, self.prepare(features), **self.options)

    def random_loss(
        self,
        loss: losses.Outputs,
        augment: Callable[[Key, Array], Array] | None,
        params: Params,
        batch: Batch,
        key: Key,
    ) -> Array:
        features, options = self.prepare(batch.features), self.options
        if augment is not None:
            augment_key, key = jax.random.split(key) if options else (key, key)
            features = augment(augment_key, features)
        if options:
            options = {'train': True, 'rngs': {'dropout': key}}
        outputs: Any = self.module.apply({'params': params}, features, **options)
        return loss(outputs, batch.labels)


def _unchanged(features: Array) -> Array:
    return features


def _loss_of_outputs(
    loss: losses.Outputs, predict: Callable[..., Array], params: Params, batch: Batch
) -> Array:
    return loss(predict(params, batch.features), batch.labels)


def loss_alone(
    loss_fn: Callable[[Params, Any], Array], params: Params, batch: Any
) -> dict[str, Array]:
    """``metrics`` where there are none beside the loss."""
    return {'loss': loss_fn(params, batch)}


def _linear_objective(
    module: nn.Module,
    loss: str | Callable[..., Array],
    prepare: Callable[[Array], Array],
    params: Params,
) -> LinearObjective | None:
    """What is known of a module's loss; None for all but a single plain layer."""
    plain = type(module) is nn.Dense and module == nn.Dense(module.features)
    softmax = type(module) is models.Softmax and module.dtype is None
    kind = _OBJECTIVES.get(loss) if isinstance(loss, str) else None
    if kind is None or not (plain or softmax):
        return None
    layer = Partial(_layer, jax.tree.structure(params))
    return LinearObjective(kind, Partial(_inputs, prepare), _coefficients, layer)


def _inputs(prepare: Callable[[Array], Array], data: Batch) -> tuple[Array, Array]:
    return prepare(data.features), data.labels


def _coefficients(params: Params) -> tuple[Array, Array]:
    bias, kernel = jax.tree.leaves(params)  # by name
    return kernel, bias


def _layer(treedef: Any, kernel: Array, bias: Array) -> Params:
    return jax.tree.unflatten(treedef, [bias, kernel])


_OBJECTIVES = {'cross_entropy': 'softmax', 'squared_error': 'least_squares'}


def directions(
    names: Collection[str] | None, measure: Callable[..., Any], params: Params, data: Any
) -> tuple[str, ...] | None:
    """``larger_is_better`` as a tuple, all of which is measured; None if it is not stated."""
    if names is None:
        return None
    names = checks.names('larger_is_better', names)
    measured = jax.eval_shape(measure, params, data)
    for name in names:
        checks.choice('larger_is_better', name, measured)
    return names


def _held_out(eval_data: tuple[ArrayLike, ...] | None) -> tuple[np.ndarray, ...] | None:
    """What to evaluate on; raises unless it is a pair or a triple of one length."""
    if eval_data is None:
        return None
    if len(eval_data) not in (2, 3):
        requirement = 'be a pair (features, labels), or a triple with owners'
        raise errors.invalid('eval_data', requirement, len(eval_data))
    features, labels, *owners = (np.asarray(part) for part in eval_data)
    for part in (features, *owners):
        array_checks.check_rows('eval_data', part, 'label', len(labels) if labels.ndim else 0)
    array_checks.check_numbers('eval_data', labels)
    return features, labels, *(checks.ids('eval_data', whose) for whose in owners)


def _by_owner(
    features: np.ndarray, labels: np.ndarray, owners: np.ndarray, num_owners: int = 0
) -> tuple[Batch, Rows]:
    """Examples on the device, sorted by owner, and whose they are."""
    order, counts = np.argsort(owners, kind='stable'), np.bincount(owners, minlength=num_owners)
    rows = Rows(jnp.int32(np.cumsum(counts) - counts), jnp.int32(counts))
    return Batch(jnp.asarray(features[order]), jnp.asarray(labels[order])), rows
