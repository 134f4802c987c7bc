"""What the quick versions of several papers' image experiments share."""

from typing import Any

Section = dict[str, Any]


def synthetic_images(
    num_clients: int, num_train: int, *, difficulty: float, partition: dict[str, Any]
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
