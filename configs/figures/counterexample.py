"""Distance to the optimum of FedAvg and FedPBC on quadratics whose targets follow the links."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links import analysis, local_training, plot, problems, sweeps
from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.config import resolver
from fedjax_links.core import checks, errors
from fedjax_links.pages import tables
from fedjax_links.pages.figure import FigureResult, stack
from fedjax_links.participation import bernoulli
from fedjax_links.plot.panels import finish

_ALGORITHMS = {name: ALGORITHMS[name] for name in ('fedavg', 'fedpbc')}
_LOOKS = {'fedavg': ('FedAvg', '--'), 'fedpbc': ('FedPBC', '-')}
_PAIRS = ((0.1, 0.1), (0.1, 0.5), (0.1, 0.9), (0.5, 0.5), (0.5, 0.9), (0.9, 0.9))

_EVAL_PERIOD = 10  # rounds between two points of a curve
_NO_BIAS = 1e-5
_FIRST_SHOWN = 50  # round from which curves are drawn
_ROOM = 3  # below the lowest server model, where the clients' mean goes on falling


def counterexample_error(
    *,
    panels: Mapping[str, resolver.Section],
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
      num_rounds: T, a multiple of 10.
      pairs: float[G, 2], link probability of the first and of the second half of the clients; ours
        by default, as the papers' are lost.
      num_clients: N.
      dimension: d.
      num_seeds: S, at least 2 runs that differ in their links.

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
    probs = np.asarray(pairs, np.float64)
    if probs.ndim != 2 or probs.shape[1] != 2:
        raise errors.invalid(
            'config.figure.pairs', 'have shape [pairs, 2]', list(probs.shape)
        )
    checks.within('config.figure.pairs', probs, 0, 1)
    if not probs.any(axis=1).all():
        raise errors.invalid(
            'config.figure.pairs', 'hold a positive entry each', '(0, 0)'
        )
    chances = np.where(
        np.arange(num_clients) < num_clients // 2, probs[:, :1], probs[:, 1:]
    )
    problem = problems.counterexample(
        num_clients=num_clients, dimension=dimension, seed=0
    )
    targets = np.asarray(problem.data, np.float64)
    optimum = targets.mean(axis=0)
    times = np.arange(_EVAL_PERIOD, num_rounds + 1, _EVAL_PERIOD)

    def exact(probs: np.ndarray, name: str, compute: str) -> dict[str, Any]:
        """Returns the distance of ``E[x^T]``, and the root mean square one; NaN if unknown."""
        given = probs, targets, learning_rate, local_steps
        if name == 'fedavg':
            law = analysis.fedavg_mean_and_covariance(*given, num_rounds=num_rounds)
            mean = law.mean[-1]  # the same whoever computes
            square = np.sum((mean - optimum) ** 2 + law.variance[-1])
        elif compute == 'active':
            mean = paused_mean(
                probs, targets, (1 - learning_rate) ** local_steps, num_rounds
            )
            square = np.nan
        else:
            moments = analysis.fedpbc_mean_and_covariance(*given, num_rounds=num_rounds)
            mean = moments.server_mean[-1]
            square = moments.server_mean_square[-1]
        return {
            'exact_bias': np.linalg.norm(mean - optimum),
            'exact_rms': np.sqrt(square),
        }

    def curves(label: str, name: str, compute: str) -> Iterator[dict[str, Any]]:
        client = local_training.local_sgd(learning_rate, local_steps=local_steps)
        section = {'name': name, 'compute': compute}
        result = sweeps.sweep(
            lambda: resolver.build_named(
                f'config.figure.panels.{label}', section, _ALGORITHMS, client
            ),
            bernoulli,
            problem,
            seeds=range(num_seeds),
            grid={'participation': {'schedule': chances}},
            num_rounds=num_rounds,
            eval_every=_EVAL_PERIOD,
        )
        distances = {
            model: metrics['distance'] for model, metrics in result.evals.items()
        }
        server = np.asarray(distances['server'], np.float64)
        clients = np.asarray(distances.get('client_mean', np.full_like(server, np.nan)))
        for g, pair in enumerate(probs):
            yield {
                'panel': label,
                'algorithm': name,
                'first_prob': pair[0],
                'second_prob': pair[1],
                'round': times,
                'mean': server[g].mean(axis=0),
                'deviation': server[g].std(axis=0, ddof=1),
                'client_mean': clients[g].mean(axis=0, dtype=np.float64),
                **exact(chances[g], name, compute),
            }

    parts: list[dict[str, Any]] = []
    for label, panel in panels.items():
        for name in panel['algorithms']:
            parts += curves(label, name, panel['compute'])

    def draw(figure: Any) -> None:
        row = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for axes, label in zip(row, panels, strict=True):
            shown = [part for part in parts if part['panel'] == label]
            # The pairs come in the same order for every algorithm.
            for part, pair in zip(shown, itertools.cycle(range(len(probs)))):
                colour = plot.COLOURS[pair % len(plot.COLOURS)]
                mean = part['mean']
                spread = part['deviation']
                algorithm, style = _LOOKS[part['algorithm']]
                name = '{}, {first_prob:g} and {second_prob:g}'.format(
                    algorithm, **part
                )
                above = (
                    3 if part['algorithm'] == 'fedavg' else 2
                )  # dashes over what they may meet
                look = {'color': colour, 'linewidth': 1.2, 'zorder': above}
                axes.plot(times, mean, style, label=name, **look)
                band = {'color': colour, 'alpha': 0.2, 'linewidth': 0}
                low = np.maximum(mean - spread, mean / 10)
                axes.fill_between(times, low, mean + spread, **band)
                if part['algorithm'] == 'fedpbc':
                    axes.plot(
                        times, part['client_mean'], ':', color=colour, linewidth=1.2
                    )
                elif part['exact_bias'] > _NO_BIAS:
                    axes.plot(
                        times[-1],
                        part['exact_bias'],
                        '<',
                        color=plot.EXACT,
                        clip_on=False,
                    )
            if any(part['algorithm'] == 'fedpbc' for part in shown):
                axes.plot(
                    [],
                    [],
                    ':',
                    color='black',
                    linewidth=1.2,
                    label="FedPBC's client mean",
                )
            if any(part['algorithm'] == 'fedavg' for part in shown):
                axes.plot([], [], '<', color=plot.EXACT, label="FedAvg's exact bias")
            axes.set(yscale='log', xlim=(_FIRST_SHOWN, times[-1]))
            axes.set_title(label, fontsize=10)
            finish(axes, 'round t', '', grid=True)
        lowest = min(part['mean'][times >= _FIRST_SHOWN].min() for part in parts)
        row[0].set(ylabel=r'$\|x^t - x^*\|$', ylim=(lowest / _ROOM, None))
        lines = row[0].get_legend_handles_labels()
        figure.legend(*lines, loc='outside right upper', frameon=False, fontsize=9)

    rows = [
        {
            'panel': part['panel'],
            'algorithm': _LOOKS[part['algorithm']][0],
            'p0, p1': f'{part["first_prob"]:g}, {part["second_prob"]:g}',
            'simulated': f'{part["mean"][-1]:.2g} ± {part["deviation"][-1]:.1g}',
            'bias': _digits(part['exact_bias']),
            'rms': _digits(part['exact_rms']),
            'client mean': _digits(part['client_mean'][-1]),
        }
        for part in parts
    ]
    caption = (
        f'||x^T - x*|| after T = {num_rounds:,} rounds: server model, mean ± standard '
        f'deviation over {num_seeds} seeds;\nexact distance of E[x^T] (bias) and root mean '
        'square (rms); simulated mean of the client models.'
    )
    return FigureResult(stack(parts), tables.of_rows(rows, caption), draw)


def paused_mean(
    probs: np.ndarray, targets: np.ndarray, factor: float, num_rounds: int
) -> np.ndarray:
    """Computes the expected server model of FedPBC when only active clients compute.

    All models begin at zero.

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
    weights = analysis.fedavg_weights(probs) * (1 - empty)
    clients = np.zeros_like(targets)
    server = np.zeros(targets.shape[1])
    for _ in range(num_rounds):
        trained = factor * clients + (1 - factor) * targets
        server = empty * server + weights @ trained
        clients = cohort @ trained + (1 - probs)[:, None] * clients
    return server


def _digits(value: float) -> str:
    """Writes three digits; nothing for what is unknown, and rounding errors as zero."""
    if np.isnan(value):
        return ''
    return f'{value:.3g}' if value > _NO_BIAS else '0'
