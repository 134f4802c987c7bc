r"""Computes exact means and variances of linear algorithms on quadratics.

On ``F_i(x) = h_i/2 (x - u_i)^2`` the s local steps of client i return
``a_i x + (1 - a_i) u_i`` with ``a_i = (1 - eta h_i)^s``. For most algorithms a round is
then linear in the state of models and memories: ``S' = A S + B u``, with matrices that
depend on the links of the round alone. If links are independent from round to round, the limit
of the mean follows from ``E[A]`` and ``E[B]``, and the variance from the means of Kronecker
squares. These means are sums over all links of a round: 2^N masks times 2^E edges.

`RULES` has the round of each algorithm. Applied to unit vectors, the round gives A and B. The
state starts at zero. For another start, measure the targets from that start.
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.analysis import _checks, peer_links
from fedjax_links.analysis.linear_rounds import (
    KEEP_MODELS,
    KEEP_NOTHING,
    OTHER_NOISE,
    RULES,
    QuadraticClients,
    round_maker,
)
from fedjax_links.core import errors

_MAX_LINKS = 16  # The 2^16 states of 16 links take most of a minute.
_OPTION_OF = {
    'cogc': 'tolerance',
    'colrel': 'weights',
    'feddyn': 'alpha',
    'fedstale': 'stale_weight',
}
"""Name of the option of an algorithm that has one; theory has no default for it."""
# A singular value below this one is rounding.
_SMALLEST_SINGULAR_VALUE = 1e-10
# If a round moves models by less than this, float64 keeps too few digits.
_MIN_PROGRESS = 5e-10


class LinearLimit(NamedTuple):
    """Holds the limits of an algorithm's models, by name of the model.

    The models are ``'server'`` and, for some algorithms, ``'client_mean'``.

    Attributes:
      means: float64[d] by model, limit of the model's expectation.
      variances: float64[d] by model, limit of the variance of each coordinate.
      optimum: float64[d], the minimiser of the mean of the F_i.
      rate: spectral radius of ``E[A]``, by which the mean contracts per round.
    """

    means: Mapping[str, np.ndarray]
    variances: Mapping[str, np.ndarray]
    optimum: np.ndarray
    rate: float


def linear_rule(
    rule: str,
    probs: ArrayLike,
    targets: ArrayLike,
    learning_rate: float,
    local_steps: int,
    *,
    curvature: ArrayLike = 1.0,
    noise: float = 0.0,
    neighbours: ArrayLike | None = None,
    edge_probs: ArrayLike = 0.0,
    **options: Any,
) -> LinearLimit:
    """Computes an algorithm's limits on quadratics under independent links.

    The computation sums over all links of a round.

    Args:
      rule: name of the algorithm, one of `linear_rules.RULES`; its server learning rate is 1.
      probs: float[N], probabilities of the uplinks, at least one positive.
      targets: float[N, d], the clients' minimisers u_i ([N] is read as [N, 1]).
      learning_rate: eta, with ``eta h_i`` in (0, 2).
      local_steps: s.
      curvature: h, positive, one number or float[N].
      noise: standard deviation of the independent noise in each coordinate of every local
        gradient.
      neighbours: int[N, K], neighbours of each client; None without links between clients.
      edge_probs: P(an edge is up), one number or float[N, K].
      **options: options of the algorithm: ``alpha`` (FedDyn), ``stale_weight`` (FedStale),
        ``tolerance`` (CoGC) or ``weights`` (ColRel, float[N, N]).

    Returns:
      The limits.

    Raises:
      ValueError: for an unknown algorithm, values out of range or more than 16 links. Also for an
        algorithm whose models never move, such as CoGC without enough edges, or move too little
        for float64.

    Example:
      >>> from fedjax_links import analysis
      >>> limit = analysis.linear_rule('fedavg', [0.5, 0.3], [0.0, 100.0], 0.02, 5)
      >>> print(limit.means['server'].round(2), limit.optimum)
      [34.62] [50.]
    """
    check_name('rule', rule)
    probs = _checks.checked_some_link('probs', probs)
    size = probs.size
    options = checked_options(rule, options, size)
    clients = quadratic_clients(
        rule, targets, size, learning_rate, local_steps, curvature, noise
    )
    _check_progress(rule, probs, 1.0 - clients.keep[:, 0])
    # Coordinates of the server's model, of the clients' rows and of the targets.
    server, rows, unit_targets = np.split(np.eye(1 + 2 * size), [1, 1 + size])
    mean_round: Any = 0.0
    mean_square: Any = 0.0
    for prob, active, edges in all_links(probs, neighbours, edge_probs):
        links = round_maker(clients, edges, options)(active, probs, unit_targets)
        # C = [A B]: apply the round to unit vectors of the state and of the targets.
        one_round = np.vstack(RULES[rule](links, server[0], rows))
        mean_round += prob * one_round
        mean_square += prob * np.kron(one_round, one_round)
    if not mean_round[:, len(mean_round) :].any():
        raise errors.invalid('rule', 'move its models under some links', rule)
    targets = clients.targets
    mean, second_moment, rate = _limits(
        mean_round, mean_square, targets, clients.target_noise
    )
    models = {'server': np.eye(len(mean))[0]}
    if rule in KEEP_MODELS:
        models['client_mean'] = np.r_[0.0, np.full(size, 1 / size)]
    means = {name: row @ mean for name, row in models.items()}
    variances = {}
    for name, row in models.items():
        variance = row @ second_moment @ row - means[name] ** 2
        variances[name] = np.maximum(variance, 0.0)
    return LinearLimit(means, variances, clients.optimum, rate)


def _check_progress(rule: str, probs: np.ndarray, progress: np.ndarray) -> None:
    """Raises for clients that move models too rarely for float64.

    Args:
      rule: name of the algorithm.
      probs: float64[N], probabilities of the uplinks.
      progress: float64[N], the fraction of the way to its target that a client goes in a round.
    """
    rates = (probs * progress)[probs > 0]
    # Without rows there is one rate, the server's. With rows, each row has a rate of its own.
    slowest = rates.max() if rule in KEEP_NOTHING else rates.min()
    requirement = f'move models by at least {_MIN_PROGRESS:g} of their way a round'
    _checks.require(slowest >= _MIN_PROGRESS, 'probs', requirement, f'{slowest:.2g}')


def checked_options(
    rule: str, options: Mapping[str, Any], num_clients: int
) -> dict[str, Any]:
    """Checks that ``options`` are those that the theory of an algorithm needs, and no others.

    Args:
      rule: a name in `RULES`.
      options: options of the algorithm, by name.
      num_clients: N.

    Returns:
      The options, as numbers and arrays of NumPy.

    Raises:
      ValueError: for an unknown option, a missing option, and a value out of range.
    """
    known = [_OPTION_OF[rule]] if rule in _OPTION_OF else []
    for option in options:
        if option not in known:
            allowed = f'theory takes {known[0]} alone' if known else 'theory takes none'
            requirement = f'be left out for {rule} on quadratics, as {allowed}'
            got = errors.text_of(options[option])
            raise errors.invalid(option, requirement, got)
    for option in known:
        if options.get(option) is None:
            raise errors.invalid(option, f'be given for {rule}', None)
    return {name: _checked_option(name, options[name], num_clients) for name in known}


def _checked_option(name: str, value: Any, num_clients: int) -> Any:
    """Checks the value of one of the options in `_OPTION_OF`."""
    if name == 'tolerance':
        return _checks.checked_int(name, value, minimum=0, maximum=num_clients - 1)
    if name == 'alpha':
        return _checks.checked_positive(name, value)
    if name == 'stale_weight':
        return _checks.checked_prob(name, value)
    weights = _checks.as_doubles(name, value)
    shape = (num_clients, num_clients)
    got = f'shape {list(weights.shape)}'
    _checks.require(weights.shape == shape, name, f'have shape {list(shape)}', got)
    return _checks.checked(name, weights, np.isfinite(weights), 'be finite')


def check_name(argument: str, name: object) -> None:
    """Raises unless ``name`` names an algorithm in `RULES`."""
    if not isinstance(name, str) or name not in RULES:
        raise errors.unknown_name(argument, name, RULES)


def quadratic_clients(
    rule: str,
    targets: ArrayLike,
    num_clients: int,
    learning_rate: float,
    local_steps: int,
    curvature: ArrayLike,
    noise: float,
) -> QuadraticClients:
    """Checks losses and local steps, arguments as in `linear_rule`; computes what the steps do."""
    points = _checks.checked_targets('targets', targets, num_clients)
    points = points.reshape(num_clients, -1)
    curvatures = _checks.as_doubles('curvature', curvature)
    what = f'a list of {num_clients}'
    curvatures = _checks.checked_shape('curvature', curvatures, (num_clients,), what)
    is_curved = np.isfinite(curvatures) & (curvatures > 0)
    _checks.checked(
        'curvature', curvatures, is_curved, 'be positive and finite', ' at client {}'
    )
    step_sizes = _checks.checked_number('learning_rate', learning_rate) * curvatures
    if not ((step_sizes > 0) & (step_sizes < 2)).all():
        requirement = 'have a product with `curvature` in (0, 2)'
        raise errors.invalid('learning_rate', requirement, learning_rate)
    noise = _checks.checked_at_least_zero('noise', noise)
    if noise and rule in OTHER_NOISE:
        requirement = f'be 0 for {rule}, whose memories have another noise'
        raise errors.invalid('noise', requirement, noise)
    steps = _checks.checked_length('local_steps', local_steps, minimum=1)
    shrink = (1.0 - step_sizes)[:, None]
    keep = shrink**steps
    requirement = (
        f'move models by at least {_MIN_PROGRESS:g} of the way to their targets'
    )
    is_valid = (1.0 - keep >= _MIN_PROGRESS).all()
    _checks.require(is_valid, 'learning_rate', requirement, learning_rate)
    # Write the noise of local steps as noise of the target: divide it by the target's factor.
    variance_by_step = (noise * learning_rate) ** 2 * (shrink**2) ** np.arange(steps)
    target_noise = np.sum(variance_by_step, axis=1) / (1.0 - keep[:, 0]) ** 2
    return QuadraticClients(
        targets=points,
        curvature=curvatures,
        keep=keep,
        rate=learning_rate,
        steps=steps,
        target_noise=target_noise,
        optimum=curvatures @ points / curvatures.sum(),
    )


def _limits(
    mean_round: np.ndarray,
    mean_square: np.ndarray,
    targets: np.ndarray,
    noise: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Solves for the stationary moments of the state S.

    Some directions of S do not change in a round, whatever the links, such as the sum of
    MimiC's corrections. They stay at zero. The equations are solved in all other directions.

    Args:
      mean_round: float64[size, size + N], the mean of C = [A B], a round's matrices A and B.
      mean_square: the mean of the Kronecker square of C.
      targets: float64[N, d].
      noise: float64[N], variance that local steps add to the targets.

    Returns:
      E[S], float64[size, d]; E[S S^T], float64[d, size, size]; and the spectral radius of
      E[A].
    """
    size, width = mean_round.shape
    mean_a = mean_round[:, :size]
    left, values, _ = np.linalg.svd(np.eye(size) - mean_a)
    basis = left[:, values > _SMALLEST_SINGULAR_VALUE]
    # E[S] = E[A] E[S] + E[B] u.
    inner = basis.T @ mean_a @ basis
    pull = basis.T @ mean_round[:, size:] @ targets
    mean = basis @ np.linalg.solve(np.eye(len(inner)) - inner, pull)
    # The same equation for S kron S, by coordinate of the models.
    basis_pair = np.kron(basis, basis)
    mean_a_pair = mean_square.reshape(-1, width, width)[:, :size, :size]
    mean_a_pair = mean_a_pair.reshape(size**2, -1)
    system = np.eye(basis_pair.shape[1]) - basis_pair.T @ mean_a_pair @ basis_pair
    second_moments = []
    for mean_column, target_column in zip(mean.T, targets.T, strict=True):
        column = np.r_[mean_column, target_column]
        known = np.outer(column, column)
        known[:size, :size] = 0.0
        known[size:, size:] += np.diag(noise)
        right = basis_pair.T @ (mean_square @ known.ravel())
        solution = basis_pair @ np.linalg.solve(system, right)
        second_moments.append(solution.reshape(size, size))
    radius = np.abs(np.linalg.eigvals(inner)).max()
    return mean, np.array(second_moments), float(radius)


