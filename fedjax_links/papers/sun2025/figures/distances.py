"""Distance to uniform of minimum separation over groups: exact beside simulated."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from fedjax_links import analysis, plot, simulation
from fedjax_links.config import sections
from fedjax_links.papers.sun2025.weights import selection_weights
from fedjax_links.participation import minimum_separation
from fedjax_links.problems import partition
from fedjax_links.report.figure import FigureResult
from fedjax_links.report.tables import Table


def group_distances(
    *,
    weights: sections.Section,
    num_groups: int = 20,
    num_clients: int = 100,
    separations: Sequence[int] = (0, 5, 8, 10, 15, 18, 19),
    num_rounds: int = 3000,
    skipped_rounds: int = 200,
    num_seeds: int = 64,
) -> FigureResult:
    """``||pi_R - 1/M||_1`` over M groups of clients, from the law and from simulated masks.

    A norm of noisy shares is too large on average. The simulated distance is therefore
    ``sum_g sign_g (share_g - 1/M)`` with the signs of the exact law: it has the exact distance as
    its mean, and a standard error over independent seeds.

    Args:
      weights: a section of `selection_weights`, one weight per group.
      num_groups: M contiguous groups.
      num_clients: N, a multiple of M.
      separations: values of R.
      num_rounds: rounds that are counted, per seed.
      skipped_rounds: rounds before them: everybody starts selectable, away from stationarity.
      num_seeds: S.

    Returns:
      Columns ``separation``, ``exact``, ``simulated``, ``standard_error``, and the share of the
      first and the last group, exact and simulated.

    References:
      Sun et al., ICLR 2025, section 6 (the groups of its MNIST experiments).
    """
    law = selection_weights('config.figure.weights', weights, num_groups)
    groups = partition.contiguous_groups(num_clients, num_groups=num_groups)
    firsts = np.searchsorted(groups, np.arange(num_groups))
    exact = analysis.minimum_separation_curve(law)[list(separations)]
    signs = np.sign(exact - 1 / num_groups)
    shares = np.stack(
        [_shares(law, groups, R, skipped_rounds, num_rounds, num_seeds) for R in separations]
    )[:, :, firsts]
    each = np.einsum('rsg,rg->rs', shares - 1 / num_groups, signs)
    mean, error = each.mean(axis=1), each.std(axis=1, ddof=1) / np.sqrt(num_seeds)
    distance = np.abs(exact - 1 / num_groups).sum(axis=1)
    pooled = shares.mean(axis=1)

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        left.plot(separations, distance, 'o-', markersize=9, mfc='none', color=plot.EXACT)
        left.errorbar(separations, mean, 4.5 * error, fmt='.', capsize=4, color=plot.COLOURS[0])
        left.legend(['exact', 'simulated, 4.5 standard errors'], frameon=False)
        left.set_xlabel('minimum separation R')
        left.set_ylabel(r'$\|\pi_R - 1/M\|_1$')
        left.set_ylim(0, None)
        left.set_xticks(separations)
        left.grid(alpha=0.25)
        ids = np.arange(1, num_groups + 1)
        for index, R in enumerate(separations):
            colour = plot.COLOURS[index % len(plot.COLOURS)]
            right.plot(ids, exact[index], color=colour, linewidth=1, label=f'R = {R}')
            right.plot(ids, pooled[index], '.', color=colour, markersize=5)
        right.set_yscale('log')
        right.set_xlabel('group (lines exact, dots simulated)')
        right.set_ylabel(r'share of the selections $\pi_R$')
        right.set_xticks(np.arange(0, num_groups + 1, 5)[1:])
        right.grid(alpha=0.25)
        right.legend(frameon=False, fontsize=8, ncols=2)

    rows = [
        [str(R), *(f'{value:.4f}' for value in row), _z_text(row[1] - row[0], row[2])]
        for R, row in zip(separations, np.stack([distance, mean, error], axis=1), strict=True)
    ]
    caption = (
        f'||pi_R - 1/M||_1, M = {num_groups} groups of {num_clients // num_groups} clients; '
        f'{num_seeds} seeds x {num_rounds:,} rounds after {skipped_rounds}.'
    )
    return FigureResult(
        columns={
            'separation': np.array(separations),
            'exact': distance,
            'simulated': mean,
            'standard_error': error,
            'first_group_exact': exact[:, 0],
            'first_group_simulated': pooled[:, 0],
            'last_group_exact': exact[:, -1],
            'last_group_simulated': pooled[:, -1],
        },
        table=Table(['R', 'exact', 'simulated', 'standard error', 'z'], rows, caption),
        draw=draw,
    )


def _shares(
    weights: np.ndarray, groups: np.ndarray, separation: int, skip: int, count: int, num_seeds: int
) -> np.ndarray:
    """float64[S, N], the share of the counted rounds in which each client takes part."""
    pattern = minimum_separation(weights, separation=separation, groups=groups)

    def counts(key: Any) -> Any:
        links = simulation.realised_links(key, pattern, num_rounds=skip + count)
        return links.mask[skip:].sum(axis=0)

    keys = jax.vmap(jax.random.key)(np.arange(num_seeds))
    return np.asarray(jax.jit(lambda keys: jax.lax.map(counts, keys))(keys)) / count


def _z_text(difference: float, error: float) -> str:
    """In standard errors; a law without spread has none, and is met exactly."""
    if error > 1e-12:
        return f'{difference / error:.2f}'
    return 'exact' if abs(difference) < 1e-6 else 'off'
