"""Times Bernoulli links on 32 x 32 x 3 images: FedAvg and FedPBC against a PyTorch loop.

Xiang et al.'s CIFAR-10 experiment on images of noise: 100 clients, 5 steps of batch 16, their
network. Links are as those that depend on labels: most clients at the lower clip, a few far above,
.11 in the mean. FedAvg trains the active clients, FedPBC all clients.
"""

from typing import Any

import numpy as np

from benchmarks import against_torch, common, images
from fedjax_links import participation
from fedjax_links.base import Participation
from fedjax_links.papers import architectures

TARGETS = {'fedavg': (2.0, 1.4), 'fedpbc': (2.0, 1.4)}
"""Least speed relative to PyTorch, plain and channels last."""

WORKLOAD = images.Workload(
    num_clients=100,
    examples_per_client=50,
    image_shape=(32, 32, 3),
    proof_rounds=2,  # in the first round FedPBC's server does what FedAvg's does
    proof_rate=0.001,  # PyTorch's two layouts part by 6 % at .05, 3 % at .005 and .1 % here
)
QUICK = WORKLOAD._replace(num_rounds=1)
ROUNDS = {'fedavg': 5, 'fedpbc': 1}
NETWORK = architectures.xiang_cifar10(10)
MEAN = 0.11
MINIMUM = 0.02


def probabilities(num_clients: int) -> np.ndarray:
    """Returns float64[N], clipped at .02 for most clients and .11 in the mean."""
    shares = np.random.default_rng(0).dirichlet(np.full(10, 0.1), num_clients)[:, 0]
    spread = np.sort(shares) - np.min(shares)
    return MINIMUM + (MEAN - MINIMUM) * spread / spread.mean()


def links(workload: images.Workload) -> Participation:
    """Returns independent uplinks."""
    return participation.bernoulli(np.minimum(probabilities(workload.num_clients), 1))


def measure(quick: bool) -> dict[str, Any]:
    """Runs this benchmark and returns its record."""
    record: dict[str, Any] = {'parameters': 551_786}
    for name, num_rounds in ROUNDS.items():
        workload = QUICK if quick else WORKLOAD._replace(num_rounds=num_rounds)
        record[name] = {
            'settings': workload._asdict(),
            **against_torch.compare(
                NETWORK,
                workload,
                images.AlgorithmOptions(name),
                links(workload),
                repeats=1 if quick else 5,
                targets=TARGETS[name],
            ),
        }
    rows = [row for name in ROUNDS for row in record[name].pop('rows')]
    return {**record, 'rows': rows}


if __name__ == '__main__':
    common.main('cifar', 'FedAvg and FedPBC on colour images against PyTorch.', measure)
