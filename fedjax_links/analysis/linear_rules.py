r"""Means and variances of rules that are linear in models and memories, on quadratics, exactly.

On ``F_i(x) = h_i/2 (x - u_i)^2`` the s local steps of client i give ``a_i x + (1 - a_i) u_i`` with
``a_i = (1 - eta h_i)^s``. A round of most rules is then linear in all that is kept, ``S' = A S +
B u``, with matrices that hang on the links of the round alone. Where links are independent from
round to round, ``E[A]``, ``E[B]`` and the means of their Kronecker squares determine the limits of
mean and variance. They are found here by adding up over all links of a round: 2^N masks times 2^E
edges. `RULES` has each rule once more, as its round in NumPy; A and B are what it makes of unit
vectors. All that is kept starts at zero: another start is the same problem with targets measured
from there.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.analysis import _checks, peer_links
from fedjax_links.core import errors

_MOST_LINKS = 16
_KEPT = 1e-10  # below it a singular value is rounding


class LinearLimit(NamedTuple):
    """Where a rule's candidates end; a candidate is ``'server'`` or ``'client_mean'``.

    Attributes:
      means: float64[d], by candidate, limit of its expectation.
      variances: float64[d], by candidate, limit of the variance of each coordinate.
      optimum: float64[d], the minimiser of the mean of the F_i.
      rate: spectral radius of ``E[A]``, the pace of the mean per round.
    """

    means: Mapping[str, np.ndarray]
    variances: Mapping[str, np.ndarray]
    optimum: np.ndarray
    rate: float


class _Round(NamedTuple):
    """What a rule looks at: the links of a round, and what local steps do.

    Attributes:
      active: bool[N].
      mixing: float64[N, N], the Metropolis matrix of the edges that are up.
      edges: bool[N, N], these, with everyone's own.
      probs: float64[N].
      keep: float64[N, 1], ``a_i``.
      targets: float64[N, 1 + 2 N], by unit vectors of the state and the targets.
      rate: eta.
      steps: s.
      curvature: float64[N, 1].
      options: of the rule.
    """

    active: np.ndarray
    mixing: np.ndarray
    edges: np.ndarray
    probs: np.ndarray
    keep: np.ndarray
    targets: np.ndarray
    rate: float
    steps: int
    curvature: np.ndarray
    options: Mapping[str, Any]

    def trained(self, start: np.ndarray) -> np.ndarray:
        """L_i(start), float64[N, d]."""
        return self.keep * start + (1.0 - self.keep) * self.targets

    def deltas(self, server: np.ndarray) -> np.ndarray:
        """L_i(x) - x, float64[N, d]."""
        return (1.0 - self.keep) * (self.targets - server)

    def corrected(self, server: np.ndarray, correction: np.ndarray) -> np.ndarray:
        """The model after local steps with something added to every gradient."""
        return self.trained(server) - (1.0 - self.keep) / self.curvature * correction

    def mean(self, rows: np.ndarray) -> np.ndarray:
        """Over the active clients, zero where there are none."""
        return rows[self.active].sum(axis=0) / max(self.active.sum(), 1)

    def stored(self, fresh: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Rows with those of active clients replaced."""
        return np.where(self.active[:, None], fresh, rows)


State = tuple[np.ndarray, np.ndarray]
Rule = Callable[[_Round, np.ndarray, np.ndarray], State]


def _fedavg(s: _Round, x: np.ndarray, rows: np.ndarray) -> State:
    return x + s.mean(s.deltas(x)), rows


def _fedavg_all(s: _Round, x: np.ndarray, rows: np.ndarray) -> State:
    return x + s.deltas(x)[s.active].sum(axis=0) / len(rows), rows


def _fedavg_known(s: _Round, x: np.ndarray, rows: np.ndarray) -> State:
    return x + (s.deltas(x) / s.probs[:, None])[s.active].sum(axis=0) / len(rows), rows


def _colrel(s: _Round, x: np.ndarray, rows: np.ndarray) -> State:
    factors = (s.options['weights'] * s.edges * s.active[:, None]).sum(axis=0)
    return x + factors @ s.deltas(x) / len(rows), rows


def _cogc(s: _Round, x: np.ndarray, rows: np.ndarray) -> State:
    size, tolerance = len(s.active), s.options['tolerance']
    after = (np.arange(size)[:, None] + np.arange(tolerance + 1)) % size
    complete = s.active & np.take_along_axis(s.edges, after, axis=1).all(axis=1)
    return x + (complete.sum() >= size - tolerance) * s.deltas(x).mean(axis=0), rows


def _s2s(s: _Round, x: np.ndarray, models: np.ndarray) -> State:
    mixed = s.mixing @ s.trained(models)
    heard = s.mean(mixed) if s.active.any() else x
    return heard, s.stored(heard[None], mixed)


def _s2a(s: _Round, x: np.ndarray, models: np.ndarray) -> State:
    mixed = s.mixing @ s.trained(models)
    if not s.active.any():
        return x, mixed
    return s.mean(mixed), np.broadcast_to(s.mean(mixed), mixed.shape)


