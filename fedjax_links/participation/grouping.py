"""Partitions of the clients into groups, as labels."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.core import checks, errors


def group_labels(groups: ArrayLike, num_groups: int | None = None) -> NDArray[np.int32]:
    """Validated labels int32[N], the group of each client.

    Args:
      groups: int[N], labels from 0 to G - 1, each of them used.
      num_groups: G where the caller knows it, else one more than the largest label.

    Raises:
      ValueError: if ``groups`` is no vector of such labels, is traced, or leaves a group empty.
    """
    if not checks.is_concrete(groups):
        raise errors.invalid('groups', 'be concrete: group sizes set shapes', groups)
    labels = np.asarray(groups)
    if labels.ndim != 1 or labels.size == 0 or labels.dtype.kind not in 'iu':
        raise errors.invalid(
            'groups',
            'be integers, one per client',
            f'shape {labels.shape} and dtype {labels.dtype}',
        )
    count = int(labels.max()) + 1 if num_groups is None else num_groups
    if labels.min() < 0 or labels.max() >= count:
        outside = labels[(labels < 0) | (labels >= count)]
        raise errors.invalid('groups', f'lie in [0, {count - 1}]', outside[0])
    sizes = np.bincount(labels, minlength=count)
    if (sizes == 0).any():
        empty = int(np.argmin(sizes))
        raise errors.invalid('groups', f'use each label up to {count - 1}', f'none in {empty}')
    return labels.astype(np.int32)
