"""The papers' algorithms on quadratics, one Python loop per listing, float64.

Each takes a `Setting` and returns the server model after every round, [T, d]. Where clients keep
models, it also returns the client models after the last round, [N, d].
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Setting(NamedTuple):
    """The data, the participation masks and the rates of one run.

    Attributes:
      targets: u_i, the minimisers of the clients' losses ``||x - u_i||^2 / 2``, [N, d].
      start: x^0, the first model of the server and of all clients, [d].
      mask: the active clients of every round, bool[T, N].
      rate: ``round -> local rate``.
      local_steps: s, gradient steps on a client's full data.
      server_lr: eta_g, the rate of the server.
      prob: the probabilities of the links, [T, N]; None where no algorithm reads them.
    """

    targets: np.ndarray
    start: np.ndarray
    mask: np.ndarray
    rate: Callable[[int], float]
    local_steps: int
    server_lr: float
    prob: np.ndarray | None = None


def hard_setting(seed: int = 0) -> Setting:
    """80 rounds with empty rounds, a client inactive for 60, late first contact, decaying rate."""
    rng = np.random.default_rng(seed)
    num_rounds = 80
    num_clients = 7
    dimension = 3
    prob = np.clip(
        np.linspace(0.15, 0.85, num_clients)
        * (1 + 0.4 * np.sin(2 * np.pi * np.arange(num_rounds)[:, None] / 17)),
        0.05,
        1.0,
    )
    mask = rng.random((num_rounds, num_clients)) < prob
    mask[10:14] = False
    mask[40] = False
    mask[7:67, 2] = False
    mask[:31, 5] = False
    mask[3] = [True, False, True, False, False, False, False]
    mask[20] = True
    mask[20, [2, 5]] = False
    return Setting(
        targets=rng.normal(size=(num_clients, dimension)) * 3,
        start=rng.normal(size=dimension),
        mask=mask,
        rate=lambda t: 0.3 / np.sqrt(t / 10 + 1),
        local_steps=4,
        server_lr=1.3,
        prob=prob,
    )


def gentle_setting(seed: int = 0) -> Setting:
    """The hard setting with a rate small enough for weights of 60."""
    return hard_setting(seed)._replace(rate=lambda t: 0.02 / np.sqrt(t / 10 + 1))


def local(setting: Setting, start: np.ndarray, client: int, t: int, scale: float = 1.0):
    """L_i(start): s gradient steps on 0.5 ||x - u_i||^2 with the rate of round t."""
    x = start.copy()
    for _ in range(setting.local_steps):
        x = x - scale * setting.rate(t) * (x - setting.targets[client])
    return x


def fedavg(s: Setting) -> np.ndarray:
    """Mean over A of the displacements from the server model."""
    x = s.start.copy()
    path = []
    for t, active in enumerate(s.mask):
        deltas = [local(s, x, i, t) - x for i in np.flatnonzero(active)]
        if deltas:
            x = x + s.server_lr * np.mean(deltas, axis=0)
        path.append(x)
    return np.array(path)


def fedavg_all_compute(s: Setting) -> tuple[np.ndarray, np.ndarray]:
    """Xiang et al. 2023, Algorithm 1: everyone trains, only the active start from the server."""
    x = s.start.copy()
    models = np.tile(s.start, (len(s.targets), 1))
    path = []
    for t, active in enumerate(s.mask):
        trained = np.array(
            [local(s, x if active[i] else models[i], i, t) for i in range(len(models))]
        )
        if active.any():
            x = x + s.server_lr * (trained[active] - x).mean(axis=0)
        models = trained
        path.append(x)
    return np.array(path), models


def fedavg_all(s: Setting) -> np.ndarray:
    """Absent clients count as zero displacement; divisor N."""
    x = s.start.copy()
    path = []
    for t, active in enumerate(s.mask):
        total = np.zeros_like(x)
        for i in np.flatnonzero(active):
            total += local(s, x, i, t) - x
        x = x + s.server_lr / len(s.targets) * total
        path.append(x)
    return np.array(path)


def fedpbc(
    s: Setting, *, pause_inactive: bool = False, wrong: str | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Xiang et al. 2023, Algorithm 2; ``pause_inactive`` is the ablation of their Fig. 2b."""
    x = s.start.copy()
    models = np.tile(s.start, (len(s.targets), 1))
    path = []
    for t, active in enumerate(s.mask):
        if wrong == 'broadcast at the start':
            models[active] = x
        for i in range(len(models)):
            if wrong == 'rests in empty rounds' and not active.any():
                continue
            if active[i] or not pause_inactive:
                models[i] = models[i] + s.server_lr * (
                    local(s, models[i], i, t) - models[i]
                )
        if active.any():
            x = models[active].mean(axis=0)
            models[active] = x
        path.append(x)
    return np.array(path), models
