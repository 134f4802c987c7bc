"""Methods with links between clients, and with ages, one Python loop each, float64.

Edges are bool[T, N, N], symmetric, without a diagonal. ``wrong`` switches on one classic
misreading, so that tests can show that it would be caught.
"""

import numpy as np

from tests.reference.quadratic_loops import Setting, local


def metropolis(edges: np.ndarray, *, wrong: str | None = None) -> np.ndarray:
    """M of one round."""
    num_clients = len(edges)
    matrix = np.zeros((num_clients, num_clients))
    for i in range(num_clients):
        for j in range(num_clients):
            if edges[i, j]:
                degrees = edges[i].sum(), edges[j].sum()
                matrix[i, j] = 1 / (
                    1 + (degrees[0] if wrong == 'own degree' else max(degrees))
                )
    return matrix + np.diag(1 - matrix.sum(axis=1))


def gossip(s: Setting, edges: np.ndarray, *, wrong: str | None = None):
    """x_i = sum_j M_ij L_j(x_j)."""
    models = np.tile(s.start, (len(s.targets), 1))
    path = []
    for t, up in enumerate(edges):
        trained = np.array([local(s, x, i, t) for i, x in enumerate(models)])
        models = metropolis(up, wrong=wrong) @ trained
        path.append(models.mean(axis=0))
    return np.array(path), models


def semi_decentralised(
    s: Setting, edges: np.ndarray, every: int, *, to_all: bool, wrong: str | None = None
):
    """S2S, or S2A with ``to_all``."""
    x = s.start.copy()
    models = np.tile(s.start, (len(s.targets), 1))
    path = []
    for t, (active, up) in enumerate(zip(s.mask, edges, strict=True)):
        trained = np.array([local(s, model, i, t) for i, model in enumerate(models)])
        mixed = metropolis(up) @ trained
        models = mixed.copy()
        period = (
            t % every == 0
            if wrong == 'server in the first round'
            else (t + 1) % every == 0
        )
        if active.any() and period:
            x = (trained if wrong == 'hears z' else mixed)[active].mean(axis=0)
            models[active | to_all] = x
        path.append(x)
    return np.array(path), models


def colrel(
    s: Setting,
    edges: np.ndarray,
    weights=None,
    edge_prob=None,
    *,
    wrong: str | None = None,
):
    """Relayed updates; by default weights ``1 / sum_i p_i q_ji``."""
    x = s.start.copy()
    path = []
    everyone = range(len(s.targets))
    for t, (active, up) in enumerate(zip(s.mask, edges, strict=True)):
        alpha = weights
        if alpha is None:
            carries = edge_prob + np.eye(len(everyone))
            alpha = np.tile(1 / (carries @ s.prob[t]), (len(everyone), 1))
        deltas = [local(s, x, j, t) - x for j in everyone]
        step = np.zeros_like(x)
        for i in np.flatnonzero(active):
            for j in everyone:
                if i == j or up[j, i]:
                    step += (
                        alpha[j, i] if wrong == 'transposed' else alpha[i, j]
                    ) * deltas[j]
        count = (
            max(active.sum(), 1) if wrong == 'mean over the active' else len(s.targets)
        )
        x = x + step / count
        path.append(x)
    return np.array(path)


def cogc(s: Setting, edges: np.ndarray, tolerance: int, *, wrong: str | None = None):
    """Exact or nothing, with the code written out: coefficients b and their decoding."""
    num_clients = len(s.targets)
    x = s.start.copy()
    path = []
    code = _cyclic_code(num_clients, tolerance)
    for t, (active, up) in enumerate(zip(s.mask, edges, strict=True)):
        deltas = np.array([local(s, x, j, t) - x for j in range(num_clients)])
        received = [
            i
            for i in np.flatnonzero(active)
            if all(up[(i + k) % num_clients, i] for k in range(1, tolerance + 1))
        ]
        least = num_clients if wrong == 'waits for all' else num_clients - tolerance
        if len(received) >= least:
            decode, *_ = np.linalg.lstsq(
                code[received].T, np.ones(num_clients), rcond=None
            )
            total = decode @ (code[received] @ deltas)
            np.testing.assert_allclose(total, deltas.sum(axis=0), rtol=0, atol=1e-9)
            x = x + total / num_clients
        path.append(x)
    return np.array(path)


