"""Defines losses and metrics by name: classification, regression, sequences of tokens.

A metric is computed from means over examples and, for some metrics, from all labels. So chunks of
examples give the same as all examples at once; `measure` evaluates many examples by chunks.

A vector of labels goes with a column of outputs. Other shapes that differ are refused, because
broadcasting would pair every label with every output.
"""

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import optax

from fedjax_links.base import Array, Params, PyTree
from fedjax_links.core import checks, errors, memory
from fedjax_links.datasets import columns

_EVAL_CHUNK = 1024
_CHUNKS_AT_ONCE = 4  # On accelerators; 16 chunks for 20 runs needed 38 GiB on an H100.

OutputsLoss = Callable[[Array, Array], Array]
"""``(outputs [B, ...], labels [B, ...]) -> []``."""

Labels = TypeVar('Labels', Array, np.ndarray)


class ExampleMetric(NamedTuple):
    """Describes a metric of examples.

    Attributes:
      means: ``(outputs, labels) -> [...]``, means over the examples of a chunk.
      finish: ``(means over all examples, labels of all) -> []``.
      larger: whether it is better when larger.
      reads_labels: whether ``finish`` reads the labels. Such a metric needs all examples.
    """

    means: Callable[[Array, Array], Array]
    finish: Callable[[Array, Array], Array] = lambda means, labels: means
    larger: bool = False
    reads_labels: bool = False


class Loss(NamedTuple):
    """Holds a loss and the metrics that suit it.

    Attributes:
      loss: mean over the examples of a batch.
      metrics: by name, in the order in which they are reported.
      least_class: the least valid label, where labels are classes; None where labels have the
        shape of outputs. By default all metrics of classes are measured, and none of the others.
    """

    loss: OutputsLoss
    metrics: Mapping[str, ExampleMetric]
    least_class: float | None = None


def like_outputs(
    labels: Labels,
    output_shape: Sequence[int],
    *,
    classes: bool,
    argument: str = 'labels',
) -> Labels:
    """Returns labels in the shape that goes with outputs.

    Args:
      labels: [B, ...].
      output_shape: of the outputs, [B, ...].
      classes: whether the labels are classes, of which the last axis of the outputs has logits.
      argument: what to name in an error.

    Returns:
      Labels of the outputs' shape, without its last axis for classes. They may have been given
      with an axis of length one more, or less, at the end.

    Raises:
      ValueError: for any other shape.
    """
    shape: tuple[int, ...] = tuple(output_shape[:-1] if classes else output_shape)
    label_shape: tuple[int, ...] = tuple(labels.shape)
    if label_shape in (shape, (*shape, 1)) or (*label_shape, 1) == shape:
        return labels.reshape(shape)
    reason = 'that of the outputs'
    if classes:
        reason = f'one class for logits {show_shape(output_shape)}'
    requirement = f'have shape {show_shape(shape)}, {reason}'
    raise errors.invalid(argument, requirement, show_shape(label_shape))


def show_shape(shape: Sequence[int]) -> str:
    """Formats a shape whose first axis is that of the examples: ``[E, 3]``."""
    return f'[{", ".join(["E", *map(str, shape[1:])])}]'


def cross_entropy(outputs: Array, labels: Array) -> Array:
    """Computes the softmax cross-entropy of logits [B, C] at labels int[B]."""
    labels = like_outputs(labels, outputs.shape, classes=True)
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(outputs, labels))


def squared_error(outputs: Array, labels: Array) -> Array:
    """Averages ``(outputs - labels)^2`` over all entries."""
    return jnp.mean(jnp.square(_residuals(outputs, labels)))


def absolute_error(outputs: Array, labels: Array) -> Array:
    """Averages ``|outputs - labels|`` over all entries."""
    return jnp.mean(jnp.abs(_residuals(outputs, labels)))


