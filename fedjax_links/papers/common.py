"""Builds sections that several papers share, and reads the words after the colon of a config."""

import itertools
from collections.abc import Iterable
from typing import Any

from fedjax_links.core import errors

PaperSection = dict[str, Any]

_RELEASED = 'fedjax_links.papers.released_images'
_AUGMENTATION = {'svhn': ('crop',), 'fashion_mnist': ()}
_RELEASED_STATISTICS: dict[str, Any] = {
    'cifar10': {
        'mean': (0.4914, 0.4822, 0.4465),
        'deviation': (0.2023, 0.1994, 0.2010),
    },
    'fashion_mnist': {'mean': (0.1307,), 'deviation': (0.3081,)},
}
"""Released code takes CIFAR-10's deviations as means over images, and MNIST's for FashionMNIST."""
_TOGETHER = 'crops and mirror images alike for a whole minibatch'
IMAGE_DEPARTURES = {
    'svhn': 'crops alike for a whole minibatch',
    'cifar10': f"{_TOGETHER}, CIFAR-10 divided by the mean of its images' deviations",
    'cinic10': _TOGETHER,
    'fashion_mnist': "FashionMNIST normalised by MNIST's numbers",
}
"""By data set, what released code does to images beyond the paper's text, for a caption."""
IN_SMALL = (
    'ten Gaussian classes with a Bayes accuracy of {config.problem.bayes_accuracy} and softmax '
    'regression in place of images and a network; '
)
"""What small versions of an experiment use in place of images, for a caption's deviations."""


def chosen(argument: str, *groups: Iterable[str]) -> list[str]:
    """Returns, for each group of alternatives, the word chosen in ``--config=FILE:WORD,WORD``.

    Args:
      argument: words with commas between them, in any order; may be empty.
      *groups: alternative words; the first word of a group is its default.

    Returns:
      A word of each group.

    Raises:
      ValueError: for a word of no group, naming the nearest word, or for two words of one group.
    """
    choices = [list(group) for group in groups]
    words = [word.strip() for word in argument.split(',') if word.strip()]
    for word in words:
        if word not in itertools.chain(*choices):
            raise errors.unknown_name('config', word, itertools.chain(*choices))
    chosen_words = []
    for choice in choices:
        in_group = [word for word in words if word in choice]
        if len(in_group) > 1:
            requirement = f'name one of {", ".join(choice)}'
            raise errors.invalid('config', requirement, ', '.join(in_group))
        chosen_words.append(in_group[0] if in_group else choice[0])
    return chosen_words


def synthetic_images(
    num_clients: int, num_train: int, *, difficulty: float, partition: PaperSection
) -> PaperSection:
    """Builds synthetic images of 16 x 16 and a network of 9,802 parameters, for two CPU cores.

    Args:
      num_clients: N.
      num_train: number of training images.
      difficulty: of `datasets.synthetic_images`.
      partition: ``partition`` and its options.

    Returns:
      A section for `problems.images` that needs no file.
    """
    sizes = {'num_train': num_train, 'num_test': 1_000, 'shape': (16, 16, 1)}
    return {
        'name': 'images',
        'dataset': 'synthetic_images',
        'data': {**sizes, 'difficulty': difficulty},
        'num_clients': num_clients,
        'model': {'name': 'cnn', 'channels': (8, 16), 'hidden': (32,)},
        **partition,
        'seed': 0,
        'normalise': None,
        'augment': (),
    }


def images(
    paper: str, dataset: str, num_clients: int, *, released: bool, **partition: Any
) -> PaperSection:
    """Builds a section for a prepared data set of images with the paper's network.

    Args:
      paper: the first part of the names of the paper's networks in `architectures`.
      dataset: a name in `augmentation.CHANNEL_STATISTICS`.
      num_clients: N.
      released: whether images are normalised and augmented as in the released code.
      **partition: ``partition`` and its options.

    Returns:
      A section for `problems.images`.
    """
    normalise = dataset
    augment = _AUGMENTATION.get(dataset, ('crop', 'mirror'))
    if released:
        normalise = _RELEASED_STATISTICS.get(dataset, dataset)
        augment = tuple(f'{_RELEASED}:{name}_together' for name in augment)
    return {
        'name': 'images',
        'dataset': dataset,
        'num_clients': num_clients,
        'model': f'fedjax_links.papers.architectures:{paper}_{dataset}',
        **partition,
        'seed': 0,
        'normalise': normalise,
        'augment': augment,
    }


def gaussians(num_clients: int, **partition: Any) -> PaperSection:
    """Builds Gaussian classes in place of images, for small versions: Bayes accuracy is 64 %."""
    return {
        'name': 'gaussians',
        'num_clients': num_clients,
        'examples_per_client': 200,
        'bayes_accuracy': 0.64,
        **partition,
    }
