"""Draws links: who took part when, how often, after which gaps, with what memory."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links import analysis, base
from fedjax_links.analysis.recorded_links import expected_num_gaps
from fedjax_links.core import checks, errors
from fedjax_links.plot import arguments, panels
from fedjax_links.plot.panels import Axes
from fedjax_links.plot.styles import COLOURS, REALISED, THEORY

MAP_ROUNDS = 200
"""Rounds of a map, of which each is some pixels wide in a report."""
_GAP_BINS = 30
_RANK = 'rank by rounds taken part'
_STATES = (
    ('takes part', '#1a1a1a'),
    ('delivers without having received', COLOURS[1]),
    ('receives only', COLOURS[5]),
)


def link_map(
    links: Any,
    *,
    order: Sequence[int] | None = None,
    num_rounds: int = MAP_ROUNDS,
    ax: Axes | None = None,
) -> Axes:
    """Draws a client x round map, dark where a client takes part.

    ::

      links = fl.simulation.realised_links(key, fl.participation.bernoulli(probs), num_rounds=200)
      fl.plot.link_map(links)

    Args:
      links: bool[T, N], or the links of T rounds as `simulation.realised_links` returns them; where
        directions differ, the states of clients have colours.
      order: clients from top to bottom; by default clients with most rounds first.
      num_rounds: rounds shown, from the first.
      ax: matplotlib axes; a new figure by default.

    Returns:
      The axes; the image is ``axes.images[0]``, [N, rounds].

    Raises:
      ValueError: for a mask of another shape, or an order with ids of no client.
    """
    checks.static_int('num_rounds', num_rounds)
    is_duplex = base.is_duplex(links)
    is_sampled = isinstance(links, base.Links)
    mask = arguments.mask(base.participants(links) if is_sampled else links, 'links')
    most_first = np.argsort(-mask.mean(axis=0), kind='stable')
    num_clients = mask.shape[1]
    shown = most_first
    if order is not None:
        shown = arguments.clients('order', order, num_clients)
    axes = panels.axes_of(ax, (7.2, 4.2))
    state = mask
    colours: dict[str, Any] = {'cmap': 'Greys', 'vmin': 0, 'vmax': 1.2}
    if is_duplex:
        state = _duplex_states(mask, links)
        colours = _state_colours()
        _explain_states(axes)
    image = state[:num_rounds, shown].T
    axes.imshow(image, aspect='auto', interpolation='nearest', **colours)
    panels.label_axes(axes, 'round', _order_name(order, num_clients), integers='xy')
    if is_duplex:
        # The legend of states is below the axes, where the label would be.
        axes.set_xlabel('round', loc='right')
    return axes


def _duplex_states(mask: np.ndarray, links: base.Links) -> np.ndarray:
    """Returns int[T, N], 0 for neither direction, else one more than the index in `_STATES`."""
    delivers = np.asarray(base.delivers(links))
    receives = np.asarray(base.receives(links))
    return np.select([mask, delivers, receives], [1, 2, 3], 0)


def _state_colours() -> dict[str, Any]:
    """Returns the colours of `_STATES` as options of ``axes.imshow``."""
    from matplotlib import colors

    palette = ['white', *(colour for _, colour in _STATES)]
    return {'cmap': colors.ListedColormap(palette), 'vmin': -0.5, 'vmax': 3.5}


def _explain_states(axes: Axes) -> None:
    """Draws the legend of `_STATES` below the axes."""
    from matplotlib import patches

    axes.legend(
        handles=[patches.Patch(color=colour, label=label) for label, colour in _STATES],
        fontsize='small',
        frameon=False,
        loc='upper center',
        bbox_to_anchor=(0.5, -0.12),
        ncols=3,
    )


def _order_name(order: Sequence[int] | None, num_clients: int) -> str:
    """Names the axis of clients by their order."""
    if order is None:
        return _RANK
    if np.array_equal(order, np.arange(num_clients)):
        return 'client'
    return 'client, in the order given'


def participation_rates(
    mask: ArrayLike,
    probs: ArrayLike | None = None,
    *,
    name: str = 'nominal',
    ax: Axes | None = None,
) -> Axes:
    """Draws the share of rounds in which each client delivered, and its nominal probability.

    Args:
      mask: bool[T, N].
      probs: float[N], nominal mean probability; NaN where unknown.
      name: what the legend calls ``probs``.
      ax: matplotlib axes; a new figure by default.

    Returns:
      The axes, clients from top to bottom with the most rounds first.

    Raises:
      ValueError: for a mask or probabilities of another shape.
    """
    arguments.titles(name=name)
    mask = arguments.mask(mask)
    rates = mask.mean(axis=0)
    if probs is None:
        probs = np.full(rates.size, np.nan)
    probs = arguments.shares('probs', probs, '[N]', may_miss=True)
    if probs.shape != rates.shape:
        shape = f'shape {list(probs.shape)}'
        raise errors.invalid('probs', f'have {rates.size} entries', shape)
    order = np.argsort(-rates, kind='stable')
    clients = np.arange(rates.size)
    axes = panels.axes_of(ax)
    axes.barh(clients, rates[order], height=1.0, color=REALISED, label='realised')
    if not np.isnan(probs).all():
        axes.plot(probs[order], clients, '.', color=THEORY, markersize=4, label=name)
    largest = np.nanmax(np.append(rates, probs))
    limit = 1.1 * largest if 0 < largest <= 0.5 else 1.0
    axes.set(xlim=(0, limit), ylim=(len(clients) - 0.5, -0.5))
    # The shortest bars, which stand last, leave room for a legend beside them, or none.
    position: dict[str, Any] = {'loc': 'lower right'}
    last = order[-int(np.ceil(rates.size / 4)) :]
    if np.nanmax([rates[last], probs[last]]) > 0.5 * limit:
        # The padding, in sizes of letters, is that of ticks and label at any height of the axes.
        position = {'loc': 'upper center', 'bbox_to_anchor': (0.5, 0), 'ncols': 2}
        position['borderaxespad'] = 4
    axes.legend(fontsize='small', frameon=False, **position)
    return panels.label_axes(axes, 'share of rounds', _RANK, integers='y')


def gap_law(mask: ArrayLike, rates: Any = None, *, ax: Axes | None = None) -> Axes:
    """Draws the gaps (rounds from one participation to the next), and their exact distribution.

    ::

      fl.plot.gap_law(links.mask, (probs, 1 - probs))

    Args:
      mask: bool[T, N].
      rates: P(down -> up) and P(up -> down) of clients that are two-state Markov chains, two of
        float[] or float[N]; p and 1 - p for clients that deliver independently, with the same
        probability in all rounds. Without rates no exact law is drawn.
      ax: matplotlib axes; a new figure by default.

    Returns:
      The axes. Bars show the realised share of gaps per round of length. A line over the same bins
      shows the exact mean: `analysis.expected_gap_counts` as shares of all gaps.

    Raises:
      ValueError: for a mask or rates of another shape, or out of range.
    """
    mask = arguments.mask(mask)
    chain = arguments.transitions(mask, rates)
    axes = panels.axes_of(ax)
    counts = analysis.gap_counts(mask)
    if not counts.any():
        return panels.note(axes, 'no client took part twice')
    longest = int(np.flatnonzero(counts)[-1])
    edges = np.arange(1, longest + 2)
    if longest > _GAP_BINS:
        panels.logarithmic(axes.xaxis)
        edges = np.unique(np.rint(np.geomspace(1, longest + 1, _GAP_BINS)).astype(int))

    starts = edges[:-1]
    widths = np.diff(edges)
    realised_counts = np.add.reduceat(counts[: longest + 1], starts)
    realised = realised_counts / counts.sum() / widths
    axes.bar(starts, realised, widths, align='edge', color=REALISED, label='realised')
    num_expected = expected_num_gaps(*chain, len(mask)) if chain else 0.0
    if chain and num_expected > 0:
        exact_counts = analysis.expected_gap_counts(*chain, len(mask), longest)
        binned_counts = np.add.reduceat(exact_counts, starts)
        # Exact shares are of all gaps, also those longer than any in the record.
        expected = binned_counts / num_expected / widths
        centres = starts + widths / 2
        axes.plot(
            centres, expected, '.-', color=THEORY, markersize=4, label='exact mean'
        )
    positive = realised[realised > 0]
    panels.logarithmic(axes.yaxis)
    axes.set_ylim(positive.min() / 3, positive.max() * 3)
    return panels.label_axes(
        axes, 'gap in rounds', 'share of gaps per round of length', legend='best'
    )


def link_memory(
    mask: ArrayLike, rates: Any = None, *, num_lags: int = 40, ax: Axes | None = None
) -> Axes:
    """Draws the autocorrelation of participation over all clients, and the exact one.

    Args:
      mask: bool[T, N].
      rates: as in `gap_law`.
      num_lags: longest lag drawn; half the rounds at most.
      ax: matplotlib axes; a new figure by default.

    Returns:
      The axes.

    Raises:
      ValueError: for a mask or rates of another shape, or out of range.
    """
    mask = arguments.mask(mask)
    checks.static_int('num_lags', num_lags)
    lags = np.arange(min(num_lags, len(mask) // 2) + 1)
    chain = arguments.transitions(mask, rates)
    axes = panels.axes_of(ax)
    measured = analysis.autocorrelation(mask, lags[-1])
    if np.isnan(measured).all():
        return panels.note(axes, 'no client changes its state')
    axes.axhline(0, color='#cccccc', linewidth=0.8)
    axes.plot(lags, measured, color=REALISED, linewidth=3, label='realised')
    exact = analysis.expected_autocorrelation(*chain, lags[-1]) if chain else None
    if exact is not None:
        axes.plot(lags, exact, '--', color=THEORY, label='exact')
    return panels.label_axes(
        axes, 'lag in rounds', 'autocorrelation', integers='x', legend='best'
    )


def participants(
    mask: ArrayLike,
    *,
    period: int | None = None,
    expected: ArrayLike | None = None,
    mean: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draws how many clients take part by round, or by round of a period.

    Args:
      mask: bool[T, N].
      period: P, rounds after which links repeat, at most T. Given P, the mean over the whole
        periods is drawn, with a band from 5 to 95 %. None draws the first rounds as they are.
      expected: float[P], sums of the probabilities by round of the period.
      mean: the exact mean number of participants.
      ax: matplotlib axes; a new figure by default.

    Returns:
      The axes.

    Raises:
      ValueError: for a mask of another shape, a period that is too long, or sums of another length
        or without a period.
    """
    counts = arguments.mask(mask).sum(axis=1)
    if mean is not None:
        arguments.finite_number('mean', mean)
    if period is not None:
        checks.static_int('period', period, maximum=len(counts))
    if expected is not None:
        expected = _checked_expected(expected, period)
    axes = panels.axes_of(ax)
    if period is None:
        x_name = 'round'
        shown = counts[:MAP_ROUNDS]
        rounds = np.arange(len(shown))
        axes.step(rounds, shown, where='mid', color=REALISED, label='realised')
    else:
        x_name = f'round modulo {period}'
        _draw_period(axes, counts, period, expected)
    if mean is not None:
        axes.axhline(mean, linestyle='--', color=THEORY, label='exact mean')
    axes.set_ylim(0, 1.2 * axes.get_ylim()[1])
    return panels.label_axes(axes, x_name, 'clients', integers='xy', legend='best')


