r"""Defines the rounds of algorithms that are linear in models and memories, in NumPy.

Clients have the quadratic losses of `linear_rules`. A row is the model or memory that an algorithm
keeps for a client. A round is linear, so it can be applied to d columns at once. The columns are
the d coordinates of models. Or they are unit vectors, which the round maps to its matrix's columns.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from fedjax_links.analysis import peer_links


class Round(NamedTuple):
    """Holds a round's links, and what the local steps of N clients do to models of d columns.

    Attributes:
      active: bool[N], A, the clients whose upload arrives.
      mixing: float64[N, N], the Metropolis matrix of the edges that are up.
      edges: bool[N, N], edges that are up; the diagonal is True.
      probs: float64[N], probabilities of the uplinks, positive for active clients.
      keep: float64[N, 1], ``a_i``, the factor of the start model in the model after local steps.
      targets: float64[N, d], u_i.
      rate: eta, the local learning rate, positive.
      steps: s, the number of local steps, at least 1.
      curvature: float64[N, 1], h_i, positive.
      options: options of the algorithm by name, such as ``{'alpha': 0.1}`` of FedDyn.
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
        """Returns the clients' models after local steps, L_i(start): float64[N, d]."""
        return self.keep * start + (1.0 - self.keep) * self.targets

    def deltas(self, server: np.ndarray) -> np.ndarray:
        """Returns the client updates, L_i(x) - x: float64[N, d]."""
        return (1.0 - self.keep) * (self.targets - server)

    def corrected(self, server: np.ndarray, correction: np.ndarray) -> np.ndarray:
        """Returns the clients' models when ``correction`` is added to each gradient."""
        return self.trained(server) - (1.0 - self.keep) / self.curvature * correction

    def sum(self, rows: np.ndarray) -> np.ndarray:
        """Sums over the active clients."""
        return np.asarray(rows[self.active].sum(axis=0))

    def mean(self, rows: np.ndarray) -> np.ndarray:
        """Averages over the active clients; zero if there are none."""
        return self.sum(rows) / max(self.active.sum(), 1)

    def debiased_sum(self, rows: np.ndarray) -> np.ndarray:
        """Sums the active clients' rows, each divided by the client's probability."""
        return self.sum(rows / np.where(self.active, self.probs, 1.0)[:, None])

    def stored(self, fresh: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Replaces the rows of active clients by the ``fresh`` ones."""
        return np.where(self.active[:, None], fresh, rows)


State = tuple[np.ndarray, np.ndarray]
"""The server's model x, float64[d], and a row for each client, float64[N, d]."""

Rule = Callable[[Round, np.ndarray, np.ndarray], State]
"""``(round, x, rows) -> (x, rows)``."""


class QuadraticClients(NamedTuple):
    """Holds the clients' losses ``h_i/2 (x - u_i)^2`` and what local steps do on these losses.

    Attributes:
      targets: float64[N, d], u_i.
      curvature: float64[N], h_i.
      keep: float64[N, 1], ``a_i``, as in `Round`.
      rate: eta.
      steps: s.
      target_noise: float64[N], variance to add to each coordinate of u_i, for the noise of local
        steps.
      optimum: float64[d], the minimiser of the mean of the losses.
    """

    targets: np.ndarray
    curvature: np.ndarray
    keep: np.ndarray
    rate: float
    steps: int
    target_noise: np.ndarray
    optimum: np.ndarray


RoundMaker = Callable[[np.ndarray, np.ndarray, np.ndarray], Round]
"""Makes a `Round` from the mask bool[N], probabilities [N] and targets [N, width]."""


def round_maker(
    clients: QuadraticClients, edges: np.ndarray, options: Mapping[str, Any]
) -> RoundMaker:
    """Returns the function that makes a `Round` with given edges between clients, bool[N, N]."""
    mixing = peer_links.metropolis_matrix(edges)
    with_diagonal = edges | np.eye(len(edges), dtype=bool)

    def make_round(mask: np.ndarray, probs: np.ndarray, targets: np.ndarray) -> Round:
        return Round(
            active=mask,
            mixing=mixing,
            edges=with_diagonal,
            probs=probs,
            keep=clients.keep,
            targets=targets,
            rate=clients.rate,
            steps=clients.steps,
            curvature=clients.curvature[:, None],
            options=options,
        )

    return make_round


# Below, A are the active clients and D_i is the update of client i. It is L_i(x) - x, except in
# SCAFFOLD and FedDyn, whose local steps have other gradients.


def _fedavg(ctx: Round, x: np.ndarray, rows: np.ndarray) -> State:
    """Moves x by ``mean_A D_i``."""
    return x + ctx.mean(ctx.deltas(x)), rows


def _fedavg_all(ctx: Round, x: np.ndarray, rows: np.ndarray) -> State:
    """Moves x by ``(1 / N) sum_A D_i``."""
    return x + ctx.sum(ctx.deltas(x)) / len(rows), rows


def _fedavg_known(ctx: Round, x: np.ndarray, rows: np.ndarray) -> State:
    """Moves x by ``(1 / N) sum_A D_i / p_i``."""
    return x + ctx.debiased_sum(ctx.deltas(x)) / len(rows), rows


def _colrel(ctx: Round, x: np.ndarray, rows: np.ndarray) -> State:
    """Moves x by ``(1 / N) sum_j c_j D_j`` with ``c_j = sum_{i in A} tau_ji alpha_ij``."""
    relayed = ctx.options['weights'] * ctx.edges * ctx.active[:, None]
    factors = relayed.sum(axis=0)
    return x + factors @ ctx.deltas(x) / len(rows), rows


def _cogc(ctx: Round, x: np.ndarray, rows: np.ndarray) -> State:
    """Moves x by the mean of all D_i if at least N - r complete sums arrive."""
    size = len(ctx.active)
    tolerance = ctx.options['tolerance']
    # Each client sums the updates of r + 1 clients. Its sum is complete if the edges to the next
    # r clients on the circle are up.
    sources = (np.arange(size)[:, None] + np.arange(tolerance + 1)) % size
    has_sources = np.take_along_axis(ctx.edges, sources, axis=1).all(axis=1)
    num_complete = (ctx.active & has_sources).sum()
    if num_complete < size - tolerance:
        return x, rows
    return x + ctx.deltas(x).mean(axis=0), rows


def _s2s(ctx: Round, x: np.ndarray, models: np.ndarray) -> State:
    """Mixes ``z = M L(y)``; the server takes ``mean_A z_i``, which active clients receive."""
    mixed = ctx.mixing @ ctx.trained(models)
    server = ctx.mean(mixed) if ctx.active.any() else x
    return server, ctx.stored(server[None], mixed)


def _s2a(ctx: Round, x: np.ndarray, models: np.ndarray) -> State:
    """Computes a round of S2A: as `_s2s`, but all clients receive the mean."""
    mixed = ctx.mixing @ ctx.trained(models)
    if not ctx.active.any():
        return x, mixed
    server = ctx.mean(mixed)
    return server, np.broadcast_to(server, mixed.shape)


def _gossip(ctx: Round, x: np.ndarray, models: np.ndarray) -> State:
    """Mixes ``y = M L(y)``; there is no server, so x is the mean of the y_i."""
    mixed = ctx.mixing @ ctx.trained(models)
    return mixed.mean(axis=0), mixed


def _fedpbc(ctx: Round, x: np.ndarray, models: np.ndarray) -> State:
    """Computes a round of FedPBC, which is `_s2s` without edges between clients."""
    return _s2s(ctx._replace(mixing=np.eye(len(models))), x, models)


def _mifa(ctx: Round, x: np.ndarray, rows: np.ndarray) -> State:
    """Moves x by the mean of the clients' last updates h_i, which include this round's updates."""
    rows = ctx.stored(ctx.deltas(x), rows)
    return x + rows.mean(axis=0), rows


def _fedvarp(ctx: Round, x: np.ndarray, rows: np.ndarray) -> State:
    """Moves x by ``mean_A (D_i - h_i)`` plus the mean of the h_i; then ``h_i <- D_i`` in A."""
    if not ctx.active.any():
        return x, rows
    step = ctx.mean(ctx.deltas(x) - rows) + rows.mean(axis=0)
    return x + step, ctx.stored(ctx.deltas(x), rows)


def _fedstale(ctx: Round, x: np.ndarray, rows: np.ndarray) -> State:
    """Moves x by ``(1 / N) sum_A (D_i - beta h_i) / p_i`` plus beta times the mean of the h_i."""
    beta = ctx.options['stale_weight']
    innovation_sum = ctx.debiased_sum(ctx.deltas(x) - beta * rows)
    step = innovation_sum / len(rows) + beta * rows.mean(axis=0)
    return x + step, ctx.stored(ctx.deltas(x), rows)


def _mimic(ctx: Round, x: np.ndarray, rows: np.ndarray) -> State:
    """Moves x by ``v = mean_A (D_i + c_i)``; then ``c_i <- v - D_i`` in A."""
    step = ctx.mean(ctx.deltas(x) + rows)
    return x + step, ctx.stored(step - ctx.deltas(x), rows)


def _area(ctx: Round, x: np.ndarray, rows: np.ndarray) -> State:
    """Moves x by the mean change of the last local models y_i; ``y_i <- L_i(x)`` in A."""
    new_rows = ctx.stored(ctx.trained(x), rows)
    return x + (new_rows - rows).mean(axis=0), new_rows


def _scaffold(ctx: Round, x: np.ndarray, rows: np.ndarray) -> State:
    """Corrects gradients by ``c - c_i``, moves x by ``mean_A D_i`` and updates the c_i."""
    # The server's control variate c is the mean of the clients' control variates c_i.
    shift = rows.mean(axis=0) - rows
    model = ctx.corrected(x, shift)
    fresh = (x - model) / (ctx.steps * ctx.rate) - shift
    return x + ctx.mean(model - x), ctx.stored(fresh, rows)


def _focus(ctx: Round, x: np.ndarray, rows: np.ndarray) -> State:
    """Corrects gradients by ``-g_i``, stores new g_i in A, and moves x by ``-eta sum_i g_i``."""
    # The gradient that a client uploads is at its model before the last step.
    before = ctx._replace(keep=(1.0 - ctx.rate * ctx.curvature) ** (ctx.steps - 1))
    gradient = ctx.curvature * (before.corrected(x, -rows) - ctx.targets)
    rows = ctx.stored(gradient, rows)
    return x - ctx.rate * rows.sum(axis=0), rows


def _feddyn(ctx: Round, x: np.ndarray, rows: np.ndarray) -> State:
    """Sets ``h_i <- h_i - alpha D_i`` in A, then moves x by ``mean_A D_i - mean(h) / alpha``."""
    alpha = ctx.options['alpha']
    if not ctx.active.any():
        return x, rows
    # Local steps approach the minimiser of F_i plus FedDyn's penalty, which has this curvature.
    curvature = ctx.curvature + alpha
    pull = (1.0 - (1.0 - ctx.rate * curvature) ** ctx.steps) / curvature
    deltas = pull * (ctx.curvature * (ctx.targets - x) + rows)
    rows = ctx.stored(rows - alpha * deltas, rows)
    step = ctx.mean(deltas) - rows.mean(axis=0) / alpha
    return x + step, rows


RULES: Mapping[str, Rule] = {
    # Clients keep nothing.
    'cogc': _cogc,
    'colrel': _colrel,
    'fedavg': _fedavg,
    'fedavg_all': _fedavg_all,
    'fedavg_known': _fedavg_known,
    # Rows are the clients' models.
    'fedpbc': _fedpbc,
    'gossip': _gossip,
    's2a': _s2a,
    's2s': _s2s,
    # Rows are memories of clients.
    'area': _area,
    'feddyn': _feddyn,
    'fedstale': _fedstale,
    'fedvarp': _fedvarp,
    'focus': _focus,
    'mifa': _mifa,
    'mimic': _mimic,
    'scaffold': _scaffold,
}
"""The round of each algorithm, by its name in ``ALGORITHMS``.

A round takes and returns the server's model and a row for each client.
"""

KEEP_NOTHING = 'cogc', 'colrel', 'fedavg', 'fedavg_all', 'fedavg_known'
"""Algorithms whose rows stay zero."""

KEEP_MODELS = 'fedpbc', 's2a', 's2s'
"""Algorithms with two models: the server's, and the mean of the rows."""

OTHER_NOISE = 'feddyn', 'focus', 'scaffold'
"""Algorithms whose rows do not have the noise of the updates."""