def huber(outputs: Array, labels: Array) -> Array:
    """Averages ``r^2 / 2`` for residuals up to 1 and ``|r| - 1/2`` beyond."""
    return jnp.mean(optax.huber_loss(_residuals(outputs, labels), delta=1.0))


def _residuals(outputs: Array, labels: Array) -> Array:
    return outputs - like_outputs(labels, outputs.shape, classes=False)


def token_cross_entropy(outputs: Array, labels: Array) -> Array:
    """Computes the cross-entropy of logits [B, L, C] at labels int[B, L], negative labels excluded.

    A sequence's loss is the mean over its tokens that count, or 0 if none does. The loss is the
    mean over sequences: all batches of one size weigh the same, whatever tokens are masked.
    """
    losses, counts = _tokens(outputs, labels)
    return jnp.mean(_ratio(jnp.sum(losses, axis=-1), jnp.sum(counts, axis=-1)))


def _tokens(outputs: Array, labels: Array) -> tuple[Array, Array]:
    """Returns float[B, L] each: each token's loss, or 0, and whether the token counts."""
    labels = like_outputs(labels, outputs.shape, classes=True)
    counts = labels >= 0
    losses = optax.softmax_cross_entropy_with_integer_labels(
        outputs, jnp.where(counts, labels, 0)
    )
    return jnp.where(counts, losses, 0), counts.astype(losses.dtype)


def _accuracy(outputs: Array, labels: Array) -> Array:
    """Returns the share of the labels that have the highest score."""
    labels = like_outputs(labels, outputs.shape, classes=True)
    return jnp.mean(jnp.argmax(outputs, -1) == labels)


def _token_sums(outputs: Array, labels: Array) -> Array:
    """Returns float[3] by sequence: loss, correct tokens, tokens."""
    losses, counts = _tokens(outputs, labels)
    correct = (jnp.argmax(outputs, -1) == labels.reshape(counts.shape)) * counts
    sums = jnp.stack([jnp.sum(losses), jnp.sum(correct), jnp.sum(counts)])
    return sums / len(labels)


def _ratio(total: Array, number: Array) -> Array:
    """Divides sums, 0 where there is nothing."""
    return jnp.where(number > 0, total / jnp.where(number > 0, number, 1), 0)


def _r2(mean_square: Array, labels: Array) -> Array:
    """Computes ``1 - sum (y - f)^2 / sum (y - mean y)^2``, each entry about its own mean.

    0 for labels that do not vary.
    """
    variance = jnp.mean(jnp.square(labels - jnp.mean(labels, axis=0, keepdims=True)))
    return jnp.where(variance > 0, 1 - _ratio(mean_square, variance), 0)


_REGRESSION = {
    'mse': ExampleMetric(squared_error),
    'rmse': ExampleMetric(squared_error, lambda mean, labels: jnp.sqrt(mean)),
    'mae': ExampleMetric(absolute_error),
    'r2': ExampleMetric(squared_error, _r2, larger=True, reads_labels=True),
}
_CLASSES = {'accuracy': ExampleMetric(_accuracy, larger=True)}
_TOKENS = {
    'accuracy': ExampleMetric(
        _token_sums, lambda sums, labels: _ratio(sums[1], sums[2]), larger=True
    ),
    'perplexity': ExampleMetric(
        _token_sums, lambda sums, labels: jnp.exp(_ratio(sums[0], sums[2]))
    ),
}
LOSSES: Mapping[str, Loss] = {
    'absolute_error': Loss(absolute_error, _REGRESSION),
    'cross_entropy': Loss(cross_entropy, _CLASSES, 0),
    'huber': Loss(huber, _REGRESSION),
    'squared_error': Loss(squared_error, _REGRESSION),
    'token_cross_entropy': Loss(token_cross_entropy, _TOKENS, -np.inf),
}
"""Choices for ``loss`` of `from_arrays` and `from_flax`."""


