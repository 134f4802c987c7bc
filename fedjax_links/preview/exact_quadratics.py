"""Computes the exact limits and curves of a config's algorithms on quadratics.

Most algorithms are linear in models and memories (vectors that an algorithm keeps for rounds to
come). On quadratics, under links that follow a chain, mean and covariance of their models are known
exactly (`analysis.linear_limit`, `analysis.linear_curve`).
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import analysis, local_training
from fedjax_links.analysis import linear_rounds
from fedjax_links.analysis.link_chains import LinkChain, layouts
from fedjax_links.config.bound import BoundFactory, TracedPlaceholder
from fedjax_links.core import errors
from fedjax_links.preview import configured_links
from fedjax_links.preview.configured_chains import NotExactError, link_chain
from fedjax_links.preview.configured_links import ConfiguredLinks
from fedjax_links.problems import vectors

_KNOWN_OPTIONS: Mapping[str, tuple[Any, ...]] = {
    'alpha': (),
    'cutoff': (),
    'server_lr': (1, None),
    'stale_weight': (),
    'weights': ('equal', 'examples'),
}
"""By option of an algorithm, the values that the theory covers; empty if it covers all values."""
_COMPUTE = {'fedavg': 'active', 'fedpbc': 'all'}
"""The value of the option ``compute`` that the theory covers, by algorithm."""
_NEED_PEERS = 'cogc', 'colrel', 'gossip'
"""Algorithms that need links between clients, which no link chain has."""
_ROUNDING = 1e-9
_SMALLEST_DISTANCE = 1e-8
"""Portions of the targets' size below which a coordinate, or a distance, is rounding."""


class LinearAlgorithm(NamedTuple):
    """Holds the parts of a configured algorithm that the exact theory needs.

    Attributes:
      name: the algorithm's name in `ALGORITHMS`.
      learning_rate: of the local steps.
      local_steps: number of local steps in a round.
      options: of the algorithm.
    """

    name: str
    learning_rate: float
    local_steps: int
    options: Mapping[str, Any]


class QuadraticRun(NamedTuple):
    """Holds a pattern over quadratics.

    Attributes:
      chain: the chain of the links.
      targets: float64[N, q], the clients' minimisers minus the initial model, in fewer
        coordinates than the models have.
      basis: float64[d, q], turns means of the coordinates into models.
      copies: float64[q], how many equal coordinates of the models each of the q coordinates stands
        for.
      curvature: float64[N].
      noise: standard deviation of each coordinate of a local gradient.
      start: float64[d], the initial model.
      optimum: float64[d].
      least_loss: the clients' mean loss at the optimum.
    """

    chain: LinkChain
    targets: np.ndarray
    basis: np.ndarray
    copies: np.ndarray
    curvature: np.ndarray
    noise: float
    start: np.ndarray
    optimum: np.ndarray
    least_loss: float

    def work(self, algorithm: LinearAlgorithm) -> float:
        """Returns the number of entries of the moments (mean and covariance), a measure of time.

        This is a rough estimate: one coordinate counts in full, and each pair of coordinates adds
        a tenth.
        """
        groups = layouts.exchangeable_groups(self.chain, self.curvature)
        dimension = self.targets.shape[1]
        num_pairs = dimension * (dimension + 1) // 2
        moments_of_pair = layouts.num_moments(
            self.chain,
            groups,
            has_rows=algorithm.name not in linear_rounds.KEEP_NOTHING,
            has_offsets=any(np.ptp(self.targets[g], axis=0).any() for g in groups),
        )
        return moments_of_pair * (1 + num_pairs / 10)

    def models(self, means: np.ndarray) -> np.ndarray:
        """Turns means of the coordinates, float64[..., q], into models, float64[..., d]."""
        return self.start + means @ self.basis.T

    def variance(self, covariances: np.ndarray) -> np.ndarray:
        """Returns the sum of the variances of a model's coordinates.

        Args:
          covariances: float64[..., q, q], of the coordinates.
        """
        return np.diagonal(covariances, axis1=-2, axis2=-1) @ self.copies


class ExactLimit(NamedTuple):
    """Holds where a model ends.

    Attributes:
      bias: float64[d], the model's mean minus the optimum.
      deviation: root of the sum of the variances of the model's coordinates; NaN if the variance
        grows.
      rate: the factor by which the mean's distance from its limit contracts in a round; from 1 on
        the mean has no limit.
      second_moment_rate: the factor by which the second moment contracts; from 1 on the variance
        grows.
    """

    bias: np.ndarray
    deviation: float
    rate: float
    second_moment_rate: float


