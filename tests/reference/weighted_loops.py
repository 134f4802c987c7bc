"""Algorithms whose clients weigh by their examples and take their epochs' steps, float64 loops.

Client i owns ``volumes[i]`` examples, which average to ``targets[i]``; of ``||x - example||^2 / 2``
full-batch steps go towards that mean.
"""

import numpy as np

from tests.reference.quadratic_loops import Setting, local


def updates(
    s: Setting, x: np.ndarray, active: np.ndarray, t: int, steps
) -> dict[int, np.ndarray]:
    """Delta_i of the active clients, each with its own number of steps."""
    result = {}
    for i in np.flatnonzero(active):
        client_setting = s if steps is None else s._replace(local_steps=int(steps[i]))
        result[i] = local(client_setting, x, i, t) - x
    return result


def fedavg(s: Setting, volumes, steps=None) -> np.ndarray:
    """McMahan et al. 2017, Algorithm 1: the mean weighs client i by n_i over those selected."""
    x = s.start.copy()
    path = []
    for t, active in enumerate(s.mask):
        total = np.zeros_like(x)
        examples = 0
        for i, delta in updates(s, x, active, t, steps).items():
            total += volumes[i] * delta
            examples += volumes[i]
        if examples:
            x = x + s.server_lr * total / examples
        path.append(x)
    return np.array(path)


def fedavg_all(s: Setting, volumes) -> np.ndarray:
    """Absent clients count as zero: the divisor is the number of all examples."""
    x = s.start.copy()
    path = []
    for t, active in enumerate(s.mask):
        for i, delta in updates(s, x, active, t, None).items():
            x = x + s.server_lr * volumes[i] / np.sum(volumes) * delta
        path.append(x)
    return np.array(path)


def fedavg_known(s: Setting, volumes) -> np.ndarray:
    """The same, every update over its client's probability in that round."""
    x = s.start.copy()
    path = []
    for t, active in enumerate(s.mask):
        moved = x
        for i, delta in updates(s, x, active, t, None).items():
            moved = (
                moved
                + s.server_lr * volumes[i] / np.sum(volumes) / s.prob[t, i] * delta
            )
        x = moved
        path.append(x)
    return np.array(path)


def fedau(s: Setting, volumes, cutoff: int) -> np.ndarray:
    """The same, every update times the mean of its client's closed intervals."""
    x = s.start.copy()
    path = []
    waited = [0] * len(volumes)
    closed = [[] for _ in volumes]
    for t, active in enumerate(s.mask):
        moved = x
        for i, delta in updates(s, x, active, t, None).items():
            interval = np.mean(closed[i]) if closed[i] else 1
            moved = (
                moved + s.server_lr * volumes[i] / np.sum(volumes) * interval * delta
            )
        x = moved
        for i in range(len(volumes)):
            waited[i] += 1
            if active[i] or waited[i] == cutoff:
                closed[i].append(waited[i])
                waited[i] = 0
        path.append(x)
    return np.array(path)


def fednova(s: Setting, volumes, steps) -> np.ndarray:
    """Wang et al. 2020, equation (9), its weights n_i over the examples of the active."""
    x = s.start.copy()
    path = []
    for t, active in enumerate(s.mask):
        ids = np.flatnonzero(active)
        if len(ids):
            shares = np.array([volumes[i] for i in ids]) / sum(volumes[i] for i in ids)
            result = updates(s, x, active, t, steps)
            effective = sum(
                share * steps[i] for share, i in zip(shares, ids, strict=True)
            )
            mean = sum(
                share * result[i] / steps[i]
                for share, i in zip(shares, ids, strict=True)
            )
            x = x + s.server_lr * effective * mean
        path.append(x)
    return np.array(path)


def fedavgm(s: Setting, volumes, rate: float, momentum: float) -> np.ndarray:
    """Momentum at the server on the mean that `fedavg` takes."""
    x = s.start.copy()
    velocity = np.zeros_like(s.start)
    path = []
    for t, active in enumerate(s.mask):
        result = updates(s, x, active, t, None)
        if result:
            examples = sum(volumes[i] for i in result)
            mean = sum(volumes[i] * delta for i, delta in result.items()) / examples
            velocity = momentum * velocity + mean
            x = x + rate * velocity
        path.append(x)
    return np.array(path)
