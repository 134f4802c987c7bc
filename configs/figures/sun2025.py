"""Figures of Sun et al. 2025, redone: how far the selection law is from uniform, how it mixes."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from scipy import stats

from fedjax_links import analysis, plot, simulation
from fedjax_links.config import resolver
from fedjax_links.core import checks
from fedjax_links.pages import tables
from fedjax_links.pages.figure import FigureResult, stack
from fedjax_links.participation import minimum_separation
from fedjax_links.plot import panels

_LISTED_SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9)
_CLIENTS = 100
_NUM_BATCHES = 20
_LISTED_ROUNDS = (0, 1, 5, 20, 50, 100)
_CLOSE = 0.01
_SURE = 4.0


def _power(num_units: int, *, exponent: float) -> np.ndarray:
    """Returns ``1, 2^-exponent, 3^-exponent, ...``."""
    return np.arange(1.0, num_units + 1) ** -exponent


def _uniform(num_units: int, *, seed: int) -> np.ndarray:
    """Draws uniformly on (0, 1]."""
    return 1.0 - np.random.default_rng(seed).uniform(size=num_units)


def _lognormal(num_units: int, *, sigma: float, seed: int) -> np.ndarray:
    """Draws ``exp(z)`` with ``z ~ N(0, sigma^2)``."""
    return np.exp(np.random.default_rng(seed).normal(scale=sigma, size=num_units))


SELECTION_WEIGHTS = {'lognormal': _lognormal, 'power': _power, 'uniform': _uniform}


def selection_weights(
    where: str, section: resolver.Section, num_units: int
) -> np.ndarray:
    """Returns weights p_i of the clients or groups that a minimum separation selects from.

    Args:
      where: path of the section in the config, for errors.
      section: ``name`` in SELECTION_WEIGHTS, and its options.
      num_units: number of clients or groups.

    Returns:
      float64[U], positive, of sum one.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    weights = resolver.build_named(where, section, SELECTION_WEIGHTS, num_units)
    return weights / weights.sum()


def separation_distance(
    *, weights: resolver.Section, num_clients: int = 500
) -> FigureResult:
    """Draws ``||pi_R - 1/N||_1`` against R, exact for every feasible R, B = 1.

    Args:
      weights: by label, sections of `selection_weights`.
      num_clients: N, at least 2.

    Returns:
      Columns ``weights``, ``separation`` and ``distance``.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.

    References:
      Sun et al., ICLR 2025, Figure 1.
    """
    checks.not_empty('config.figure.weights', weights)
    checks.static_int('config.figure.num_clients', num_clients, minimum=2)
    parts = []
    rows = []
    separations = np.arange(num_clients)
    listed = sorted({int(share * num_clients) for share in _LISTED_SHARES})
    listed += [num_clients - 2, num_clients - 1]
    for label, section in weights.items():
        law = selection_weights(f'config.figure.weights.{label}', section, num_clients)
        distance = np.abs(analysis.minimum_separation_curve(law) - 1 / num_clients).sum(
            axis=1
        )
        parts.append(
            {'weights': label, 'separation': separations, 'distance': distance}
        )
        rows.append(
            {'weights': label, **{f'R = {R}': f'{distance[R]:.4f}' for R in listed}}
        )

    def draw(figure: Any) -> None:
        axes = figure.add_subplot()
        for colour, part in zip(plot.COLOURS, parts, strict=False):
            axes.plot(
                separations, part['distance'], color=colour, label=part['weights']
            )
        axes.set(xlim=(0, num_clients - 1), ylim=(0, None))
        axes.legend(frameon=False, title='selection weights')
        panels.label_axes(
            axes, 'minimum separation R', r'$\|\pi_R - 1/N\|_1$', grid=True
        )

    caption = f'||pi_R - 1/N||_1, N = {num_clients}, B = 1; exact.'
    return FigureResult(stack(parts), tables.from_rows(rows, caption), draw)


