"""How label-dependent link probabilities come out: class weights and a histogram of the p_i."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedjax_links import plot
from fedjax_links.participation import label_dependent_probs
from fedjax_links.problems import partition
from fedjax_links.report.figure import FigureResult
from fedjax_links.report.tables import Table

_EDGES = np.linspace(0, 1, 21)


def class_weights(
    *,
    num_clients: int = 100,
    num_classes: int = 10,
    alpha: float = 0.1,
    sigma: float = 10.0,
    minimum: float = 0.0,
    published: Sequence[float] = (),
    shown_draws: int = 3,
    num_draws: int = 400,
    first_seed: int = 0,
) -> FigureResult:
    """Class weights r and probabilities ``p_i = max(delta, <r, nu_i>)`` over many draws.

    Args:
      num_clients: m.
      num_classes: C.
      alpha: concentration of the clients' class shares ``nu_i ~ Dirichlet(alpha)``.
      sigma: standard deviation of the logarithm of the class weights.
      minimum: delta.
      published: example weights to show above ours.
      shown_draws: how many of ours to show.
      num_draws: draws of r and all nu_i.
      first_seed: seed of the first draw.

    Returns:
      Columns ``low`` and ``high`` (a bin), ``clients`` (how many on average fall into it),
      ``standard_error`` of that over draws, and ``first_draw``.

    References:
      Xiang et al. 2024, Figure 4.
    """
    counts, below, weights = [], [], []
    for seed in range(first_seed, first_seed + num_draws):
        shares = partition.dirichlet_shares(num_clients, num_classes, alpha=alpha, seed=seed)
        options: dict[str, Any] = {'sigma': sigma, 'seed': seed}
        probs = label_dependent_probs(shares, minimum=minimum, **options)
        counts.append(np.histogram(probs, _EDGES)[0])
        below.append(np.mean(probs < 0.1))
        # A client that holds one class only has that class's weight as its probability.
        pure = np.eye(num_classes)
        weights.append(label_dependent_probs(pure, minimum=0.0, **options))
    mean = np.mean(counts, axis=0)
    error = np.std(counts, axis=0, ddof=1) / np.sqrt(num_draws)
    top = np.sort(weights, axis=1)[:, ::-1]
    largest, second = top[:, 0], top[:, 1]

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        rows = [('paper', np.array(published))] if len(published) else []
        rows += [(f'seed {first_seed + k}', weights[k]) for k in range(min(shown_draws, num_draws))]
        for place, (_, row) in enumerate(rows):
            _draw_weights(left, place, row / row.sum())
        left.set_yticks(range(len(rows)), [label for label, _ in rows])
        left.invert_yaxis()
        left.set_xlabel('share of each class in r')
        left.set_xlim(0, 1)
        left.set_title('Class weights r; numbers are classes', fontsize=10)
        centres, width = (_EDGES[:-1] + _EDGES[1:]) / 2, np.diff(_EDGES)[0]
        right.bar(centres, mean, width, color=plot.COLOURS[0], label=f'mean of {num_draws} draws')
        right.errorbar(centres, mean, 1.96 * error, fmt='none', color=plot.EXACT, capsize=2)
        right.plot(centres, counts[0], 'D', color=plot.COLOURS[1], label=f'seed {first_seed}')
        right.set_xlabel('$p_i$')
        right.set_ylabel(f'clients of {num_clients}')
        right.set_yscale('symlog', linthresh=1)
        right.set_title(f'Histogram of $p_i$, delta = {minimum:g}', fontsize=10)
        right.legend(frameon=False)

    rows = [
        ['clients with p_i < 0.1', _interval(np.array(below))],
        ['largest class weight', _interval(largest)],
        ['second largest', _interval(second)],
    ]
    return FigureResult(
        columns={
            'low': _EDGES[:-1],
            'high': _EDGES[1:],
            'clients': mean,
            'standard_error': error,
            'first_draw': np.array(counts[0]),
        },
        table=Table(
            ['share', 'mean ± 1.96 standard errors'],
            rows,
            f'{num_draws} draws, m = {num_clients}, alpha = {alpha:g}, sigma = {sigma:g}, '
            f'delta = {minimum:g}.',
        ),
        draw=draw,
    )


def _draw_weights(axes: Any, place: int, row: np.ndarray) -> None:
    """One stacked bar; classes too thin to see go without a number."""
    start = 0.0
    for label, share in enumerate(row):
        colour = plot.COLOURS[label % len(plot.COLOURS)]
        axes.barh(place, share, left=start, color=colour, edgecolor='white', linewidth=0.5)
        if share > 0.03:
            axes.text(start + share / 2, place, str(label), ha='center', va='center')
        start += share


def _interval(values: np.ndarray) -> str:
    error = values.std(ddof=1) / np.sqrt(len(values))
    return f'{values.mean():.3f} ± {1.96 * error:.3f}'
