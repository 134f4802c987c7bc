"""Distances of the groups of Sun et al. 2025 from equally likely: their law, simulated links."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from fedjax_links import analysis, plot, simulation
from fedjax_links.base import Participation
from fedjax_links.config import resolver
from fedjax_links.core import checks
from fedjax_links.pages import tables
from fedjax_links.pages.figure import FigureResult, stack
from fedjax_links.participation import minimum_separation
from fedjax_links.plot import panels

from .sun2025 import selection_weights

_GROUPS = 20
_GROUP_SIZE = 5
_ROUNDS = 3000
_SKIPPED = 200
_SEPARATIONS = (0, 5, 8, 10, 15, 18, 19)


def group_distances(*, weights: resolver.Section, num_seeds: int = 64) -> FigureResult:
    """Computes ``||pi_R - 1/M||_1`` over 20 groups of five clients, exact and simulated.

    A norm of noisy shares is too large on average. The simulated distance is therefore
    ``sum_g sign_g (share_g - 1/M)`` with the signs of the exact law: it has the exact distance as
    its mean, and a standard error over independent seeds.

    Args:
      weights: a section of `selection_weights`, one weight per group.
      num_seeds: S runs, at least 2. Of each, 3,000 rounds count after 200 that do not, since all
        clients start selectable, away from stationarity.

    Returns:
      Columns ``separation``, ``exact``, ``simulated``, ``standard_error``, and the share of the
      first and the last group, exact and simulated.

    References:
      Sun et al., ICLR 2025, section 6 (the groups of its MNIST experiments).
    """
    checks.static_int('config.figure.num_seeds', num_seeds, minimum=2)
    law = selection_weights('config.figure.weights', weights, _GROUPS)
    groups = np.repeat(np.arange(_GROUPS), _GROUP_SIZE)
    keys = jax.vmap(jax.random.key)(np.arange(num_seeds))
    laws = analysis.minimum_separation_curve(law)[list(_SEPARATIONS)]
    parts = []
    mean_frequencies = []
    for separation, exact in zip(_SEPARATIONS, laws, strict=True):
        pattern = minimum_separation(law, separation=separation, groups=groups)
        # Of the first client of each group.
        frequencies = _frequencies(pattern, keys)[:, ::_GROUP_SIZE]
        distances = (frequencies - 1 / _GROUPS) @ np.sign(exact - 1 / _GROUPS)
        mean = frequencies.mean(axis=0)
        mean_frequencies.append(mean)
        parts.append(
            {
                'separation': separation,
                'exact': np.abs(exact - 1 / _GROUPS).sum(),
                'simulated': distances.mean(),
                'standard_error': distances.std(ddof=1) / np.sqrt(num_seeds),
                'first_group_exact': exact[0],
                'first_group_simulated': mean[0],
                'last_group_exact': exact[-1],
                'last_group_simulated': mean[-1],
            }
        )
    columns = stack(parts)

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        _draw_distances(left, columns)
        _draw_laws(right, laws, mean_frequencies)

    caption = (
        f'||pi_R - 1/M||_1, M = {_GROUPS} groups of {_GROUP_SIZE} clients; '
        f'{num_seeds} seeds x {_ROUNDS:,} rounds after {_SKIPPED}.'
    )
    table = tables.from_rows([_table_row(part) for part in parts], caption)
    return FigureResult(columns, table, draw)


def _draw_distances(axes: Any, columns: Mapping[str, np.ndarray]) -> None:
    """Draws the distances by separation, exact and simulated."""
    axes.plot(
        _SEPARATIONS,
        columns['exact'],
        'o-',
        markersize=9,
        mfc='none',
        color=plot.EXACT,
        label='exact',
    )
    axes.errorbar(
        _SEPARATIONS,
        columns['simulated'],
        4.5 * columns['standard_error'],
        fmt='.',
        capsize=4,
        color=plot.COLOURS[0],
        label='simulated, 4.5 standard errors',
    )
    axes.set_ylim(0, None)
    axes.set_xticks(_SEPARATIONS)
    distance = r'$\|\pi_R - 1/M\|_1$'
    panels.label_axes(axes, 'minimum separation R', distance, legend='best', grid=True)


def _draw_laws(
    axes: Any, laws: np.ndarray, mean_frequencies: Sequence[np.ndarray]
) -> None:
    """Draws the share of each group, by separation: exact as lines, simulated as dots."""
    ids = np.arange(1, _GROUPS + 1)
    for separation, colour, exact, mean in zip(
        _SEPARATIONS, plot.COLOURS, laws, mean_frequencies, strict=False
    ):
        axes.plot(ids, exact, color=colour, linewidth=1, label=f'R = {separation}')
        axes.plot(ids, mean, '.', color=colour, markersize=5)
    axes.set_yscale('log')
    axes.set_xticks(np.arange(5, _GROUPS + 1, 5))
    axes.legend(frameon=False, fontsize=8, ncols=2)
    share = r'share of the selections $\pi_R$'
    panels.label_axes(axes, 'group (lines exact, dots simulated)', share, grid=True)


def _table_row(part: Mapping[str, float]) -> dict[str, str]:
    """Returns the cells of a separation."""
    error = part['standard_error']
    return {
        'R': str(part['separation']),
        'exact': f'{part["exact"]:.4f}',
        'simulated': f'{part["simulated"]:.4f}',
        'standard error': f'{error:.4f}',
        'z': _z_text(part['simulated'] - part['exact'], error),
    }


def _frequencies(pattern: Participation, keys: Any) -> np.ndarray:
    """Returns the portion of the counted rounds in which each client takes part, float64[S, N]."""

    def counts(key: Any) -> Any:
        links = simulation.realised_links(key, pattern, num_rounds=_SKIPPED + _ROUNDS)
        return links.mask[_SKIPPED:].sum(axis=0)

    by_seed = jax.jit(lambda keys: jax.lax.map(counts, keys))
    return np.asarray(by_seed(keys)) / _ROUNDS


def _z_text(difference: float, error: float) -> str:
    """Writes a distance in standard errors; a law without spread has none, and is met exactly."""
    if error > 1e-12:
        return f'{difference / error:.2f}'
    return 'exact' if abs(difference) < 1e-6 else 'off'
