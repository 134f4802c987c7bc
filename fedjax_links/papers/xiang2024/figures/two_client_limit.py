"""Where FedAvg's expected model goes with two clients, as one link gets better."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from fedjax_links import analysis, local_training, plot, problems, sweeps
from fedjax_links.algorithms import fedavg
from fedjax_links.participation import bernoulli
from fedjax_links.report.figure import FigureResult
from fedjax_links.report.tables import Table

_LISTED = 6


def two_client_limit(
    *,
    first_prob: float = 0.5,
    targets: Sequence[float] = (0.0, 100.0),
    num_points: int = 20,
    learning_rate: float = 0.02,
    local_steps: int = 5,
    num_rounds: int = 300,
    num_seeds: int = 1000,
) -> FigureResult:
    """``lim E[x^t]`` of FedAvg against the second client's link probability.

    The exact limit is ``sum_i w_i u_i`` with the effective weights w. Simulated means come from one
    compiled sweep over probabilities and seeds.

    Args:
      first_prob: p_1.
      targets: u_1 and u_2, minimisers of ``F_i(x) = 0.5 (x - u_i)^2``; training starts at zero.
      num_points: simulated values of p_2, equally spaced on (0, 1].
      learning_rate: of the local steps.
      local_steps: s.
      num_rounds: T, after which the model is read.
      num_seeds: S.

    Returns:
      Columns ``second_prob``, ``exact``, ``simulated``, ``standard_error``; no simulated value at
      ``p_2 = 0``.

    References:
      Xiang et al. 2024, Figure 2.
    """
    probs = np.linspace(0, 1, num_points + 1)
    points = np.array(targets, np.float64)
    exact = np.array([analysis.fedavg_fixed_point([first_prob, p], points) for p in probs])
    client = local_training.local_sgd(learning_rate, local_steps=local_steps)
    result = sweeps.sweep(
        lambda: fedavg(client),
        lambda second: bernoulli(jnp.stack([first_prob, second])),
        problems.quadratic(points[:, None]),
        seeds=range(num_seeds),
        grid={'participation': {'second': probs[1:]}},
        num_rounds=num_rounds,
        eval_fn=lambda params, key, problem: params[0],
        batching='vmap',
    )
    final = np.asarray(result.evals['server'], np.float64)[:, :, 0]
    mean = np.append(np.nan, final.mean(axis=1))
    error = np.append(np.nan, final.std(axis=1, ddof=1) / np.sqrt(num_seeds))
    optimum = points.mean()

    def draw(figure: Any) -> None:
        axes = figure.add_subplot()
        fine = np.linspace(0, 1, 201)
        curve = [analysis.fedavg_fixed_point([first_prob, p], points) for p in fine]
        axes.plot(fine, curve, color=plot.EXACT, label='exact')
        axes.errorbar(
            probs,
            mean,
            1.96 * error,
            fmt='o',
            markersize=4,
            capsize=3,
            color=plot.COLOURS[0],
            label=f'simulated, {num_seeds:,} seeds (95 %)',
        )
        axes.axhline(optimum, linestyle='--', color=plot.COLOURS[4], label='optimum')
        axes.set_xlabel('$p_2$')
        axes.set_ylabel(r'$\lim \, E[x^t]$ of FedAvg')
        axes.set_xlim(0, 1.02)
        axes.grid(alpha=0.25)
        axes.legend(frameon=False, loc='lower right')

    z = (mean - exact)[1:] / error[1:]
    step = max(num_points // _LISTED, 1)
    rows = [
        [f'{probs[k]:.2f}', f'{exact[k]:.3f}', f'{mean[k]:.3f}', f'{error[k]:.3f}']
        for k in range(step, num_points + 1, step)
    ]
    caption = (
        f'p1 = {first_prob}, u = {tuple(targets)}, optimum {optimum:g}; {num_seeds:,} seeds x '
        f'{num_rounds} rounds; largest |z| over {num_points} points {np.abs(z).max():.2f}.'
    )
    return FigureResult(
        columns={'second_prob': probs, 'exact': exact, 'simulated': mean, 'standard_error': error},
        table=Table(['p2', 'exact', 'simulated', 'standard error'], rows, caption),
        draw=draw,
    )
