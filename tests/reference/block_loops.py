"""Methods with blocks of rounds, server optimizers or uneven work, one Python loop each, float64.

``wrong`` switches on one classic misreading, so that tests can show that it would be caught.
"""

import numpy as np

from tests.reference.quadratic_loops import Setting, local


def amplified_fedavg(
    s: Setting,
    period: int,
    amplification: float,
    start_round: int = 0,
    *,
    wrong: str | None = None,
) -> np.ndarray:
    """Wang and Ji 2022, Algorithm 1, after ``start_round`` rounds of plain FedAvg."""
    x = s.start.copy()
    reference = s.start.copy()
    path = []
    clock = 0
    for t, active in enumerate(s.mask):
        if t == start_round and wrong != 'reference stays at the start':
            reference = x.copy()
        if wrong == 'one round late' and clock == period:
            x = reference + amplification * (x - reference)
            reference = x.copy()
            clock = 0
        if active.any():
            x = x + np.mean(
                [local(s, x, i, t) - x for i in np.flatnonzero(active)], axis=0
            )
        if t >= start_round and (
            active.any() or wrong != 'clock rests in empty rounds'
        ):
            clock += 1
        if clock == period and wrong != 'one round late':
            x = reference + amplification * (x - reference)
            clock = 0
            if wrong != 'reference is never moved':
                reference = x.copy()
        path.append(x)
    return np.array(path)


def wait_for_all(
    s: Setting, period: int, start_round: int = 0, *, wrong: str | None = None
) -> np.ndarray:
    """One FedAvg step of all clients per block, visible at the end of the block."""
    x = s.start.copy()
    path = []
    for t, active in enumerate(s.mask):
        last = 0 if wrong == 'visible at the start' else period - 1
        if t < start_round:  # plain FedAvg
            ids = np.flatnonzero(active)
        elif (t - start_round) % period != last:
            ids = []
        elif wrong == 'averages the active only':
            ids = np.flatnonzero(active)
        else:
            ids = range(len(s.targets))
        if len(ids):
            x = x + np.mean([local(s, x, i, t) - x for i in ids], axis=0)
        path.append(x)
    return np.array(path)


def fedprox(s: Setting, mu: float, *, wrong: str | None = None) -> np.ndarray:
    """FedAvg whose clients descend F_i(y) + mu/2 ||y - x||^2."""
    x = s.start.copy()
    path = []
    for t, active in enumerate(s.mask):
        deltas = []
        for i in np.flatnonzero(active):
            y = x.copy()
            for _ in range(s.local_steps):
                strength = 2 * mu if wrong == 'penalty without the half' else mu
                anchor = s.start if wrong == 'anchored at x^0' else x
                y = y - s.rate(t) * (y - s.targets[i] + strength * (y - anchor))
            deltas.append(y - x)
        if deltas:
            x = x + s.server_lr * np.mean(deltas, axis=0)
        path.append(x)
    return np.array(path)


def fednova(s: Setting, client_steps, *, wrong: str | None = None) -> np.ndarray:
    """Updates over their numbers of steps, times the mean number of steps."""
    x = s.start.copy()
    path = []
    for t, active in enumerate(s.mask):
        ids = np.flatnonzero(active)
        if len(ids):
            taus = np.array([client_steps[i] for i in ids])
            deltas = np.array(
                [
                    local(s._replace(local_steps=tau), x, i, t) - x
                    for i, tau in zip(ids, taus, strict=True)
                ]
            )
            effective = taus.mean()
            if wrong == 'effective steps over all':
                effective = np.mean(client_steps)
            if wrong == 'not normalised':
                deltas = deltas * taus[:, None]
                effective = 1.0
            if wrong == 'everyone does all steps':
                deltas = np.array([local(s, x, i, t) - x for i in ids])
            x = x + s.server_lr * effective * (deltas / taus[:, None]).mean(axis=0)
        path.append(x)
    return np.array(path)


def fedavgm(
    s: Setting, rate: float, momentum: float, *, wrong: str | None = None
) -> np.ndarray:
    """Server momentum: m <- momentum m + g, x <- x - rate m, with g = -mean Delta."""
    x = s.start.copy()
    path = []
    m = np.zeros(s.start.size)
    for t, active in enumerate(s.mask):
        ids = np.flatnonzero(active)
        gradient = np.zeros_like(x)
        if len(ids):
            gradient = -np.mean([local(s, x, i, t) - x for i in ids], axis=0)
        if len(ids) or wrong == 'steps in empty rounds':
            m = momentum * m + (-gradient if wrong == 'ascends' else gradient)
            x = x - rate * m
        path.append(x)
    return np.array(path)


def fedadam(s: Setting, rate: float, *, wrong: str | None = None) -> np.ndarray:
    """Adam at the server (b1 = 0.9, b2 = 0.999, eps = 1e-8, with bias correction)."""
    x = s.start.copy()
    path = []
    k = 0
    m = np.zeros(x.size)
    v = np.zeros(x.size)
    for t, active in enumerate(s.mask):
        ids = np.flatnonzero(active)
        gradient = np.zeros_like(x)
        if len(ids):
            gradient = -np.mean([local(s, x, i, t) - x for i in ids], axis=0)
        if len(ids) or wrong == 'steps in empty rounds':
            k += 1
            m = 0.9 * m + 0.1 * gradient
            v = 0.999 * v + 0.001 * gradient**2
            x = x - rate * (m / (1 - 0.9**k)) / (np.sqrt(v / (1 - 0.999**k)) + 1e-8)
        path.append(x)
    return np.array(path)


def adaptive(
    s: Setting,
    kind: str,
    rate: float,
    b1: float,
    b2: float,
    tau: float,
    v0: float | None = None,
) -> np.ndarray:
    """Reddi et al. 2021, Algorithm 2, its three choices of v_t; v_{-1} is tau^2 where not given."""
    x = s.start.copy()
    path = []
    m = np.zeros(x.size)
    v = np.full(x.size, tau**2 if v0 is None else v0)
    for t, active in enumerate(s.mask):
        ids = np.flatnonzero(active)
        if len(ids):
            delta = np.mean([local(s, x, i, t) - x for i in ids], axis=0)
            m = b1 * m + (1 - b1) * delta
            if kind == 'adagrad':
                v = v + delta**2
            elif kind == 'yogi':
                v = v - (1 - b2) * delta**2 * np.sign(v - delta**2)
            else:
                v = b2 * v + (1 - b2) * delta**2
            x = x + rate * m / (np.sqrt(v) + tau)
        path.append(x)
    return np.array(path)