def selection_mixing(
    *,
    weights: resolver.Section,
    separations: Sequence[int] = (0, 1, 5, 20, 50, 80),
    num_rounds: int = 300,
    num_seeds: int = 2000,
) -> FigureResult:
    """Draws the total variation of the law of the client selected in round t to ``pi_R``, B = 1.

    All clients are selectable in round 0. For R = 0 and R = 1 the law is exact. Otherwise it is a
    mean over simulated runs of the conditional law given who may be selected, which is far less
    noisy than counting selections. The distance of a noisy law is too large on average, so two
    estimates are reported: that one, with its noise floor, and one that takes the signs of
    ``eta_t - pi_R`` from one half of the runs and the differences from the other, whose mean is at
    most the truth.

    The right panel has the distance of one run's selection shares up to round t, which is what
    counting algorithms see.

    Args:
      weights: a section of `selection_weights`.
      separations: values of R.
      num_rounds: T.
      num_seeds: simulated runs per R, rounded down to a multiple of 20, and at least 40.

    Returns:
      Columns ``separation``, ``round``; ``low``, an estimate of the law's distance whose mean is at
      most the truth; ``high``, whose mean is at least the truth; ``error``, the standard error of
      ``low``, zero where both are exact; ``floor``, what ``high`` would be on average if the true
      distance were zero; ``running``, the mean distance of a single run's selection shares so far;
      ``running_error``, its standard error over runs; and ``exact``, 1 where the law is exact.

    References:
      Sun et al., ICLR 2025, Eq. (5) and Figure 5.
    """
    checks.not_empty('config.figure.separations', separations)
    num_seeds = max(num_seeds // _NUM_BATCHES, 2) * _NUM_BATCHES
    law = selection_weights('config.figure.weights', weights, _CLIENTS)
    parts = [
        {
            'separation': R,
            'round': np.arange(num_rounds),
            **_mixing(law, R, num_rounds, num_seeds),
        }
        for R in separations
    ]

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        for part, colour in zip(parts, itertools.cycle(plot.COLOURS)):
            rounds = part['round']
            high = part['high']
            floor = part['floor']
            clear = np.where(high > 2 * floor, high, np.nan)
            low = np.maximum(part['low'], 1e-6)
            name = f'R = {part["separation"]}'
            right.plot(rounds + 1, part['running'], color=colour, label=name)
            name += ' (exact)' if part['exact'] else ''
            left.plot(rounds, clear, color=colour, label=name)
            left.fill_between(rounds, low, clear, color=colour, alpha=0.3, linewidth=0)
            if not part['exact']:
                left.plot(rounds, floor, ':', color=colour, linewidth=1)
        left.set_title(r'Law of round t, $TV(\eta_R(t), \pi_R)$', fontsize=10)
        left.set(yscale='log', ylim=(1e-4, 1))
        right.set_title(
            'Shares of the selections of one run up to t, mean over runs', fontsize=10
        )
        right.set(xscale='log', yscale='log')
        panels.label_axes(left, 'round t', '', legend='best', grid=True)
        panels.label_axes(right, 'rounds', '', legend='best', grid=True)

    listed = [t for t in _LISTED_ROUNDS if t < num_rounds]
    rows = [
        {
            'R': str(part['separation']),
            'law': 'exact' if part['exact'] else 'simulated',
            **{f't = {t}': _bracket(part, t) for t in listed},
            f'last > {_CLOSE:g}': _last_far(part),
            'shares': f'{part["running"][-1]:.3f}',
        }
        for part in parts
    ]
    caption = (
        f'Total variation to pi_R, N = {_CLIENTS}, B = 1, {num_seeds:,} runs: law of round t '
        f'(lower-upper estimate),\nlast round with a distance surely above {_CLOSE:g}, and shares '
        f'of one run after {num_rounds} rounds.'
    )
    return FigureResult(stack(parts), tables.from_rows(rows, caption), draw)


def _mixing(
    weights: np.ndarray, separation: int, num_rounds: int, num_seeds: int
) -> dict[str, Any]:
    """Computes the columns of `selection_mixing` for one separation."""
    pattern = minimum_separation(weights, separation=separation)

    def draw(key: Any) -> Any:
        return simulation.realised_links(key, pattern, num_rounds=num_rounds).mask

    keys = jax.vmap(jax.random.key)(np.arange(num_seeds))
    masks = np.asarray(jax.jit(jax.vmap(draw))(keys))
    stationary = analysis.minimum_separation_stationary(weights, separation)
    before = np.maximum(np.arange(num_rounds) - separation, 0)
    laws = []
    running = []
    for counts in np.split(np.cumsum(masks, axis=1), _NUM_BATCHES):
        earlier = np.pad(counts, ((0, 0), (1, 0), (0, 0)))
        free = np.where(earlier[:, :-1] == earlier[:, before], weights, 0.0)
        laws.append(np.mean(free / free.sum(axis=2, keepdims=True), axis=0))
        shares = counts / np.arange(1, num_rounds + 1)[:, None]
        running.append(0.5 * np.abs(shares - stationary).sum(axis=2))

    exact = _exact_law(weights, separation, num_rounds)
    batch_laws = np.array(laws)
    low, variance, floor = np.zeros((3, num_rounds))
    high = 0.5 * np.abs(
        (batch_laws.mean(axis=0) if exact is None else exact) - stationary
    ).sum(axis=1)
    if exact is None:
        floor = 0.5 * np.sqrt(2 / np.pi) * stats.sem(batch_laws).sum(axis=1)
        halves = batch_laws[::2], batch_laws[1::2]
        for signs_from, values_from in (halves, halves[::-1]):
            signs = np.sign(signs_from.mean(axis=0) - stationary)
            each = 0.5 * np.sum(signs * (values_from - stationary), axis=2)
            low += each.mean(axis=0) / 2
            variance += stats.sem(each) ** 2 / 4
    return {
        'low': low if exact is None else high,
        'high': high,
        'error': np.sqrt(variance),
        'floor': floor,
        'running': np.mean(running, axis=(0, 1)),
        'running_error': stats.sem(np.concatenate(running)),
        'exact': int(exact is not None),
    }


def _exact_law(
    weights: np.ndarray, separation: int, num_rounds: int
) -> np.ndarray | None:
    """Returns the law from all selectable, float64[T, N]; None for a chain too large to list."""
    if separation > 1:
        return None
    if separation == 0:
        return np.broadcast_to(weights, (num_rounds, weights.size))
    chain = analysis.minimum_separation_chain(weights, 1)
    last = np.argmax(chain.states, axis=1)  # who was selected last waits a round
    law = weights[last]
    rows = [weights]
    for _ in range(num_rounds - 1):
        rows.append(law @ chain.selection)
        law = chain.transition.T @ law
    return np.stack(rows)


def _bracket(part: Mapping[str, Any], round: int) -> str:
    """Writes the lower and the upper estimate after a round: ``.012-.015``."""
    ends = max(part['low'][round], 0), part['high'][round]
    return '-'.join(dict.fromkeys(f'{end:.3f}'[1:] for end in ends))


def _last_far(part: Mapping[str, Any]) -> str:
    """Returns the last round whose lower estimate is above the mark by `_SURE` standard errors."""
    far = np.flatnonzero(part['low'] - _SURE * part['error'] > _CLOSE)
    if far.size == 0:
        return 'none'
    return str(far[-1]) if far[-1] < len(part['low']) - 1 else f'{far[-1]} (the end)'
