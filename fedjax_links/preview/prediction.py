"""Predicts the final metrics of FedAvg and FedPBC on a linear model, from data and links alone.

With small steps, FedAvg follows the gradient flow of the clients' losses under its implicit
weights. The mean of FedPBC's client models follows the gradient flow under equal weights
(studies/prediction.md).
"""

import contextlib
import weakref
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import analysis, base
from fedjax_links.analysis import linear_limits, linear_models
from fedjax_links.analysis.independent_links import share_sums
from fedjax_links.core import errors, tree
from fedjax_links.preview import covered_runs
from fedjax_links.preview.configured_links import ConfiguredLinks
from fedjax_links.problems import owners
from fedjax_links.runner.compilation import initial_params


class Budget(NamedTuple):
    """Says how much the predictions for a pattern may compute.

    Attributes:
      hessian: largest `hessian_work` of a minimisation: examples times the square of the
        parameters.
      flow: largest work of a flow: examples times parameters times gradients.
    """

    hessian: float
    flow: float

    def divided(self, by: float) -> 'Budget':
        """Returns a part of the budget."""
        return Budget(self.hessian / by, self.flow / by)


QUICK = Budget(hessian=2**34, flow=2**31)
"""Budget of what is printed before a run: a flow takes about a second."""

LONG = Budget(hessian=2**34, flow=2**38)
"""Budget of the command ``theory``: a flow takes about a minute."""

_MIN_GRADIENTS = 80
"""Number of gradients that the shortest flow takes."""
_MAX_ROUNDS = 10_000
"""Largest number of simulated rounds from which implicit weights are estimated."""
_MAX_CELLS = 2**25
"""Largest number of simulated rounds times clients: 160 MiB, a bool and a float32 each."""
_NUM_CHECKED = 256
"""Examples on which a problem's loss is compared with its objective."""
_TOLERANCE = 1e-3
"""Largest relative difference of loss and objective that counts as rounding."""


class Prediction(NamedTuple):
    """Holds the predicted metrics of an algorithm on the problem's evaluation data.

    Attributes:
      limit: metrics at the minimiser. Empty if labels are separable, so that there is no minimiser;
        None if its Hessian would take too long.
      reached: metrics after the run's rounds. Empty if the time of the flow is unknown, or if the
        flow would take too long to follow. Both fields are empty if nothing is known.
    """

    limit: Mapping[str, float] | None
    reached: Mapping[str, float]


class Predictions(NamedTuple):
    """Holds the predictions of both algorithms.

    Attributes:
      fedavg: FedAvg's server model.
      fedpbc: the mean of FedPBC's client models; without metrics if that mean may be biased.
      exact: whether FedAvg's weights are exact, not estimated from simulated links.
    """

    fedavg: Prediction
    fedpbc: Prediction
    exact: bool


_cache: weakref.WeakKeyDictionary[Any, dict[tuple[str, Budget], Predictions | None]] = (
    weakref.WeakKeyDictionary()
)
"""Predictions by plan, then by pattern and budget. A run needs these at its start and its end.

An experiment could not be the key: experiments of equal configs are equal, even if the modules
that the configs name differ.
"""