def fit_labels(
    loss: str, argument: str, labels: np.ndarray, output_shape: Sequence[int]
) -> np.ndarray:
    """Returns labels as a loss by name reads them beside outputs.

    Args:
      loss: a name in `LOSSES`.
      argument: what to name in an error.
      labels: [E, ...].
      output_shape: shape of the outputs for one example.

    Returns:
      The labels, see `like_outputs`. For classes, flags and whole floats become integers.

    Raises:
      ValueError: for labels of another shape, or classes without an output.
    """
    least = LOSSES[loss].least_class
    classes = least is not None
    batch_shape = (len(labels), *output_shape)
    labels = like_outputs(labels, batch_shape, classes=classes, argument=argument)
    if least is None:
        return labels
    labels = columns.as_classes(labels)
    if not np.issubdtype(labels.dtype, np.integer):
        raise errors.invalid(argument, 'be classes, integers', f'{labels.dtype}')
    num_classes = output_shape[-1]
    outside = np.argwhere((labels < least) | (labels >= num_classes))
    if len(outside):
        requirement = f"lie in [{least:g}, {num_classes}), the model's outputs"
        index = tuple(outside[0])
        got = f'{labels[index]} at example {index[0]}'
        raise errors.invalid(argument, requirement, got)
    return labels


def look_up(
    loss: str | OutputsLoss, metrics: Collection[str] | None
) -> tuple[OutputsLoss, Mapping[str, ExampleMetric]]:
    """Returns the loss and the metrics that names stand for.

    Args:
      loss: a name in `LOSSES`, or ``(outputs, labels) -> []``.
      metrics: names of the loss's metrics; None for all where labels are classes or tokens, and
        none otherwise.

    Returns:
      The loss, and what is measured by name, the loss first.

    Raises:
      ValueError: for an unknown loss or metric.
    """
    if callable(loss):
        if metrics:
            raise errors.invalid('metrics', 'go with a loss by name', sorted(metrics))
        return loss, {'loss': ExampleMetric(loss)}
    known = checks.entry('loss', loss, LOSSES)
    if metrics is None:
        metrics = () if known.least_class is None else known.metrics
    names = checks.names('metrics', metrics)
    chosen = {name: checks.entry('metrics', name, known.metrics) for name in names}
    return known.loss, {'loss': ExampleMetric(known.loss), **chosen}


@dataclasses.dataclass(frozen=True)
class ByName:
    """Computes metrics by name, [] each, of a model's outputs for all examples.

    Attributes:
      metrics: pairs of name and metric.
      predict: ``(params, features) -> outputs``.
      by_batch: whether the outputs for an example depend on the other examples of its batch. A
        fixed permutation then makes up the batches, see `measure`.
    """

    metrics: tuple[tuple[str, ExampleMetric], ...]
    predict: Callable[..., Array]
    by_batch: bool = False

    def __call__(self, params: Params, examples: PyTree) -> Mapping[str, Array]:
        """Measures all examples together."""
        means = measure(self.means, params, examples, by_batch=self.by_batch)
        return self.finish(means, examples.labels)

    def means(self, params: Params, chunk: PyTree) -> dict[str, Array]:
        """Averages over a chunk what metrics are computed from."""
        outputs = self.predict(params, chunk.features)
        return {
            name: metric.means(outputs, chunk.labels) for name, metric in self.metrics
        }

    def each(self, params: Params, examples: PyTree) -> dict[str, Array]:
        """Computes the means of `measure` for each example, [E, ...].

        Outputs are computed in the batches of `measure` with ``by_batch``.
        """

        def of_one(outputs: Array, label: Array) -> dict[str, Array]:
            return {
                name: metric.means(outputs[None], label[None])
                for name, metric in self.metrics
            }

        def of_batch(batch: PyTree) -> dict[str, Array]:
            return jax.vmap(of_one)(self.predict(params, batch.features), batch.labels)

        order, num_chunked = _mixed_order(len(examples.labels))
        values = of_batch(_rows(examples, order[num_chunked:]))
        if num_chunked:
            chunks = order[:num_chunked].reshape(-1, _EVAL_CHUNK)
            by_chunk = jax.lax.map(lambda rows: of_batch(_rows(examples, rows)), chunks)
            first = jax.tree.map(
                lambda v: v.reshape(num_chunked, *v.shape[2:]), by_chunk
            )
            values = jax.tree.map(lambda v, w: jnp.concatenate([v, w]), first, values)
        return jax.tree.map(lambda v: jnp.zeros_like(v).at[order].set(v), values)

    def finish(
        self, means: Mapping[str, Array], labels: Any = None
    ) -> Mapping[str, Array]:
        """Computes metrics from means over examples.

        Without labels, metrics that read them are left out.
        """
        return {
            name: metric.finish(means[name], labels)
            for name, metric in self.metrics
            if labels is not None or not metric.reads_labels
        }


