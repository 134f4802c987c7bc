"""Times published images instead of noise: two experiments of the papers against a PyTorch loop.

The workloads are those of `fashion` and `cifar`, with as many of the first images of FashionMNIST
and CIFAR-10 as they have examples. `TFDS_DATA_DIR` names the folder of the data, as for configs.
"""

from typing import Any

from benchmarks import against_torch, cifar, common, fashion, images
from fedjax_links import datasets
from fedjax_links.core import errors

DATASETS = 'fashion_mnist', 'cifar10'
TARGETS = None, None


def missing() -> str | None:
    """Returns the data set that is not on this machine, if any."""
    for name in DATASETS:
        try:
            datasets.published(name)
        except errors.InvalidError:
            return name
    return None


def measure(quick: bool) -> dict[str, Any]:
    """Runs this benchmark and returns its record."""
    fashion_workload = fashion.QUICK if quick else fashion.WORKLOAD
    cifar_workload = cifar.QUICK if quick else cifar.WORKLOAD
    fashion_workload = fashion_workload._replace(dataset='fashion_mnist')
    cifar_workload = cifar_workload._replace(dataset='cifar10')
    repeats = 1 if quick else 5
    records = {
        'fashion_mnist': against_torch.compare(
            fashion.NETWORK,
            fashion_workload,
            fashion.ALGORITHM,
            fashion.links(fashion_workload, fashion.COHORT_SIZE),
            repeats=repeats,
            targets=TARGETS,
        ),
        'cifar10': against_torch.compare(
            cifar.NETWORK,
            cifar_workload,
            images.AlgorithmOptions('fedavg'),
            cifar.links(cifar_workload),
            repeats=repeats,
            targets=TARGETS,
        ),
    }
    rows = []
    for name, record in records.items():
        for row in record.pop('rows'):
            rows.append({**row, 'what': f'{name}: {row["what"]}'})
    settings = {
        'fashion_mnist': fashion_workload._asdict(),
        'cifar10': cifar_workload._asdict(),
    }
    return {'settings': settings, **records, 'rows': rows}


if __name__ == '__main__':
    common.main('real_images', 'Published images against PyTorch.', measure)
