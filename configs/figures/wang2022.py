"""Draws trajectories of amplified FedAvg in the plane, with one client a round in turn."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from fedjax_links import local_training, plot, problems, sweeps
from fedjax_links.algorithms import amplified_fedavg
from fedjax_links.base import Algorithm, Problem
from fedjax_links.core import checks, errors
from fedjax_links.pages import tables
from fedjax_links.pages.figure import FigureResult, stack
from fedjax_links.participation import replay
from fedjax_links.plot import panels

_PERIOD = 3
_ROUNDS = 15
_CORNERS = np.array([[-1, 0], [1, 0], [0, np.sqrt(3)]])
_START = np.array([1.0, 2.0])


def triangle() -> Problem:
    """Places three clients in the plane whose optima form an equilateral triangle.

    ``F_n(x) = 0.5 ||x - z_n||^2`` with z = (-1, 0), (1, 0), (0, sqrt 3) and x^0 = (1, 2). The
    optimum of the mean is (0, 1 / sqrt 3). With one client a round in turn, FedAvg circles around
    it, while amplified updates reach it.

    Returns:
      The problem, see `problems.quadratic`.

    References:
      Wang and Ji 2022, appendix B.1.
    """
    return problems.quadratic(_CORNERS, initial_point=_START)


def toy_trajectories(
    *, settings: Sequence[tuple[float, float]], local_steps: int = 1
) -> FigureResult:
    """Draws the path from x^0 to x^15 on `triangle`, one panel per setting.

    Client n alone takes part in rounds n, n + 3, n + 6, ... All settings are one compiled sweep.
    The jump at the end of a block of P = 3 rounds starts where the plain steps ended, at
    ``x_ref + (x - x_ref) / eta``.

    Args:
      settings: gamma and eta, local rate and amplification, of each panel.
      local_steps: I, gradient steps per round.

    Returns:
      Columns ``learning_rate``, ``amplification``, ``round``, ``amplified`` (1 for a point after a
      jump), ``x``, ``y`` and ``distance`` (to the optimum), and the exact ``exact_x`` and
      ``exact_y``. The end of a block has two rows, before and after the jump.

    Raises:
      ValueError: for settings that are no pairs, a rate or an amplification that is not positive,
        or a step count below 1.

    References:
      Wang and Ji 2022, Figures B.1 and B.2.
    """
    rates_and_factors = checks.numbers('config.figure.settings', settings)
    if rates_and_factors.ndim != 2 or rates_and_factors.shape[1] != 2:
        shape = list(rates_and_factors.shape)
        raise errors.invalid('config.figure.settings', 'have shape [panels, 2]', shape)
    rates, factors = rates_and_factors.T
    problem = triangle()
    targets = np.asarray(problem.data, np.float64)
    optimum = targets.mean(axis=0)

    def make(learning_rate: Any, amplification: Any) -> Algorithm:
        client = local_training.local_sgd(learning_rate, local_steps=local_steps)
        return amplified_fedavg(client, period=_PERIOD, amplification=amplification)

    result = sweeps.sweep(
        make,
        lambda: replay(np.eye(len(targets), dtype=bool)),
        problem,
        seeds=[0],
        grid={'algorithm': {'learning_rate': rates, 'amplification': factors}},
        num_rounds=_ROUNDS,
        eval_every=1,
        eval_fn=lambda params, key, problem: params,
    )
    start = problem.init_params(jax.random.key(0))
    models = np.asarray(result.evals['server'], np.float64)[:, 0]
    parts: list[dict[str, Any]] = []
    for points, (rate, factor) in zip(models, settings, strict=True):
        setting = {'learning_rate': rate, 'amplification': factor}
        path = _path(np.vstack([start, points]), optimum, factor)
        contraction = (1 - rate) ** local_steps
        exact = _path(
            exact_models(_START, _CORNERS, contraction, factor), optimum, factor
        )
        exact_columns = {'exact_x': exact['x'], 'exact_y': exact['y']}
        parts.append({**setting, **path, **exact_columns})

    def draw(figure: Any) -> None:
        all_axes = panels.grid(figure, len(parts), 4, sharex=True, sharey=True)
        for axes, part in zip(all_axes, parts, strict=True):
            _mark_start_and_optima(axes, part, targets, optimum)
            _draw_path(axes, part)
            _mark_exact_points_and_end(axes, part)
            axes.grid(alpha=0.25)
            axes.set_aspect('equal')
            rate = part['learning_rate']
            factor = part['amplification']
            title = rf'$\gamma$ = {rate:g}, $\eta$ = {factor:g}'
            axes.set_title(title, fontsize=10)
        lines = all_axes[-1].get_legend_handles_labels()
        figure.legend(*lines, loc='outside lower center', ncols=7, frameon=False)

    rows = [
        {
            'gamma': f'{part["learning_rate"]:g}',
            'eta': f'{part["amplification"]:g}',
            f'x^{_ROUNDS}': f'({part["x"][-1]:.3f}, {part["y"][-1]:.3f})',
            'distance': f'{part["distance"][-1]:.4f}',
            'exact': f'({part["exact_x"][-1]:.3f}, {part["exact_y"][-1]:.3f})',
        }
        for part in parts
    ]
    caption = (
        f'x^{_ROUNDS}, simulated and exact, and its distance to the optimum '
        f'({optimum[0]:.3f}, {optimum[1]:.3f}); '
        f'P = {_PERIOD}, I = {local_steps}.'
    )
    return FigureResult(stack(parts), tables.from_rows(rows, caption), draw)


_MARKS: dict[str, Any] = {'linestyle': 'none', 'markersize': 8}
_HOLLOW = {**_MARKS, 'mfc': 'none'}


def _mark_start_and_optima(
    axes: Any, part: Mapping[str, Any], targets: np.ndarray, optimum: np.ndarray
) -> None:
    """Marks the clients' optima, the initial model and the optimum of the mean."""
    start = part['x'][0], part['y'][0]
    star = {**_MARKS, 'markersize': 15}
    optima = {'label': "clients' optima", **_MARKS}
    axes.plot(*targets.T, '^', color=plot.COLOURS[0], **optima)
    axes.plot(*start, 's', color=plot.COLOURS[4], label='start', **_MARKS)
    axes.plot(*optimum, '*', color=plot.COLOURS[1], label='optimum', **star)


