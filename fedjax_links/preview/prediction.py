"""Where FedAvg and FedPBC will end on a linear model, from data and links alone.

With small steps FedAvg follows the gradient flow of the clients' losses under its implicit weights,
and the mean of FedPBC's client models that under equal weights (studies/prediction.md).
"""

import contextlib
import weakref
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import analysis, base
from fedjax_links.analysis import linear_limits
from fedjax_links.analysis.independent_links import share_sums
from fedjax_links.core import errors, tree
from fedjax_links.preview.configured_links import ConfiguredLinks
from fedjax_links.problems import owners
from fedjax_links.runner.compilation import initial_params

MOST_WORK = 2**34
"""Examples times the square of the parameters: what the Hessian of a minimisation costs."""

_MOST_FLOW = 2**31
"""Examples times parameters times gradients of a flow: a second or so."""

_MOST_ROUNDS = 10_000
_MOST_CELLS = 2**25
_CHECKED = 256
_AGREE = 1e-3


class Prediction(NamedTuple):
    """What an algorithm is expected to end at: the problem's metrics on its evaluation data.

    Attributes:
      limit: at the minimiser; empty where there is none, as labels are separable.
      reached: where the flow is after the run's rounds; empty where they are not known, or where it
        would take too long to follow it.
    """

    limit: Mapping[str, float]
    reached: Mapping[str, float]


class Predictions(NamedTuple):
    """Both algorithms.

    Attributes:
      fedavg: FedAvg's server model.
      fedpbc: the mean of FedPBC's client models.
      exact: whether FedAvg's weights are exact, not those of simulated links.
    """

    fedavg: Prediction
    fedpbc: Prediction
    exact: bool


_known: weakref.WeakKeyDictionary[Any, dict[str, Predictions | None]] = (
    weakref.WeakKeyDictionary()
)
"""By plan and pattern, what was predicted: before a run, and at its end.

An experiment equals others of the same config, whose own modules may have changed; its plan is its.
"""


def work(problem: base.Problem) -> int:
    """Examples times the square of the parameters; none where no prediction can be told.

    A problem can be predicted that states that its model is linear, and trains it as stated.
    """
    if problem.objective is None or problem.random_loss_fn is not None:
        return 0
    size = tree.size(jax.eval_shape(problem.init_params, jax.random.key(0)))
    return int(jax.tree.leaves(problem.data)[0].shape[0] * size**2)


def predictions(
    problem: base.Problem,
    weights: np.ndarray,
    *,
    non_empty: float = 1.0,
    time: float | None = None,
    seed: int = 0,
) -> Predictions | None:
    """FedAvg's and FedPBC's metrics at the end, to the leading order of small steps.

    Args:
      problem: that states its `LinearObjective`.
      weights: float64[N], FedAvg's implicit weights.
      non_empty: share of the rounds in which somebody is active.
      time: the sum of the local rates over all local steps; None for the limits alone.
      seed: of the initial model.

    Returns:
      The predictions; None if the loss is not what the problem states.

    Raises:
      ValueError: if the problem states nothing.
    """
    objective = problem.objective
    if objective is None:
        raise errors.invalid('problem', 'state an `objective` to be predicted', 'none')
    inputs, labels = map(np.asarray, objective.inputs(problem.data))
    key = jax.device_put(jax.random.key(seed), jax.local_devices()[0])
    initial = initial_params(problem.init_params, key)
    coefficients = objective.coefficients(initial)
    start = analysis.LinearModel(
        *(np.asarray(part, np.float64) for part in coefficients)
    )
    if not _is_as_stated(problem, objective, start):
        return None
    most = _MOST_FLOW // (len(inputs) * sum(part.size for part in start))
    classes = {'least_squares': None, 'logistic': 2}.get(
        objective.loss, start.intercept.size
    )
    options: dict[str, Any] = {
        'loss': objective.loss,
        'num_classes': classes,
        'l2': objective.l2,
    }
    measure = jax.jit(problem.metrics)
    dtype = jax.tree.leaves(initial)[0].dtype

    def metrics(model: analysis.LinearModel) -> Mapping[str, float]:
        params = objective.params(*(jnp.asarray(part, dtype) for part in model))
        found = measure(params, problem.eval_data)
        return {
            name: float(value) for name, value in found.items() if np.ndim(value) == 0
        }

    def predicted(shares: np.ndarray, share_of_time: float) -> Prediction:
        given = inputs, labels, owners(problem), shares
        limit: Mapping[str, float] = {}
        reached: Mapping[str, float] = {}
        if time is not None:
            own = {
                'time': share_of_time * time,
                'start': start,
                'most_gradients': most,
                **options,
            }
            with contextlib.suppress(linear_limits.LongFlowError):
                reached = metrics(analysis.weighted_gradient_flow(*given, **own))
        with contextlib.suppress(linear_limits.NoMinimiserError):
            limit = metrics(analysis.weighted_minimiser(*given, **options).model)
        return Prediction(limit, reached)

    equal = np.full(problem.num_clients, 1 / problem.num_clients)
    return Predictions(predicted(weights, non_empty), predicted(equal, 1.0), True)


