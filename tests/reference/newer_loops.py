"""Newer algorithms for arbitrary participation, one Python loop per listing, float64.

``wrong`` switches on one classic misreading, so that tests can show that it would be caught.
"""

import numpy as np

from tests.reference.quadratic_loops import Setting, local


def focus(s: Setting, server_lr: float | None = None, *, wrong: str | None = None):
    """Push-pull with last gradients; returns path and the clients' gradients."""
    x = s.start.copy()
    path = []
    total = np.zeros(s.start.size)
    last = np.zeros((len(s.targets), x.size))
    for t, active in enumerate(s.mask):
        eta = s.rate(t)
        pushed = []
        for i in np.flatnonzero(active):
            z = x.copy()
            y = np.zeros_like(x)
            for k in range(s.local_steps):
                if k > 0:
                    z = z - eta * y
                gradient = z - s.targets[i]
                y = y + gradient - last[i]
                last[i] = gradient
            if wrong == 'gradient after the last step':
                # One more gradient, at z - eta y: on these quadratics it is smaller by eta y.
                last[i] = gradient - eta * y
                y = y + last[i] - gradient
            pushed.append(y)
        if wrong == 'reset in every round':
            total = np.zeros_like(x)
        if pushed:
            total = total + np.sum(pushed, axis=0)
        if active.any() or wrong != 'rests in empty rounds':
            divisor = len(s.targets) if wrong == 'a mean' else 1
            x = x - (eta if server_lr is None else server_lr) * total / divisor
        path.append(x)
    return np.array(path), last


def amplified_scaffold(
    s: Setting, period: int, amplification: float, *, wrong: str | None = None
):
    """Controls from windows of rounds; returns path, c and the clients' next c_i."""
    num_clients = len(s.targets)
    x = s.start.copy()
    path = []
    c = np.zeros(s.start.size)
    reference = x.copy()
    controls = np.zeros((num_clients, x.size))
    window = [[] for _ in range(num_clients)]  # gradients of each client
    for t, active in enumerate(s.mask):
        models = []
        for i in np.flatnonzero(active):
            z, raw, corrected = _controlled_steps(s, x, c - controls[i], i, t)
            models.append(z)
            window[i] += corrected if wrong == 'keeps corrected gradients' else raw
            if wrong == 'last round of the window':
                window[i] = window[i][-s.local_steps :]
        if models:
            x = np.mean(models, axis=0)
        ends = (t + 1) % period == 0
        if ends:
            x = reference + amplification * (x - reference)
            reference = x.copy()
        if ends or wrong == 'controls in every round':
            new = _window_means(window, controls)
            divisor = num_clients
            if wrong == 'divides by the active':
                divisor = max(sum(map(bool, window)), 1)
            window = [[] for _ in range(num_clients)]
            c = c + (new - controls).sum(axis=0) / divisor
            controls = new
        path.append(x)
    return np.array(path), c, _window_means(window, controls)


def _controlled_steps(s: Setting, x, control, i: int, t: int):
    """Takes local steps; returns the model, the gradients and the corrected ones."""
    z = x.copy()
    raw = []
    corrected = []
    for _ in range(s.local_steps):
        raw.append(z - s.targets[i])
        corrected.append(raw[-1] + control)
        z = z - s.rate(t) * corrected[-1]
    return z, raw, corrected


def _window_means(window, controls):
    """Returns the mean gradients; clients without any keep their control."""
    means = [
        np.mean(gradients, axis=0) if gradients else control
        for gradients, control in zip(window, controls, strict=True)
    ]
    return np.array(means)


def fedstale(s: Setting, beta: float, *, wrong: str | None = None):
    """Known probabilities and stale updates; returns path and rows."""
    num_clients = len(s.targets)
    x = s.start.copy()
    path = []
    rows = np.zeros((num_clients, x.size))
    for t, active in enumerate(s.mask):
        v = np.zeros_like(x)
        old = rows.copy()
        for i in np.flatnonzero(active):
            p = s.prob[t, i]
            delta = local(s, x, i, t) - x
            stale = (
                beta * old[i] if wrong == 'unweighted correction' else beta * old[i] / p
            )
            v += (delta / p - stale) / num_clients
            rows[i] = delta
        used = rows if wrong == 'new mean' else old
        if active.any() or wrong != 'rests in empty rounds':
            x = x + s.server_lr * (v + beta * used.mean(axis=0))
        path.append(x)
    return np.array(path), rows


def feddyn(s: Setting, alpha: float, *, wrong: str | None = None):
    """Dynamic regularisation by gradient steps; returns path, h and the clients' gradients."""
    num_clients = len(s.targets)
    x = s.start.copy()
    path = []
    h = np.zeros(s.start.size)
    g = np.zeros((num_clients, x.size))
    for t, active in enumerate(s.mask):
        models = []
        for i in np.flatnonzero(active):
            w = x.copy()
            for _ in range(s.local_steps):
                pull = (
                    alpha * (w - x) * (2 if wrong == 'penalty without the half' else 1)
                )
                w = w - s.rate(t) * (w - s.targets[i] - g[i] + pull)
            g[i] = g[i] - alpha * (w - x)
            models.append(w)
        if models:
            divisor = len(models) if wrong == 'h over active' else num_clients
            h = h - alpha / divisor * np.sum(np.array(models) - x, axis=0)
            if wrong == 'sums models, subtracts x once':
                h = h - alpha / num_clients * (len(models) - 1) * x
            x = np.mean(models, axis=0) - h / alpha
        elif wrong == 'moves in empty rounds':
            x = x - h / alpha
        path.append(x)
    return np.array(path), h, g


