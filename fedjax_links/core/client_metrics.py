"""Metrics of every client on its own evaluation data, in one pass over the examples."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links.base import Array, Params, Problem, Rows
from fedjax_links.core import errors

_AT_ONCE = 1024  # examples that are evaluated side by side


def by_client(params: Params, problem: Problem) -> Mapping[str, Array]:
    """The problem's metrics on every client's own evaluation data.

    Args:
      params: one candidate model.
      problem: a problem whose evaluation data have owners.

    Returns:
      By metric float[M], clients that do not train after the N others; NaN for those without
      evaluation data. Without ``r2``, which is of all examples.

    Raises:
      ValueError: if the evaluation data have no owners.
    """
    return of_all_and_each(params, problem)[1]


def of_all_and_each(
    params: Params, problem: Problem
) -> tuple[Mapping[str, Array], Mapping[str, Array]]:
    """The metrics of all evaluation data together, [] each, and those `by_client`."""
    rows, count = own_rows(problem), own_rows(problem).counts.size
    means_of, finish = _parts(problem)
    num_examples = jax.tree.leaves(problem.eval_data)[0].shape[0]
    if is_by_batch(problem):
        each: Any = problem.metrics.each(params, problem.eval_data)  # type: ignore[attr-defined]
    else:
        each = _of_each(means_of, params, problem.eval_data)
    owners = jnp.repeat(
        jnp.arange(count), rows.counts, total_repeat_length=num_examples
    )
    sums = jax.tree.map(lambda v: jax.ops.segment_sum(v, owners, count), each)
    means = jax.tree.map(lambda v: jnp.sum(v, axis=0) / num_examples, sums)
    own: Mapping[str, Array] = jax.vmap(functools.partial(_finished, finish))(
        sums, rows.counts
    )
    return finish(means, getattr(problem.eval_data, 'labels', None)), own


def of_own_models(client_models: Params, problem: Problem) -> Mapping[str, Array]:
    """The metrics of every client's own model on its own evaluation data.

    Args:
      client_models: leaves [N, ...], as an algorithm's ``client_models`` gives them.
      problem: a concrete problem whose evaluation data have owners.

    Returns:
      As `by_client`, float[N] of those who train.

    Raises:
      ValueError: if the evaluation data have no owners, or the models normalise by their batch, of
        which a client's own examples are too few.
    """
    if is_by_batch(problem):
        requirement = 'have models that do not normalise by the batch'
        raise errors.invalid('problem', requirement, 'one whose do')
    most = int(np.max(own_rows(problem).counts[: problem.num_clients]))
    return _of_own_models(client_models, problem, most)


@functools.partial(jax.jit, static_argnames='most')
def _of_own_models(
    client_models: Params, problem: Problem, most: int
) -> Mapping[str, Array]:
    """`of_own_models`, no client of which has more examples than that."""
    rows, places = own_rows(problem), jnp.arange(most)
    means_of, finish = _parts(problem)

    def of_client(client: Array) -> Mapping[str, Array]:
        first, count = rows.offsets[client], rows.counts[client]
        own = jax.tree.map(
            lambda a: a[first + jnp.minimum(places, count - 1)], problem.eval_data
        )
        each = _of_each(means_of, jax.tree.map(lambda a: a[client], client_models), own)
        sums = jax.tree.map(
            lambda v: jnp.tensordot(jnp.float32(places < count), v, 1), each
        )
        return _finished(finish, sums, count)

    return jax.lax.map(of_client, jnp.arange(problem.num_clients))


def is_by_batch(problem: Problem) -> bool:
    """Whether a model's outputs for an example depend on the others of its batch."""
    return bool(getattr(problem.metrics, 'by_batch', False))


def own_rows(problem: Problem) -> Rows:
    """Whose the evaluation data are.

    Raises:
      ValueError: if they have no owners.
    """
    if problem.eval_owned is None:
        raise errors.invalid('problem', 'have evaluation data with owners', problem)
    return problem.eval_owned


def _parts(problem: Problem) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """What is averaged over examples, and what makes metrics of the means."""
    measure = problem.metrics
    return getattr(measure, 'means', measure), getattr(measure, 'finish', _as_they_are)


def _as_they_are(means: Mapping[str, Array], labels: Any = None) -> Mapping[str, Array]:
    del labels
    return means


def _of_each(means_of: Callable[..., Any], params: Params, examples: Any) -> Any:
    """What is averaged, of each example, leaves [E, ...]."""

    def of_one(example: Any) -> Any:
        return means_of(params, jax.tree.map(lambda a: a[None], example))

    return jax.lax.map(of_one, examples, batch_size=_AT_ONCE)


def _finished(
    finish: Callable[..., Any], sums: Any, count: Array
) -> Mapping[str, Array]:
    """Metrics of so many examples; NaN of none."""
    found = finish(jax.tree.map(lambda v: v / jnp.maximum(count, 1), sums))
    return {name: jnp.where(count > 0, value, jnp.nan) for name, value in found.items()}