def _is_as_stated(
    problem: base.Problem, objective: base.LinearObjective, start: analysis.LinearModel
) -> bool:
    """Whether the problem's own loss of some examples is that of its statement."""
    batch = jax.tree.map(lambda a: np.asarray(a)[:_CHECKED], problem.data)
    inputs, labels = map(np.asarray, objective.inputs(batch))
    rng = np.random.default_rng(0)
    model = analysis.LinearModel(
        *(part + rng.normal(scale=0.1, size=part.shape) for part in start)
    )
    stated = analysis.linear_loss(
        model, inputs, labels, loss=objective.loss, l2=objective.l2
    )
    params = objective.params(*(jnp.asarray(part, jnp.float32) for part in model))
    own = float(jax.jit(problem.loss_fn)(params, batch))
    return bool(abs(own - stated) <= _AGREE * max(abs(stated), 1e-3))


def under(links: ConfiguredLinks, most_work: float = MOST_WORK) -> Predictions | None:
    """The predictions for a pattern of a config.

    Args:
      links: the pattern.
      most_work: the most `work` of a problem that is still predicted.

    Returns:
      The predictions, computed once; None where nothing can be told, as where clients weigh by
      their examples or take unequal numbers of steps. Weights are exact where they
      are known, and otherwise those of as many rounds of the first seed as the config has, 10,000
      at most.
    """
    if not 0 < work(links.problem) <= most_work or _unequal(links):
        return None
    known = _known.setdefault(links.experiment.plan, {})
    if links.label not in known:
        known[links.label] = _computed(links)
    return known[links.label]


def _unequal(links: ConfiguredLinks) -> bool:
    """Whether a config lets clients weigh, or step, by more than their links."""
    config = links.experiment.config or {}
    sections = [config.get('client', {})]
    for section in config.get('algorithms', {}).values():
        own = section if isinstance(section, Mapping) else {}
        sections += [own, own.get('client', {})]
    swept = {column.rpartition('.')[2] for column in links.experiment.plan.columns}
    options = swept.union(*sections)
    if 'client_steps' in options:
        return True
    if links.problem.min_examples == links.problem.max_examples:
        return False
    weights = {str(section.get('weights')) for section in sections}
    return 'local_epochs' in options or 'weights' in swept or 'examples' in weights


def _computed(links: ConfiguredLinks) -> Predictions | None:
    problem, law, weights, non_empty = links.problem, links.law, links.law.weights, 1.0
    if weights is None or (law.probs is None and not law.never_empty):
        wanted = _MOST_ROUNDS if links.time is None else links.experiment.num_rounds
        rounds = min(wanted, _MOST_ROUNDS, max(_MOST_CELLS // problem.num_clients, 1))
        active = np.asarray(base.participants(links.record(rounds)))
        num_heard = np.count_nonzero(active.any(axis=1))
        if not num_heard:
            return None
        non_empty = num_heard / rounds
        weights = share_sums(active) / num_heard if weights is None else weights
    elif law.probs is not None and not law.never_empty:
        non_empty = float(1 - np.prod(1 - law.probs))
    seed = links.experiment.seeds[0]
    found = predictions(
        problem, weights, non_empty=non_empty, time=links.time, seed=seed
    )
    return found and found._replace(exact=law.weights is not None)


def of_links(links: ConfiguredLinks, most_work: float = MOST_WORK) -> list[str]:
    """The predictions for a pattern of a config, in words.

    Args:
      links: the pattern.
      most_work: the most `work` of a problem that is still predicted.

    Returns:
      Lines of 80 columns at most, none where nothing can be told.
    """
    if work(links.problem) and _unequal(links):
        return [
            'no end predicted: clients weigh or step unequally, by more than their links'
        ]
    if work(links.problem) > most_work:
        return [f'no accuracy predicted: examples x parameters^2 above {most_work:.2g}']
    if (found := under(links, most_work)) is None:
        return []
    lines, source = [], '' if found.exact else ', simulated links'
    if found.fedavg.reached and found.fedpbc.reached:
        rounds = f'after {links.experiment.num_rounds:,} rounds of small steps'
        lines += [
            _pair(found.fedavg.reached, found.fedpbc.reached),
            f'  {rounds}{source}',
        ]
    elif links.time is not None:
        lines.append(
            f'no end predicted: rate x steps x rounds = {links.time:.3g} takes too long'
        )
    if found.fedavg.limit and found.fedpbc.limit:
        lines += [
            _pair(found.fedavg.limit, found.fedpbc.limit),
            f'  in the long run{source}',
        ]
    else:
        lines.append('no limit in the long run: a linear model separates some labels')
    return lines


def _pair(*metrics: Mapping[str, float]) -> str:
    """What is expected of both, by their accuracies or whatever the problem measures first."""
    if 'accuracy' in metrics[0]:
        fedavg, fedpbc = (f'{100 * each["accuracy"]:.1f} %' for each in metrics)
    else:
        name = next(iter(metrics[0]))
        fedavg, fedpbc = (f'{name} {each[name]:.4g}' for each in metrics)
    return f'FedAvg is expected to end at {fedavg}, FedPBC at {fedpbc}'
