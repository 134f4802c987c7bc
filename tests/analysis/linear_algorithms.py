"""How tests run the algorithms of `linear_rounds`: their options, rates and noise."""

from fedjax_links.analysis import linear_rounds

WITH_PEERS = ('cogc', 'colrel', 'gossip', 's2a', 's2s')
"""Algorithms that need a graph of clients."""

_OPTIONS = {
    'feddyn': {'alpha': 0.4},
    'fedstale': {'stale_weight': 0.6},
    'cogc': {'tolerance': 1},
}


def options_of(name, weights=None):
    """The options that an algorithm needs; ``weights`` are those of ColRel's relays, [N, N]."""
    if name == 'colrel':
        return {'weights': weights}
    return _OPTIONS.get(name, {})


def rate_of(name, rate, num_clients):
    """The learning rate; FOCUS takes an N-th of it, as it sums over clients."""
    return rate / num_clients if name == 'focus' else rate


def noise_of(name):
    """The deviation of the gradients' noise; 0 where rows and updates would differ in it."""
    return 0.0 if name in linear_rounds.OTHER_NOISE else 0.5
