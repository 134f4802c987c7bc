"""Draws clients: their data, and their losses against how often they take part."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.base import Problem
from fedjax_links.core import checks, errors
from fedjax_links.core.labels import class_labels
from fedjax_links.plot import arguments, panels, styles
from fedjax_links.plot.panels import Axes
from fedjax_links.results import dataset

_DISTANCE_BINS = 30
_MOST_LISTED = 40
"""Clients whose ids fit below an axis."""
_MAX_CLASSES = 2**20
"""More classes than any data set has."""
_CROWDED = 8  # Ratio of the largest count to the median from which most points overlap.


def participation_loss(
    counts: ArrayLike,
    losses: Mapping[str, ArrayLike],
    *,
    names: Mapping[str, str] | None = None,
    value_name: str = 'loss of the client',
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draws the loss of each client, or another value, against its number of participations.

    ::

      fl.plot.participation_loss(mask.sum(axis=0), {'fedavg': losses})

    Args:
      counts: int[N], rounds by client.
      losses: float[N] by label: losses of the clients at a final model; NaN is not drawn.
      names: what to call labels.
      value_name: what ``losses`` are, the name of the vertical axis.
      legend: whether to draw a legend.
      ax: matplotlib axes; a new figure by default.

    Returns:
      The axes, one cloud of N points per label.

    Raises:
      ValueError: for losses of another length.
    """
    checks.flags(legend=legend)
    arguments.titles(value_name=value_name)
    losses = arguments.by_label('losses', losses)
    names = {} if names is None else names
    dataset.check_names(names, losses)
    rounds = arguments.at_least_zero('counts', counts, '[N]')
    checked_losses = {
        label: _checked_losses(label, values, rounds.size)
        for label, values in losses.items()
    }
    axes = panels.axes_of(ax)
    for label, style in styles.assign_styles(losses).items():
        points: dict[str, Any] = {
            'linestyle': 'none',
            'markersize': 4,
            'alpha': 0.75,
            'color': style.colour,
        }
        axes.plot(
            rounds,
            checked_losses[label],
            style.marker,
            label=panels.literal(names.get(label, label)),
            **points,
        )
    if legend:
        panels.legend(axes, outside=True, widens=ax is None)
    x_name = 'rounds in which the client took part'
    panels.label_axes(axes, x_name, value_name, integers='x', grid=True)
    if rounds.max(initial=0) > _CROWDED * max(1.0, float(np.median(rounds))):
        axes.set_xscale('symlog', linthresh=1)
        axes.set_xlim(left=-0.5)
        axes.xaxis.set_major_formatter('{x:g}')
    return axes


def _checked_losses(label: str, losses: object, num_clients: int) -> np.ndarray:
    """Returns the losses of a label, float64[N]; raises for another number of clients."""
    values = checks.numbers('losses', losses).astype(np.float64)
    if values.shape != (num_clients,):
        requirement = f'have one entry for each of {num_clients} clients'
        got = f'shape {list(values.shape)} for {label!r}'
        raise errors.invalid('losses', requirement, got)
    return values


def partition(
    data: Any, *, order: Any = None, colorbar: bool = True, ax: Axes | None = None
) -> Axes:
    """Draws a class x client map of label shares, on a square-root scale.

    ::

      fl.plot.partition(fl.problems.digits(num_clients=20, alpha=0.1))

    Args:
      data: a problem with integer labels, a report of `partition.report`, or shares
        float[N, C] of the C classes by client.
      order: clients from left to right; by their largest class, purest first, by default.
      colorbar: whether to draw one.
      ax: matplotlib axes; a new figure by default.

    Returns:
      The axes; the image is ``axes.images[0]``, [C, N].

    Raises:
      ValueError: for a problem without integer labels, or shares of another shape.
    """
    checks.flags(colorbar=colorbar)
    mix = label_shares(data)
    name = 'rank by largest class'
    if order is None:
        shown = by_largest_class(mix)
    else:
        name = 'rank'
        shown = arguments.clients('order', order, len(mix))
    axes = panels.axes_of(ax, (8.0, 3.6))
    panels.draw_shares(
        axes, mix[shown].T, "share of the client's examples", colorbar, aspect='auto'
    )
    panels.label_axes(axes, _name_of(axes, shown, name), 'class', integers='y')
    if mix.shape[1] <= _MOST_LISTED // 2:
        axes.set_yticks(np.arange(mix.shape[1]))
    return axes


def label_shares(data: Any) -> np.ndarray:
    """Returns float64[N, C], the share of each class among the examples of each client.

    Args:
      data: as in `partition`.

    Raises:
      ValueError: for a problem without integer labels, or shares of another shape.
    """
    if isinstance(data, Problem):
        labels = class_labels(data)
        if labels is None:
            requirement = 'have integer labels, one for each example'
            raise errors.invalid('data', requirement, type(data.data).__name__)
        return _stored_label_shares(data, labels)
    requirement = 'be a problem with labels, or shares of shape [N, C]'
    try:
        mix = checks.numbers('data', getattr(data, 'class_mix', data))
    except errors.InvalidError as error:
        raise errors.invalid('data', requirement, error.value) from None
    if mix.ndim != 2 or not mix.size:
        raise errors.invalid('data', requirement, f'shape {list(mix.shape)}')
    return arguments.shares('data', mix, '[N, C]')