def _draw_path(axes: Any, part: Mapping[str, Any]) -> None:
    """Draws a path: local steps in one colour, jumps in another."""
    x = part['x']
    y = part['y']
    jumps = part['amplified'][1:]
    axes.plot([], [], '.-', color=plot.EXACT, linewidth=1, label='local steps')
    if jumps.any():
        axes.plot([], [], color=plot.COLOURS[5], linewidth=2, label='amplification')
    for k, is_jump in enumerate(jumps):
        colour = plot.COLOURS[5] if is_jump else plot.EXACT
        width = 2.0 if is_jump else 1.0
        axes.plot(x[k : k + 2], y[k : k + 2], color=colour, linewidth=width)
    axes.plot(x, y, '.', color=plot.EXACT, markersize=4)


def _mark_exact_points_and_end(axes: Any, part: Mapping[str, Any]) -> None:
    """Marks the exact points of a path, and its last simulated point."""
    exact_x = part['exact_x']
    exact_y = part['exact_y']
    axes.plot(exact_x, exact_y, 'o', color=plot.COLOURS[2], label='exact', **_HOLLOW)
    end = part['x'][-1], part['y'][-1]
    label = f'after round {_ROUNDS}'
    axes.plot(*end, 'D', color=plot.COLOURS[4], label=label, **_HOLLOW)


def exact_models(
    start: np.ndarray, targets: np.ndarray, contraction: float, factor: float
) -> np.ndarray:
    """Computes the models after each round, where clients take part in turn.

    A round leaves a fraction a of the distance to the client's optimum, ``x' = z + a (x - z)``.
    The end of a block multiplies by eta what the block has changed.

    Args:
      start: float64[d], x^0.
      targets: float64[N, d], the clients' optima z.
      contraction: a, of all local steps of a round.
      factor: eta, the amplification.

    Returns:
      float64[16, d].
    """
    models = [start]
    reference = start
    for number in range(1, _ROUNDS + 1):
        target = targets[(number - 1) % len(targets)]
        model = target + contraction * (models[-1] - target)
        if number % _PERIOD == 0:
            model = reference + factor * (model - reference)
            reference = model
        models.append(model)
    return np.stack(models)


def _path(
    models: np.ndarray, optimum: np.ndarray, factor: float
) -> dict[str, np.ndarray]:
    """Returns the points of a path by column, with the models before and after each jump.

    Args:
      models: float64[T + 1, 2], after each round.
      optimum: float64[2].
      factor: eta, the amplification; 1 for none.

    Returns:
      Columns ``round``, ``amplified``, ``x``, ``y`` and ``distance``.
    """
    rounds = np.arange(len(models))
    jumps = rounds[_PERIOD::_PERIOD] if factor != 1 else rounds[:0]
    reference = models[jumps - _PERIOD]
    points = np.insert(
        models, jumps, reference + (models[jumps] - reference) / factor, axis=0
    )
    amplified = np.insert(np.isin(rounds, jumps), jumps, False).astype(int)
    path = {'round': np.insert(rounds, jumps, jumps), 'amplified': amplified}
    distance = np.linalg.norm(points - optimum, axis=1)
    return {**path, 'x': points[:, 0], 'y': points[:, 1], 'distance': distance}