def quadratic_run(links: ConfiguredLinks) -> QuadraticRun | None:
    """Returns a pattern in the form that the exact theory takes; None unless it runs quadratics.

    Args:
      links: a pattern of an experiment.

    Raises:
      NotExactError: for quadratics, or links, that the theory does not cover.
    """
    losses = vectors.quadratics_of(links.problem)
    if losses is None:
        return None
    bound = configured_links.bound_links(links.experiment, links.label)
    if bound is None:
        raise NotExactError('links were made in Python')
    if np.ptp(losses.curvature, axis=1).any():
        raise NotExactError('curvatures differ between coordinates')
    chain = link_chain(bound)
    curvature = losses.curvature[:, 0]
    optimum = curvature @ losses.targets / curvature.sum()
    distances = np.sum((losses.targets - optimum) ** 2, axis=1)
    points, basis, copies = _few_coordinates(
        losses.targets - losses.initial_point,
        layouts.exchangeable_groups(chain, curvature),
        has_noise=losses.noise > 0,
    )
    return QuadraticRun(
        chain=chain,
        targets=points,
        basis=basis,
        copies=copies,
        curvature=curvature,
        noise=losses.noise,
        start=losses.initial_point,
        optimum=optimum,
        least_loss=0.5 * float(np.mean(curvature * distances)),
    )


