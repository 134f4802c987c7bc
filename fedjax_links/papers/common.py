"""What configs of several papers share: words after the colon, and sections."""

import itertools
from collections.abc import Iterable
from typing import Any

from fedjax_links.core import errors

Section = dict[str, Any]

_RELEASED = 'fedjax_links.papers.released_images'
_TOGETHER = 'crops and mirror images alike for a whole minibatch'
_RELEASED_STATISTICS = {
    'cifar10': {'mean': (0.4914, 0.4822, 0.4465), 'deviation': (0.2023, 0.1994, 0.2010)},
    'fashion_mnist': {'mean': (0.1307,), 'deviation': (0.3081,)},
}
"""CIFAR-10 over the mean of its images' own deviations, and MNIST's numbers for FashionMNIST."""


def chosen(argument: str, *groups: Iterable[str]) -> list[str]:
    """What the words of ``--config=FILE:WORD,WORD`` choose.

    Args:
      argument: words with commas between them, in any order; may be empty.
      *groups: words of which at most one may be given; the first is the default.

    Returns:
      A word of each group.

    Raises:
      ValueError: for a word of no group, naming the nearest, or for two of one group.
    """
    choices = [list(group) for group in groups]
    words = [word.strip() for word in argument.split(',') if word]
    for word in words:
        if not any(word in choice for choice in choices):
            raise errors.unknown_name('config', word, itertools.chain(*choices))
    given = [[word for word in words if word in choice] for choice in choices]
    for choice, found in zip(choices, given, strict=True):
        if len(found) > 1:
            raise errors.invalid('config', f'name one of {", ".join(choice)}', ', '.join(found))
    return [(found or choice)[0] for choice, found in zip(choices, given, strict=True)]


def synthetic_images(
    num_clients: int, num_train: int, *, difficulty: float, partition: Section
) -> Section:
    """Synthetic images of 16 x 16 and a network of 9,802 parameters, for two CPU cores.

    Args:
      num_clients: N.
      num_train: number of training images.
      difficulty: of `problems.datasets.synthetic_images`.
      partition: ``partition`` and its options.

    Returns:
      A section for `problems.images` that needs no file.
    """
    return {
        'name': 'images',
        'dataset': 'synthetic_images',
        'data': {
            'num_train': num_train,
            'num_test': 1_000,
            'shape': (16, 16, 1),
            'difficulty': difficulty,
        },
        'num_clients': num_clients,
        'model': {'name': 'cnn', 'channels': (8, 16), 'hidden': (32,)},
        **partition,
        'seed': 0,
        'normalise': None,
        'augment': (),
        'store': 'float32',
    }


def image_preparation(dataset: str, augment: tuple[str, ...], *, released: bool) -> Section:
    """``normalise`` and ``augment`` of `problems.images`.

    Args:
      dataset: a name in `augmentation.CHANNEL_STATISTICS`.
      augment: of ``'crop'`` and ``'mirror'``.
      released: whether both are those of the released code.

    Returns:
      Fields of a section.
    """
    if not released:
        return {'normalise': dataset, 'augment': augment}
    return {
        'normalise': _RELEASED_STATISTICS.get(dataset, dataset),
        'augment': tuple(f'{_RELEASED}:{name}_together' for name in augment),
    }


def image_departures(dataset: str) -> tuple[str, ...]:
    """What of that is not in the text, for a caption; nothing for data that are made."""
    return {
        'svhn': (_TOGETHER,),
        'cifar10': (_TOGETHER, "CIFAR-10 divided by the mean of its images' deviations"),
        'cinic10': (_TOGETHER,),
        'fashion_mnist': ("FashionMNIST normalised by MNIST's numbers",),
    }.get(dataset, ())


def convolutions(*channels: int, side: int) -> tuple[Section, ...]:
    """Listed layers of `networks.network_sizes`: convolutions from channels to channels."""
    return tuple(
        {'name': 'convolution', 'inputs': inputs, 'outputs': outputs, 'side': side}
        for inputs, outputs in itertools.pairwise(channels)
    )


def dense(*widths: int) -> tuple[Section, ...]:
    """Listed layers of `networks.network_sizes`: fully connected ones from width to width."""
    return tuple(
        {'name': 'dense', 'inputs': inputs, 'outputs': outputs}
        for inputs, outputs in itertools.pairwise(widths)
    )


def counterexample(**options: Any) -> Section:
    """The figure that Xiang et al. draw in 2023 and 2024, at their sizes.

    Args:
      **options: of `counterexample.counterexample_error`, those in which the papers differ.

    Returns:
      A section of a figure; the list of pairs is ours, as the papers' is lost.
    """
    return {
        'name': 'fedjax_links.papers.counterexample:counterexample_error',
        'pairs': ((0.1, 0.1), (0.1, 0.5), (0.1, 0.9), (0.5, 0.5), (0.5, 0.9), (0.9, 0.9)),
        'num_clients': 100,
        'dimension': 100,
        'target_seed': 0,
        'eval_every': 10,
        'first_shown': 50,
        'num_seeds': 3,
        **options,
    }
