"""Methods with links between clients, and with ages, one Python loop per listing, float64.

Every method takes a `Setting` and returns the server model after each round, [T, d], and, where it
keeps something by client, what it has after the last round, [N, d]. L_i is `local`, and Delta_i is
``L_i(x) - x``. Edges are bool[T, N, N], symmetric, without a diagonal. ``wrong`` switches on one
classic misreading, so that tests can show that it would be caught.
"""

import numpy as np

from tests.reference.quadratic_loops import Setting, local


def metropolis(edges: np.ndarray, *, wrong: str | None = None) -> np.ndarray:
    """Metropolis weights M of one round, [N, N], from its edges, bool[N, N].

    ``M_ij = 1 / (1 + max(d_i, d_j))`` where the edge is up, and M_ii is what row i lacks to one.
    Client i has d_i edges that are up.
    """
    degrees = edges.sum(axis=1)
    matrix = np.zeros(edges.shape)
    for i, j in np.argwhere(edges):
        degree = max(degrees[i], degrees[j])
        if wrong == 'own degree':
            degree = degrees[i]
        matrix[i, j] = 1 / (1 + degree)
    return matrix + np.diag(1 - matrix.sum(axis=1))


def gossip(s: Setting, edges: np.ndarray, *, wrong: str | None = None):
    """``x_i = sum_j M_ij L_j(x_j)``; the mean of the x_i stands for the server, and all x_i."""
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
    """Rodio et al. 2025: S2S, or S2A with ``to_all``; also the client models.

    The server averages in every ``every``-th round.
    """
    x = s.start.copy()
    models = np.tile(s.start, (len(s.targets), 1))
    path = []
    for t, (active, up) in enumerate(zip(s.mask, edges, strict=True)):
        # Clients: z_i = L_i(x_i).
        trained = np.array([local(s, model, i, t) for i, model in enumerate(models)])
        # Gossip: y_i = sum_j M_ij z_j.
        models = metropolis(up) @ trained
        is_server_round = (t + 1) % every == 0
        if wrong == 'server in the first round':
            is_server_round = t % every == 0
        if is_server_round and active.any():
            # Server: the mean of y_i over the active, who receive it (S2S), or all do (S2A).
            uploads = trained if wrong == 'averages z' else models
            x = uploads[active].mean(axis=0)
            receivers = np.ones_like(active) if to_all else active
            models[receivers] = x
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
    """Yemini et al. 2024: ``x += (1 / N) sum_{i in A} sum_j tau_ji alpha_ij Delta_j``.

    Args:
      s: the setting.
      edges: tau, the update of client j reaches relay i; always where j = i.
      weights: alpha, [N, N]; by default ``alpha_ij = 1 / sum_k q_jk p_k`` with ``q_jj = 1``.
      edge_prob: q, [N, N], for the default weights.
      wrong: a misreading.
    """
    num_clients = len(s.targets)
    x = s.start.copy()
    path = []
    for t, (active, up) in enumerate(zip(s.mask, edges, strict=True)):
        alpha = weights
        if alpha is None:
            relay_prob = edge_prob + np.eye(num_clients)
            alpha = np.tile(1 / (relay_prob @ s.prob[t]), (num_clients, 1))
        if wrong == 'transposed':
            alpha = alpha.T
        deltas = [local(s, x, j, t) - x for j in range(num_clients)]
        step = np.zeros_like(x)
        for i in np.flatnonzero(active):
            for j in range(num_clients):
                if i == j or up[j, i]:
                    step += alpha[i, j] * deltas[j]
        divisor = num_clients
        if wrong == 'mean over the active':
            divisor = max(active.sum(), 1)
        x = x + step / divisor
        path.append(x)
    return np.array(path)


def cogc(s: Setting, edges: np.ndarray, tolerance: int, *, wrong: str | None = None):
    """Weng et al. 2025, section III: the mean of all updates, or no step.

    The code, which the package does not simulate, is written out: sums and their decoding.
    """
    num_clients = len(s.targets)
    x = s.start.copy()
    path = []
    code = _cyclic_code(num_clients, tolerance)
    for t, (active, up) in enumerate(zip(s.mask, edges, strict=True)):
        deltas = np.array([local(s, x, j, t) - x for j in range(num_clients)])
        # Clients: the sum of client i is complete if its edges to i + 1, ..., i + r are up.
        received = []
        for i in np.flatnonzero(active):
            members = [(i + k) % num_clients for k in range(1, tolerance + 1)]
            if up[members, i].all():
                received.append(i)
        least = num_clients if wrong == 'waits for all' else num_clients - tolerance
        if len(received) >= least:
            # Server: weights a of the received sums with a' B = (1, ..., 1).
            decode, *_ = np.linalg.lstsq(
                code[received].T, np.ones(num_clients), rcond=None
            )
            total = decode @ (code[received] @ deltas)
            np.testing.assert_allclose(total, deltas.sum(axis=0), rtol=0, atol=1e-9)
            x = x + total / num_clients
        path.append(x)
    return np.array(path)


