"""Stationary laws of chains of minimum separation in rationals, from the listing of the paper."""

import itertools
from fractions import Fraction


def transitions(weights, separation):
    """Returns ``{window: {next window: probability}}``, the newest client first."""
    clients = range(len(weights))
    moves = {}
    for window in itertools.permutations(clients, separation):
        free = [i for i in clients if i not in window]
        total = sum(weights[i] for i in free)
        moves[window] = {}
        for chosen in free:
            after = (chosen, *window)[:separation]
            chance = Fraction(weights[chosen], total)
            moves[window][after] = moves[window].get(after, Fraction(0)) + chance
    return moves


def stationary_law(weights, separation):
    """Solves ``pi P = pi`` with ``sum pi = 1`` by elimination: ``{waits: probability}``."""
    moves = transitions(weights, separation)
    windows = list(moves)
    size = len(windows)
    rows = []
    for column in windows[1:]:
        row = [moves[window].get(column, Fraction(0)) for window in windows]
        row[windows.index(column)] -= 1
        rows.append([*row, Fraction(0)])
    rows.append([Fraction(1)] * (size + 1))
    for k in range(size):
        pivot = next(r for r in range(k, size) if rows[r][k] != 0)
        rows[k], rows[pivot] = rows[pivot], rows[k]
        scale = rows[k][k]
        rows[k] = [entry / scale for entry in rows[k]]
        for r in range(size):
            if r != k and rows[r][k] != 0:
                factor = rows[r][k]
                pairs = zip(rows[r], rows[k], strict=True)
                rows[r] = [entry - factor * other for entry, other in pairs]
    return {
        waits(window, len(weights)): row[-1]
        for window, row in zip(windows, rows, strict=True)
    }


def waits(window, num_clients):
    """Returns the rounds that each client still waits."""
    rounds = [0] * num_clients
    for age, client in enumerate(window):
        rounds[client] = len(window) - age
    return tuple(rounds)


def selection(weights, state):
    """Returns the probabilities of the next client, given the waits."""
    total = sum(w for w, wait in zip(weights, state, strict=True) if wait == 0)
    return [
        Fraction(w, total) if wait == 0 else Fraction(0)
        for w, wait in zip(weights, state, strict=True)
    ]


def marginal(weights, separation):
    """Returns the stationary probabilities of the clients."""
    sums = [Fraction(0)] * len(weights)
    for state, mass in stationary_law(weights, separation).items():
        for client, chance in enumerate(selection(weights, state)):
            sums[client] += mass * chance
    return sums