def all_links(
    probs: np.ndarray, neighbours: ArrayLike | None, edge_probs: ArrayLike
) -> Iterator[tuple[float, np.ndarray, np.ndarray]]:
    """Enumerates the links of a round that have a positive probability.

    Yields:
      The probability; bool[N], uplinks that are up; bool[N, N], edges that are up.
    """
    size = len(probs)
    graph = _graph(size, neighbours, edge_probs)
    link_probs = np.r_[probs, graph.probs]
    requirement = f'leave at most {_MAX_LINKS} links in all'
    got = f'{size} uplinks, {len(graph.probs)} edges'
    _checks.require(len(link_probs) <= _MAX_LINKS, 'probs', requirement, got)
    for prob, up in _outcomes(link_probs):
        yield prob, up[:size], _edges_up(graph, up[size:])


def all_edges(
    size: int, neighbours: ArrayLike | None, edge_probs: ArrayLike
) -> Iterator[tuple[float, np.ndarray]]:
    """Enumerates the links between clients that have a positive probability.

    Yields:
      The probability; bool[N, N], edges that are up.
    """
    graph = _graph(size, neighbours, edge_probs)
    num_edges = len(graph.probs)
    requirement = f'have at most {_MAX_LINKS} edges'
    _checks.require(num_edges <= _MAX_LINKS, 'neighbours', requirement, num_edges)
    for prob, up in _outcomes(graph.probs):
        yield prob, _edges_up(graph, up)


