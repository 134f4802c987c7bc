"""Distance to the optimum of FedAvg and FedPBC on quadratics whose targets follow the links."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

import numpy as np

from fedjax_links import analysis, local_training, plot, problems, sweeps
from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.base import Problem
from fedjax_links.config import resolver
from fedjax_links.core import checks, errors, factory_options
from fedjax_links.core.records import Section
from fedjax_links.pages import tables
from fedjax_links.pages.figure import FigureResult, stack
from fedjax_links.participation import bernoulli
from fedjax_links.plot.panels import Axes, Figure, label_axes

from .paused_fedpbc import paused_means

_ALGORITHMS = {name: ALGORITHMS[name] for name in ('fedavg', 'fedpbc')}
_LOOKS = {'fedavg': ('FedAvg', '--'), 'fedpbc': ('FedPBC', '-')}
_PAIRS = ((0.1, 0.1), (0.1, 0.5), (0.1, 0.9), (0.5, 0.5), (0.5, 0.9), (0.9, 0.9))

_EVAL_PERIOD = 10  # rounds between two points of a curve
_NO_BIAS = 1e-5
_FIRST_SHOWN = 50  # round from which curves are drawn
_NUM_EXACT_MARKS = 12
_ROOM = 3  # factor of room below the lowest server model, for the clients' mean


class _Panel(NamedTuple):
    """Holds a section of a panel."""

    algorithms: Sequence[str]
    compute: str


class _Setting(NamedTuple):
    """Holds what all curves of the figure have in common.

    Attributes:
      pairs: float64[G, 2], link probability of the first and of the second half.
      client_probs: float64[G, N], link probabilities.
      problem: `problems.counterexample`.
      targets: float64[N, d], minimisers u_i.
      learning_rate: eta, of the local steps.
      local_steps: s.
      num_rounds: T.
      num_seeds: S.
    """

    pairs: np.ndarray
    client_probs: np.ndarray
    problem: Problem
    targets: np.ndarray
    learning_rate: float
    local_steps: int
    num_rounds: int
    num_seeds: int

    @property
    def optimum(self) -> np.ndarray:
        """Returns float64[d], the minimiser of the mean objective."""
        return self.targets.mean(axis=0)


class _ExactDistances(NamedTuple):
    """Holds exact distances after each round that the figure has.

    Attributes:
      bias: float64[E], distance of the expected server model to the optimum.
      root_mean_square: float64[E], of the server model's distance; NaN if unknown.
    """

    bias: np.ndarray
    root_mean_square: np.ndarray


class _Curve(TypedDict):
    """Holds the rows of the figure of one algorithm and one pair of probabilities."""

    panel: str
    algorithm: str
    first_prob: float
    second_prob: float
    round: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray
    client_mean: np.ndarray
    exact_bias: np.ndarray
    exact_rms: np.ndarray


def counterexample_error(
    *,
    panels: Mapping[str, Section],
    learning_rate: float,
    local_steps: int,
    num_rounds: int,
    pairs: Sequence[Sequence[float]] = _PAIRS,
    num_clients: int = 100,
    dimension: int = 100,
    num_seeds: int = 3,
) -> FigureResult:
    """Draws ``||x^t - x*||`` over rounds on `problems.counterexample`.

    Links are independent, with one probability in each half of the clients.

    One compiled sweep per algorithm holds all pairs of probabilities and all seeds of the links.

    Args:
      panels: by label, ``algorithms`` (``fedavg``, ``fedpbc`` or both) and ``compute`` (who trains,
        ``'all'`` or ``'active'``).
      learning_rate: eta, of the local steps.
      local_steps: s.
      num_rounds: T, a multiple of 10 above 50.
      pairs: float[G, 2], link probability of the first and of the second half of the clients; ours
        by default, as the papers' are lost.
      num_clients: N.
      dimension: d.
      num_seeds: S, at least 2 runs that differ in their links.

    Returns:
      Columns ``panel``, ``algorithm``, ``first_prob``, ``second_prob``, ``round``, ``mean`` and
      ``deviation`` (standard deviation over seeds) of the server's distance, ``client_mean`` (mean
      distance of the mean client model), and ``exact_bias`` and ``exact_rms`` of the server.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.

    References:
      Xiang et al. 2023, Figure 2; Xiang et al. 2024, Figure 3.
    """
    checks.not_empty('config.figure.panels', panels)
    checks.static_int('config.figure.num_seeds', num_seeds, minimum=2)
    checks.static_int('config.figure.num_rounds', num_rounds)
    if num_rounds <= _FIRST_SHOWN or num_rounds % _EVAL_PERIOD:
        requirement = f'be a multiple of {_EVAL_PERIOD} above {_FIRST_SHOWN}'
        raise errors.invalid('config.figure.num_rounds', requirement, num_rounds)
    probs = _checked_pairs(pairs)
    problem = problems.counterexample(
        num_clients=num_clients, dimension=dimension, seed=0
    )
    setting = _Setting(
        pairs=probs,
        client_probs=_probs_of_clients(probs, num_clients),
        problem=problem,
        targets=np.asarray(problem.data, np.float64),
        learning_rate=learning_rate,
        local_steps=local_steps,
        num_rounds=num_rounds,
        num_seeds=num_seeds,
    )
    curves: list[_Curve] = []
    for label, panel in panels.items():
        factory_options.check(f'config.figure.panels.{label}', _Panel, panel)
        algorithms, compute = _Panel(**panel)
        for name in algorithms:
            curves += _simulate_curves(setting, label, name, compute)
    caption = (
        f'||x^T - x*|| after T = {num_rounds:,} rounds: server model, mean ± standard '
        f'deviation over {num_seeds} seeds;\nexact distance of E[x^T] (bias) and root mean '
        'square (rms); simulated mean of the client models.'
    )
    rows = [_table_row(curve) for curve in curves]

    def draw(figure: Figure) -> None:
        _draw_panels(figure, list(panels), curves)

    return FigureResult(stack(curves), tables.from_rows(rows, caption), draw)


def _checked_pairs(pairs: Sequence[Sequence[float]]) -> np.ndarray:
    """Checks the pairs of probabilities.

    Returns:
      float64[G, 2].
    """
    probs = np.asarray(pairs, np.float64)
    if probs.ndim != 2 or probs.shape[1] != 2:
        raise errors.invalid(
            'config.figure.pairs', 'have shape [pairs, 2]', list(probs.shape)
        )
    checks.within('config.figure.pairs', probs, 0, 1)
    if not probs.any(axis=1).all():
        raise errors.invalid(
            'config.figure.pairs', 'have a positive entry in each pair', '(0, 0)'
        )
    return probs


def _probs_of_clients(pairs: np.ndarray, num_clients: int) -> np.ndarray:
    """Gives the first half of the clients one probability, the others the second.

    Returns:
      float64[G, N].
    """
    is_first_half = np.arange(num_clients) < num_clients // 2
    return np.where(is_first_half, pairs[:, :1], pairs[:, 1:])


def _simulate_curves(
    setting: _Setting, panel: str, algorithm: str, compute: str
) -> list[_Curve]:
    """Runs one algorithm on all pairs of probabilities; returns a curve for each."""
    client = local_training.local_sgd(
        setting.learning_rate, local_steps=setting.local_steps
    )
    section = {'name': algorithm, 'compute': compute}
    result = sweeps.sweep(
        lambda: resolver.build_named(
            f'config.figure.panels.{panel}', section, _ALGORITHMS, client
        ),
        bernoulli,
        setting.problem,
        seeds=range(setting.num_seeds),
        grid={'participation': {'schedule': setting.client_probs}},
        num_rounds=setting.num_rounds,
        eval_every=_EVAL_PERIOD,
    )
    server = np.asarray(result.evals['server']['distance'], np.float64)
    if 'client_mean' in result.evals:
        clients = np.asarray(result.evals['client_mean']['distance'])
    else:
        clients = np.full_like(server, np.nan)
    rounds = np.arange(_EVAL_PERIOD, setting.num_rounds + 1, _EVAL_PERIOD)
    curves = []
    for g, (first_prob, second_prob) in enumerate(setting.pairs):
        exact = _exact_distances(
            setting, setting.client_probs[g], algorithm, compute, rounds
        )
        curve: _Curve = {
            'panel': panel,
            'algorithm': algorithm,
            'first_prob': first_prob,
            'second_prob': second_prob,
            'round': rounds,
            'mean': server[g].mean(axis=0),
            'deviation': server[g].std(axis=0, ddof=1),
            'client_mean': clients[g].mean(axis=0, dtype=np.float64),
            'exact_bias': exact.bias,
            'exact_rms': exact.root_mean_square,
        }
        curves.append(curve)
    return curves


def _exact_distances(
    setting: _Setting,
    probs: np.ndarray,
    algorithm: str,
    compute: str,
    at_rounds: np.ndarray,
) -> _ExactDistances:
    """Computes exact distances of the server model.

    Args:
      setting: of the figure.
      probs: float64[N], link probabilities.
      algorithm: ``fedavg`` or ``fedpbc``.
      compute: who trains, ``'all'`` or ``'active'``.
      at_rounds: int64[E], rounds after which they are computed.
    """
    targets = setting.targets
    rate = setting.learning_rate
    steps = setting.local_steps
    rounds = setting.num_rounds
    if algorithm == 'fedavg':
        # FedAvg's law is the same whoever computes.
        law = analysis.fedavg_mean_and_covariance(
            probs, targets, rate, steps, num_rounds=rounds
        )
        mean = law.mean
        squared_bias = np.sum((mean - setting.optimum) ** 2, axis=1)
        square = squared_bias + law.variance.sum(axis=1)
    elif compute == 'active':
        mean = paused_means(probs, targets, (1 - rate) ** steps, rounds)
        square = np.full(rounds + 1, np.nan)
    else:
        moments = analysis.fedpbc_mean_and_covariance(
            probs, targets, rate, steps, num_rounds=rounds
        )
        mean = moments.server_mean
        square = moments.server_mean_square
    bias = np.linalg.norm(mean - setting.optimum, axis=1)
    return _ExactDistances(bias[at_rounds], np.sqrt(square)[at_rounds])


def _table_row(curve: _Curve) -> dict[str, str]:
    """Writes the last round of a curve."""
    return {
        'panel': curve['panel'],
        'algorithm': _LOOKS[curve['algorithm']][0],
        'p0, p1': f'{curve["first_prob"]:g}, {curve["second_prob"]:g}',
        'simulated': f'{curve["mean"][-1]:.2g} ± {curve["deviation"][-1]:.1g}',
        'bias': _digits(curve['exact_bias'][-1]),
        'rms': _digits(curve['exact_rms'][-1]),
        'client mean': _digits(curve['client_mean'][-1]),
    }


def _draw_panels(figure: Figure, labels: list[str], curves: list[_Curve]) -> None:
    """Draws one panel for each label, with one legend for all."""
    row = figure.subplots(1, len(labels), sharey=True, squeeze=False)[0]
    for axes, label in zip(row, labels, strict=True):
        _draw_panel(axes, [curve for curve in curves if curve['panel'] == label])
        axes.set_title(label, fontsize=10)
    lowest = min(
        curve['mean'][curve['round'] >= _FIRST_SHOWN].min() for curve in curves
    )
    row[0].set(ylabel=r'$\|x^t - x^*\|$', ylim=(lowest / _ROOM, None))
    lines = row[0].get_legend_handles_labels()
    figure.legend(*lines, loc='outside right upper', frameon=False, fontsize=9)


def _draw_panel(axes: Axes, curves: list[_Curve]) -> None:
    """Draws the curves of a panel, one colour for each pair of probabilities."""
    colour_of_pair: dict[tuple[float, float], str] = {}
    for curve in curves:
        pair = curve['first_prob'], curve['second_prob']
        next_colour = plot.COLOURS[len(colour_of_pair) % len(plot.COLOURS)]
        _draw_curve(axes, curve, colour_of_pair.setdefault(pair, next_colour))
    algorithms = {curve['algorithm'] for curve in curves}
    # Marks that belong to no line have their entries of the legend here.
    if 'fedpbc' in algorithms:
        axes.plot(
            [], [], ':', color='black', linewidth=1.2, label="FedPBC's client mean"
        )
    exact: dict[str, Any] = {'color': plot.EXACT, 'linestyle': 'none', 'markersize': 4}
    if any(np.isfinite(curve['exact_rms']).any() for curve in curves):
        axes.plot([], [], 'o', label='exact root mean square', **exact)
    axes.plot([], [], '<', label='exact bias', **exact)
    axes.set(yscale='log', xlim=(_FIRST_SHOWN, curves[0]['round'][-1]))
    label_axes(axes, 'round t', '', grid=True)


def _draw_curve(axes: Axes, curve: _Curve, colour: str) -> None:
    """Draws a mean and its deviation, and the client mean or the exact bias."""
    rounds = curve['round']
    mean = curve['mean']
    deviation = curve['deviation']
    algorithm, style = _LOOKS[curve['algorithm']]
    label = f'{algorithm}, {curve["first_prob"]:g} and {curve["second_prob"]:g}'
    # Dashes lie over solid lines, which they may meet.
    zorder = 3 if curve['algorithm'] == 'fedavg' else 2
    axes.plot(
        rounds, mean, style, label=label, color=colour, linewidth=1.2, zorder=zorder
    )
    low = np.maximum(mean - deviation, mean / 10)
    axes.fill_between(
        rounds, low, mean + deviation, color=colour, alpha=0.2, linewidth=0
    )
    if curve['algorithm'] == 'fedpbc':
        axes.plot(rounds, curve['client_mean'], ':', color=colour, linewidth=1.2)
    marks: dict[str, Any] = {'color': plot.EXACT, 'clip_on': False, 'zorder': 4}
    step = max(len(rounds) // _NUM_EXACT_MARKS, 1)
    marked = np.arange(step - 1, len(rounds), step)
    # Marks are not clipped, so that the last one is whole. None may lie left of the axes.
    marked = marked[rounds[marked] >= _FIRST_SHOWN]
    last = slice(-1, None)
    is_known = np.isfinite(curve['exact_rms']).all()
    if is_known:
        heights = curve['exact_rms'][marked]
        axes.plot(rounds[marked], heights, 'o', markersize=2, **marks)
    # Where the root mean square is drawn, the bias is shown once, and FedAvg's alone.
    is_shown = curve['algorithm'] == 'fedavg' or not is_known
    if is_shown and curve['exact_bias'][-1] > _NO_BIAS:
        shown = last if is_known else marked
        heights = curve['exact_bias'][shown]
        axes.plot(rounds[shown], heights, '<', markersize=4, **marks)


def _digits(value: float) -> str:
    """Writes three digits; nothing for what is unknown, and rounding errors as zero."""
    if np.isnan(value):
        return ''
    return f'{value:.3g}' if value > _NO_BIAS else '0'
