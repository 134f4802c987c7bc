"""Shows how a data set is spread over clients, as text and as a picture."""

import functools
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_links import plot
from fedjax_links.pages import figure as pages
from fedjax_links.partition import PartitionReport
from fedjax_links.plot import clients


def text(title: str, report: PartitionReport) -> str:
    """Writes the table of a partition, and its effective numbers of clients and classes.

    Args:
      title: the first line.
      report: the partition.

    Returns:
      Lines of at most 80 columns.
    """
    num_clients = effective_number(report.counts / report.counts.sum())
    effective = f'effective numbers: {num_clients:.1f} clients by volume'
    if report.global_mix.size:
        num_classes = effective_number(report.class_mix[report.counts > 0]).mean()
        effective += f', {num_classes:.2f} classes per client (mean)'
    return '\n'.join([title[:80], str(report), effective])


def effective_number(portions: np.ndarray) -> Any:
    """Returns the effective number of portions, ``1 / sum_k q_k^2``.

    The number is K if all K portions are equal, and 1 if one portion is the whole.

    Args:
      portions: float[..., K], which sum to one.

    Returns:
      float[...].
    """
    return 1 / np.sum(np.square(portions), axis=-1)


def picture(path: Path, title: str, report: PartitionReport) -> None:
    """Draws a page: classes of each client, volumes, distances to the pooled mix, classes held.

    Without classes the page shows only volumes, the largest first. A volume is a client's number of
    examples.

    Args:
      path: where the PNG goes.
      title: the text above all panels.
      report: the partition.
    """
    has_classes = report.global_mix.size > 0
    draw = _draw_classes if has_classes else _draw_volumes
    height = 8 if has_classes else 4
    draw_report = functools.partial(draw, report=report)
    pages.save_page(path, draw_report, title=title, caption='', size=(12, height))


def _draw_volumes(figure: Any, report: PartitionReport) -> None:
    """Draws how many examples each client has."""
    order = np.argsort(-report.counts, kind='stable')
    axes = plot.volumes(report.counts, order=order, ax=figure.add_subplot())
    axes.set_xlabel(f'{axes.get_xlabel()}, largest first')


def _draw_classes(figure: Any, report: PartitionReport) -> None:
    """Draws the page of data with classes."""
    order = clients.by_largest_class(report.class_mix)
    rows = [
        ['map'] * 10 + ['pooled'] * 2,
        ['volumes'] * 10 + ['.'] * 2,
        ['distances'] * 6 + ['held'] * 6,
    ]
    axes = figure.subplot_mosaic(rows, height_ratios=[1.5, 0.8, 1])
    axes['pooled'].sharey(axes['map'])
    axes['volumes'].sharex(axes['map'])
    plot.partition(report, order=order, colorbar=False, ax=axes['map'])
    plot.pooled_classes(report.global_mix, ax=axes['pooled'])
    plot.volumes(report.counts, order=order, ax=axes['volumes'])
    plot.label_distances(
        report.total_variation[report.counts > 0], ax=axes['distances']
    )
    plot.classes_held(report.classes_held, report.global_mix.size, ax=axes['held'])
    figure.colorbar(
        axes['map'].images[0],
        ax=axes['pooled'],
        label="share of the client's examples",
    )
    axes['map'].set(title='Classes of each client', xlabel='')
    axes['map'].tick_params(labelbottom=False)
    axes['pooled'].set(title='All clients', ylabel='')
    axes['pooled'].tick_params(labelleft=False)
    axes['volumes'].set_xlabel(f'{axes["volumes"].get_xlabel()}, by largest class')
    axes['distances'].set_title('Total variation from the mix of all clients')
    axes['held'].set_title('Classes held by a client')
    for panel in axes.values():
        panel.title.set_fontsize(10)
