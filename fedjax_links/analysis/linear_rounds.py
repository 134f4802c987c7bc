r"""Repeats the rounds of algorithms that are linear in models and memories, in NumPy.

They are for the quadratics of `linear_rules`.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np


class Round(NamedTuple):
    """Holds the links of a round and what local steps do.

    Attributes:
      active: bool[N], whose upload arrives.
      mixing: float64[N, N], the Metropolis matrix of the edges that are up.
      edges: bool[N, N], edges that are up, with a true diagonal.
      probs: float64[N], probabilities of the uplinks.
      keep: float64[N, 1], ``a_i``.
      targets: float64[N, 1 + 2 N], u_i in coordinates of the state and the targets.
      rate: eta.
      steps: s.
      curvature: float64[N, 1], h_i.
      options: of the algorithm.
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
        """Returns the clients' models when `correction` is added to each gradient."""
        return self.trained(server) - (1.0 - self.keep) / self.curvature * correction

    def mean(self, rows: np.ndarray) -> np.ndarray:
        """Averages over the active clients; zero if there are none."""
        return rows[self.active].sum(axis=0) / max(self.active.sum(), 1)

    def stored(self, fresh: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Replaces the rows of active clients."""
        return np.where(self.active[:, None], fresh, rows)


State = tuple[np.ndarray, np.ndarray]
"""The server's model, and a row for each client."""

Rule = Callable[[Round, np.ndarray, np.ndarray], State]


def _fedavg(s: Round, x: np.ndarray, rows: np.ndarray) -> State:
    return x + s.mean(s.deltas(x)), rows


def _fedavg_all(s: Round, x: np.ndarray, rows: np.ndarray) -> State:
    return x + s.deltas(x)[s.active].sum(axis=0) / len(rows), rows


def _fedavg_known(s: Round, x: np.ndarray, rows: np.ndarray) -> State:
    return x + (s.deltas(x) / s.probs[:, None])[s.active].sum(axis=0) / len(rows), rows


def _colrel(s: Round, x: np.ndarray, rows: np.ndarray) -> State:
    factors = (s.options['weights'] * s.edges * s.active[:, None]).sum(axis=0)
    return x + factors @ s.deltas(x) / len(rows), rows


def _cogc(s: Round, x: np.ndarray, rows: np.ndarray) -> State:
    size = len(s.active)
    tolerance = s.options['tolerance']
    # A client's coded sum needs the edges to the next clients on the circle.
    sources = (np.arange(size)[:, None] + np.arange(tolerance + 1)) % size
    has_sources = np.take_along_axis(s.edges, sources, axis=1).all(axis=1)
    num_complete = (s.active & has_sources).sum()
    if num_complete < size - tolerance:
        return x, rows
    return x + s.deltas(x).mean(axis=0), rows


def _s2s(s: Round, x: np.ndarray, models: np.ndarray) -> State:
    mixed = s.mixing @ s.trained(models)
    server = s.mean(mixed) if s.active.any() else x
    return server, s.stored(server[None], mixed)


def _s2a(s: Round, x: np.ndarray, models: np.ndarray) -> State:
    mixed = s.mixing @ s.trained(models)
    if not s.active.any():
        return x, mixed
    return s.mean(mixed), np.broadcast_to(s.mean(mixed), mixed.shape)


def _gossip(s: Round, x: np.ndarray, models: np.ndarray) -> State:
    mixed = s.mixing @ s.trained(models)
    return mixed.mean(axis=0), mixed


def _fedpbc(s: Round, x: np.ndarray, models: np.ndarray) -> State:
    return _s2s(s._replace(mixing=np.eye(len(models))), x, models)


def _mifa(s: Round, x: np.ndarray, rows: np.ndarray) -> State:
    rows = s.stored(s.deltas(x), rows)
    return x + rows.mean(axis=0), rows


def _fedvarp(s: Round, x: np.ndarray, rows: np.ndarray) -> State:
    if not s.active.any():
        return x, rows
    step = s.mean(s.deltas(x) - rows) + rows.mean(axis=0)
    return x + step, s.stored(s.deltas(x), rows)


def _fedstale(s: Round, x: np.ndarray, rows: np.ndarray) -> State:
    beta = s.options['stale_weight']
    fresh = (s.deltas(x) - beta * rows) / s.probs[:, None]
    step = fresh[s.active].sum(axis=0) / len(rows) + beta * rows.mean(axis=0)
    return x + step, s.stored(s.deltas(x), rows)


def _mimic(s: Round, x: np.ndarray, rows: np.ndarray) -> State:
    step = s.mean(s.deltas(x) + rows)
    return x + step, s.stored(step - s.deltas(x), rows)


def _area(s: Round, x: np.ndarray, rows: np.ndarray) -> State:
    after = s.stored(s.trained(x), rows)
    return x + (after - rows).mean(axis=0), after


def _scaffold(s: Round, x: np.ndarray, rows: np.ndarray) -> State:
    # The server's control variate is the mean of the clients'.
    shift = rows.mean(axis=0) - rows
    model = s.corrected(x, shift)
    fresh = (x - model) / (s.steps * s.rate) - shift
    return x + s.mean(model - x), s.stored(fresh, rows)


def _focus(s: Round, x: np.ndarray, rows: np.ndarray) -> State:
    # A client keeps its last gradient, at its model before the last step.
    before = s._replace(keep=(1.0 - s.rate * s.curvature) ** (s.steps - 1))
    gradient = s.curvature * (before.corrected(x, -rows) - s.targets)
    rows = s.stored(gradient, rows)
    return x - s.rate * rows.sum(axis=0), rows


def _feddyn(s: Round, x: np.ndarray, rows: np.ndarray) -> State:
    alpha = s.options['alpha']
    if not s.active.any():
        return x, rows
    # Local steps approach the minimiser of F_i with its penalty, of this curvature.
    curvature = s.curvature + alpha
    pull = (1.0 - (1.0 - s.rate * curvature) ** s.steps) / curvature
    deltas = pull * (s.curvature * (s.targets - x) + rows)
    rows = s.stored(rows - alpha * deltas, rows)
    step = s.mean(deltas) - rows.mean(axis=0) / alpha
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
"""Algorithms whose rows are models with a mean of its own, beside the server's model."""

OTHER_NOISE = 'feddyn', 'focus', 'scaffold'
"""Algorithms whose rows have another noise than the updates."""
