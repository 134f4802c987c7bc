"""Trajectories of amplified FedAvg in the plane, with one client a round in turn."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from fedjax_links import local_training, plot, problems, sweeps
from fedjax_links.algorithms import amplified_fedavg
from fedjax_links.base import Problem
from fedjax_links.core import checks, errors
from fedjax_links.participation import replay
from fedjax_links.report.figure import FigureResult, stack
from fedjax_links.report.tables import Table


def triangle() -> Problem:
    """Three clients in the plane whose optima form an equilateral triangle.

    ``F_n(x) = 0.5 ||x - z_n||^2`` with z = (-1, 0), (1, 0), (0, sqrt 3) and x^0 = (1, 2); the
    optimum of the mean is (0, 1 / sqrt 3). With one client a round in turn, FedAvg circles around
    it; amplified updates go to it.

    Returns:
      The problem, see `problems.quadratic`.

    References:
      Wang and Ji 2022, appendix B.1.
    """
    return problems.quadratic([[-1, 0], [1, 0], [0, np.sqrt(3)]], initial_point=[1, 2])


def toy_trajectories(
    *,
    learning_rates: Sequence[float],
    amplifications: Sequence[float],
    period: int = 3,
    local_steps: int = 1,
    num_rounds: int = 15,
) -> FigureResult:
    """The path from x^0 to x^T on `triangle`, one panel per setting.

    Client n alone takes part in rounds n, n + 3, n + 6, ... All settings are one compiled sweep.
    The jump at the end of a block of P rounds starts where the plain steps ended, at
    ``x_ref + (x - x_ref) / eta``.

    Args:
      learning_rates: gamma of each panel.
      amplifications: eta of each panel, as many.
      period: P, rounds per block.
      local_steps: I, gradient steps per round.
      num_rounds: T.

    Returns:
      Columns ``learning_rate``, ``amplification``, ``round``, ``amplified`` (1 for a point behind a
      jump), ``x``, ``y`` and ``distance`` (to the optimum); the end of a block has two rows, before
      and behind the jump.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.

    References:
      Wang and Ji 2022, Figures B.1 and B.2.
    """
    if len(learning_rates) != len(amplifications):
        raise errors.invalid(
            'config.figure.amplifications',
            f'be as many as the {len(learning_rates)} learning_rates',
            len(amplifications),
        )
    checks.static_int('config.figure.num_rounds', num_rounds)
    problem = triangle()
    targets = np.asarray(problem.data, np.float64)
    optimum = targets.mean(axis=0)
    result = sweeps.sweep(
        lambda learning_rate, amplification: amplified_fedavg(
            local_training.local_sgd(learning_rate, local_steps=local_steps),
            period=period,
            amplification=amplification,
        ),
        lambda: replay(np.eye(len(targets), dtype=bool)),
        problem,
        seeds=[0],
        grid={
            'algorithm': {
                'learning_rate': np.asarray(learning_rates, float),
                'amplification': np.asarray(amplifications, float),
            }
        },
        num_rounds=num_rounds,
        eval_every=1,
        eval_fn=lambda params, key, problem: params,
    )
    start = np.asarray(problem.init_params(jax.random.key(0)), np.float64)
    models = np.asarray(result.evals['server'], np.float64)[:, 0]
    settings = list(zip(learning_rates, amplifications, strict=True))
    paths = [
        _path(start, points, period, amplification)
        for points, (_, amplification) in zip(models, settings, strict=True)
    ]

    def draw(figure: Any) -> None:
        columns = min(len(paths), 4)
        grid = figure.subplots(-(-len(paths) // columns), columns, squeeze=False)
        corners = np.concatenate([targets, *(path['points'] for path in paths)])
        low, high = corners.min(axis=0) - 0.25, corners.max(axis=0) + 0.25
        for axes, path, (rate, factor) in zip(grid.flat, paths, settings, strict=False):
            _draw_path(axes, path, targets, optimum)
            axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect='equal')
            axes.set_title(rf'$\gamma$ = {rate:g}, $\eta$ = {factor:g}', fontsize=10)
        handles, labels = grid.flat[len(paths) - 1].get_legend_handles_labels()
        figure.legend(handles, labels, loc='outside lower center', ncols=6, frameon=False)

    parts = [
        {
            'learning_rate': rate,
            'amplification': factor,
            'round': path['rounds'],
            'amplified': path['amplified'].astype(int),
            'x': path['points'][:, 0],
            'y': path['points'][:, 1],
            'distance': np.linalg.norm(path['points'] - optimum, axis=1),
        }
        for path, (rate, factor) in zip(paths, settings, strict=True)
    ]
    rows = [
        [
            f'{part["learning_rate"]:g}',
            f'{part["amplification"]:g}',
            f'({part["x"][-1]:.3f}, {part["y"][-1]:.3f})',
            f'{part["distance"][-1]:.4f}',
        ]
        for part in parts
    ]
    caption = (
        f'x^{num_rounds} and its distance to the optimum ({optimum[0]:.3f}, {optimum[1]:.3f}); '
        f'P = {period}, I = {local_steps}.'
    )
    return FigureResult(
        columns=stack(parts),
        table=Table(['gamma', 'eta', f'x^{num_rounds}', 'distance'], rows, caption),
        draw=draw,
    )


def _path(start: np.ndarray, models: np.ndarray, period: int, factor: float) -> dict[str, Any]:
    """Points in order, the round behind each, and whether it was reached by a jump."""
    points, rounds, amplified = [start], [0], [False]
    reference = start
    for round, model in enumerate(models, start=1):
        ends = round % period == 0 and factor != 1
        points.append(reference + (model - reference) / factor if ends else model)
        rounds.append(round)
        amplified.append(False)
        if ends:
            points.append(model)
            rounds.append(round)
            amplified.append(True)
        if round % period == 0:
            reference = model
    return {
        'points': np.array(points),
        'rounds': np.array(rounds),
        'amplified': np.array(amplified),
    }


def _draw_path(axes: Any, path: dict[str, Any], targets: np.ndarray, optimum: np.ndarray) -> None:
    points, amplified = path['points'], path['amplified']
    marks = {'linestyle': 'none', 'markersize': 8}
    axes.plot(*targets.T, '^', color=plot.COLOURS[0], label="clients' optima", **marks)
    axes.plot(*points[0], 's', color=plot.COLOURS[4], label='start', **marks)
    axes.plot(*optimum, '*', color=plot.COLOURS[1], label='optimum', **marks | {'markersize': 15})
    axes.plot([], [], '.-', color=plot.EXACT, linewidth=1, label='local steps')
    if amplified.any():
        axes.plot([], [], color=plot.COLOURS[5], linewidth=2, label='amplification')
    for before, after, jump in zip(points[:-1], points[1:], amplified[1:], strict=True):
        colour, width = (plot.COLOURS[5], 2.0) if jump else (plot.EXACT, 1.0)
        axes.plot(*np.stack([before, after], axis=1), color=colour, linewidth=width)
    axes.plot(*points.T, '.', color=plot.EXACT, markersize=4)
    last = f'after round {path["rounds"][-1]}'
    axes.plot(*points[-1], 'D', mfc='none', color=plot.COLOURS[4], label=last, **marks)
    axes.grid(alpha=0.25)