def _gossip(s: _Round, x: np.ndarray, models: np.ndarray) -> State:
    mixed = s.mixing @ s.trained(models)
    return mixed.mean(axis=0), mixed


def _fedpbc(s: _Round, x: np.ndarray, models: np.ndarray) -> State:
    return _s2s(s._replace(mixing=np.eye(len(models))), x, models)


def _mifa(s: _Round, x: np.ndarray, rows: np.ndarray) -> State:
    rows = s.stored(s.deltas(x), rows)
    return x + rows.mean(axis=0), rows


def _fedvarp(s: _Round, x: np.ndarray, rows: np.ndarray) -> State:
    step = s.mean(s.deltas(x) - rows) + rows.mean(axis=0)
    return x + step * s.active.any(), s.stored(s.deltas(x), rows)


def _fedstale(s: _Round, x: np.ndarray, rows: np.ndarray) -> State:
    beta = s.options['stale_weight']
    fresh = (s.deltas(x) - beta * rows) / s.probs[:, None]
    step = fresh[s.active].sum(axis=0) / len(rows) + beta * rows.mean(axis=0)
    return x + step, s.stored(s.deltas(x), rows)


def _mimic(s: _Round, x: np.ndarray, rows: np.ndarray) -> State:
    step = s.mean(s.deltas(x) + rows)
    return x + step, s.stored(step - s.deltas(x), rows)


def _area(s: _Round, x: np.ndarray, rows: np.ndarray) -> State:
    after = s.stored(s.trained(x), rows)
    return x + (after - rows).mean(axis=0), after


def _scaffold(s: _Round, x: np.ndarray, rows: np.ndarray) -> State:
    shift = (
        rows.mean(axis=0) - rows
    )  # the server's control variate is the mean of the clients'
    model = s.corrected(x, shift)
    fresh = (x - model) / (s.steps * s.rate) - shift
    return x + s.mean(model - x), s.stored(fresh, rows)


def _focus(s: _Round, x: np.ndarray, rows: np.ndarray) -> State:
    before = s._replace(
        keep=(1.0 - s.rate * s.curvature) ** (s.steps - 1)
    )  # the last step
    rows = s.stored(s.curvature * (before.corrected(x, -rows) - s.targets), rows)
    return x - s.rate * rows.sum(axis=0), rows


def _feddyn(s: _Round, x: np.ndarray, rows: np.ndarray) -> State:
    alpha = s.options['alpha']
    bend = (
        s.curvature + alpha
    )  # of F_i with its penalty, whose minimiser local steps approach
    pull = (1.0 - (1.0 - s.rate * bend) ** s.steps) / bend
    deltas = pull * (s.curvature * (s.targets - x) + rows)
    rows = s.stored(rows - alpha * deltas, rows)
    step = s.mean(deltas) - rows.mean(axis=0) / alpha
    return x + step * s.active.any(), rows


_WITHOUT_ROWS = _cogc, _colrel, _fedavg, _fedavg_all, _fedavg_known
_OF_MODELS = _fedpbc, _gossip, _s2a, _s2s
_OF_MEMORIES = _area, _feddyn, _fedstale, _fedvarp, _focus, _mifa, _mimic, _scaffold
RULES: Mapping[str, Rule] = {
    rule.__name__[1:]: rule for rule in (*_WITHOUT_ROWS, *_OF_MODELS, *_OF_MEMORIES)
}
"""By name in ``ALGORITHMS``: the round, of the server's model and a row for each client, which is
its own model or what is remembered of it, where the rule has any."""