def _graph(
    size: int, neighbours: ArrayLike | None, edge_probs: ArrayLike
) -> peer_links.RandomGraph:
    """Builds the graph of N clients; raises if ``neighbours`` are of another number of clients."""
    if neighbours is None:
        # Each client is its own neighbour, which stands for no neighbour.
        neighbours = np.arange(size)[:, None]
    graph = peer_links.graph_of(neighbours, edge_probs, argument='edge_probs')
    num_rows = len(graph.matrix)
    _checks.require(num_rows == size, 'neighbours', f'have {size} rows', num_rows)
    return graph


def _outcomes(link_probs: np.ndarray) -> Iterator[tuple[float, np.ndarray]]:
    """Enumerates the outcomes bool[links] of independent links that have positive probability."""
    for bits in itertools.product([False, True], repeat=len(link_probs)):
        up = np.array(bits, bool)
        prob = float(np.prod(np.where(up, link_probs, 1.0 - link_probs)))
        if prob > 0:
            yield prob, up


def _edges_up(graph: peer_links.RandomGraph, up: np.ndarray) -> np.ndarray:
    """Returns which edges are up, bool[N, N]; ``up`` says so for each edge in the graph's list."""
    size = len(graph.matrix)
    edges = np.zeros((size, size), bool)
    edges[tuple(graph.ends[up].T)] = True
    return edges | edges.T
