"""CA-Fed as a Python loop over the listing, float64.

``wrong`` switches on one classic misreading, so that tests can show that it would be caught.
"""

import numpy as np

from tests.reference.quadratic_loops import Setting, local


def ca_fed(
    s: Setting,
    memory: float,
    kappa: float,
    *,
    tolerance: float = 0.0,
    optimal_losses: float = 0.0,
    correlations: np.ndarray | None = None,
    wrong: str | None = None,
):
    """Weights clients by availability, and drops some.

    Returns:
      The path, [T, d]; the last running losses, [N]; who was included in each round, bool[T, N].
    """
    num_clients = len(s.targets)
    x = s.start.copy()
    path = []
    included = []
    losses = None
    for t, active in enumerate(s.mask):
        losses = running_losses(s, x, losses, active, memory, wrong)
        lags = correlations
        if lags is None:
            lags = counted_correlations(s.mask[: t + 1], wrong)
        q = np.full(num_clients, 1 / num_clients) / s.prob[t]
        if losses is not None:
            gaps = losses - optimal_losses
            falling = sorted(range(num_clients), key=lambda i: -abs(lags[i]))
            rising = sorted(range(num_clients), key=lambda i: s.prob[t, i])
            passes = [falling, rising]
            if wrong == 'availability first':
                passes = [rising, falling]
            for order in passes:
                q = drop(q, order, s.prob[t], gaps, kappa, tolerance, wrong)
        step = np.zeros_like(x)
        for i in np.flatnonzero(active):
            step = step + q[i] * (local(s, x, i, t) - x)
        x = x + s.server_lr * step
        included.append(q > 0)
        path.append(x)
    return np.array(path), losses, np.array(included)


def running_losses(s: Setting, x, losses, active, memory: float, wrong: str | None):
    """The active clients' losses at x enter; the first round's mean stands for the others."""
    ids = np.flatnonzero(active)
    new = 0.5 * ((x - s.targets) ** 2).sum(axis=1)
    if not len(ids):
        return losses
    if losses is None:
        absent = 0.0 if wrong == 'the unseen lose nothing' else new[ids].mean()
        return np.where(active, new, absent)
    return np.where(active, memory * losses + (1 - memory) * new, losses)


def drop(q, order, availability, gaps, kappa, tolerance, wrong):
    """Sets weights to zero, one after the other, as long as the objective falls."""
    for i in order:
        trial = q.copy()
        trial[i] = 0
        if trial.sum() == 0:
            break
        fall = objective(q, availability, gaps, kappa, wrong)
        fall -= objective(trial, availability, gaps, kappa, wrong)
        if fall >= tolerance:
            q = trial
    return q


def objective(q, availability, gaps, kappa, wrong):
    """What remains to be gained by the weights, and their squared distance from equal ones."""
    weights = availability * q / np.sum(availability * q)
    distance = 0.5 * np.abs(1 / len(q) - weights).sum()
    if wrong == 'distance not squared':
        distance = np.sqrt(distance)
    return weights @ gaps + kappa * gaps.max() * distance**2


def counted_correlations(mask, wrong):
    """Share of active rounds after active ones minus that after inactive ones."""
    result = []
    for activity in mask.T:
        before = activity[:-1]
        now = activity[1:]
        if wrong == 'the round itself does not count':
            before = before[:-1]
            now = now[:-1]
        after_active = now[before]
        after_inactive = now[~before]
        result.append(
            (after_active.sum() + 0.5) / (len(after_active) + 1)
            - (after_inactive.sum() + 0.5) / (len(after_inactive) + 1)
        )
    return np.array(result)