def _checked_expected(expected: ArrayLike, period: int | None) -> np.ndarray:
    """Returns sums of probabilities by round of a period, float64[P]."""
    sums = arguments.numbers('expected', expected, '[P]')
    if period is None:
        raise errors.invalid('expected', 'be left out without `period`', sums)
    if sums.size != period:
        requirement = f'have {period} entries, one per round of the period'
        raise errors.invalid('expected', requirement, f'shape {list(sums.shape)}')
    return sums


def _draw_period(
    axes: Axes, counts: np.ndarray, period: int, expected: np.ndarray | None
) -> None:
    """Draws mean and quantiles over the complete periods.

    Args:
      axes: matplotlib axes.
      counts: int[T], participants by round.
      period: P.
      expected: float[P], or None.
    """
    num_periods = len(counts) // period
    by_period = counts[: num_periods * period].reshape(num_periods, period)
    low, high = np.quantile(by_period, [0.05, 0.95], axis=0)
    phase = np.arange(period)
    axes.plot(
        phase,
        by_period.mean(axis=0),
        color=REALISED,
        linewidth=2.5,
        label='realised mean',
    )
    axes.fill_between(
        phase, low, high, label='5 to 95 %', color=REALISED, alpha=0.3, linewidth=0
    )
    if expected is not None:
        axes.plot(phase, expected, '--', color=THEORY, label='sum of probabilities')


