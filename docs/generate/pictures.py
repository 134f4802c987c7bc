"""Small pictures of methods: where an algorithm goes, and who takes part under a pattern."""

from pathlib import Path
from typing import Any

import jax
import matplotlib
import numpy as np
from matplotlib.figure import Figure

from fedjax_links import analysis, local_training, participation, problems, simulation
from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.core.registry import AlgorithmEntry
from fedjax_links.links import graphs
from generate import exact_paths

matplotlib.use('Agg')

_BLUE, _ORANGE, _GREY = '#0072B2', '#E69F00', '#7F7F7F'
_NUM_SEEDS = 16
_ROUNDS_SHOWN = 80

TRAJECTORY_CAPTION = """\
Ten clients with quadratic losses. The larger the optimum of a client (-1 to 1), the better its
link (Bernoulli, 0.1 to 0.9). The line is the mean of the model over 16 seeds, the band the middle
two thirds of them. The optimum is 0. FedAvg's exact limit is dashed, and its mean grey. Black dots
are the exact mean of the models, for algorithms whose rounds are linear
(:func:`~fedjax_links.analysis.linear_curve`). Clients
take five local steps of 0.02, with the hyper-parameters of the registered example. Algorithms
that use links between clients have a ring whose edges are up half of the time.
"""
PATTERN_CAPTION = """\
Left: eighty rounds of twelve clients (dark: the uplink delivers). Right: the fraction of four
thousand rounds in which each client delivered. Circles are the mean of the probabilities that the
pattern reports.
"""


class Trajectories:
    """Draws algorithms on one problem; FedAvg's path is computed once."""

    def __init__(self) -> None:
        """Simulates FedAvg."""
        self.problem = problems.quadratic(
            exact_paths.TARGETS, initial_point=[exact_paths.START]
        )
        self.limit = float(
            analysis.fedavg_fixed_point(exact_paths.PROBS, exact_paths.TARGETS)[0]
        )
        self.fedavg = self._paths(ALGORITHMS['fedavg'])['server']
        self.exact = exact_paths.read()

    def _paths(self, entry: AlgorithmEntry) -> dict[str, np.ndarray]:
        """Simulate an algorithm: float[S, T] for each candidate model."""
        program = entry.client_program or local_training.local_sgd
        client = program(
            exact_paths.LEARNING_RATE,
            local_steps=exact_paths.LOCAL_STEPS,
            **entry.client_example,
        )
        algorithm = entry(client, **entry.example)
        links = participation.bernoulli(exact_paths.PROBS)
        if entry.traffic.peers:
            links = participation.peers(
                links, graphs.ring(len(exact_paths.PROBS)), prob=exact_paths.EDGE_PROB
            )

        @jax.jit
        def run(keys: jax.Array, problem: Any) -> Any:
            def one(key: jax.Array) -> Any:
                return simulation.simulate(
                    key,
                    algorithm,
                    links,
                    problem,
                    num_rounds=exact_paths.NUM_ROUNDS,
                    eval_every=1,
                    eval_fn=lambda params, key, problem: params[0],
                ).evals

            return jax.vmap(one)(keys)

        keys = jax.random.split(jax.random.key(0), _NUM_SEEDS)
        return {
            name: np.asarray(path) for name, path in run(keys, self.problem).items()
        }

    def draw(self, name: str, entry: AlgorithmEntry, path: Path) -> None:
        """Writes the picture of one algorithm."""
        figure = Figure(figsize=(6.4, 2.8), layout='constrained')
        axes = figure.subplots()
        rounds = np.arange(1, exact_paths.NUM_ROUNDS + 1)
        axes.axhline(0, color='black', linewidth=0.8)
        axes.axhline(self.limit, color=_GREY, linewidth=0.8, linestyle='--')
        if entry.factory is not ALGORITHMS['fedavg'].factory:
            axes.plot(
                rounds,
                self.fedavg.mean(axis=0),
                color=_GREY,
                linewidth=1,
                label='fedavg',
            )
        paths = self._paths(entry)
        for (model, values), colour in zip(
            paths.items(), (_BLUE, _ORANGE), strict=False
        ):
            low, high = np.quantile(values, [1 / 6, 5 / 6], axis=0)
            axes.fill_between(rounds, low, high, color=colour, alpha=0.2, linewidth=0)
            if f'{name}/{model}' in self.exact:
                axes.plot(
                    self.exact['round'],
                    self.exact[f'{name}/{model}'],
                    color='black',
                    linewidth=2.5,
                    linestyle=(0, (0.1, 1.6)),
                    dash_capstyle='round',
                )
            label = f'{name}, {model.replace("_", " ")}'
            axes.plot(
                rounds, values.mean(axis=0), color=colour, linewidth=1.5, label=label
            )
        axes.set(
            xlabel='round',
            ylabel='model',
            xlim=(0, exact_paths.NUM_ROUNDS),
            ylim=(-1.05, 0.75),
        )
        axes.legend(loc='lower right', frameon=False, fontsize=8)
        for side in ('top', 'right'):
            axes.spines[side].set_visible(False)
        figure.savefig(path, dpi=110)


def draw_pattern(mask: np.ndarray, prob: np.ndarray, path: Path) -> None:
    """Writes the picture of a pattern.

    Args:
      mask: bool[T, N], of which the first rounds are shown.
      prob: float[T, N], what the pattern reports; NaN where it does not know.
      path: where the picture goes.
    """
    figure = Figure(figsize=(6.4, 2.4), layout='constrained')
    left, right = figure.subplots(1, 2, width_ratios=[4, 1], sharey=True)
    left.imshow(
        mask[:_ROUNDS_SHOWN].T,
        aspect='auto',
        cmap='Blues',
        vmin=-0.15,
        vmax=1.2,
        interpolation='nearest',
    )
    left.set(xlabel='round', ylabel='client')
    clients = np.arange(mask.shape[1])
    right.barh(clients, mask.mean(axis=0), color=_BLUE, height=0.7)
    right.plot(prob.mean(axis=0), clients, 'o', color=_ORANGE, markersize=4)
    right.set(xlabel='fraction', xlim=(0, 1.02))
    for side in ('top', 'right'):
        right.spines[side].set_visible(False)
    figure.savefig(path, dpi=110)