def _stored_label_shares(problem: Problem, labels: np.ndarray) -> np.ndarray:
    """Returns float64[N, C] for the labels int[E] of a problem's examples."""
    counts = np.asarray(problem.counts)
    starts = np.asarray(problem.offsets)
    labels_of_clients = [
        labels[start : start + count]
        for start, count in zip(starts, counts, strict=True)
    ]
    num_classes = int(np.concatenate(labels_of_clients).max()) + 1
    class_counts = [
        np.bincount(client_labels, minlength=num_classes)
        for client_labels in labels_of_clients
    ]
    shares: np.ndarray = np.array(class_counts) / counts.astype(np.float64)[:, None]
    return shares


def by_largest_class(mix: np.ndarray) -> np.ndarray:
    """Sorts clients by their largest class, purest first: int[N].

    Shares are rounded to whole per cent, so that classes of nearly equal size are ties. Of tied
    classes the first counts as the largest.

    Args:
      mix: float[N, C], class shares by client.
    """
    per_cent = np.rint(100 * mix)
    return np.lexsort((-per_cent.max(axis=1), per_cent.argmax(axis=1)))


def pooled_classes(
    mix: Sequence[float] | np.ndarray, *, ax: Axes | None = None
) -> Axes:
    """Draws shares float[C] of all examples by class, as bars to stand beside `partition`."""
    shares = arguments.shares('mix', mix, '[C]')
    axes = panels.axes_of(ax)
    axes.barh(np.arange(len(shares)), shares, height=0.9, color=styles.REALISED)
    return panels.label_axes(axes, 'share of all examples', 'class')


def volumes(counts: ArrayLike, *, order: Any = None, ax: Axes | None = None) -> Axes:
    """Draws the number of examples of each client, and their mean.

    Args:
      counts: int[N].
      order: clients from left to right; by their numbers by default.
      ax: matplotlib axes; a new figure by default.

    Returns:
      The axes.
    """
    sizes = arguments.at_least_zero('counts', counts, '[N]')
    name = 'client' if order is None else 'rank'
    everyone = np.arange(sizes.size)
    shown = everyone if order is None else arguments.clients('order', order, sizes.size)
    axes = panels.axes_of(ax)
    width = 0.9 if shown.size < 100 else 1.0
    axes.bar(np.arange(shown.size), sizes[shown], width=width, color=styles.REALISED)
    axes.axhline(
        sizes.mean(),
        linestyle='--',
        color=styles.COLOURS[4],
        linewidth=1,
        label='mean',
    )
    top = 1.25 * sizes.max() if sizes.any() else 1.0
    axes.set_ylim(0, top)
    return panels.label_axes(
        axes, _name_of(axes, shown, name), 'examples', legend='upper right'
    )


def label_distances(distances: ArrayLike, *, ax: Axes | None = None) -> Axes:
    """Draws a histogram of how far each client's labels are from the labels of all clients.

    Args:
      distances: float[N], total variations in [0, 1]; NaN, of clients without examples, is not
        drawn.
      ax: matplotlib axes; a new figure by default.

    Returns:
      The axes.
    """
    checked = arguments.shares('distances', distances, '[N]', may_miss=True)
    shown = checked[~np.isnan(checked)]
    axes = panels.axes_of(ax)
    if not shown.size:
        return panels.note(axes, 'no client has an example')
    most = shown.max()
    limit = 1.0 if most > 0.5 else max(1.1 * most, 0.01)
    axes.hist(
        shown,
        bins=np.linspace(0, limit, _DISTANCE_BINS + 1).tolist(),
        color=styles.REALISED,
    )
    name = f'mean {shown.mean():.3f}'
    axes.axvline(shown.mean(), linestyle='--', color=styles.COLOURS[4], label=name)
    axes.set_xlim(0, limit)
    x_name = '0: the same mix, 1: no class in common'
    return panels.label_axes(axes, x_name, 'clients', integers='y', legend='best')


def classes_held(
    numbers: ArrayLike, num_classes: int, *, ax: Axes | None = None
) -> Axes:
    """Draws how many clients hold how many of the classes.

    Args:
      numbers: int[N], classes of which a client has an example.
      num_classes: C.
      ax: matplotlib axes; a new figure by default.

    Returns:
      The axes.
    """
    checks.static_int('num_classes', num_classes, maximum=_MAX_CLASSES)
    classes = checks.ids('numbers', numbers)
    if classes.max() > num_classes:
        requirement = f'be at most {num_classes}, the classes that there are'
        raise errors.invalid('numbers', requirement, classes.max())
    axes = panels.axes_of(ax)
    num_clients = np.bincount(classes, minlength=num_classes + 1)
    axes.bar(np.arange(num_classes + 1), num_clients, width=0.9, color=styles.REALISED)
    axes.set_xlim(-0.5, num_classes + 0.5)
    return panels.label_axes(axes, 'number of classes', 'clients', integers='xy')


def _name_of(axes: Axes, order: np.ndarray, name: str) -> str:
    """Names the axis of clients, and lists their ids if there are few."""
    if order.size > _MOST_LISTED:
        return name
    axes.set_xticks(np.arange(order.size), order)
    return 'client'