def peer_graph(
    neighbours: Any, edge_rates: Any, *, rates: Any = None, ax: Axes | None = None
) -> Axes:
    """Draws clients around a circle, and edges that are darker the more often they are up.

    ::

      links = fl.simulation.realised_links(key, pattern, num_rounds=200)
      fl.plot.peer_graph(links.neighbours[0], links.edges.mean(axis=0))

    Args:
      neighbours: int[N, K], ids of neighbours; a client with fewer than K repeats its own id.
      edge_rates: float[N, K], the share of rounds in which each edge is up.
      rates: float[N], of the uplinks, which the sizes of clients show; equal sizes by default.
      ax: matplotlib axes; a new figure by default.

    Returns:
      The axes; the edges are ``axes.collections[0]``.

    Raises:
      ValueError: for shapes that do not fit, ids of no client, or shares out of range.
    """
    from matplotlib import collections

    shape = arguments.numbers('neighbours', neighbours, '[N, K]').shape
    num_clients = shape[0]
    ids = arguments.clients('neighbours', np.ravel(neighbours), num_clients)
    table = ids.reshape(shape)
    shares = arguments.shares('edge_rates', edge_rates, '[N, K]')
    if shares.shape != shape:
        requirement = f'have shape {list(shape)}'
        raise errors.invalid('edge_rates', requirement, list(shares.shape))
    sizes: Any = 12
    if rates is not None:
        checks.one_or_each('rates', rates, num_clients)
        checks.within('rates', rates, 0, 1)
        sizes = 6 + 60 * np.asarray(rates)
    angles = 2 * np.pi * np.arange(num_clients) / num_clients
    positions = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    # Both ends list an edge; the one with the lower id draws it.
    is_first_end = table > np.arange(num_clients)[:, None]
    client, slot = np.nonzero(is_first_end)
    neighbour = table[client, slot]
    lines = np.stack([positions[client], positions[neighbour]], axis=1)
    # Without edges, matplotlib takes no opacity for each.
    opacity = np.clip(shares[client, slot], 0.02, 1) if len(lines) else None
    axes = panels.axes_of(ax, (4.2, 4.2))
    axes.add_collection(
        collections.LineCollection(
            list(lines), linewidths=1.2, alpha=opacity, color=REALISED
        )
    )
    axes.scatter(positions[:, 0], positions[:, 1], s=sizes, color=THEORY, zorder=2)
    axes.set_aspect('equal')
    axes.set_axis_off()
    return axes
