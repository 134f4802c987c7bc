"""Brute force: every active set, every order, every state. Written for clarity, not for speed."""

import itertools
import math

import numpy as np


def active_sets(probs):
    """Yields every active set as bool[N] with its probability under independent links."""
    probs = np.asarray(probs, dtype=np.float64)
    for bits in itertools.product([False, True], repeat=probs.size):
        mask = np.array(bits)
        yield mask, float(np.prod(np.where(mask, probs, 1.0 - probs)))


def mixing(mask):
    """Mixing matrix of a round, entry by entry as the papers define it."""
    size = len(mask)
    count = sum(mask)
    matrix = np.zeros((size, size))
    for i, j in itertools.product(range(size), repeat=2):
        if mask[i] and mask[j]:
            matrix[i, j] = 1.0 / count
        elif i == j and not mask[i]:
            matrix[i, j] = 1.0
    return matrix


def fedavg_weights(probs):
    """E[1{i in A} / |A| given A not empty]."""
    total = np.zeros(len(probs))
    for mask, prob in active_sets(probs):
        if mask.any():
            total += prob * mask / mask.sum()
    return total / total.sum()


def expected(probs, statistic):
    """E[statistic(mask)] under independent links."""
    return sum(prob * statistic(mask) for mask, prob in active_sets(probs))


def elementary(values, degree):
    """Elementary symmetric polynomial, the sum over all subsets."""
    return sum(math.prod(subset) for subset in itertools.combinations(values, degree))


def elementary_of_many(values, degree):
    """The same by recursion over the values, where the subsets are too many to list."""
    sums = [1] + [0] * degree
    for value in values:
        for k in range(degree, 0, -1):
            sums[k] += value * sums[k - 1]
    return sums[degree]


def one_round(weights, size, design):
    """Law of a cohort by its definition, draw by draw where the design draws."""
    law = {}
    clients = range(len(weights))
    if design == 'product':
        for cohort in itertools.combinations(clients, size):
            law[cohort] = math.prod(weights[i] for i in cohort)
    elif design == 'successive':
        for order in itertools.permutations(clients, size):
            prob = 1.0
            left = sum(weights)
            for i in order:
                prob *= weights[i] / left
                left -= weights[i]
            key = tuple(sorted(order))
            law[key] = law.get(key, 0.0) + prob
    else:  # one member by weight, the others uniformly among the rest
        for first in clients:
            others = [i for i in clients if i != first]
            for rest in itertools.combinations(others, size - 1):
                key = tuple(sorted((first, *rest)))
                prob = weights[first] / math.comb(len(others), size - 1)
                law[key] = law.get(key, 0.0) + prob
    total = sum(law.values())
    return {cohort: prob / total for cohort, prob in law.items()}


def separation_marginal(weights, separation, size, design):
    """Selection law of the chain over windows of `separation` cohorts, by power iteration."""
    clients = range(len(weights))
    cohorts = list(itertools.combinations(clients, size))
    windows = [
        window
        for window in itertools.permutations(cohorts, separation)
        if len(set(itertools.chain(*window))) == separation * size
    ]
    index = {window: k for k, window in enumerate(windows)}
    matrix = np.zeros((len(windows), len(windows)))
    chosen = np.zeros((len(windows), len(weights)))
    for window, row in index.items():
        ids = [i for i in clients if i not in set(itertools.chain(*window))]
        for local, prob in one_round([weights[i] for i in ids], size, design).items():
            cohort = tuple(ids[k] for k in local)
            after = (cohort, *window)[:separation]
            matrix[row, index[after]] += prob
            chosen[row, list(cohort)] += prob / size
    law = np.full(len(windows), 1.0 / len(windows))
    for _ in range(4000):
        law = law @ matrix
    return law @ chosen


def simulate_separation(rng, weights, waits, size, num_rounds):
    """Masks bool[T, N] of a run with the successive design, by Gumbel keys."""
    free_from = np.zeros(len(weights), dtype=int)
    masks = np.zeros((num_rounds, len(weights)), dtype=bool)
    for t in range(num_rounds):
        keys = np.log(weights) + rng.gumbel(size=len(weights))
        keys[free_from > t] = -np.inf
        cohort = np.argsort(-keys)[:size]
        masks[t, cohort] = True
        free_from[cohort] = t + 1 + np.asarray(waits)[cohort]
    return masks


def simulate_markov(rng, up_rate, down_rate, num_rounds):
    """Masks bool[T, N] of stationary two-state links."""
    up = np.asarray(up_rate)
    down = np.asarray(down_rate)
    state = rng.uniform(size=up.size) < up / (up + down)
    masks = np.zeros((num_rounds, up.size), dtype=bool)
    for t in range(num_rounds):
        masks[t] = state
        draws = rng.uniform(size=up.size)
        state = np.where(state, draws >= down, draws < up)
    return masks
