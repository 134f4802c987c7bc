"""One client per round, never again within R rounds: a sampler and an exact mean, in NumPy."""

import itertools

import numpy as np


def sample_masks(weights, separation, num_rounds, num_seeds, seed=0) -> np.ndarray:
    """bool[S, T, N]: each round draws one rested client with probability proportional to weight."""
    rng = np.random.default_rng(seed)
    num_clients = len(weights)
    ready_at = np.zeros((num_seeds, num_clients), int)
    masks = np.zeros((num_seeds, num_rounds, num_clients), bool)
    for t in range(num_rounds):
        law = np.where(ready_at <= t, weights, 0.0)
        edges = np.cumsum(law / law.sum(axis=1, keepdims=True), axis=1)
        draws = (rng.random((num_seeds, 1)) >= edges[:, :-1]).sum(axis=1)
        masks[np.arange(num_seeds), t, draws] = True
        ready_at[np.arange(num_seeds), draws] = t + separation + 1
    return masks


def stationary_mean(weights, separation, targets, gains) -> np.ndarray:
    """Exact limit of E[x^T] for ``x <- x + gain_i (u_i - x)`` with i from the chain above.

    With m_s the mean of x on the event that the last R selections are s, m solves the linear system
    of the jump process; the answer is the sum of the m_s.
    """
    clients = range(len(weights))
    states = list(itertools.permutations(clients, separation))
    index = {state: k for k, state in enumerate(states)}
    transition = np.zeros((len(states), len(states)))
    for state in states:
        rested = [i for i in clients if i not in state]
        total = sum(weights[i] for i in rested)
        for i in rested:
            transition[index[state], index[(*state[1:], i)]] += weights[i] / total
    values, vectors = np.linalg.eig(transition.T)
    law = np.real(vectors[:, np.argmin(np.abs(values - 1))])
    law = law / law.sum()
    last = np.array([state[-1] for state in states])
    gain = np.asarray(gains)[last]
    carried = transition.T * (1 - gain)[:, None]
    arriving = (law * gain)[:, None] * targets[last]
    means = np.linalg.solve(np.eye(len(states)) - carried, arriving)
    return means.sum(axis=0)