_ROWS_HAVE_OWN_NOISE = 'feddyn', 'focus', 'scaffold'
_WITH_CLIENT_MEAN = 'fedpbc', 's2a', 's2s'


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
    """Limits of a rule on quadratics under independent links, by all links of a round.

    Args:
      rule: its name, one of `linear_rules.RULES`; server rates are 1.
      probs: float[N], probabilities of the uplinks, at least one positive.
      targets: float[N, d], the clients' minimisers u_i ([N] is read as [N, 1]).
      learning_rate: eta, with ``eta h_i`` in (0, 2).
      local_steps: s.
      curvature: h, positive, one number or float[N].
      noise: standard deviation of each coordinate of every local gradient, independent.
      neighbours: int[N, K], of links between clients; None for none.
      edge_probs: P(an edge is up), one number or float[N, K].
      **options: of the rule: ``alpha``, ``stale_weight``, ``tolerance``, ``weights``.

    Returns:
      The limits.

    Raises:
      ValueError: for an unknown rule, values out of range, more than 16 links, or a rule that never
        moves, such as CoGC without the edges that it needs.

    Example:
      >>> from fedjax_links import analysis
      >>> limit = analysis.linear_rule('fedavg', [0.5, 0.3], [0.0, 100.0], 0.02, 5)
      >>> print(limit.means['server'].round(2), limit.optimum)
      [34.62] [50.]
    """
    if rule not in RULES:
        raise errors.unknown_name('rule', rule, RULES)
    probs = _checks.checked_some_link('probs', probs)
    targets = _checks.checked_targets('targets', targets, probs.size).reshape(
        probs.size, -1
    )
    bends = np.broadcast_to(np.asarray(curvature, np.float64), probs.shape)
    if not (learning_rate * bends > 0).all() or not (learning_rate * bends < 2).all():
        raise errors.invalid(
            'learning_rate', 'times `curvature` lie in (0, 2)', learning_rate
        )
    if noise and rule in _ROWS_HAVE_OWN_NOISE:
        raise errors.invalid(
            'noise', f'be 0 for {rule}, whose rows have another', noise
        )
    steps, size = _checks.checked_int('local_steps', local_steps, minimum=1), probs.size
    shrink = (1.0 - learning_rate * bends)[:, None]
    server, rows, unit_targets = np.split(np.eye(1 + 2 * size), [1, 1 + size])
    local: Any = (
        probs,
        shrink**steps,
        unit_targets,
        learning_rate,
        steps,
        bends[:, None],
        options,
    )
    mean_round: Any = 0.0
    mean_square: Any = 0.0
    for chance, links in _all_links(probs, neighbours, edge_probs):
        # C = [A B]: what a round makes of unit vectors of the state, and of the targets.
        one_round = np.vstack(RULES[rule](_Round(*links, *local), server[0], rows))
        mean_round += chance * one_round
        mean_square += chance * np.kron(one_round, one_round)
    if not mean_round[:, len(mean_round) :].any():
        raise errors.invalid('rule', 'move its models under some links', rule)
    spread = (noise * learning_rate) ** 2 * (shrink**2) ** np.arange(steps)
    by_target = np.sum(spread, axis=1) / (1.0 - shrink[:, 0] ** steps) ** 2
    mean, squares, pace = _limits(mean_round, mean_square, targets, by_target)
    models = {'server': np.eye(len(mean))[0]}
    if rule in _WITH_CLIENT_MEAN:
        models['client_mean'] = np.r_[0.0, np.full(size, 1 / size)]
    means, variances = {}, {}
    for name, row in models.items():
        means[name] = row @ mean
        variances[name] = np.maximum(row @ squares @ row - means[name] ** 2, 0.0)
    return LinearLimit(means, variances, bends @ targets / bends.sum(), pace)


def _limits(
    mean_round: np.ndarray,
    mean_square: np.ndarray,
    targets: np.ndarray,
    noise: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, float]:
    """E[S], float64[size, d], E[S S^T], float64[d, size, size], and the radius of E[A].

    The matrices are the means of C = [A B], which makes the next state of the state and the
    targets, and of its Kronecker square. They are solved for in the directions in which the state
    ever leaves zero: what a round keeps whatever the links, such as the sum of MimiC's corrections,
    stays there.
    """
    size, width = mean_round.shape
    of_state = mean_round[:, :size]
    left, values, _ = np.linalg.svd(np.eye(size) - of_state)
    basis = left[:, values > _KEPT]
    inner = basis.T @ of_state @ basis
    pull = basis.T @ mean_round[:, size:] @ targets
    mean, twice = (
        basis @ np.linalg.solve(np.eye(len(inner)) - inner, pull),
        np.kron(basis, basis),
    )
    of_states = mean_square.reshape(-1, width, width)[:, :size, :size].reshape(
        size**2, -1
    )
    system = np.eye(twice.shape[1]) - twice.T @ of_states @ twice
    squares = []
    for column, own in zip(mean.T, targets.T, strict=True):
        known = np.outer(np.r_[column, own], np.r_[column, own])
        known[:size, :size] = 0.0
        known[size:, size:] += np.diag(noise)
        right = twice.T @ (mean_square @ known.ravel())
        squares.append((twice @ np.linalg.solve(system, right)).reshape(size, size))
    return mean, np.array(squares), float(np.abs(np.linalg.eigvals(inner)).max())


def _all_links(
    probs: np.ndarray, neighbours: ArrayLike | None, edge_probs: ArrayLike
) -> Iterator[tuple[float, tuple[np.ndarray, np.ndarray, np.ndarray]]]:
    """Every state of the links of a round by its probability: the first fields of `_Round`."""
    size = len(probs)
    nobody = np.arange(size)[:, None]
    graph = peer_links.graph_of(
        nobody if neighbours is None else neighbours, edge_probs
    )
    chances = np.r_[probs, graph.probs]
    wanted, got = (
        f'leave at most {_MOST_LINKS} links in all',
        f'{len(graph.probs)} edges',
    )
    _checks.require(
        len(chances) <= _MOST_LINKS, 'probs', wanted, f'{size} uplinks, {got}'
    )
    for bits in itertools.product([False, True], repeat=len(chances)):
        up, edges = np.array(bits), np.zeros((size, size), bool)
        chance = float(np.prod(np.where(up, chances, 1.0 - chances)))
        if chance > 0:
            edges[tuple(graph.ends[up[size:]].T)] = True
            edges |= edges.T
            mixing = peer_links.metropolis_matrix(edges)
            yield chance, (up[:size], mixing, edges | np.eye(size, dtype=bool))
