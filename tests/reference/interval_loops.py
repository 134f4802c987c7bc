"""Methods that weigh clients by their participation, one Python loop per listing, float64.

``wrong`` switches on one classic misreading, so that tests can show that it would be caught.
"""

import numpy as np

from tests.reference.quadratic_loops import Setting, local


def fedavg_known(s: Setting, *, wrong: str | None = None) -> np.ndarray:
    """Each update divided by its own probability of the round, sum over N."""
    x = s.start.copy()
    path = []
    for t, active in enumerate(s.mask):
        total = np.zeros_like(x)
        for i in np.flatnonzero(active):
            p = s.prob[t, -1] if wrong == 'last client' else s.prob[t, i]
            p = s.prob[0, i] if wrong == 'probability of round 0' else p
            scale = 1 / p if wrong == 'scales the local rate' else 1.0
            delta = local(s, x, i, t, scale) - x
            total += delta if wrong == 'scales the local rate' else delta / p
        divisor = (
            max(active.sum(), 1) if wrong == 'divides by active' else len(s.targets)
        )
        x = x + s.server_lr * total / divisor
        path.append(x)
    return np.array(path)


def fedau(s: Setting, cutoff: int, *, wrong: str | None = None) -> np.ndarray:
    """Weights are means of the lists of closed intervals; use, then count."""
    num_clients = len(s.targets)
    x = s.start.copy()
    path = []
    waited = [0] * num_clients
    closed = [[] for _ in range(num_clients)]
    limit = {'cutoff one late': cutoff + 1, 'cutoff one early': cutoff - 1}.get(
        wrong, cutoff
    )
    for t, active in enumerate(s.mask):
        total = np.zeros_like(x)
        for i in range(num_clients):
            if wrong == 'empty rounds do not count' and not active.any():
                continue
            if active[i]:
                if wrong == 'counts first':
                    closed[i].append(waited[i] + 1)
                default = waited[i] + 1 if wrong == 'unseen weigh their wait' else 1
                weight = np.mean(closed[i]) if closed[i] else default
                total += weight * (local(s, x, i, t) - x)
                if wrong != 'counts first':
                    closed[i].append(waited[i] + 1)
                if wrong == 'interval one short':
                    closed[i][-1] -= 1
                waited[i] = 0
            else:
                waited[i] += 1
                if waited[i] >= limit:
                    if wrong != 'cutoff forgets':
                        closed[i].append(waited[i])
                    waited[i] = 0
        divisor = max(active.sum(), 1) if wrong == 'divides by active' else num_clients
        x = x + s.server_lr * total / divisor
        path.append(x)
    return np.array(path)


def f3ast(s: Setting, budget: int, beta: float, first=1.0, *, wrong: str | None = None):
    """The active clients with the smallest rates; count, then use. Also returns the last rates."""
    num_clients = len(s.targets)
    x = s.start.copy()
    path = []
    rate = np.full(
        num_clients, 1 / num_clients if wrong == 'rates start at 1/N' else first
    )
    for t, active in enumerate(s.mask):
        sign = -1 if wrong == 'ties by the highest id' else 1
        ranked = sorted(np.flatnonzero(active), key=lambda i: (rate[i], sign * i))
        chosen = ranked[: len(ranked) if wrong == 'no budget' else budget]
        old = rate.copy()
        hit = (
            active
            if wrong == 'counts all active'
            else np.isin(np.arange(num_clients), chosen)
        )
        if active.any() or wrong != 'rates rest in empty rounds':
            rate = (1 - beta) * rate + beta * hit
        used = old if wrong == 'uses first' else rate
        total = np.zeros_like(x)
        for i in chosen:
            total += (local(s, x, i, t) - x) / used[i]
        divisor = max(len(chosen), 1) if wrong == 'divides by chosen' else num_clients
        x = x + s.server_lr * total / divisor
        path.append(x)
    return np.array(path), rate


def debiased_fedavg(s: Setting, *, wrong: str | None = None) -> np.ndarray:
    """Sun et al. 2025, Algorithm 1, with B the number of clients of the round."""
    num_clients = len(s.targets)
    x = s.start.copy()
    path = []
    count = np.zeros(num_clients)
    for t, active in enumerate(s.mask):
        cohort_size = active.sum()
        results = []
        for i in np.flatnonzero(active):
            if wrong != 'uses first':
                count[i] += 1
            rounds = t if wrong == 'rounds from t' else t + 1
            share = max(count[i], 1) / max(rounds * cohort_size, 1)
            nu = 1 / (share * num_clients)
            if wrong == 'scales the update':
                results.append(x + nu * (local(s, x, i, t) - x))
            else:
                results.append(local(s, x, i, t, nu))
            if wrong == 'uses first':
                count[i] += 1
        if results and wrong == 'divides by all':
            x = x + (np.array(results) - x).sum(axis=0) / num_clients
        elif results:
            x = np.mean(results, axis=0)
        path.append(x)
    return np.array(path)


def fedawe(s: Setting, *, clip: float | None = None, wrong: str | None = None):
    """Own models, echoed innovations; returns the path, the client models and tau."""
    num_clients = len(s.targets)
    x = s.start.copy()
    path = []
    models = np.tile(s.start, (num_clients, 1))
    tau = np.full(num_clients, 0 if wrong == 'tau starts at 0' else 1)
    for t, active in enumerate(s.mask):
        ids = np.flatnonzero(active)
        if len(ids):
            if wrong == 'counts first':
                tau = tau + 1
            starts = np.array(
                [x if wrong == 'broadcast at the start' else models[i] for i in ids]
            )
            steps = np.array(
                [local(s, start, i, t) for i, start in zip(ids, starts, strict=True)]
            )
            echoed = tau[ids, None] * (steps - starts)
            innovation = echoed.mean(axis=0)
            if wrong == 'divides by all':
                innovation = echoed.sum(axis=0) / num_clients
            length = np.sqrt((innovation**2).sum())
            if clip is not None and length > clip:
                innovation = innovation / length * clip
            base = x if wrong == 'base is the server model' else starts.mean(axis=0)
            x = base + s.server_lr * innovation
            models[ids] = x
        if wrong == 'counts first':
            tau = np.where(active, 0, tau)
        elif len(ids) or wrong != 'tau rests in empty rounds':
            tau = np.where(active, 1, tau + 1)
        path.append(x)
    return np.array(path), models, tau
