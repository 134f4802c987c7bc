"""Distance to the optimum of FedAvg and FedPBC on quadratics whose targets follow the links."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from fedjax_links import analysis, local_training, plot, problems, sweeps
from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.base import Problem
from fedjax_links.config import sections
from fedjax_links.core import checks, errors
from fedjax_links.participation import bernoulli
from fedjax_links.report.figure import FigureResult, stack
from fedjax_links.report.tables import Table

_RULES = {name: ALGORITHMS[name] for name in ('fedavg', 'fedpbc')}
_LOOKS = {'fedavg': ('FedAvg', '--'), 'fedpbc': ('FedPBC', '-')}
_NO_BIAS = 1e-5
_ROOM = 3  # below the lowest server model, where the clients' mean goes on falling


class Setting(NamedTuple):
    """What all curves of the figure share.

    Attributes:
      problem: the quadratics.
      chances: float64[G, N], link probabilities of each pair.
      learning_rate: eta.
      local_steps: s.
      num_rounds: T.
      eval_every: rounds between two points of a curve.
      num_seeds: S.
    """

    problem: Problem
    chances: np.ndarray
    learning_rate: float
    local_steps: int
    num_rounds: int
    eval_every: int
    num_seeds: int


class Curves(NamedTuple):
    """Distances to the optimum under one algorithm, at E times.

    Attributes:
      server: float64[G, S, E], of the server model.
      client_mean: float64[G, S, E], of the mean of the client models; NaN where there are none.
      bias: float64[G], exact distance of ``E[x^T]``.
      rms: float64[G], exact root mean square distance of x^T; NaN where unknown.
    """

    server: np.ndarray
    client_mean: np.ndarray
    bias: np.ndarray
    rms: np.ndarray


def counterexample_error(
    *,
    panels: Mapping[str, sections.Section],
    pairs: Sequence[Sequence[float]],
    learning_rate: float,
    local_steps: int,
    num_rounds: int,
    num_clients: int = 100,
    dimension: int = 100,
    target_seed: int = 0,
    eval_every: int = 10,
    first_shown: int = 50,
    num_seeds: int = 3,
    client_mean: bool = False,
) -> FigureResult:
    """``||x^t - x*||`` over rounds on `problems.counterexample`, independent links in two halves.

    One compiled sweep per algorithm holds all pairs of probabilities and all seeds of the links.

    Args:
      panels: by label, ``algorithms`` (``fedavg``, ``fedpbc`` or both) and ``compute`` (who trains,
        ``'all'`` or ``'active'``).
      pairs: float[G, 2], link probability of the first and of the second half of the clients.
      learning_rate: eta, of the local steps.
      local_steps: s.
      num_rounds: T.
      num_clients: N.
      dimension: d.
      target_seed: seed of the targets, which all runs share.
      eval_every: rounds between two points of a curve, a divisor of T.
      first_shown: round from which curves are drawn; the columns hold all rounds.
      num_seeds: S, at least 2 runs that differ in their links.
      client_mean: draw the mean of FedPBC's client models as well, down to where it leaves the
        picture; it is in the columns and the table anyway.

    Returns:
      Columns ``panel``, ``algorithm``, ``first_prob``, ``second_prob``, ``round``, ``mean`` and
      ``deviation`` (standard deviation over seeds) of the server's distance, ``client_mean`` (mean
      distance of the mean client model), and ``exact_bias`` and ``exact_rms`` of round T.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.

    References:
      Xiang et al. 2023, Figure 2; Xiang et al. 2024, Figure 3.
    """
    checks.static_int('config.figure.num_seeds', num_seeds, minimum=2)
    probs = _checked_pairs(pairs)
    halves = np.arange(num_clients) < num_clients // 2
    setting = Setting(
        problem=problems.counterexample(
            num_clients=num_clients, dimension=dimension, seed=target_seed
        ),
        chances=np.where(halves, probs[:, :1], probs[:, 1:]),
        learning_rate=learning_rate,
        local_steps=local_steps,
        num_rounds=num_rounds,
        eval_every=eval_every,
        num_seeds=num_seeds,
    )
    found = {
        label: {
            name: _curves(setting, f'config.figure.panels.{label}', name, panel['compute'])
            for name in panel['algorithms']
        }
        for label, panel in panels.items()
    }
    times = np.arange(eval_every, num_rounds + 1, eval_every)

    def draw(figure: Any) -> None:
        row = figure.subplots(1, len(found), sharey=True, squeeze=False)[0]
        for axes, (label, shown) in zip(row, found.items(), strict=True):
            _draw_panel(axes, times, shown, first_shown, client_mean)
            axes.set_title(label, fontsize=10)
        row[0].set_ylabel(r'$\|x^t - x^*\|$')
        _draw_legend(row[-1], probs, client_mean)

    parts = [
        {
            'panel': label,
            'algorithm': name,
            'first_prob': first,
            'second_prob': second,
            'round': times,
            'mean': curves.server[g].mean(axis=0),
            'deviation': curves.server[g].std(axis=0, ddof=1),
            'client_mean': curves.client_mean[g].mean(axis=0),
            'exact_bias': curves.bias[g],
            'exact_rms': curves.rms[g],
        }
        for label, shown in found.items()
        for name, curves in shown.items()
        for g, (first, second) in enumerate(probs)
    ]
    return FigureResult(columns=stack(parts), table=_table(parts, setting), draw=draw)


def _checked_pairs(pairs: Any) -> np.ndarray:
    """float64[G, 2] of probabilities, at least one of each pair positive."""
    probs = np.asarray(pairs, np.float64)
    if probs.ndim != 2 or probs.shape[1] != 2:
        raise errors.invalid('config.figure.pairs', 'have shape [pairs, 2]', list(probs.shape))
    checks.within('config.figure.pairs', probs, 0, 1)
    if not probs.any(axis=1).all():
        raise errors.invalid('config.figure.pairs', 'hold a positive entry each', '(0, 0)')
    return probs


def _curves(setting: Setting, where: str, name: str, compute: str) -> Curves:
    client = local_training.local_sgd(setting.learning_rate, local_steps=setting.local_steps)
    section = {'name': name, 'compute': compute}
    result = sweeps.sweep(
        lambda: sections.named(where, section, _RULES, client),
        bernoulli,
        setting.problem,
        seeds=range(setting.num_seeds),
        grid={'participation': {'schedule': setting.chances}},
        num_rounds=setting.num_rounds,
        eval_every=setting.eval_every,
        eval_fn=lambda params, key, problem: jnp.linalg.norm(
            params - jnp.mean(problem.eval_data, axis=0)
        ),
    )
    server = np.asarray(result.evals['server'], np.float64)
    clients = result.evals.get('client_mean', np.full_like(server, np.nan))
    exact = [_exact(setting, probs, name, compute) for probs in setting.chances]
    bias, rms = np.transpose(exact)
    return Curves(server=server, client_mean=np.asarray(clients, np.float64), bias=bias, rms=rms)


def _exact(
    setting: Setting, probs: np.ndarray, name: str, compute: str
) -> tuple[np.floating, np.floating]:
    """Distance of ``E[x^T]``, and root mean square distance of x^T (NaN if unknown)."""
    targets = np.asarray(setting.problem.data, np.float64)
    optimum = targets.mean(axis=0)
    steps = setting.learning_rate, setting.local_steps
    if name == 'fedpbc' and compute == 'active':
        factor = (1 - setting.learning_rate) ** setting.local_steps
        mean = paused_mean(probs, targets, factor, setting.num_rounds)
        return np.linalg.norm(mean - optimum), np.float64(np.nan)
    if name == 'fedpbc':
        moments = analysis.fedpbc_mean_and_covariance(
            probs, targets, *steps, num_rounds=setting.num_rounds
        )
        bias = np.linalg.norm(moments.server_mean[-1] - optimum)
        return bias, np.sqrt(moments.server_mean_square[-1])
    law = analysis.fedavg_mean_and_covariance(
        probs, targets, *steps, num_rounds=setting.num_rounds
    )  # the server's law is the same whoever computes
    bias = np.linalg.norm(law.mean[-1] - optimum)
    return bias, np.sqrt(bias**2 + law.variance[-1].sum())


def paused_mean(
    probs: np.ndarray, targets: np.ndarray, factor: float, num_rounds: int
) -> np.ndarray:
    """Expected server model of FedPBC when only active clients compute, all models from zero.

    With ``K_ij = E[1{i, j in A} / |A|]`` the expected client models X (rows) and server x follow
    ``X' = K Z + diag(1 - p) X`` and ``x' = P_0 x + sum_i E[1{i in A} / |A|] Z_i``, with
    ``Z = a X + (1 - a) U`` and P_0 the probability of an empty round.

    Args:
      probs: float64[N], independent link probabilities, at least one positive.
      targets: float64[N, d], U.
      factor: a, the share of a distance that a round's local steps leave.
      num_rounds: T.

    Returns:
      float64[d], ``E[x^T]``.
    """
    cohort = analysis.expected_mixing_matrix(probs) - np.diag(1 - probs)
    empty = np.prod(1 - probs)
    shares = analysis.fedavg_weights(probs) * (1 - empty)
    clients, server = np.zeros_like(targets), np.zeros(targets.shape[1])
    for _ in range(num_rounds):
        trained = factor * clients + (1 - factor) * targets
        server = empty * server + shares @ trained
        clients = cohort @ trained + (1 - probs)[:, None] * clients
    return server


def _table(parts: Sequence[Mapping[str, Any]], setting: Setting) -> Table:
    header = ['panel', 'algorithm', 'p0, p1', 'simulated', 'bias', 'rms', 'client mean']
    rows = [
        [
            part['panel'],
            _LOOKS[part['algorithm']][0],
            f'{part["first_prob"]:g}, {part["second_prob"]:g}',
            f'{part["mean"][-1]:.2g} ± {part["deviation"][-1]:.1g}',
            *(_digits(part[name]) for name in ('exact_bias', 'exact_rms')),
            _digits(part['client_mean'][-1]),
        ]
        for part in parts
    ]
    caption = (
        f'||x^T - x*|| after T = {setting.num_rounds:,} rounds: server model, mean ± standard '
        f'deviation over {setting.num_seeds} seeds;\nexact distance of E[x^T] (bias) and root mean '
        'square (rms); simulated mean of the client models.'
    )
    return Table(header, rows, caption)


def _digits(value: float) -> str:
    """Three digits; nothing for what is unknown, and rounding errors as zero."""
    if np.isnan(value):
        return ''
    return f'{value:.3g}' if value > _NO_BIAS else '0'


def _draw_panel(
    axes: Any,
    times: np.ndarray,
    shown: Mapping[str, Curves],
    first_shown: int,
    client_mean: bool,
) -> None:
    late = times >= first_shown
    lowest = min(curves.server[..., late].mean(axis=1).min() for curves in shown.values())
    for name, curves in shown.items():
        for g, distances in enumerate(curves.server):
            colour = plot.COLOURS[g % len(plot.COLOURS)]
            mean, spread = distances.mean(axis=0)[late], distances.std(axis=0, ddof=1)[late]
            axes.plot(times[late], mean, _LOOKS[name][1], color=colour, linewidth=1.2)
            low = np.maximum(mean - spread, mean / 10)  # a log axis has no zero
            axes.fill_between(times[late], low, mean + spread, color=colour, alpha=0.2, linewidth=0)
            if client_mean and name == 'fedpbc':
                clients = curves.client_mean[g].mean(axis=0)[late]
                within = np.where(clients > lowest / _ROOM, clients, np.nan)
                axes.plot(times[late], within, ':', color=colour, linewidth=1.2)
            if name == 'fedavg' and curves.bias[g] > _NO_BIAS:
                axes.plot(times[-1], curves.bias[g], '<', color=plot.EXACT, clip_on=False)
    axes.set_yscale('log')
    axes.set_xlim(first_shown, times[-1])
    axes.set_xlabel('round t')
    axes.grid(alpha=0.25)


def _draw_legend(axes: Any, probs: np.ndarray, client_mean: bool) -> None:
    """Right of the axes: colours are pairs of probabilities, line styles algorithms."""
    for g, (first, second) in enumerate(probs):
        colour = plot.COLOURS[g % len(plot.COLOURS)]
        axes.plot([], [], color=colour, label=f'$p_0, p_1$ = {first:g}, {second:g}')
    for label, line in _LOOKS.values():
        axes.plot([], [], line, color=plot.EXACT, label=label)
    if client_mean:
        axes.plot([], [], ':', color=plot.EXACT, label='FedPBC, client mean')
    axes.plot([], [], '<', color=plot.EXACT, label='exact bias of FedAvg')
    axes.legend(frameon=False, fontsize=9, loc='upper left', bbox_to_anchor=(1.02, 1))
