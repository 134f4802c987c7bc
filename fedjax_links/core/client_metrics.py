"""Measures models on each client's own evaluation data, in one pass over the examples.

Evaluation data have owners if the problem's ``eval_owned`` says which rows belong to which client.
Some owners train, others are held out (see `base.Problem`).
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links.base import Array, Params, Problem, PyTree, Rows
from fedjax_links.core import errors

_BATCH_SIZE = 1024  # Examples that are evaluated in parallel. Not measured.


def by_client(params: Params, problem: Problem) -> Mapping[str, Array]:
    """Computes the problem's metrics on every client's own evaluation data.

    Args:
      params: one candidate model.
      problem: a problem whose evaluation data have owners.

    Returns:
      float[M] by metric, for the M owners: first the N clients that train, then the owners that do
      not train. An owner without evaluation data has NaN. Metrics that need all examples together,
      such as ``r2``, are left out.

    Raises:
      ValueError: if the evaluation data have no owners.
    """
    return pooled_and_per_client_metrics(params, problem)[1]


def pooled_and_per_client_metrics(
    params: Params, problem: Problem
) -> tuple[Mapping[str, Array], Mapping[str, Array]]:
    """Computes metrics over all evaluation data, [] each, and the metrics of `by_client`."""
    rows = eval_rows(problem)
    num_owners = rows.counts.size
    means_of, finish = _means_and_finish(problem)
    num_examples = jax.tree.leaves(problem.eval_data)[0].shape[0]
    if is_by_batch(problem):
        values: Any = problem.metrics.each(params, problem.eval_data)  # type: ignore[attr-defined]
    else:
        values = _per_example(means_of, params, problem.eval_data)
    # Examples are sorted by owner.
    owners = jnp.repeat(
        jnp.arange(num_owners), rows.counts, total_repeat_length=num_examples
    )
    sums = jax.tree.map(lambda v: jax.ops.segment_sum(v, owners, num_owners), values)
    means = jax.tree.map(lambda v: jnp.sum(v, axis=0) / num_examples, sums)
    metrics_of_client = functools.partial(_metrics_of_sums, finish)
    per_client: Mapping[str, Array] = jax.vmap(metrics_of_client)(sums, rows.counts)
    # Given the labels, `finish` adds the metrics that need all labels together, such as ``r2``.
    pooled = finish(means, getattr(problem.eval_data, 'labels', None))
    return pooled, per_client


def personal_model_metrics(
    client_models: Params, problem: Problem
) -> Mapping[str, Array]:
    """Computes the metrics of every client's own model on its own evaluation data.

    Args:
      client_models: leaves [N, ...], as an algorithm's ``client_models`` gives them.
      problem: a concrete problem whose evaluation data have owners.

    Returns:
      float[N] by metric, for the N clients that train.

    Raises:
      ValueError: if the evaluation data have no owners, or if the models normalise by their batch:
        a client has too few examples for that.
    """
    if is_by_batch(problem):
        requirement = 'have models that do not normalise by the batch'
        raise errors.invalid('problem', requirement, 'one whose models do')
    max_examples = int(np.max(eval_rows(problem).counts[: problem.num_clients]))
    return _personal_model_metrics(client_models, problem, max_examples)


@functools.partial(jax.jit, static_argnames='max_examples')
def _personal_model_metrics(
    client_models: Params, problem: Problem, max_examples: int
) -> Mapping[str, Array]:
    """Computes `personal_model_metrics`; ``max_examples`` is the largest number of a client."""
    rows = eval_rows(problem)
    slots = jnp.arange(max_examples)
    means_of, finish = _means_and_finish(problem)

    def metrics_of_client(client: Array) -> Mapping[str, Array]:
        first = rows.offsets[client]
        count = rows.counts[client]
        # Slots behind the client's examples repeat the last one and get weight zero.
        indices = first + jnp.minimum(slots, count - 1)
        weights = jnp.float32(slots < count)
        examples = jax.tree.map(lambda a: a[indices], problem.eval_data)
        model = jax.tree.map(lambda a: a[client], client_models)
        values = _per_example(means_of, model, examples)
        sums = jax.tree.map(lambda v: jnp.tensordot(weights, v, 1), values)
        return _metrics_of_sums(finish, sums, count)

    return jax.lax.map(metrics_of_client, jnp.arange(problem.num_clients))


def is_by_batch(problem: Problem) -> bool:
    """Returns whether a model's outputs for an example depend on the rest of its batch."""
    return bool(getattr(problem.metrics, 'by_batch', False))


def eval_rows(problem: Problem) -> Rows:
    """Returns which rows of the evaluation data belong to which client.

    Raises:
      ValueError: if the evaluation data have no owners.
    """
    if problem.eval_owned is None:
        raise errors.invalid('problem', 'have evaluation data with owners', problem)
    return problem.eval_owned


def _means_and_finish(
    problem: Problem,
) -> tuple[Callable[..., PyTree], Callable[..., Mapping[str, Array]]]:
    """Returns the function to average over examples, and the one that turns means into metrics.

    Metrics of `problems.losses.ByName` have both functions as methods. The values of a user's own
    function of parameters and examples are averaged as they are.
    """
    metrics = problem.metrics
    return getattr(metrics, 'means', metrics), getattr(metrics, 'finish', _unchanged)


def _unchanged(
    means: Mapping[str, Array], labels: Array | None = None
) -> Mapping[str, Array]:
    """Returns metrics that are means over examples as they are."""
    del labels
    return means


def _per_example(
    means_of: Callable[[Params, PyTree], PyTree], params: Params, examples: PyTree
) -> PyTree:
    """Computes, for each example, the values to average: leaves [E, ...]."""

    def of_example(example: PyTree) -> PyTree:
        return means_of(params, jax.tree.map(lambda a: a[None], example))

    return jax.lax.map(of_example, examples, batch_size=_BATCH_SIZE)


def _metrics_of_sums(
    finish: Callable[[PyTree], Mapping[str, Array]], sums: PyTree, count: Array
) -> Mapping[str, Array]:
    """Computes metrics from sums over ``count`` examples; NaN for none."""
    metrics = finish(jax.tree.map(lambda v: v / jnp.maximum(count, 1), sums))
    return {
        name: jnp.where(count > 0, value, jnp.nan) for name, value in metrics.items()
    }
