"""Links: who took part when, how often, after which gaps, with what memory."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedjax_links import analysis, base
from fedjax_links.core import checks, errors
from fedjax_links.plot import panels
from fedjax_links.plot.styles import COLOURS, REALISED, THEORY

MAP_ROUNDS = 200
_GAP_BINS = 30
_LAGS = 40
_RANK = 'rank by rounds taken part'
_STATES = (
    ('takes part', '#1a1a1a'),
    ('delivers without having heard', COLOURS[1]),
    ('hears only', COLOURS[5]),
)


def link_map(
    links: Any,
    *,
    order: Sequence[int] | None = None,
    num_rounds: int = MAP_ROUNDS,
    ax: Any = None,
) -> Any:
    """Client x round map: dark where the uplink delivers.

    ::

      links = fl.simulation.realised_links(key, fl.participation.bernoulli(probs), num_rounds=200)
      fl.plot.link_map(links)

    Args:
      links: bool[T, N], or the links of T rounds as `simulation.realised_links` returns them; where
        their directions differ, states have colours.
      order: clients from top to bottom; those with most rounds first by default.
      num_rounds: rounds shown, from the first.
      ax: matplotlib axes; a new figure by default.

    Returns:
      The axes; the image is ``axes.images[0]``, [N, rounds].

    Raises:
      ValueError: for a mask of another shape.
    """
    checks.static_int('num_rounds', num_rounds)
    duplex, sampled = base.tells_directions(links), isinstance(links, base.Links)
    mask = _mask(base.participants(links) if sampled else links, 'links')
    shown = np.argsort(-mask.mean(axis=0), kind='stable') if order is None else order
    axes = panels.own(ax, (7.2, 4.2))
    state, options = mask, {'cmap': 'Greys', 'vmin': 0, 'vmax': 1.2}
    if duplex:
        from matplotlib import colors, patches

        parts = [
            mask,
            *(np.asarray(part(links)) for part in (base.delivers, base.receives)),
        ]
        state = np.select(parts, [1, 2, 3], 0)
        colours = colors.ListedColormap(['white', *(colour for _, colour in _STATES)])
        options = {'cmap': colours, 'vmin': -0.5, 'vmax': 3.5}
        handles = [
            patches.Patch(color=colour, label=label) for label, colour in _STATES
        ]
        below = {'loc': 'upper center', 'bbox_to_anchor': (0.5, -0.12), 'ncols': 3}
        axes.legend(handles=handles, fontsize=8, frameon=False, **below)
    axes.imshow(
        state[:num_rounds, shown].T, aspect='auto', interpolation='nearest', **options
    )
    by_id = order is not None and np.array_equal(order, np.arange(mask.shape[1]))
    clients = (
        _RANK if order is None else 'client' if by_id else 'client, in the order given'
    )
    panels.finish(axes, 'round', clients, whole='xy')
    axes.set_xlabel('round', loc='right' if duplex else 'center')
    return axes


def participation_rates(
    mask: Any, probs: Any = None, *, name: str = 'nominal', ax: Any = None
) -> Any:
    """Share of rounds in which each client delivered, against its nominal probability.

    Args:
      mask: bool[T, N].
      probs: float[N], nominal mean probability; NaN where unknown.
      name: what to call it.
      ax: matplotlib axes; a new figure by default.

    Returns:
      The axes, clients from top to bottom with the most rounds first.

    Raises:
      ValueError: for a mask or probabilities of another shape.
    """
    mask = _mask(mask)
    rates = mask.mean(axis=0)
    probs = (
        np.full(rates.size, np.nan) if probs is None else np.asarray(probs, np.float64)
    )
    if probs.shape != rates.shape:
        raise errors.invalid(
            'probs', f'have {rates.size} entries', f'shape {list(probs.shape)}'
        )
    order = np.argsort(-rates, kind='stable')
    clients = np.arange(rates.size)
    axes = panels.own(ax)
    axes.barh(clients, rates[order], height=1.0, color=REALISED, label='realised')
    if not np.isnan(probs).all():
        axes.plot(probs[order], clients, '.', color=THEORY, markersize=4, label=name)
    most = np.nanmax(np.append(rates, probs))
    axes.set(
        xlim=(0, 1 if most > 0.5 else 1.1 * most or 1), ylim=(len(clients) - 0.5, -0.5)
    )
    axes.legend(framealpha=0.85, edgecolor='none', fontsize=8, loc='lower right')
    return panels.finish(axes, 'share of rounds', _RANK, whole='y')


def gap_law(mask: Any, rates: Any = None, *, ax: Any = None) -> Any:
    """Rounds from one participation to the next over all clients, under their exact law.

    ::

      fl.plot.gap_law(links.mask, (probs, 1 - probs))

    Args:
      mask: bool[T, N].
      rates: P(down -> up) and P(up -> down) of clients that are two-state Markov chains, two of
        float[] or float[N]; p and 1 - p where they deliver independently with the same probability
        in every round. Nothing exact is drawn without.
      ax: matplotlib axes; a new figure by default.

    Returns:
      The axes: bars of the realised share per round of length, and a line of the exact means of
      `analysis.expected_gap_counts` over the same bins.

    Raises:
      ValueError: for a mask or rates of another shape, or out of range.
    """
    mask = _mask(mask)
    chain, axes = _chain(mask, rates), panels.own(ax)
    counts = analysis.gap_counts(mask)
    if not counts.any():
        return panels.note(axes, 'nobody took part twice')
    longest = int(np.flatnonzero(counts)[-1])
    edges = np.arange(1, longest + 2)
    if longest > _GAP_BINS:
        panels.logarithmic(axes.xaxis)
        edges = np.unique(np.rint(np.geomspace(1, longest + 1, _GAP_BINS)).astype(int))

    def density(counts: np.ndarray) -> np.ndarray:
        return np.add.reduceat(counts, edges[:-1]) / counts.sum() / np.diff(edges)

    realised = density(counts[: longest + 1])
    look: Any = {'align': 'edge', 'color': REALISED, 'label': 'realised'}
    axes.bar(edges[:-1], realised, np.diff(edges), **look)
    if chain is not None:
        expected = density(analysis.expected_gap_counts(*chain, len(mask), longest))
        centres = (edges[:-1] + edges[1:]) / 2
        axes.plot(
            centres, expected, '.-', color=THEORY, markersize=4, label='exact mean'
        )
    seen = realised[realised > 0]
    panels.logarithmic(axes.yaxis)
    axes.set_ylim(seen.min() / 3, seen.max() * 3)
    return panels.finish(
        axes, 'gap in rounds', 'share of gaps per round of length', legend='best'
    )


def link_memory(
    mask: Any, rates: Any = None, *, num_lags: int = _LAGS, ax: Any = None
) -> Any:
    """Autocorrelation of participation over all clients, and the exact one.

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
    mask = _mask(mask)
    checks.static_int('num_lags', num_lags)
    lags = np.arange(min(num_lags, len(mask) // 2) + 1)
    chain, axes = _chain(mask, rates), panels.own(ax)
    measured = analysis.autocorrelation(mask, lags[-1])
    if np.isnan(measured).all():
        return panels.note(axes, 'nobody ever changes')
    axes.axhline(0, color='#cccccc', linewidth=0.8)
    axes.plot(lags, measured, color=REALISED, linewidth=3, label='realised')
    exact = analysis.expected_autocorrelation(*chain, lags[-1]) if chain else None
    if exact is not None:
        axes.plot(lags, exact, '--', color=THEORY, label='exact')
    return panels.finish(
        axes, 'lag in rounds', 'autocorrelation', whole='x', legend='best'
    )


def participants(
    mask: Any,
    *,
    period: int | None = None,
    expected: Any = None,
    mean: float | None = None,
    ax: Any = None,
) -> Any:
    """How many clients take part by round, or by round of a period.

    Args:
      mask: bool[T, N].
      period: P, rounds after which links repeat, at most T: then the mean over the whole periods
        is drawn, with a band from 5 to 95 %. None draws the first rounds as they are.
      expected: float[P], sums of the probabilities by round of the period.
      mean: the exact mean number of participants.
      ax: matplotlib axes; a new figure by default.

    Returns:
      The axes.

    Raises:
      ValueError: for a mask of another shape or a period that is too long.
    """
    sizes = _mask(mask).sum(axis=1)
    axes = panels.own(ax)
    if period is None:
        shown = sizes[:MAP_ROUNDS]
        axes.step(
            np.arange(len(shown)), shown, where='mid', color=REALISED, label='realised'
        )
        x_name = 'round'
    else:
        checks.static_int('period', period, maximum=len(sizes))
        whole = sizes[: len(sizes) // period * period].reshape(-1, period)
        low, high = np.quantile(whole, [0.05, 0.95], axis=0)
        phase = np.arange(period)
        axes.plot(
            phase,
            whole.mean(axis=0),
            color=REALISED,
            linewidth=2.5,
            label='realised mean',
        )
        look = {'color': REALISED, 'alpha': 0.3, 'linewidth': 0}
        axes.fill_between(phase, low, high, label='5 to 95 %', **look)
        x_name = f'round modulo {period}'
        if expected is not None:
            axes.plot(phase, expected, '--', color=THEORY, label='sum of probabilities')
    if mean is not None:
        axes.axhline(mean, linestyle='--', color=THEORY, label='exact mean')
    axes.set_ylim(0, 1.2 * axes.get_ylim()[1])
    return panels.finish(axes, x_name, 'clients', whole='xy', legend='best')


def peer_graph(
    neighbours: Any, edge_rates: Any, *, rates: Any = None, ax: Any = None
) -> Any:
    """Clients around a circle and the edges between them, the darker the more often they are up.

    ::

      links = fl.simulation.realised_links(key, pattern, num_rounds=200)
      fl.plot.peer_graph(links.neighbours[0], links.edges.mean(axis=0))

    Args:
      neighbours: int[N, K], the own id where a client has fewer.
      edge_rates: float[N, K], the share of rounds in which each edge is up.
      rates: float[N], of the uplinks, which the sizes of clients show; all alike by default.
      ax: matplotlib axes; a new figure by default.

    Returns:
      The axes; the edges are ``axes.collections[0]``.

    Raises:
      ValueError: if the shapes do not fit.
    """
    from matplotlib import collections

    table, shares = np.asarray(neighbours), np.asarray(edge_rates, np.float64)
    if table.ndim != 2 or table.shape != shares.shape:
        raise errors.invalid(
            'edge_rates', f'have shape {list(table.shape)}', list(shares.shape)
        )
    angles = 2 * np.pi * np.arange(len(table)) / len(table)
    places = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    client, slot = np.nonzero(table > np.arange(len(table))[:, None])  # each edge once
    ends = np.stack([places[client], places[table[client, slot]]], axis=1)
    axes = panels.own(ax, (4.2, 4.2))
    look: Any = {'alpha': np.clip(shares[client, slot], 0.02, 1), 'color': REALISED}
    axes.add_collection(collections.LineCollection(list(ends), linewidths=1.2, **look))
    sizes = 12 if rates is None else 6 + 60 * np.asarray(rates)
    axes.scatter(*places.T, s=sizes, color=THEORY, zorder=2)
    axes.set_aspect('equal')
    axes.set_axis_off()
    return axes


def _mask(data: Any, argument: str = 'mask') -> np.ndarray:
    """bool[T, N] of truth values, or of numbers 0 and 1."""
    array = np.asarray(data)
    if array.ndim != 2 or not array.size:
        shape = f'shape {list(array.shape)}'
        raise errors.invalid(argument, 'be a mask of shape [T, N]', shape)
    if array.dtype != bool and not np.isin(array, (0, 1)).all():
        raise errors.invalid(argument, 'hold truth values', errors.text_of(data))
    return array.astype(bool)


def _chain(mask: np.ndarray, rates: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Both transition probabilities, float64[N] each, where they are given."""
    if rates is None:
        return None
    for rate in rates:
        checks.within('rates', rate, 0, 1)
        if np.shape(rate) not in ((), mask.shape[1:]):
            shape = f'shape {list(np.shape(rate))}'
            raise errors.invalid('rates', f'have {mask.shape[1]} entries each', shape)
    up, down = (
        np.broadcast_to(rate, mask.shape[1:]).astype(np.float64) for rate in rates
    )
    return up, down
