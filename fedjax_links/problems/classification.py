"""Image classification spread over clients."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fedjax_links import errors
from fedjax_links.base import Problem
from fedjax_links.problems import datasets, models, partition
from fedjax_links.problems.arrays import from_flax

MODELS: Mapping[str, Callable[[int], Any]] = {
    'softmax': models.Softmax,
    'mlp': models.MLP,
    'cnn': models.CNN,
    'xiang_svhn': models.xiang_svhn,
    'xiang_cifar10': models.xiang_cifar10,
    'xiang_cinic10': models.xiang_cinic10,
    'wang_fashion_mnist': models.wang_fashion_mnist,
    'wang_cifar10': models.wang_cifar10,
    'sun_mnist': models.sun_mnist,
    'sun_cifar10': models.sun_cifar10,
}

PARTITIONS: Mapping[str, Callable[..., np.ndarray]] = {
    'dirichlet': partition.dirichlet,
    'dirichlet_unequal': partition.dirichlet_unequal,
    'dirichlet_per_class': partition.dirichlet_per_class,
    'label_shards': partition.label_shards,
    'label_groups': partition.label_groups,
    'similarity': partition.similarity,
    'iid': lambda labels, **options: partition.iid(len(labels), **options),
}


def digits(
    *,
    num_clients: int = 50,
    model: Any = 'softmax',
    partition: str = 'dirichlet',
    seed: int = 0,
    **partition_options: Any,
) -> Problem:
    """Handwritten digits (1797 real 8x8 images, embedded) over clients with skewed labels.

    Args:
      num_clients: N.
      model: a name in `MODELS`, or a flax linen module.
      partition: a name in `PARTITIONS`; the equal-volume Dirichlet partition by default, with
        ``alpha=0.1`` unless given.
      seed: seed of the split and the partition.
      **partition_options: passed on to the partition (``alpha``, ``shards_per_client``, ...).

    Returns:
      A problem with metrics ``loss`` and ``accuracy`` on the 20 % of images held out.

    Raises:
      ValueError: for an unknown model or partition.
    """
    return federate(
        datasets.digits(seed=seed),
        num_clients=num_clients,
        model=model,
        partition=partition,
        seed=seed,
        **partition_options,
    )


def federate(
    dataset: datasets.Dataset,
    *,
    num_clients: int,
    model: Any,
    partition: str,
    seed: int,
    **partition_options: Any,
) -> Problem:
    """Spreads a dataset's training examples over clients; the test examples evaluate.

    Args:
      dataset: images and labels.
      num_clients: N.
      model: a name in `MODELS`, or a flax linen module.
      partition: a name in `PARTITIONS`.
      seed: seed of the partition.
      **partition_options: passed on to the partition.

    Returns:
      The problem.

    Raises:
      ValueError: for an unknown model or partition.
    """
    if partition not in PARTITIONS:
        raise errors.unknown_name('partition', partition, PARTITIONS)
    if isinstance(model, str):
        if model not in MODELS:
            raise errors.unknown_name('model', model, MODELS)
        model = MODELS[model](dataset.num_classes)
    if partition.startswith('dirichlet'):
        partition_options.setdefault('alpha', 0.1)
    if partition != 'label_groups':
        partition_options['seed'] = seed
    clients = PARTITIONS[partition](
        dataset.train_labels, num_clients=num_clients, **partition_options
    )
    return from_flax(
        dataset.train_features,
        dataset.train_labels,
        clients,
        module=model,
        eval_data=(dataset.test_features, dataset.test_labels),
    )


def owners(problem: Problem) -> np.ndarray:
    """int[E], the owner of each row of ``problem.data``."""
    return np.repeat(np.arange(problem.num_clients), np.asarray(problem.counts))
