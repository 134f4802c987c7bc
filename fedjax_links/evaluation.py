"""Measures models inside the program; statistics over seeds are re-exported from `statistics`."""

import re
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp

from fedjax_links.base import Array, Key, Params, Problem
from fedjax_links.clients.batches import client_data
from fedjax_links.core import client_metrics, tree
from fedjax_links.core.client_metrics import by_client as by_client
from fedjax_links.core.client_metrics import (
    personal_model_metrics as personal_model_metrics,
)
from fedjax_links.statistics import AHEAD as AHEAD
from fedjax_links.statistics import BEHIND as BEHIND
from fedjax_links.statistics import EQUIVALENT as EQUIVALENT
from fedjax_links.statistics import UNDECIDED as UNDECIDED
from fedjax_links.statistics import Interval as Interval
from fedjax_links.statistics import Verdict as Verdict
from fedjax_links.statistics import anytime_p_value as anytime_p_value
from fedjax_links.statistics import benjamini_hochberg as benjamini_hochberg
from fedjax_links.statistics import chosen_interval as chosen_interval
from fedjax_links.statistics import decide as decide
from fedjax_links.statistics import p_value as p_value
from fedjax_links.statistics import paired_interval as paired_interval
from fedjax_links.statistics import seed_interval as seed_interval
from fedjax_links.statistics import word as word


def train_and_eval(params: Params, key: Key, problem: Problem) -> Mapping[str, Array]:
    """Computes the problem's metrics on all clients' data and on its evaluation data.

    Args:
      params: one candidate model.
      key: unused.
      problem: a problem whose metrics take batches of examples, as problems from arrays do.

    Returns:
      ``{'train_<metric>': [], 'eval_<metric>': []}``; training examples count equally. There is no
      ``eval_`` entry if the problem is evaluated on its clients' training examples. If evaluation
      data have owners, the summaries of `over_clients` are added.
    """
    del key
    has_only_client_data = problem.held_out is False
    train_data = problem.eval_data if has_only_client_data else problem.data
    metrics_by_part = {'train': problem.metrics(params, train_data)}

    if problem.eval_owned is not None:
        pooled, per_client = client_metrics.pooled_and_per_client_metrics(
            params, problem
        )
        metrics_by_part['eval'] = {**pooled, **over_clients(per_client, problem)}
    elif not has_only_client_data:
        metrics_by_part['eval'] = problem.metrics(params, problem.eval_data)

    flat: dict[str, Array] = {}
    for part, metrics in metrics_by_part.items():
        for name, value in metrics.items():
            flat[f'{part}_{name}'] = value
    return flat


def squared_gradient_norm(params: Params, key: Key, problem: Problem) -> Array:
    """Computes the squared norm of the gradient of the clients' mean loss.

    ``|| (1 / N) sum_i grad F_i(x) ||^2``, where F_i is the mean loss over client i's own training
    examples, so that clients count equally. Each call passes once over all of these examples.

    Args:
      params: x, one candidate model.
      key: the randomness of the loss, such as dropout.
      problem: the problem with the N clients.

    Returns:
      A scalar, at least 0.
    """

    def add(total: Params, client: Array) -> tuple[Params, None]:
        client_key = jax.random.fold_in(key, client)
        steps, loss = client_data(
            problem, client, client_key, local_steps=1, batch_size=None
        )
        only_step = jax.tree.map(lambda a: a[0], steps)
        gradient = jax.grad(loss)(params, only_step)
        return tree.add_scaled(total, 1, gradient), None

    clients = jnp.arange(problem.num_clients, dtype=jnp.int32)
    total, _ = jax.lax.scan(add, tree.zero_sums(params), clients)
    mean = tree.scale(1 / problem.num_clients, total)
    return jnp.square(tree.global_norm(mean))


def with_gradient_norm(
    params: Params, key: Key, problem: Problem
) -> Mapping[str, Array]:
    """Computes the usual metrics and `squared_gradient_norm`.

    Theorems about non-convex problems bound the mean of this norm over the server models of all
    rounds. If a run evaluates in every round, its report with ``tail: 1.0`` has that mean, over x_1
    to x_T. `algorithms.uniform_iterate` draws one of x_0 to x_{T-1}.

    Args:
      params: one candidate model.
      key: as for `squared_gradient_norm`.
      problem: any problem.

    Returns:
      ``squared_gradient_norm``, and the metrics of `train_and_eval`. If the problem is not
      evaluated on examples, the problem's own metrics instead.
    """
    measure = for_problem(problem)
    if measure is None:
        usual = problem.metrics(params, problem.eval_data)
    else:
        usual = measure(params, key, problem)
    norm = squared_gradient_norm(params, key, problem)
    return {**usual, 'squared_gradient_norm': norm}


def over_clients(values: Mapping[str, Array], problem: Problem) -> Mapping[str, Array]:
    """Summarises per-client metrics by mean, worst decile and standard deviation.

    Clients count equally. Clients without evaluation data are left out.

    Args:
      values: by metric, what `by_client` or `personal_model_metrics` returns.
      problem: the problem that the metrics belong to.

    Returns:
      Three entries for each metric. ``<name>_clients`` is the mean. ``<name>_p10`` is the tenth
      percentile, or ``<name>_p90`` for a metric that is better when smaller: the worst tenth of the
      clients lies beyond it. ``<name>_spread`` is the standard deviation.
    """
    counts = client_metrics.eval_rows(problem).counts
    summaries: dict[str, Array] = {}
    for name, client_values in values.items():
        has_data = counts[: len(client_values)] > 0
        # A client that diverged makes the summaries NaN; one without data does not.
        is_any_nan = jnp.any(has_data & jnp.isnan(client_values))
        counted = jnp.where(has_data & ~is_any_nan, client_values, jnp.nan)
        percentile = 10 if direction(problem, name) == 'max' else 90
        summaries[f'{name}_clients'] = jnp.nanmean(counted)
        summaries[f'{name}_p{percentile}'] = jnp.nanpercentile(counted, percentile)
        summaries[f'{name}_spread'] = jnp.nanstd(counted)
    return summaries


def for_problem(
    problem: Problem,
) -> Callable[[Params, Key, Problem], Mapping[str, Array]] | None:
    """Returns `train_and_eval`, or None if the problem is not evaluated on examples.

    Args:
      problem: any problem.

    Returns:
      What to pass as ``eval_fn``. None stands for the problem's own metrics.
    """
    return None if problem.held_out is None else train_and_eval


def direction(problem: Problem, metric: str) -> str | None:
    """Returns whether a metric is better when larger or when smaller.

    Args:
      problem: the problem whose ``larger_is_better`` decides.
      metric: the name that the problem has for the metric. The name may have the ``train_`` or
        ``eval_`` of `train_and_eval`, and an ending of `over_clients`.

    Returns:
      ``'max'`` or ``'min'``. If the problem states no directions, ``'min'`` for ``loss``,
      ``distance`` and spreads, and None for other metrics.
    """
    names: set[str] = set()
    for name in (metric, re.sub('_(clients|p10|p90)$', '', metric)):
        names |= {name, name.removeprefix('train_'), name.removeprefix('eval_')}
    if problem.larger_is_better is not None:
        return 'max' if names & set(problem.larger_is_better) else 'min'
    is_spread = metric.endswith('_spread')
    return 'min' if is_spread or names & {'loss', 'distance'} else None


def attainable_text(problem: Problem) -> str:
    """Formats the best values that any model can have: ``accuracy 0.7500, loss ...``, or ''."""
    return ', '.join(
        f'{name} {float(value):.4f}' for name, value in problem.attainable.items()
    )