def _cyclic_code(num_clients: int, tolerance: int) -> np.ndarray:
    """Tandon et al. 2017, Algorithm 2: row i has its entries at i, ..., i + r."""
    rng = np.random.default_rng(0)
    null = rng.normal(size=(tolerance, num_clients))
    if tolerance:
        null[:, -1] = -null[:, :-1].sum(axis=1)
    code = np.zeros((num_clients, num_clients))
    for i in range(num_clients):
        positions = (i + np.arange(tolerance + 1)) % num_clients
        code[i, positions[0]] = 1
        if tolerance:
            code[i, positions[1:]] = -np.linalg.solve(
                null[:, positions[1:]], null[:, positions[0]]
            )
    return code


def mimic(s: Setting, *, wrong: str | None = None):
    """The server's corrections c_i."""
    x = s.start.copy()
    path = []
    corrections = np.zeros_like(s.targets)
    for t, active in enumerate(s.mask):
        ids = np.flatnonzero(active)
        if len(ids):
            deltas = np.array([local(s, x, i, t) - x for i in ids])
            v = (deltas + (0 if wrong == 'forgets' else corrections[ids])).mean(axis=0)
            x = x + s.server_lr * v
            selected = (
                deltas + corrections[ids] if wrong == 'corrects twice' else deltas
            )
            corrections[ids] = v - selected
        path.append(x)
    return np.array(path), corrections


def area(s: Setting, *, wrong: str | None = None):
    """Clients keep the local model that they sent last."""
    x = s.start.copy()
    path = []
    sent = np.tile(s.start, (len(s.targets), 1))
    for t, active in enumerate(s.mask):
        total = np.zeros_like(x)
        for i in np.flatnonzero(active):
            y = local(s, x, i, t)
            total += y - (x if wrong == 'sends its update' else sent[i])
            sent[i] = y
        x = x + total / (
            max(active.sum(), 1) if wrong == 'mean over the active' else len(sent)
        )
        path.append(x)
    return np.array(path), sent


def aged_mifa(
    s: Setting, max_age: int, memory: str = 'delta', *, wrong: str | None = None
):
    """The mean over the rows heard in the last rounds."""
    x = s.start.copy()
    path = []
    rows = np.zeros_like(s.targets)
    last = [None] * len(s.targets)
    for t, active in enumerate(s.mask):
        rate = s.rate(t) if memory == 'gradient' else 1
        for i in np.flatnonzero(active):
            rows[i], last[i] = (local(s, x, i, t) - x) / rate, t
        limit = max_age - (wrong == 'younger than the age')
        fresh = [i for i, at in enumerate(last) if at is not None and t - at <= limit]
        if fresh:
            count = len(rows) if wrong == 'over all' else len(fresh)
            x = x + s.server_lr * rate * rows[fresh].sum(axis=0) / count
        path.append(x)
    return np.array(path)


def aged_fedvarp(s: Setting, max_age: int, *, wrong: str | None = None):
    """Rows of before this round, those that are left."""
    x = s.start.copy()
    path = []
    rows = np.zeros_like(s.targets)
    last = [None] * len(s.targets)
    for t, active in enumerate(s.mask):
        for i, at in enumerate(last):
            if at is not None and t - at > max_age and wrong != 'never forgets y_i':
                rows[i], last[i] = 0, None
        fresh = [i for i, at in enumerate(last) if at is not None and t - at <= max_age]
        mean = rows[fresh].mean(axis=0) if fresh else np.zeros_like(x)
        ids = np.flatnonzero(active)
        if len(ids):
            deltas = np.array([local(s, x, i, t) - x for i in ids])
            x = x + s.server_lr * ((deltas - rows[ids]).mean(axis=0) + mean)
            rows[ids] = deltas
            for i in ids:
                last[i] = t
        path.append(x)
    return np.array(path)
