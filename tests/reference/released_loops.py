"""What the public repositories execute, one Python loop each, float64.

Written with lists and positions as those programs are, on the masks of a `Setting`.
"""

import numpy as np

from tests.reference.quadratic_loops import Setting, local


def f3ast_positions_as_ids(
    s: Setting, budget: int, beta: float
) -> tuple[np.ndarray, int]:
    """F3AST whose positions in the list of active clients are taken for client ids.

    Returns:
      The path, and how many inactive clients were trained.
    """
    num_clients = len(s.targets)
    x = s.start.copy()
    path = []
    intruders = 0
    r = np.ones(num_clients)
    for t, active in enumerate(s.mask):
        part = active.copy()
        if active.sum() >= budget:
            reduced = (1 / r**2)[active]
            positions = np.argsort(reduced, kind='stable')[::-1][:budget]
            part = np.zeros(num_clients, bool)
            part[positions] = True
        intruders += (part & ~active).sum()
        r = (1 - beta) * r + beta * part
        total = np.zeros_like(x)
        for i in np.flatnonzero(part):
            total = total + (local(s, x, i, t) - x) / r[i]
        x = x + s.server_lr * total / num_clients
        path.append(x)
    return np.array(path), intruders


def debiased_fedavg_horizon(s: Setting, num_rounds: int, groups) -> np.ndarray:
    """Local rate eta T / c_g with a counter per group, incremented first."""
    groups = np.asarray(groups)
    counter = dict.fromkeys(groups.tolist(), 0)
    x = s.start.copy()
    path = []
    for t, active in enumerate(s.mask):
        for g in set(groups[active].tolist()):
            counter[g] += 1
        results = [
            local(s, x, i, t, num_rounds / counter[groups[i]])
            for i in np.flatnonzero(active)
        ]
        if results:
            x = np.mean(results, axis=0)
        path.append(x)
    return np.array(path)


def fedpbc_doubled_steps(s: Setting) -> np.ndarray:
    """First commit: the displacement is added once more, times eta_g, to the trained model."""
    x = s.start.copy()
    models = np.tile(s.start, (len(s.targets), 1))
    path = []
    for t, active in enumerate(s.mask):
        for i in range(len(models)):
            trained = local(s, models[i], i, t)
            models[i] = trained + s.server_lr * (trained - models[i])
        if active.any():
            x = models[active].mean(axis=0)
            models[active] = x
        path.append(x)
    return np.array(path)
