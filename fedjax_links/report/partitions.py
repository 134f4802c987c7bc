"""How a data set is spread over clients: a page of text, a picture, and a table of clients."""

from pathlib import Path
from typing import Any

import numpy as np

from fedjax_links import errors
from fedjax_links.base import Problem
from fedjax_links.problems import owners, partition
from fedjax_links.problems.partition import PartitionReport
from fedjax_links.report import columns, style

_BARS = '#9a9a9a'
_DISTANCE_BINS = 30
_MOST_LISTED = 40


def of_problem(problem: Problem, name: str) -> PartitionReport:
    """What the clients of a problem hold.

    Args:
      problem: with integer labels.
      name: what to call it in an error.

    Returns:
      Counts, mixes and distances.

    Raises:
      ValueError: if its data have no labels, or none that are classes.
    """
    labels = getattr(problem.data, 'labels', None)
    if labels is None or not np.issubdtype(labels.dtype, np.integer):
        raise errors.invalid('config.problem', 'have integer labels', repr(name))
    return partition.report(owners(problem), np.asarray(labels))


def text(title: str, report: PartitionReport) -> str:
    """Lines of at most 80 columns.

    Args:
      title: first line.
      report: the partition.

    Returns:
      The table of `PartitionReport`, and effective numbers: ``1 / sum_k q_k^2`` of shares q, which
      is K if all K are equal and 1 if one has everything.
    """
    clients = effective_number(report.counts / report.counts.sum())
    classes = effective_number(report.class_mix[report.counts > 0]).mean()
    effective = (
        f'effective numbers: {clients:.1f} clients by volume, {classes:.2f} classes per client '
        f'(mean)'
    )
    return '\n'.join([title[:80], report.text(), effective])


def effective_number(shares: np.ndarray) -> Any:
    """``1 / sum_k q_k^2`` of shares float[..., K] that sum to one."""
    return 1 / np.sum(np.square(shares), axis=-1)


def by_largest_class(report: PartitionReport) -> np.ndarray:
    """int[N], clients in the order of the picture: by their largest class, purest first.

    Shares count in whole per cent, so that shards of nearly equal length are ties; of tied classes
    the first is the largest.
    """
    per_cent = np.rint(100 * report.class_mix)
    return np.lexsort((-per_cent.max(axis=1), per_cent.argmax(axis=1)))


def picture(path: Path, title: str, report: PartitionReport) -> None:
    """The page: class shares of every client, volumes, distances to the pooled mix, classes held.

    Args:
      path: where the PNG goes.
      title: above everything.
      report: the partition.
    """
    pyplot = style.pyplot()
    figure = pyplot.figure(figsize=(12, 8), layout='constrained')
    grid = figure.add_gridspec(3, 12, height_ratios=[1.5, 0.8, 1])
    order = by_largest_class(report)
    map_axes = figure.add_subplot(grid[0, :10])
    pooled_axes = figure.add_subplot(grid[0, 10:], sharey=map_axes)
    image = draw_mix(map_axes, report, order)
    _draw_pooled(pooled_axes, report)
    figure.colorbar(image, ax=pooled_axes, label="share of the client's examples")
    _draw_volumes(figure.add_subplot(grid[1, :10], sharex=map_axes), report, order)
    _draw_distances(figure.add_subplot(grid[2, :6]), report)
    _draw_classes_held(figure.add_subplot(grid[2, 6:]), report)
    figure.suptitle(title)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def draw_mix(axes: Any, report: PartitionReport, order: np.ndarray) -> Any:
    """Class x client map of class shares, on a square-root scale so that small ones show.

    Args:
      axes: matplotlib axes.
      report: the partition.
      order: clients from left to right.

    Returns:
      The image, for a colour bar.
    """
    from matplotlib import colors

    image = axes.imshow(
        report.class_mix[order].T,
        aspect='auto',
        cmap='Blues',
        interpolation='nearest',
        norm=colors.PowerNorm(0.5, vmin=0, vmax=report.class_mix.max()),
    )
    axes.set_ylabel('class')
    axes.yaxis.get_major_locator().set_params(integer=True)
    if report.global_mix.size <= _MOST_LISTED // 2:
        axes.set_yticks(np.arange(report.global_mix.size))
    axes.set_title('Classes of each client, clients by their largest class', fontsize=10)
    axes.tick_params(labelbottom=False)
    return image


def _draw_pooled(axes: Any, report: PartitionReport) -> None:
    classes = np.arange(report.global_mix.size)
    axes.barh(classes, report.global_mix, height=0.9, color=_BARS)
    axes.tick_params(labelleft=False)
    axes.set_title('All clients', fontsize=10)
    axes.set_xlabel('share of all examples')


def _draw_volumes(axes: Any, report: PartitionReport, order: np.ndarray) -> None:
    places = np.arange(order.size)
    axes.bar(places, report.counts[order], width=0.9 if order.size < 100 else 1.0, color=_BARS)
    axes.axhline(
        report.mean_count, linestyle='--', color=style.COLOURS[4], linewidth=1, label='mean'
    )
    axes.set_ylim(0, 1.25 * report.max_count)
    axes.set_ylabel('examples')
    if order.size <= _MOST_LISTED:
        axes.set_xticks(places, order)
        axes.set_xlabel('client')
    else:
        axes.set_xlabel('clients, in the order of the map')
    axes.legend(frameon=False, fontsize=8, loc='upper right')


def _draw_distances(axes: Any, report: PartitionReport) -> None:
    distances = report.total_variation[report.counts > 0]
    most = distances.max()
    limit = 1.0 if most > 0.5 else max(1.1 * most, 0.01)
    axes.hist(distances, bins=np.linspace(0, limit, _DISTANCE_BINS + 1), color=_BARS)
    axes.axvline(
        distances.mean(),
        linestyle='--',
        color=style.COLOURS[4],
        label=f'mean {distances.mean():.3f}',
    )
    axes.set_xlim(0, limit)
    axes.set_title('Total variation from the mix of all clients', fontsize=10)
    axes.set_xlabel('0: the same mix, 1: no class in common')
    axes.set_ylabel('clients')
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.legend(frameon=False, fontsize=8)


def _draw_classes_held(axes: Any, report: PartitionReport) -> None:
    numbers = np.arange(report.global_mix.size + 1)
    held = np.bincount(report.classes_held, minlength=numbers.size)
    axes.bar(numbers, held, width=0.9, color=_BARS)
    axes.set_xlim(-0.5, numbers.size - 0.5)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set_title('Classes held by a client', fontsize=10)
    axes.set_xlabel('number of classes')
    axes.set_ylabel('clients')


def write_csv(path: Path, report: PartitionReport) -> None:
    """One line per client: its examples, those of each class, its distance to the pooled mix.

    Args:
      path: where the file goes.
      report: the partition.
    """
    by_class = np.rint(report.class_mix * report.counts[:, None]).astype(int)
    columns.write_csv(
        path,
        {
            'client': np.arange(report.counts.size),
            'examples': report.counts,
            **{f'class_{c}': by_class[:, c] for c in range(by_class.shape[1])},
            'classes_held': report.classes_held,
            'total_variation': report.total_variation,
        },
    )