def _few_coordinates(
    targets: np.ndarray, groups: list[np.ndarray], *, has_noise: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rotates targets so that the moments depend on few coordinates.

    Exchangeable clients have the same law of links and the same curvature. Targets, averaged within
    groups of exchangeable clients, span a few coordinates. In all other coordinates a model's mean
    is zero. The variances in these other coordinates depend on the targets only by the scatter
    within each group. So one coordinate with this scatter stands for all other coordinates.

    Args:
      targets: float64[N, d].
      groups: exchangeable clients, two or more in each.
      has_noise: whether gradients have noise, which is in all coordinates.

    Returns:
      The targets, float64[N, q]; the basis, float64[d, q]; and how many coordinates of the models
      each of the q coordinates stands for, float64[q].
    """
    means = targets.copy()
    for members in groups:
        means[members] = targets[members].mean(axis=0)
    _, sizes, rows = np.linalg.svd(means, full_matrices=False)
    is_used = sizes > _ROUNDING * max(sizes[0], np.finfo(float).tiny)
    basis = rows[is_used].T
    points = targets @ basis
    rest = targets - points @ basis.T
    scatter = np.zeros(len(targets))
    for members in groups:
        # Two opposite targets have the scatter of the whole group.
        half = np.sqrt(np.sum(rest[members] ** 2) / 2)
        scatter[members[:2]] = half, -half
    columns = [points]
    if np.abs(scatter).max() > _ROUNDING * np.abs(targets).max():
        columns.append(scatter[:, None])
    num_left = targets.shape[1] - sum(column.shape[1] for column in columns)
    copies = [1.0] * (targets.shape[1] - num_left)
    if (has_noise and num_left) or not copies:
        columns.append(np.zeros((len(targets), 1)))
        copies.append(float(num_left))
    reduced = np.concatenate(columns, axis=1)
    num_more = reduced.shape[1] - basis.shape[1]
    basis = np.concatenate([basis, np.zeros((len(basis), num_more))], axis=1)
    return reduced, basis, np.array(copies)


def linear_algorithm(links: ConfiguredLinks, label: str) -> LinearAlgorithm:
    """Returns an algorithm, at the first grid point, in the form that the exact theory takes.

    Args:
      links: a pattern of an experiment.
      label: of the algorithm.

    Raises:
      NotExactError: with the reason why the theory does not cover the algorithm.
    """
    experiment = links.experiment
    if experiment.tuning is not None:
        raise NotExactError('learning rates are tuned')
    bound = experiment.plan.algorithms[label].bound_at(experiment.plan.points[0])
    if bound is None:
        raise NotExactError('made in Python')
    is_linear = bound.name in linear_rounds.RULES and bound.name not in _NEED_PEERS
    if not is_linear and bound.name != 'fedau':
        raise NotExactError('not linear in its models, so simulated only')
    options = _known_options(bound)
    has_noise = links.problem.random_loss_fn is not None
    if has_noise and bound.args[0].options.get('resample', 'step') != 'step':
        raise NotExactError('all local steps of a round have the same noise')
    rate, steps = _plain_steps(bound.args[0])
    return LinearAlgorithm(bound.name, rate, steps, options)


def _known_options(algorithm: BoundFactory) -> dict[str, Any]:
    """Returns the options of an algorithm that the theory takes.

    Raises:
      NotExactError: for an option at a value that the theory does not cover.
    """
    covered = {}
    for option, filled in algorithm.options.items():
        value = _first_value(filled)
        known_values = _KNOWN_OPTIONS.get(option)
        if option == 'compute':
            known_values = (_COMPUTE.get(algorithm.name),)
        if known_values is None or (known_values and value not in known_values):
            raise NotExactError(f'the theory does not cover {option} {value}')
        if not known_values:
            covered[option] = value
    return covered


def _plain_steps(client: BoundFactory) -> tuple[float, int]:
    """Returns the learning rate and the number of local steps of a client program."""
    extra = client.options.keys() - configured_links.PLAIN_SGD_OPTIONS
    if client.factory is not local_training.local_sgd or extra:
        named = ', '.join(sorted(extra)) or 'another client program'
        raise NotExactError(f'local steps are not plain gradient steps ({named})')
    decay = client.options['learning_rate']
    rate = _first_value(decay.args[0].options['learning_rate'])
    steps = client.options.get('local_steps')
    if decay.name != 'constant':
        raise NotExactError(f'the rate decays ({decay.name})')
    if not isinstance(steps, int):
        raise NotExactError('clients differ in their local steps')
    return float(rate), steps


def _first_value(option: Any) -> Any:
    """Returns the value of an option at the first point of a grid."""
    return option.value if isinstance(option, TracedPlaceholder) else option


def _analyse(
    function: Callable[..., Any],
    run: QuadraticRun,
    algorithm: LinearAlgorithm,
    **options: Any,
) -> Any:
    """Calls a function of `analysis` for an algorithm of a run.

    Raises:
      NotExactError: if the theory refuses the numbers, such as rates that are too large.
    """
    try:
        return function(
            algorithm.name,
            run.chain,
            run.targets,
            algorithm.learning_rate,
            algorithm.local_steps,
            curvature=run.curvature,
            noise=run.noise,
            **algorithm.options,
            **options,
        )
    except errors.InvalidError as error:
        raise NotExactError(f'{error.path} {error.clause}') from error


def limits(run: QuadraticRun, algorithm: LinearAlgorithm) -> dict[str, ExactLimit]:
    """Computes where the models of an algorithm end, by model.

    Args:
      run: a pattern over quadratics.
      algorithm: linear in its models.

    Raises:
      NotExactError: if the theory refuses the numbers.
    """
    limit = _analyse(analysis.linear_limit, run, algorithm)
    by_model: dict[str, ExactLimit] = {}
    for model, mean in limit.means.items():
        by_model[model] = ExactLimit(
            bias=run.models(mean) - run.optimum,
            deviation=float(np.sqrt(run.variance(limit.covariances[model]))),
            rate=limit.rate,
            second_moment_rate=limit.second_moment_rate,
        )
    return by_model


def curves(
    run: QuadraticRun, algorithm: LinearAlgorithm, rounds: np.ndarray
) -> dict[str, dict[str, np.ndarray]]:
    """Computes the exact curves of an algorithm's metrics, by model and metric.

    A model within two standard deviations of its mean has a distance to the optimum between the
    ends of the band.

    Args:
      run: a pattern over quadratics.
      algorithm: linear in its models.
      rounds: int[E], rounds completed.

    Returns:
      float64[3, E]. The first row is for ``distance`` the root of its mean square, NaN if that is
      rounding, and for ``loss`` the mean. The other rows are the lower and the upper end of the
      band.

    Raises:
      NotExactError: as `limits`.
    """
    num_rounds = int(rounds.max())
    curve = _analyse(analysis.linear_curve, run, algorithm, num_rounds=num_rounds)
    half_curvature = run.curvature.mean() / 2
    by_model: dict[str, dict[str, np.ndarray]] = {}
    for model, means in curve.means.items():
        bias = run.models(means[rounds]) - run.optimum
        bias_size = np.linalg.norm(bias, axis=1)
        variance = run.variance(curve.covariances[model][rounds])
        reach = 2 * np.sqrt(variance)
        distances = np.stack(
            [
                np.sqrt(bias_size**2 + variance),
                np.maximum(bias_size - reach, 0),
                bias_size + reach,
            ]
        )
        # Variances are differences of squares, so small distances are rounding.
        is_rounding = distances[0] < _SMALLEST_DISTANCE * np.abs(run.targets).max()
        by_model[model] = {
            'distance': np.where(is_rounding, np.nan, distances),
            'loss': run.least_loss + half_curvature * distances**2,
        }
    return by_model
