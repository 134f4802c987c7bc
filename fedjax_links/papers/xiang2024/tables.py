"""Reads Tables 1 and 2 of Xiang et al. 2024."""

from fedjax_links.pages.printed_numbers import PrintedAccuracy
from fedjax_links.papers import printed


def table1(*, dataset: str, split: str) -> dict[tuple[str, str], PrintedAccuracy]:
    """Returns the printed accuracies.

    Args:
      dataset: ``'SVHN'``, ``'CIFAR-10'`` or ``'CINIC-10'``.
      split: ``'train'`` or ``'test'``.

    Returns:
      The accuracies by (pattern, algorithm) as printed, without the number that the available text
      lost.

    Raises:
      ValueError: for an unknown data set or split.
    """
    return printed.accuracies(__package__, dataset=dataset, split=split)


def table2(*, dataset: str) -> dict[tuple[str, str, float], str]:
    """Returns first rounds to reach an accuracy under time-varying Bernoulli links.

    Args:
      dataset: as in `table1`.

    Returns:
      By (pattern and algorithm as printed, target as a fraction), as text: a number, ``never``, or
      ``lost`` if the available text lost the number.

    Raises:
      ValueError: for an unknown data set.
    """
    first_rounds = {}
    for row in printed.rows(__package__, 'table2', dataset=dataset):
        target = float(row['target_pct']) / 100
        first_rounds[row['pattern'], row['algorithm'], target] = row['first_round']
    return first_rounds
