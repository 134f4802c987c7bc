"""Builds problems from arrays with owners, or from a function that generates a client's examples.

A problem's functions are `Partial`s of module functions. So problems that differ only in their
arrays have equal functions, and share compiled programs.
"""

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.base import (
    Array,
    ClientNames,
    ExampleGenerator,
    Key,
    LinearObjective,
    Params,
    Problem,
    PyTree,
    Rows,
)
from fedjax_links.core import checks, errors
from fedjax_links.datasets.columns import (
    as_array,
    check_numbers,
    check_rows,
    check_same_kind,
)
from fedjax_links.problems import losses, model_outputs, user_functions

Metrics = Callable[[Params, 'Batch'], Mapping[str, Array]]

# Clients whose generated examples are stored, to evaluate on.
_NUM_EVALUATED = 100


class Partial(functools.partial[Any]):
    """Compares by value, unlike `functools.partial`.

    Example:
      >>> from fedjax_links.problems.arrays import Partial
      >>> print(Partial(max, 1) == Partial(max, 1), Partial(max, 1) == Partial(max, 2))
      True False
    """

    def __eq__(self, other: object) -> bool:  # noqa: D105
        if not isinstance(other, Partial):
            return NotImplemented
        parts = (self.func, self.args, self.keywords)
        other_parts = (other.func, other.args, other.keywords)
        try:
            return bool(parts == other_parts)
        except Exception:
            # Arguments of users may refuse to be compared.
            return False

    def __hash__(self) -> int:  # noqa: D105  arguments may be lists
        return hash(self.func)