def hessian_work(problem: base.Problem) -> int:
    """Returns examples times the square of the parameters, the cost of a Hessian.

    The work is 0 if nothing can be predicted. Predictions need a problem with an ``objective``,
    whose training loss is not random.
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
    budget: Budget | None = None,
) -> Predictions | None:
    """Predicts FedAvg's and FedPBC's metrics at the end, to the leading order of small steps.

    Args:
      problem: a problem with an ``objective``.
      weights: float64[N], FedAvg's implicit weights.
      non_empty: the fraction of rounds in which at least one client is active.
      time: the sum of the local rates over all local steps; None for the limits alone.
      seed: the seed of the initial model.
      budget: how much to compute; by default any Hessian, and a flow of `QUICK`.

    Returns:
      The predictions; None if the problem's loss differs from its ``objective``.

    Raises:
      ValueError: for a problem without an ``objective``.
    """
    predictor = make_predictor(problem, seed)
    if predictor is None:
        return None
    if budget is None:
        budget = QUICK._replace(hessian=np.inf)
    # FedAvg's server stands still in rounds without active clients.
    fedavg_time = None if time is None else non_empty * time
    equal = np.full(problem.num_clients, 1 / problem.num_clients)
    return Predictions(
        fedavg=predictor.predict(weights, fedavg_time, budget),
        fedpbc=predictor.predict(equal, time, budget),
        exact=True,
    )


def make_predictor(problem: base.Problem, seed: int = 0) -> 'Predictor | None':
    """Makes the predictor of a problem with a linear model.

    Args:
      problem: a problem with an ``objective``.
      seed: the seed of the initial model.

    Returns:
      The predictor; None if the problem's loss differs from its ``objective``.

    Raises:
      ValueError: for a problem without an ``objective``.
    """
    objective = problem.objective
    if objective is None:
        raise errors.invalid('problem', 'state an `objective` to be predicted', 'none')
    key = jax.device_put(jax.random.key(seed), jax.local_devices()[0])
    initial = initial_params(problem.init_params, key)
    coefficients, intercept = objective.coefficients(initial)
    start = analysis.LinearModel(
        np.asarray(coefficients, np.float64), np.asarray(intercept, np.float64)
    )
    if not _loss_is_as_stated(problem, objective, start):
        return None
    return Predictor(problem, objective, initial, start)


class Predictor:
    """Follows the gradient flow of a problem with a linear model.

    Attributes:
      data: features, labels and owners of the examples, as `weighted_minimiser` takes them.
      options: of the loss, as `weighted_minimiser` takes them.
    """

    def __init__(
        self,
        problem: base.Problem,
        objective: base.LinearObjective,
        initial: base.Params,
        start: analysis.LinearModel,
    ) -> None:
        """Reads the problem's data.

        Args:
          problem: the problem.
          objective: the form of the problem's loss.
          initial: the problem's initial parameters.
          start: the coefficients of the initial parameters.
        """
        inputs, labels = map(np.asarray, objective.inputs(problem.data))
        num_coefficients = sum(part.size for part in start)
        self._problem = problem
        self._objective = objective
        self._start = start
        self.data = (inputs, labels, owners(problem))
        self.options: dict[str, Any] = {'loss': objective.loss, 'l2': objective.l2}
        if objective.loss == linear_models.SOFTMAX:
            self.options['num_classes'] = start.intercept.size
        self._gradient_work = len(inputs) * num_coefficients
        self._dtype = jax.tree.leaves(initial)[0].dtype
        self._measure = jax.jit(problem.metrics)

    def predict(
        self, weights: np.ndarray, time: float | None, budget: Budget
    ) -> Prediction:
        """Predicts the metrics if each client's loss has a weight.

        Args:
          weights: float64[N].
          time: how far to follow the flow; None for the limit alone.
          budget: how much to compute.
        """
        reached: Mapping[str, float] = {}
        if time is not None:
            with contextlib.suppress(linear_limits.LongFlowError):
                model = analysis.weighted_gradient_flow(
                    *self.data,
                    weights,
                    time=time,
                    start=self._start,
                    max_gradients=int(budget.flow // self._gradient_work),
                    **self.options,
                )
                reached = self.metrics(model)
        if hessian_work(self._problem) > budget.hessian:
            return Prediction(None, reached)
        limit: Mapping[str, float] = {}
        with contextlib.suppress(linear_limits.NoMinimiserError):
            minimiser = analysis.weighted_minimiser(*self.data, weights, **self.options)
            limit = self.metrics(minimiser.model)
        return Prediction(limit, reached)

    def metrics(self, model: analysis.LinearModel) -> Mapping[str, float]:
        """Measures a model on the evaluation data."""
        params = self._objective.params(
            jnp.asarray(model.coefficients, self._dtype),
            jnp.asarray(model.intercept, self._dtype),
        )
        metrics = self._measure(params, self._problem.eval_data)
        return {
            name: float(value) for name, value in metrics.items() if np.ndim(value) == 0
        }


def _loss_is_as_stated(
    problem: base.Problem, objective: base.LinearObjective, start: analysis.LinearModel
) -> bool:
    """Returns whether the problem's loss of some examples equals the loss of its objective.

    Both losses are evaluated at one model, a random step away from the initial model.
    """
    examples = jax.tree.map(lambda a: np.asarray(a)[:_NUM_CHECKED], problem.data)
    inputs, labels = map(np.asarray, objective.inputs(examples))
    rng = np.random.default_rng(0)
    shift = rng.normal(scale=0.1, size=start.coefficients.shape)
    intercept_shift = rng.normal(scale=0.1, size=start.intercept.shape)
    model = analysis.LinearModel(
        start.coefficients + shift, start.intercept + intercept_shift
    )
    stated_loss = analysis.linear_loss(
        model, inputs, labels, loss=objective.loss, l2=objective.l2
    )
    params = objective.params(
        jnp.asarray(model.coefficients, jnp.float32),
        jnp.asarray(model.intercept, jnp.float32),
    )
    loss = float(jax.jit(problem.loss_fn)(params, examples))
    tolerance = _TOLERANCE * max(abs(stated_loss), 1e-3)
    return bool(abs(loss - stated_loss) <= tolerance)


def for_links(links: ConfiguredLinks, budget: Budget = QUICK) -> Predictions | None:
    """Returns the predictions for a pattern of a config, cached.

    FedAvg's weights are exact if the law of the links gives them. Otherwise they are estimated from
    the first seed's links, in at most 10,000 rounds.

    Args:
      links: the pattern.
      budget: how much to compute.

    Returns:
      The predictions; None if nothing can be predicted, such as for clients that weigh by their
      examples or take unequal numbers of steps. The prediction of FedPBC is empty if the mean of
      its client models may be biased.
    """
    if not is_affordable(links, budget) or covered_runs.reason_unpredicted(links):
        return None
    predicted = _cache.setdefault(links.experiment.plan, {})
    key = links.label, budget
    if key not in predicted:
        result = _predict(links, budget)
        if result is not None and covered_runs.reason_client_mean_is_biased(links):
            result = result._replace(fedpbc=Prediction({}, {}))
        predicted[key] = result
    return predicted[key]


def is_affordable(links: ConfiguredLinks, budget: Budget) -> bool:
    """Returns whether anything can be predicted, by a Hessian or by a flow."""
    work = hessian_work(links.problem)
    if work == 0:
        return False
    size = tree.size(jax.eval_shape(links.problem.init_params, jax.random.key(0)))
    has_short_flow = work / size * _MIN_GRADIENTS <= budget.flow
    has_flow = links.flow_time is not None and has_short_flow
    return has_flow or work <= budget.hessian


def _predict(links: ConfiguredLinks, budget: Budget) -> Predictions | None:
    """Computes the predictions for a pattern; None if no client is ever active."""
    implicit = _implicit_weights(links)
    if implicit is None:
        return None
    weights, non_empty = implicit
    predicted = predictions(
        links.problem,
        weights,
        non_empty=non_empty,
        time=links.flow_time,
        seed=links.experiment.seeds[0],
        budget=budget,
    )
    if predicted is None:
        return None
    if predicted.fedavg.limit is None and not predicted.fedavg.reached:
        return None
    return predicted._replace(exact=links.law.weights is not None)


def _implicit_weights(links: ConfiguredLinks) -> tuple[np.ndarray, float] | None:
    """Returns FedAvg's weights, and the fraction of rounds that are not empty.

    What the law of the links does not give is estimated from simulated links. None if no client is
    ever active.
    """
    law = links.law
    if law.weights is not None and law.never_empty:
        return law.weights, 1.0
    if law.weights is not None and law.probs is not None:
        # Links are independent over clients.
        return law.weights, float(1 - np.prod(1 - law.probs))
    active = _simulate(links)
    num_non_empty = np.count_nonzero(active.any(axis=1))
    if not num_non_empty:
        return None
    weights = law.weights
    if weights is None:
        weights = share_sums(active) / num_non_empty
    return weights, num_non_empty / len(active)


def _simulate(links: ConfiguredLinks) -> np.ndarray:
    """Simulates who takes part, bool[T, N], in as many rounds as the weights need."""
    num_rounds = _MAX_ROUNDS
    if links.flow_time is not None:
        num_rounds = min(links.experiment.num_rounds, _MAX_ROUNDS)
    affordable = max(_MAX_CELLS // links.problem.num_clients, 1)
    record = links.record(min(num_rounds, affordable))
    return np.asarray(base.participants(record))