def measure(
    per_batch: Callable[[Params, PyTree], Mapping[str, Array]],
    params: Params,
    examples: PyTree,
    *,
    by_batch: bool = False,
) -> Mapping[str, Array]:
    """Averages over all examples, a bounded number of which are in flight at a time.

    Args:
      per_batch: ``(params, batch) -> {name: [...]}``, means over a `Batch`.
      params: one model.
      examples: a `Batch` of any number.
      by_batch: whether the outputs for an example depend on the other examples of its batch.
        Examples lie sorted by client, so labels of neighbours are skewed. Examples are then taken
        in a fixed random order, and no batch is small.
    """
    num_examples = len(examples.labels)
    if num_examples <= _EVAL_CHUNK:
        return per_batch(params, examples)
    take: Callable[[Any, Array], Any]
    if by_batch:
        order, num_chunked = _mixed_order(num_examples)
        take = functools.partial(_chunk_of, order)
        last = _rows(examples, order[num_chunked:])
    else:
        num_chunked = num_examples // _EVAL_CHUNK * _EVAL_CHUNK
        take = _slice
        last = jax.tree.map(lambda a: a[num_chunked:], examples)
    sums: Any = None
    if num_chunked:
        at_once = None if memory.platform() == 'cpu' else _CHUNKS_AT_ONCE
        firsts = jnp.arange(0, num_chunked, _EVAL_CHUNK)
        means = jax.lax.map(
            lambda i: per_batch(params, take(examples, i)), firsts, batch_size=at_once
        )
        sums = jax.tree.map(lambda a: jnp.sum(a, axis=0) * _EVAL_CHUNK, means)
    num_left = num_examples - num_chunked
    if num_left:
        last_sums = jax.tree.map(lambda a: a * num_left, per_batch(params, last))
        if sums is None:
            sums = last_sums
        else:
            sums = jax.tree.map(lambda s, a: s + a, sums, last_sums)
    return {name: total / num_examples for name, total in sums.items()}


def _mixed_order(num_examples: int) -> tuple[Array, int]:
    """Permutes examples, and returns how many of the examples fill whole chunks.

    The remaining examples are the last batch. If there are enough examples, that batch holds at
    least a chunk.
    """
    num_chunked = max(num_examples // _EVAL_CHUNK - 1, 0) * _EVAL_CHUNK
    return jax.random.permutation(jax.random.key(0), num_examples), num_chunked


def _slice(examples: PyTree, first: Array) -> PyTree:
    """Takes a chunk where it lies: reshaped, examples would be copied."""
    slice_of = jax.lax.dynamic_slice_in_dim
    return jax.tree.map(lambda a: slice_of(a, first, _EVAL_CHUNK), examples)


def _chunk_of(order: Array, examples: PyTree, first: Array) -> PyTree:
    """Takes a chunk of the examples in a given order."""
    return _rows(examples, jax.lax.dynamic_slice_in_dim(order, first, _EVAL_CHUNK))


def _rows(examples: PyTree, rows: Array) -> PyTree:
    return jax.tree.map(lambda a: a[rows], examples)