class Batch(NamedTuple):
    """Holds examples side by side.

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
    client_names: Sequence[object] | None = None,
) -> Problem:
    """Builds a federated problem from arrays and the owner of each example.

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
      eval_data: a pair (features, labels) to evaluate on. Or a triple with the owners of these
        examples: models are then evaluated over clients too (`evaluation.over_clients`). Owners
        from N on are clients that do not train. By default the clients' own data; experiments then
        call the metrics ``train_...``.
      random_loss_fn: ``(params, batch, key) -> []``, to train on instead of ``loss_fn``; each seed,
        round, client and local step has another key.
      larger_is_better: names of the ``metrics`` that are better when larger; all others are then
        better when smaller. None: not stated.
      objective: states that ``loss_fn`` is the loss of a linear model, so that limits and
        accuracies can be predicted; None: not stated.
      client_names: the data's names of clients 0 to N-1, then of owners from N on, such as
        `adapters.from_columns` returns. Logs of availability find their clients by these names.

    Returns:
      The problem. Examples are stored once, sorted by owner.

    Raises:
      ValueError: if lengths differ, an owner is not a client id, a client owns nothing, or
        ``larger_is_better`` names what is not measured. For a loss by name: if the loss or a metric
        is unknown, labels do not fit or ``predict`` is missing. For a loss function: if ``predict``
        is given.
    """
    owners = checks.ids('clients', clients)
    counts = _counts(owners, client_names)
    rows = as_array('features', features)
    targets = as_array('labels', labels)
    for argument, array in (('features', rows), ('labels', targets)):
        check_rows(argument, array, 'entry of `clients`', len(owners))
    held_out = examples_held_out(eval_data, rows, num_clients=counts.size)
    checks.function('init_params', init_params, 'key')
    params = jax.eval_shape(init_params, jax.random.key(0))
    if isinstance(loss_fn, str):
        name = loss_fn
        loss_fn, measure, shape = _by_name(name, metrics, predict, params, rows)
        targets = losses.fit_labels(name, 'labels', targets, shape)
        if held_out:
            held_out[1] = losses.fit_labels(name, 'eval_data', held_out[1], shape)
        if larger_is_better is None:
            larger_is_better = [
                metric_name for metric_name, metric in measure.metrics if metric.larger
            ]
    else:
        measure = _by_function(loss_fn, metrics, predict)
        if held_out and held_out[1].shape[1:] != targets.shape[1:]:
            requirement = f'have labels of shape {list(targets.shape[1:])}'
            raise errors.invalid('eval_data', requirement, list(held_out[1].shape[1:]))
    data, owned = _by_owner(rows, targets, owners)
    examples, eval_owned = _evaluation_examples(data, held_out, counts.size)
    user_functions.check_results(loss_fn, metrics, params, data, examples)
    user_functions.check_random_loss(random_loss_fn, params, data)
    names = () if client_names is None else tuple(client_names)
    return Problem(
        data=data,
        owned=owned,
        eval_data=examples,
        eval_owned=eval_owned,
        init_params=init_params,
        loss_fn=loss_fn,
        metrics=measure,
        min_examples=int(counts.min()),
        max_examples=int(counts.max()),
        random_loss_fn=random_loss_fn,
        larger_is_better=directions(larger_is_better, measure, params, data),
        objective=objective,
        held_out=bool(held_out),
        named=ClientNames(names[: counts.size], names[counts.size :]),
    )


def _evaluation_examples(
    data: Batch, held_out: Sequence[np.ndarray], num_clients: int
) -> tuple[Batch, Rows | None]:
    """Returns the examples to evaluate on and, if these have owners, the rows of each owner.

    Without held-out examples, models are evaluated on the clients' data.
    """
    if not held_out:
        return data, None
    if len(held_out) == 3:
        features, labels, owners = held_out
        return _by_owner(features, labels, owners, num_clients)
    features, labels = held_out
    return Batch(jnp.asarray(features), jnp.asarray(labels)), None


def _counts(owners: np.ndarray, client_names: Sequence[object] | None) -> np.ndarray:
    """Counts the examples of each client; raises for one without any, or without a name."""
    counts = np.bincount(owners)
    if not counts.all():
        got = f'none for client {np.argmin(counts)}'
        raise errors.invalid('clients', 'give every client an example', got)
    if client_names is None:
        return counts
    requirement = f'name each of the {counts.size} clients'
    is_list = hasattr(client_names, '__len__') and np.iterable(client_names)
    if isinstance(client_names, str | set | frozenset | Mapping) or not is_list:
        raise errors.invalid('client_names', requirement, errors.text_of(client_names))
    if len(client_names) < counts.size:
        raise errors.invalid('client_names', requirement, f'{len(client_names)} names')
    return counts


def _by_name(
    loss: str,
    metrics: Metrics | Collection[str] | None,
    predict: Callable[[Params, Array], Array] | None,
    params: Params,
    rows: np.ndarray,
) -> tuple[Callable[..., Array], losses.ByName, tuple[int, ...]]:
    """Looks up a loss by name: its function, its metrics, and the shape of an output."""
    if predict is None:
        raise errors.invalid('predict', 'be given for a loss by name', None)
    if callable(metrics):
        raise errors.invalid('metrics', 'be names for a loss by name', metrics)
    outputs_loss, metrics_by_name = losses.look_up(loss, metrics)
    outputs, _, by_batch = model_outputs.eval_outputs(
        'predict', predict, params, {'features': rows}
    )
    measure = losses.ByName(tuple(metrics_by_name.items()), predict, by_batch)
    return Partial(loss_of_outputs, outputs_loss, predict), measure, outputs.shape[1:]


def _by_function(
    loss_fn: Callable[[Params, Batch], Array],
    metrics: Metrics | Collection[str] | None,
    predict: object,
) -> Any:
    """Returns the metrics of a loss function: a function, or the loss alone."""
    if predict is not None:
        raise errors.invalid('predict', 'go with a loss by name', predict)
    if metrics is not None and not callable(metrics):
        raise errors.invalid('metrics', 'be a function, as `loss_fn` is', metrics)
    if isinstance(metrics, losses.ByName):
        return metrics
    return Partial(losses.measure, metrics or Partial(loss_alone, loss_fn))


def generated(
    examples: Callable[[Key, Array], PyTree],
    *,
    num_clients: int,
    init_params: Callable[[Key], Params],
    loss_fn: Callable[[Params, PyTree], Array],
    seed: int = 0,
    metrics: Callable[[Params, PyTree], Mapping[str, Array]] | None = None,
    eval_data: PyTree | None = None,
    larger_is_better: Collection[str] | None = None,
) -> Problem:
    """Builds a problem of any number of clients, whose data are a function of the client.

    Client i has the same examples in every round, ``examples(fold_in(key(seed), i), i)``. They are
    generated whenever the client trains, so nothing is stored per client.

    Args:
      examples: ``(key, client id) -> examples``, leaves [m, ...], written for one client.
      num_clients: N.
      init_params: ``key -> params``.
      loss_fn: ``(params, batch) -> []``, mean loss over a batch of such examples.
      seed: of the data, at least 0 and below 2^32.
      metrics: ``(params, eval_data) -> {name: []}``; the loss alone by default.
      eval_data: what ``metrics`` reads; by default the examples of the first 100 clients, and
        experiments then call the metrics ``train_...``.
      larger_is_better: names of the metrics that are better when larger; None: not stated.

    Returns:
      The problem.

    Raises:
      ValueError: if a number is out of range, an argument is not a function, or ``examples`` gives
        leaves of unequal length.
    """
    checks.static_int('num_clients', num_clients)
    checks.seed('seed', seed)
    checks.function('examples', examples, 'key', 'client')
    checks.function('init_params', init_params, 'key')
    checks.optional_functions(metrics=metrics)
    key = jax.random.key(seed)
    make = Partial(_make, examples)
    batch = jax.eval_shape(make, key, jnp.int32(0))
    leaves = jax.tree.leaves(batch)
    lengths = {leaf.shape[0] if leaf.ndim else 0 for leaf in leaves}
    length = min(lengths, default=0)
    if len(lengths) != 1 or not length:
        got = [list(leaf.shape) for leaf in leaves]
        raise errors.invalid('examples', 'give leaves of one length, at least 1', got)
    evaluates_training_data = eval_data is None
    if evaluates_training_data:
        clients = jnp.arange(min(num_clients, _NUM_EVALUATED), dtype=jnp.int32)
        by_client = jax.vmap(make, in_axes=(None, 0))(key, clients)
        eval_data = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), by_client)
    measure = metrics or Partial(loss_alone, loss_fn)
    params = jax.eval_shape(init_params, key)
    user_functions.check_results(loss_fn, metrics, params, batch, eval_data)
    return Problem(
        data=key,
        owned=ExampleGenerator(make=make, num_clients=num_clients),
        eval_data=eval_data,
        init_params=init_params,
        loss_fn=loss_fn,
        metrics=measure,
        min_examples=length,
        max_examples=length,
        larger_is_better=directions(larger_is_better, measure, params, eval_data),
        held_out=False if evaluates_training_data else None,
    )


def _make(examples: Callable[..., PyTree], data_key: Key, client: Array) -> PyTree:
    return examples(jax.random.fold_in(data_key, client), client)


def loss_of_outputs(
    loss: losses.OutputsLoss,
    predict: Callable[..., Array],
    params: Params,
    batch: Batch,
) -> Array:
    """Returns the ``loss_fn`` of a loss of a model's outputs."""
    return loss(predict(params, batch.features), batch.labels)


