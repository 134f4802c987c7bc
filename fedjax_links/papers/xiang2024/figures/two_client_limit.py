"""Where FedAvg's expected model goes with two clients, as one link gets better."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from fedjax_links import analysis, local_training, plot, problems, sweeps
from fedjax_links.algorithms import fedavg
from fedjax_links.participation import bernoulli
from fedjax_links.report import tables
from fedjax_links.report.figure import FigureResult

_LISTED = 6
_FIRST, _TARGETS, _ROUNDS = 0.5, np.array([0.0, 100.0]), 300


def two_client_limit(*, num_points: int = 20, num_seeds: int = 1000) -> FigureResult:
    """``lim E[x^t]`` of FedAvg against the second client's link probability.

    The exact limit is ``sum_i w_i u_i`` with the effective weights w. Simulated means come from one
    compiled sweep over probabilities and seeds.

    The first link has probability 1/2, the minimisers of ``F_i(x) = 0.5 (x - u_i)^2`` are 0 and
    100, training starts at zero; models are read after 300 rounds of 5 steps of 0.02.

    Args:
      num_points: simulated values of p_2, equally spaced on (0, 1].
      num_seeds: S.

    Returns:
      Columns ``second_prob``, ``exact``, ``simulated``, ``standard_error``; no simulated value at
      ``p_2 = 0``.

    References:
      Xiang et al. 2024, Figure 2.
    """
    probs = np.linspace(0, 1, num_points + 1)
    client = local_training.local_sgd(0.02, local_steps=5)
    result = sweeps.sweep(
        lambda: fedavg(client),
        lambda second: bernoulli(jnp.stack([_FIRST, second])),
        problems.quadratic(_TARGETS[:, None]),
        seeds=range(num_seeds),
        grid={'participation': {'second': probs[1:]}},
        num_rounds=_ROUNDS,
        eval_fn=lambda params, key, problem: params[0],
        batching='vmap',
    )
    final = np.asarray(result.evals['server'], np.float64)[:, :, 0]
    error = final.std(axis=1, ddof=1) / np.sqrt(num_seeds)
    columns = {
        'second_prob': probs,
        'exact': np.array([analysis.fedavg_fixed_point([_FIRST, p], _TARGETS) for p in probs]),
        'simulated': np.append(np.nan, final.mean(axis=1)),
        'standard_error': np.append(np.nan, error),
    }
    optimum = _TARGETS.mean()

    def draw(figure: Any) -> None:
        axes = figure.add_subplot()
        fine = np.linspace(0, 1, 201)
        curve = [analysis.fedavg_fixed_point([_FIRST, p], _TARGETS) for p in fine]
        axes.plot(fine, curve, color=plot.EXACT, label='exact')
        interval = 1.96 * columns['standard_error']
        look = {'fmt': 'o', 'markersize': 4, 'capsize': 3, 'color': plot.COLOURS[0]}
        label = f'simulated, {num_seeds:,} seeds (95 %)'
        axes.errorbar(probs, columns['simulated'], interval, label=label, **look)
        axes.axhline(optimum, linestyle='--', color=plot.COLOURS[4], label='optimum')
        axes.set(xlabel='$p_2$', ylabel=r'$\lim \, E[x^t]$ of FedAvg', xlim=(0, 1.02))
        axes.grid(alpha=0.25)
        axes.legend(frameon=False, loc='lower right')

    z = (columns['simulated'] - columns['exact'])[1:] / error
    step = max(num_points // _LISTED, 1)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    table = tables.fill(
        rows[step::step],
        {
            'p2': '{second_prob:.2f}'.format_map,
            'exact': '{exact:.3f}'.format_map,
            'simulated': '{simulated:.3f}'.format_map,
            'standard error': '{standard_error:.3f}'.format_map,
        },
        f'p1 = {_FIRST}, u = (0.0, 100.0), optimum {optimum:g}; {num_seeds:,} seeds x '
        f'{_ROUNDS} rounds; largest |z| over {num_points} points {np.abs(z).max():.2f}.',
    )
    return FigureResult(columns, table, draw)
