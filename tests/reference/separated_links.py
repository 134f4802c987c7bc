"""One client per round, which then rests for R rounds: a sampler and an exact mean, in NumPy."""

import itertools

import numpy as np


def sample_masks(weights, separation, num_rounds, num_seeds, seed=0) -> np.ndarray:
    """Masks bool[S, T, N]: each round draws a client that does not rest, by weight."""
    rng = np.random.default_rng(seed)
    num_clients = len(weights)
    ready_at = np.zeros((num_seeds, num_clients), int)
    masks = np.zeros((num_seeds, num_rounds, num_clients), bool)
    for t in range(num_rounds):
        law = np.where(ready_at <= t, weights, 0.0)
        cumulative = np.cumsum(law / law.sum(axis=1, keepdims=True), axis=1)
        # The client in whose interval of the cumulative law a uniform number lies.
        clients = (rng.random((num_seeds, 1)) >= cumulative[:, :-1]).sum(axis=1)
        masks[np.arange(num_seeds), t, clients] = True
        ready_at[np.arange(num_seeds), clients] = t + separation + 1
    return masks


def stationary_mean(weights, separation, targets, gains) -> np.ndarray:
    """Exact limit of E[x^T] for ``x <- x + gain_i (u_i - x)`` with i from the chain above.

    Let m_s be the mean of x on the event that the last R selections are s, the last of them i. With
    P and pi the transition matrix and stationary law of s,
    ``m_s = (1 - gain_i) sum_r P_rs m_r + pi_s gain_i u_i``. The limit is the sum of the m_s.
    """
    clients = range(len(weights))
    states = list(itertools.permutations(clients, separation))
    index = {state: k for k, state in enumerate(states)}
    transition = np.zeros((len(states), len(states)))
    for state in states:
        selectable = [i for i in clients if i not in state]
        total = sum(weights[i] for i in selectable)
        for i in selectable:
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
