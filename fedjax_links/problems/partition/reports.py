"""What a partition turned out to be: volumes, class mixes, distance to the pooled data."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.core import checks, errors


def class_mix(clients: ArrayLike, labels: ArrayLike) -> NDArray[np.float64]:
    """The class shares that clients actually hold, ``nu_ic = n_ic / n_i``.

    Args:
      clients: int[E], owner of each example.
      labels: int[E], class of each example, numbered from 0.

    Returns:
      Shares float64[N, C]. Rows sum to one; the row of a client without examples is zero.

    Raises:
      ValueError: if the two vectors differ in length.
    """
    return report(clients, labels).class_mix


class PartitionReport(NamedTuple):
    """A partition in numbers; ``str`` shows them on a terminal. C is 0 where nothing has a class.

    Attributes:
      counts: int64[N], examples of each client.
      class_mix: float64[N, C], class shares of each client, zero where it owns nothing.
      global_mix: float64[C], class shares of the pooled data.
      total_variation: float64[N], ``0.5 sum_c |nu_ic - nu_c|`` in [0, 1], the distance of a
        client's mix to the pooled one; NaN where it owns nothing.
      classes_held: int64[N], classes of which a client owns at least one example.
    """

    counts: NDArray[np.int64]
    class_mix: NDArray[np.float64]
    global_mix: NDArray[np.float64]
    total_variation: NDArray[np.float64]
    classes_held: NDArray[np.int64]

    def __str__(self) -> str:
        """A table of one screen, at most 80 columns wide however many clients there are."""
        owning, num_classes = self.counts > 0, self.global_mix.size
        classes = f', {num_classes} classes' if num_classes else ''
        heads = ('min', '10 %', 'median', '90 %', 'max', 'mean')
        lines = [
            f'{owning.size} clients ({(~owning).sum()} without examples), '
            f'{self.counts.sum()} examples{classes}',
            f'{"per client":<22}' + ''.join(f'{head:>9}' for head in heads),
            _line('examples', self.counts, '.1f'),
        ]
        if num_classes:
            lines += [
                _line('classes held', self.classes_held, '.1f'),
                _line('largest class share', self.class_mix.max(axis=1)[owning], '.3f'),
                _line('distance to pooled mix', self.total_variation[owning], '.3f'),
            ]
        if 0 < num_classes <= 10:
            holders = (self.class_mix > 0).sum(axis=0)
            for name, cells, form in (
                ('class', range(num_classes), '>6'),
                ('pooled share', self.global_mix, '>6.3f'),
                ('clients holding', holders, '>6'),
            ):
                lines.append(f'{name:<15}' + ''.join(f'{cell:{form}}' for cell in cells))
        return '\n'.join(lines)


def volumes(counts: ArrayLike) -> PartitionReport:
    """Describes how many examples clients have where these have no classes.

    Args:
      counts: int[N].
    """
    counts = np.asarray(counts, np.int64)
    return _describe(np.zeros((counts.size, 0), np.int64), counts)


def report(clients: ArrayLike, labels: ArrayLike) -> PartitionReport:
    """Describes a partition: ``print(report(clients, labels))``.

    Args:
      clients: int[E], owner of each example.
      labels: int[E], class of each example, numbered from 0.

    Returns:
      Counts, mixes and distances; see `PartitionReport`.

    Raises:
      ValueError: if the two vectors differ in length.
    """
    clients, labels = checks.ids('clients', clients), checks.ids('labels', labels)
    if clients.size != labels.size:
        raise errors.invalid('clients', f'have {labels.size} entries, as labels do', clients.size)
    table = np.zeros((clients.max() + 1, labels.max() + 1), np.int64)
    np.add.at(table, (clients, labels), 1)
    return _describe(table, table.sum(axis=1))


def _describe(table: NDArray[np.int64], counts: NDArray[np.int64]) -> PartitionReport:
    """Of examples int64[N, C] of each client in each class, and of each client."""
    mix = table / np.maximum(counts, 1)[:, None]
    global_mix = table.sum(axis=0) / counts.sum()
    distance = 0.5 * np.abs(mix - global_mix).sum(axis=1)
    return PartitionReport(
        counts=counts,
        class_mix=mix,
        global_mix=global_mix,
        total_variation=np.where(counts > 0, distance, np.nan),
        classes_held=(table > 0).sum(axis=1),
    )


def _line(name: str, values: NDArray[np.floating] | NDArray[np.int64], form: str) -> str:
    """One row of the table: five quantiles that are values of the data, and the mean."""
    quantiles = np.quantile(values, [0, 0.1, 0.5, 0.9, 1], method='nearest')
    cells = [f'{value:>9{form if value % 1 else ".0f"}}' for value in quantiles]
    return f'{name:<22}' + ''.join(cells) + f'{values.mean():>9{form}}'
