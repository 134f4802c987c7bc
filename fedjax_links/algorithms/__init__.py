"""Federated algorithms: each one a pure ``round_step``, named in `ALGORITHMS`."""

from fedjax_links.algorithms.fedavg import fedavg, fedavg_all
from fedjax_links.algorithms.fedpbc import fedpbc
from fedjax_links.registry import AlgorithmEntry

ALGORITHMS = {
    'fedavg': AlgorithmEntry(fedavg),
    'fedavg_all': AlgorithmEntry(fedavg_all),
    'fedpbc': AlgorithmEntry(fedpbc),
}

__all__ = ['ALGORITHMS', 'fedavg', 'fedavg_all', 'fedpbc']
