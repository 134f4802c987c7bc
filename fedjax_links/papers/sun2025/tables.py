"""Reads Table 1 of Sun et al. 2025."""

from fedjax_links.pages.printed_numbers import PrintedAccuracy
from fedjax_links.papers import printed


def table1(*, dataset: str, split: str) -> dict[tuple[str, str], PrintedAccuracy]:
    """Returns the printed accuracies, which have no deviations.

    Args:
      dataset: ``'CIFAR-10'``.
      split: ``'train'`` or ``'test'``.

    Returns:
      The accuracies by (pattern, algorithm) as printed.

    Raises:
      ValueError: for an unknown data set or split.
    """
    return printed.accuracies(__package__, dataset=dataset, split=split)