def loss_alone(
    loss_fn: Callable[..., Array], params: Params, batch: PyTree
) -> dict[str, Array]:
    """Returns the ``metrics`` where there are none beside the loss."""
    return {'loss': loss_fn(params, batch)}


def directions(
    names: Collection[str] | None,
    measure: Callable[..., object],
    params: Params,
    data: PyTree,
) -> tuple[str, ...] | None:
    """Returns ``larger_is_better`` as a tuple of measured metrics; None if it is not stated."""
    if names is None:
        return None
    names = checks.names('larger_is_better', names)
    measured = jax.eval_shape(measure, params, data)
    for name in names:
        checks.choice('larger_is_better', name, measured)
    return names


def examples_held_out(
    eval_data: tuple[ArrayLike, ...] | None,
    features: np.ndarray,
    num_clients: int | None = None,
) -> list[np.ndarray]:
    """Checks what to evaluate on beside the features that clients train on.

    Args:
      eval_data: a pair or a triple, or None for nothing.
      features: [E, ...], features of the clients' examples.
      num_clients: N, or None where it is not known.

    Returns:
      Features, labels and, if there are any, owners.

    Raises:
      ValueError: unless lengths agree, there are examples, and their features have the shape and
        the kind of ``features``.
    """
    if eval_data is None:
        return []
    _check_num_parts(eval_data)
    rows, labels, *owners = (as_array('eval_data', part) for part in eval_data)
    if labels.ndim and not len(labels):
        raise errors.invalid('eval_data', 'hold examples', 'none')
    for part in (rows, *owners):
        check_rows('eval_data', part, 'label', len(labels) if labels.ndim else 0)
    check_numbers('eval_data', labels)
    check_same_kind('eval_data', rows, 'features', features)
    if num_clients is not None:
        limit = num_clients + len(labels)
        owners = [checks.ids('eval_data', column, limit=limit) for column in owners]
    return [rows, labels, *owners]


def _check_num_parts(eval_data: tuple[ArrayLike, ...]) -> None:
    """Raises unless there are features and labels, and perhaps owners."""
    is_list = isinstance(eval_data, tuple | list)
    if not is_list or len(eval_data) not in (2, 3):
        requirement = 'be a pair (features, labels), or a triple with owners'
        got = len(eval_data) if is_list else errors.text_of(eval_data)
        raise errors.invalid('eval_data', requirement, got)


def _by_owner(
    features: np.ndarray, labels: np.ndarray, owners: np.ndarray, num_owners: int = 0
) -> tuple[Batch, Rows]:
    """Puts examples on the device, sorted by owner, and returns the rows of each owner."""
    order = np.argsort(owners, kind='stable')
    counts = np.bincount(owners, minlength=num_owners)
    rows = Rows(jnp.int32(np.cumsum(counts) - counts), jnp.int32(counts))
    return Batch(jnp.asarray(features[order]), jnp.asarray(labels[order])), rows
