"""Times periodic availability on 28 x 28 images: amplified FedAvg against a PyTorch loop.

Wang and Ji's FashionMNIST experiment on images of noise: 250 clients in five groups that are
available in turns, 10 of the available per round, 5 steps of batch 16, their network.
"""

from typing import Any

import numpy as np

from benchmarks import against_torch, common, images
from fedjax_links import participation
from fedjax_links.base import Participation
from fedjax_links.papers import architectures

TARGETS = 1.4, 1.05
"""Least speed relative to PyTorch, plain and channels last."""

WORKLOAD = images.Workload(
    num_clients=250,
    examples_per_client=40,
    image_shape=(28, 28, 1),
    num_rounds=10,
    proof_rate=0.001,  # PyTorch's two layouts part by .7 % at .02, and the engine by 7 % at .05
)
QUICK = WORKLOAD._replace(num_rounds=2, proof_rounds=2)
ALGORITHM = images.AlgorithmOptions('amplified_fedavg', period=2, amplification=2.0)
COHORT_SIZE = 10
NETWORK = architectures.wang_fashion_mnist(10)


def links(
    workload: images.Workload, cohort_size: int, active_rounds: int = 100
) -> Participation:
    """Returns links under which five groups take turns."""
    groups = np.arange(workload.num_clients) * 5 // workload.num_clients
    return participation.periodic_groups(
        groups, active_rounds=active_rounds, cohort_size=cohort_size
    )


def measure(quick: bool) -> dict[str, Any]:
    """Runs this benchmark and returns its record."""
    workload = QUICK if quick else WORKLOAD
    pattern = links(workload, COHORT_SIZE)
    record = against_torch.compare(
        NETWORK,
        workload,
        ALGORITHM,
        pattern,
        repeats=3 if quick else 7,
        targets=TARGETS,
    )
    return {'settings': {**workload._asdict(), 'cohort_size': COHORT_SIZE}, **record}


if __name__ == '__main__':
    common.main('fashion', 'Amplified FedAvg on small images against PyTorch.', measure)
