"""Methods that remember something per client, one Python loop per listing, float64.

``wrong`` switches on one classic misreading, so that tests can show that it would be caught.
"""

import numpy as np

from tests.reference.quadratic_loops import Setting, local


def mifa(s: Setting, memory: str = 'delta', *, wrong: str | None = None):
    """Rows overwritten, then averaged over all clients, in every round; returns path and rows."""
    num_clients = len(s.targets)
    x = s.start.copy()
    path = []
    rows = np.zeros((num_clients, x.size))
    seen = np.zeros(num_clients, bool)
    for t, active in enumerate(s.mask):
        eta = s.rate(t) if memory == 'gradient' else 1.0
        old = rows.copy()
        for i in np.flatnonzero(active):
            rows[i] = (local(s, x, i, t) - x) / eta
            seen[i] = True
        used = old if wrong == 'uses first' else rows
        divisor = max(seen.sum(), 1) if wrong == 'divides by seen' else num_clients
        if active.any() or wrong != 'rests in empty rounds':
            x = x + s.server_lr * eta * used.sum(axis=0) / divisor
        path.append(x)
    return np.array(path), rows


def fedvarp(s: Setting, *, wrong: str | None = None):
    """Old mean, then overwrite; nothing in an empty round. Returns path and rows."""
    num_clients = len(s.targets)
    x = s.start.copy()
    path = []
    rows = np.zeros((num_clients, x.size))
    for t, active in enumerate(s.mask):
        ids = np.flatnonzero(active)
        mean = rows.mean(axis=0)
        v = np.zeros_like(x)
        if len(ids):
            deltas = np.array([local(s, x, i, t) - x for i in ids])
            divisor = num_clients if wrong == 'divides by all' else len(ids)
            v = (deltas - rows[ids]).sum(axis=0) / divisor
            rows[ids] = deltas
        if wrong == 'new mean':
            mean = rows.mean(axis=0)
        if len(ids) or wrong == 'moves in empty rounds':
            x = x + s.server_lr * (v + mean)
        path.append(x)
    return np.array(path), rows


def scaffold(s: Setting, *, wrong: str | None = None):
    """Option II; returns path and the clients' control variates."""
    num_clients = len(s.targets)
    x = s.start.copy()
    path = []
    c = np.zeros(s.start.size)
    controls = np.zeros((num_clients, x.size))
    for t, active in enumerate(s.mask):
        ids = np.flatnonzero(active)
        eta = s.rate(t)
        deltas = []
        changes = []
        for i in ids:
            y = x.copy()
            for _ in range(s.local_steps):
                drift = c - controls[i]
                if wrong == 'correction with the other sign':
                    drift = -drift
                y = y - eta * (y - s.targets[i] + drift)
            new = controls[i] - c + (x - y) / (s.local_steps * eta)
            if wrong == 'forgets c':
                new = (x - y) / (s.local_steps * eta)
            deltas.append(y - x)
            changes.append(new - controls[i])
            controls[i] = new
        if len(ids):
            x = x + s.server_lr * np.mean(deltas, axis=0)
            if wrong == 'server control over active':
                c = c + np.mean(changes, axis=0)
            else:
                c = c + np.sum(changes, axis=0) / num_clients
        path.append(x)
    return np.array(path), controls
