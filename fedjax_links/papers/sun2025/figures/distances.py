"""How far the selection law of minimum separation is from uniform: of clients, and of groups."""

from typing import Any

import jax
import numpy as np

from fedjax_links import analysis, plot, simulation
from fedjax_links.base import Participation
from fedjax_links.config import sections
from fedjax_links.papers.sun2025.weights import selection_weights
from fedjax_links.participation import minimum_separation
from fedjax_links.report import tables
from fedjax_links.report.figure import FigureResult, stack

_GROUPS, _GROUP_SIZE, _ROUNDS, _SKIPPED = 20, 5, 3000, 200
_SEPARATIONS = (0, 5, 8, 10, 15, 18, 19)
_LISTED_SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9)


def separation_distance(*, weights: sections.Section, num_clients: int = 500) -> FigureResult:
    """``||pi_R - 1/N||_1`` against R, exact for every feasible R, B = 1.

    Args:
      weights: by label, sections of `selection_weights`.
      num_clients: N.

    Returns:
      Columns ``weights``, ``separation`` and ``distance``.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.

    References:
      Sun et al., ICLR 2025, Figure 1.
    """
    parts = []
    for label, section in weights.items():
        law = selection_weights(f'config.figure.weights.{label}', section, num_clients)
        laws = analysis.minimum_separation_curve(law)
        distance = np.abs(laws - 1 / num_clients).sum(axis=1)
        parts.append({'weights': label, 'separation': np.arange(num_clients), 'distance': distance})
    listed = sorted({int(share * num_clients) for share in _LISTED_SHARES})
    listed += [num_clients - 2, num_clients - 1]

    def draw(figure: Any) -> None:
        axes = figure.add_subplot()
        for colour, part in zip(plot.COLOURS, parts, strict=False):
            axes.plot(part['separation'], part['distance'], color=colour, label=part['weights'])
        axes.set(xlabel='minimum separation R', ylabel=r'$\|\pi_R - 1/N\|_1$')
        axes.set(xlim=(0, num_clients - 1), ylim=(0, None))
        axes.grid(alpha=0.25)
        axes.legend(frameon=False, title='selection weights')

    table = tables.Table(
        ['weights', *(f'R = {R}' for R in listed)],
        [[part['weights'], *(f'{part["distance"][R]:.4f}' for R in listed)] for part in parts],
        f'||pi_R - 1/N||_1, N = {num_clients}, B = 1; exact.',
    )
    return FigureResult(stack(parts), table, draw)


def group_distances(*, weights: sections.Section, num_seeds: int = 64) -> FigureResult:
    """``||pi_R - 1/M||_1`` over 20 groups of five clients, from the law and from simulated masks.

    A norm of noisy shares is too large on average. The simulated distance is therefore
    ``sum_g sign_g (share_g - 1/M)`` with the signs of the exact law: it has the exact distance as
    its mean, and a standard error over independent seeds.

    Args:
      weights: a section of `selection_weights`, one weight per group.
      num_seeds: S runs of 3000 rounds that are counted after 200 that are not: everybody starts
        selectable, away from stationarity.

    Returns:
      Columns ``separation``, ``exact``, ``simulated``, ``standard_error``, and the share of the
      first and the last group, exact and simulated.

    References:
      Sun et al., ICLR 2025, section 6 (the groups of its MNIST experiments).
    """
    law = selection_weights('config.figure.weights', weights, _GROUPS)
    groups = np.repeat(np.arange(_GROUPS), _GROUP_SIZE)
    keys = jax.vmap(jax.random.key)(np.arange(num_seeds))
    exact = analysis.minimum_separation_curve(law)[list(_SEPARATIONS)]
    patterns = [minimum_separation(law, separation=R, groups=groups) for R in _SEPARATIONS]
    shares = np.stack([_shares(pattern, keys)[:, ::_GROUP_SIZE] for pattern in patterns])
    each = np.einsum('rsg,rg->rs', shares - 1 / _GROUPS, np.sign(exact - 1 / _GROUPS))
    pooled = shares.mean(axis=1)
    columns = {
        'separation': np.array(_SEPARATIONS),
        'exact': np.abs(exact - 1 / _GROUPS).sum(axis=1),
        'simulated': each.mean(axis=1),
        'standard_error': each.std(axis=1, ddof=1) / np.sqrt(num_seeds),
        'first_group_exact': exact[:, 0],
        'first_group_simulated': pooled[:, 0],
        'last_group_exact': exact[:, -1],
        'last_group_simulated': pooled[:, -1],
    }

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        exactly = {'markersize': 9, 'mfc': 'none', 'color': plot.EXACT}
        left.plot(_SEPARATIONS, columns['exact'], 'o-', **exactly)
        error = 4.5 * columns['standard_error']
        simulated = {'fmt': '.', 'capsize': 4, 'color': plot.COLOURS[0]}
        left.errorbar(_SEPARATIONS, columns['simulated'], error, **simulated)
        left.legend(['exact', 'simulated, 4.5 standard errors'], frameon=False)
        left.set(xlabel='minimum separation R', ylabel=r'$\|\pi_R - 1/M\|_1$', ylim=(0, None))
        left.set_xticks(_SEPARATIONS)
        left.grid(alpha=0.25)
        ids = np.arange(1, _GROUPS + 1)
        for index, R in enumerate(_SEPARATIONS):
            colour = plot.COLOURS[index % len(plot.COLOURS)]
            right.plot(ids, exact[index], color=colour, linewidth=1, label=f'R = {R}')
            right.plot(ids, pooled[index], '.', color=colour, markersize=5)
        right.set(yscale='log', ylabel=r'share of the selections $\pi_R$')
        right.set(xlabel='group (lines exact, dots simulated)')
        right.set_xticks(np.arange(0, _GROUPS + 1, 5)[1:])
        right.grid(alpha=0.25)
        right.legend(frameon=False, fontsize=8, ncols=2)

    table = tables.fill(
        [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
        {
            'R': '{separation}'.format_map,
            'exact': '{exact:.4f}'.format_map,
            'simulated': '{simulated:.4f}'.format_map,
            'standard error': '{standard_error:.4f}'.format_map,
            'z': lambda part: _z_text(part['simulated'] - part['exact'], part['standard_error']),
        },
        f'||pi_R - 1/M||_1, M = {_GROUPS} groups of {_GROUP_SIZE} clients; '
        f'{num_seeds} seeds x {_ROUNDS:,} rounds after {_SKIPPED}.',
    )
    return FigureResult(columns, table, draw)


def _shares(pattern: Participation, keys: Any) -> np.ndarray:
    """float64[S, N], the share of the counted rounds in which each client takes part."""

    def counts(key: Any) -> Any:
        links = simulation.realised_links(key, pattern, num_rounds=_SKIPPED + _ROUNDS)
        return links.mask[_SKIPPED:].sum(axis=0)

    return np.asarray(jax.jit(lambda keys: jax.lax.map(counts, keys))(keys)) / _ROUNDS


def _z_text(difference: float, error: float) -> str:
    """In standard errors; a law without spread has none, and is met exactly."""
    if error > 1e-12:
        return f'{difference / error:.2f}'
    return 'exact' if abs(difference) < 1e-6 else 'off'
