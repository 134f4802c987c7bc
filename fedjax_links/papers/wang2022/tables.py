"""Reads Table D.1 of Wang and Ji 2022."""

from fedjax_links.papers import printed


def table_d1(*, dataset: str) -> dict[str, float]:
    """Returns the local learning rates after the warm-up.

    Args:
      dataset: ``'FashionMNIST'`` or ``'CIFAR-10'``.

    Returns:
      The rates by algorithm, as printed.

    Raises:
      ValueError: for an unknown data set.
    """
    rows = printed.rows(__package__, 'table_d1', dataset=dataset)
    return {row['algorithm']: float(row['learning_rate']) for row in rows}