def _cyclic_code(num_clients: int, tolerance: int) -> np.ndarray:
    """Tandon et al. 2017, Algorithm 2: B, [N, N], whose row i has its entries at i, ..., i + r.

    H, [r, N], is random with rows that sum to zero, and every row b of B has ``H b = 0``. Any N - r
    rows of B span the null space of H, which holds (1, ..., 1).
    """
    rng = np.random.default_rng(0)
    h = rng.normal(size=(tolerance, num_clients))
    code = np.eye(num_clients)
    if tolerance == 0:
        return code
    h[:, -1] = -h[:, :-1].sum(axis=1)
    for i in range(num_clients):
        others = (i + np.arange(1, tolerance + 1)) % num_clients
        code[i, others] = -np.linalg.solve(h[:, others], h[:, i])
    return code


def mimic(s: Setting, *, wrong: str | None = None):
    """Sun et al. 2024, Algorithm 1; also the corrections c_i.

    ``v = mean_{i in A} (Delta_i + c_i)``, ``x += eta_g v``, then ``c_i = v - Delta_i`` for i in A.
    """
    x = s.start.copy()
    path = []
    corrections = np.zeros_like(s.targets)
    for t, active in enumerate(s.mask):
        ids = np.flatnonzero(active)
        if len(ids):
            deltas = np.array([local(s, x, i, t) - x for i in ids])
            corrected = deltas + corrections[ids]
            if wrong == 'forgets':
                corrected = deltas
            v = corrected.mean(axis=0)
            x = x + s.server_lr * v
            subtracted = corrected if wrong == 'corrects twice' else deltas
            corrections[ids] = v - subtracted
        path.append(x)
    return np.array(path), corrections


def area(s: Setting, *, wrong: str | None = None):
    """Iakovidou and Kim 2025, Algorithm 1; also y_i, the model that client i sent last.

    ``x += (1 / N) sum_{i in A} (L_i(x) - y_i)``, then ``y_i = L_i(x)`` for i in A.
    """
    x = s.start.copy()
    path = []
    sent = np.tile(s.start, (len(s.targets), 1))
    for t, active in enumerate(s.mask):
        total = np.zeros_like(x)
        for i in np.flatnonzero(active):
            y = local(s, x, i, t)
            total += y - (x if wrong == 'sends its update' else sent[i])
            sent[i] = y
        divisor = len(sent)
        if wrong == 'mean over the active':
            divisor = max(active.sum(), 1)
        x = x + total / divisor
        path.append(x)
    return np.array(path), sent


def aged_mifa(
    s: Setting, max_age: int, memory: str = 'delta', *, wrong: str | None = None
):
    """MIFA whose server takes the mean over rows of at most ``max_age`` rounds.

    With the memory ``'gradient'``, row i is Delta_i over the rate of its round, and the step is
    multiplied by the rate of the current one. A round with a rate of zero renews no row.
    """
    x = s.start.copy()
    path = []
    rows = np.zeros_like(s.targets)
    last_active = [None] * len(s.targets)
    for t, active in enumerate(s.mask):
        rate = s.rate(t) if memory == 'gradient' else 1
        for i in np.flatnonzero(active & (rate > 0)):
            rows[i] = (local(s, x, i, t) - x) / rate
            last_active[i] = t
        limit = max_age
        if wrong == 'younger than the age':
            limit = max_age - 1
        fresh = _fresh_clients(last_active, t, limit)
        if fresh:
            divisor = len(rows) if wrong == 'over all' else len(fresh)
            x = x + s.server_lr * rate * rows[fresh].sum(axis=0) / divisor
        path.append(x)
    return np.array(path)


def aged_fedvarp(s: Setting, max_age: int, *, wrong: str | None = None):
    """FedVARP that sets rows older than ``max_age`` rounds to zero and out of the mean.

    ``x += eta_g (mean_{i in A} (Delta_i - y_i) + mean_{i fresh} y_i)``, then ``y_i = Delta_i`` for
    i in A.
    """
    x = s.start.copy()
    path = []
    rows = np.zeros_like(s.targets)
    last_active = [None] * len(s.targets)
    for t, active in enumerate(s.mask):
        fresh = _fresh_clients(last_active, t, max_age)
        if wrong != 'never forgets y_i':
            rows[[i for i in range(len(rows)) if i not in fresh]] = 0
        mean = rows[fresh].mean(axis=0) if fresh else np.zeros_like(x)
        ids = np.flatnonzero(active)
        if len(ids):
            deltas = np.array([local(s, x, i, t) - x for i in ids])
            x = x + s.server_lr * ((deltas - rows[ids]).mean(axis=0) + mean)
            rows[ids] = deltas
            for i in ids:
                last_active[i] = t
        path.append(x)
    return np.array(path)


def _fresh_clients(last_active: list, t: int, max_age: int) -> list[int]:
    """Clients whose last active round is at most ``max_age`` rounds before round t."""
    fresh = []
    for i, last in enumerate(last_active):
        if last is not None and t - last <= max_age:
            fresh.append(i)
    return fresh
