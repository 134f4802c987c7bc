"""What is measured of a model on many examples, a chunk of them at a time."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from fedjax_links.base import Array, Params
from fedjax_links.core import memory
from fedjax_links.problems import losses

_EVAL_CHUNK = 1024
_CHUNKS_AT_ONCE = 16  # elsewhere than on a CPU


@dataclasses.dataclass(frozen=True)
class ByName:
    """Metrics by name, [] each, of what a model says of all examples.

    Attributes:
      metrics: pairs of name and metric.
      predict: ``(params, features) -> outputs``.
    """

    metrics: tuple[tuple[str, losses.Metric], ...]
    predict: Callable[..., Array]

    def __call__(self, params: Params, examples: Any) -> Mapping[str, Array]:
        """Metrics of all examples together."""
        return self.finish(measure(self.means, params, examples), examples.labels)

    def means(self, params: Params, chunk: Any) -> dict[str, Array]:
        """What metrics are found from, means over a chunk."""
        outputs = self.predict(params, chunk.features)
        return {name: metric.means(outputs, chunk.labels) for name, metric in self.metrics}

    def finish(self, means: Mapping[str, Array], labels: Any = None) -> Mapping[str, Array]:
        """Metrics from means over examples, and the labels of these, without which some are not."""
        return {
            name: metric.finish(means[name], labels)
            for name, metric in self.metrics
            if labels is not None or not metric.reads_labels
        }


def measure(
    per_batch: Callable[[Params, Any], Mapping[str, Array]], params: Params, examples: Any
) -> Mapping[str, Array]:
    """Means over all examples, a bounded number of which are in flight at a time.

    Args:
      per_batch: ``(params, batch) -> {name: [...]}``, means over a `Batch`.
      params: one model.
      examples: a `Batch` of any number.
    """
    num_examples = len(examples.labels)
    num_chunks, rest = divmod(num_examples, _EVAL_CHUNK)
    if num_examples <= _EVAL_CHUNK:
        return per_batch(params, examples)
    whole = num_chunks * _EVAL_CHUNK

    def of_chunk(first: Array) -> Mapping[str, Array]:
        slice_of = jax.lax.dynamic_slice_in_dim  # where they lie: reshaped they would be copied
        return per_batch(params, jax.tree.map(lambda a: slice_of(a, first, _EVAL_CHUNK), examples))

    at_once = None if memory.platform() == 'cpu' else _CHUNKS_AT_ONCE
    means = jax.lax.map(of_chunk, jnp.arange(0, whole, _EVAL_CHUNK), batch_size=at_once)
    sums = jax.tree.map(lambda a: jnp.sum(a, axis=0) * _EVAL_CHUNK, means)
    if rest:
        last = per_batch(params, jax.tree.map(lambda a: a[whole:], examples))
        sums = jax.tree.map(lambda s, a: s + a * rest, sums, last)
    return {name: total / num_examples for name, total in sums.items()}