def fedbuff(s: Setting, size: int, *, wrong: str | None = None):
    """Arrivals fill a buffer; returns path, the clients' models and versions."""
    num_clients = len(s.targets)
    x = s.start.copy()
    path = []
    version = 0
    buffer = []
    models = np.tile(x, (num_clients, 1))
    versions = np.zeros(num_clients, int)
    for t, active in enumerate(s.mask):
        arrived = np.flatnonzero(active)
        for i in arrived:
            delta = local(s, models[i], i, t) - models[i]
            if wrong == 'difference against the current model':
                delta = local(s, models[i], i, t) - x
            staleness = version - versions[i]
            buffer.append(
                delta if wrong == 'no discount' else delta / np.sqrt(1 + staleness)
            )
        if wrong == 'receives before the step':
            models[arrived] = x
            versions[arrived] = version
        if len(buffer) >= size:
            divisor = size if wrong == 'divides by K' else len(buffer)
            x = x + s.server_lr * np.sum(buffer, axis=0) / divisor
            buffer = []
            version = version + 1
        if wrong != 'receives before the step':
            models[arrived] = x
            versions[arrived] = version
        path.append(x)
    return np.array(path), models, versions


def ca2fl(s: Setting, size: int, *, wrong: str | None = None):
    """Late updates relative to the last ones; returns path, the clients' models and rows."""
    num_clients = len(s.targets)
    x = s.start.copy()
    path = []
    buffer = []
    models = np.tile(x, (num_clients, 1))
    rows = np.zeros_like(models)
    mean = np.zeros_like(x)
    for t, active in enumerate(s.mask):
        arrived = np.flatnonzero(active)
        for i in arrived:
            delta = local(s, models[i], i, t) - models[i]
            if wrong == 'from the server model':
                delta = local(s, x, i, t) - x
            buffer.append(delta - rows[i])
            rows[i] = delta
        if len(buffer) >= size:
            if wrong == 'new mean':
                mean = rows.mean(axis=0)
            divisor = size if wrong == 'divides by K' else len(buffer)
            x = x + s.server_lr * (mean + np.sum(buffer, axis=0) / divisor)
            buffer = []
            mean = rows.mean(axis=0)
            if wrong == 'mean over the seen':
                mean = rows.sum(axis=0) / s.mask[: t + 1].any(axis=0).sum()
        if wrong == 'mean of every round':
            mean = rows.mean(axis=0)
        models[arrived] = x
        path.append(x)
    return np.array(path), models, rows


def fedstale_async(
    s: Setting,
    beta: float,
    stale: tuple[float, float] = (0.0, 0.0),
    late: tuple[float, float] = (0.0, 0.0),
    cutoff: int | None = None,
    *,
    wrong: str | None = None,
):
    """Late updates and weights by age, given decay and patience; returns path and rows."""
    num_clients = len(s.targets)
    x = s.start.copy()
    path = []
    # The model that each client has, and the first round in which it was the server's.
    models = [(x, 0)] * num_clients
    # The last delta of each client, and the first round of the model from which it started.
    rows = [(np.zeros_like(x), 0)] * num_clients
    # Of each client, since its last arrival: the weight of its row in each round.
    weights = [[] for _ in range(num_clients)]
    # Of each client: rounds between arrivals, and the round of the last one.
    intervals = [[] for _ in range(num_clients)]
    last = [-1] * num_clients
    for t, active in enumerate(s.mask):
        v = np.zeros_like(x)
        new_rows = list(rows)
        for i in range(num_clients):
            row, row_start = rows[i]
            if wrong == 'age since the arrival':
                row_start = last[i] + 1
            weight = beta * hinge(t - row_start, *stale)
            weights[i].append(weight)
            v = v + weight * row
            if not active[i]:
                continue
            if cutoff is None:
                p = s.prob[t, i]
            else:
                intervals[i].append(min(t - last[i], cutoff))
                p = 1 / np.mean(intervals[i])
            model, start = models[i]
            delta = local(s, model, i, t) - model
            mean = weight if wrong == 'the last weight' else np.mean(weights[i])
            v = v + (hinge(t - start, *late) * delta - mean * row) / p
            new_rows[i] = (delta, start)
            weights[i] = []
            last[i] = t
        rows = new_rows
        if active.any() or wrong != 'rests in empty rounds':
            divisor = num_clients
            if wrong == 'divides by the seen':
                divisor = max(s.mask[: t + 1].any(axis=0).sum(), 1)
            x = x + s.server_lr * v / divisor
        for i in np.flatnonzero(active):
            models[i] = (x, t if wrong == 'one round older' else t + 1)
        path.append(x)
    return np.array(path), np.array([row for row, _ in rows])


def hinge(age: int, decay: float, patience: float) -> float:
    """One up to the patience, then a hyperbola."""
    return 1.0 if age <= patience else 1 / (decay * (age - patience) + 1)
