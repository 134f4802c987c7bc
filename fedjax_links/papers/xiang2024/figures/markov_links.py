"""Two-state Markov links with given probabilities: rates, memory and durations, exact and drawn."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedjax_links import analysis, plot
from fedjax_links.core import checks
from fedjax_links.participation import markov
from fedjax_links.participation.markov import rates
from fedjax_links.report.figure import FigureResult, stack
from fedjax_links.report.screens import recording
from fedjax_links.report.tables import Table

_QUANTITIES = ('up_rate', 'down_rate', 'share_up', 'correlation', 'rounds_up', 'rounds_down')
_PANELS = (_QUANTITIES[:2], _QUANTITIES[3:4], _QUANTITIES[4:])


def markov_links(
    *,
    probs: Sequence[float],
    up_rate: float = 0.05,
    num_links: int = 200,
    num_rounds: int = 4000,
    seed: int = 0,
) -> FigureResult:
    """What the rates of `participation.markov` are, and what they mean, for several p.

    Transition rates are ``q* = P(down -> up)`` and ``q = P(up -> down)``; a stay lasts ``1 / q``
    rounds up and ``1 / q*`` rounds down on average, and rounds k apart correlate by
    ``(1 - q - q*)^k``. Every simulated number is a ratio of counts over all links, with the
    standard error that its linearisation over independent links gives.

    Args:
      probs: float[K] in (0, 1), stationary probabilities p.
      up_rate: q* where it does not make q exceed one.
      num_links: independent links per probability, at least 2.
      num_rounds: rounds simulated.
      seed: seed of the links.

    Returns:
      Columns ``prob``, ``quantity``, ``exact``, ``simulated`` and ``standard_error``.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.

    References:
      Xiang et al. 2024, Figures 7 and 8.
    """
    checks.static_int('config.figure.num_links', num_links, minimum=2)
    p = np.asarray(probs, np.float64)
    checks.probabilities('config.figure.probs', p)
    checks.positive('config.figure.probs', p * (1 - p))
    pattern = markov(np.repeat(p, num_links), up_rate)
    record = recording.record_links(pattern, num_rounds=num_rounds, seed=seed)
    links = record.delivers.reshape(num_rounds, p.size, num_links).astype(np.int64)
    exact = _exact(p, up_rate)
    estimates = [_estimates(links[:, k]) for k in range(p.size)]
    simulated = {name: np.array([found[name] for found in estimates]) for name in _QUANTITIES}

    def draw(figure: Any) -> None:
        fine = np.linspace(0.005, 0.995, 199)
        for axes, names in zip(figure.subplots(1, len(_PANELS)), _PANELS, strict=True):
            for index, name in enumerate(names):
                colour = plot.COLOURS[index]
                axes.plot(fine, _exact(fine, up_rate)[name], color=colour)
                mean, error = simulated[name].T
                label = name.replace('_', ' ')
                axes.errorbar(p, mean, 4.5 * error, fmt='o', ms=4, color=colour, label=label)
            axes.set(xlabel='p', xlim=(0, 1), yscale='log' if len(names) > 1 else 'linear')
            axes.grid(alpha=0.25)
            axes.legend(frameon=False)

    rows = []
    for k, prob in enumerate(p):
        rows.append([f'{prob:g}', 'exact', *(f'{exact[name][k]:.3g}' for name in _QUANTITIES)])
        pairs = (simulated[name][k] for name in _QUANTITIES)
        rows.append(['', 'simulated', *(f'{mean:.3g} ± {error:.1g}' for mean, error in pairs)])
    columns = [
        {
            'prob': p,
            'quantity': name,
            'exact': exact[name],
            'simulated': simulated[name][:, 0],
            'standard_error': simulated[name][:, 1],
        }
        for name in _QUANTITIES
    ]
    header = ['p', '', *(name.replace('_', ' ') for name in _QUANTITIES)]
    caption = f'± standard error, {num_links} links x {num_rounds:,} rounds; correlation at lag 1.'
    return FigureResult(stack(columns), Table(header, rows, caption), draw)


def _exact(p: np.ndarray, up_rate: float) -> dict[str, np.ndarray]:
    up, down = rates(p, up_rate, np)
    share = analysis.markov_stationary(up, down)
    memory = analysis.markov_autocorrelation(up, down, 1)
    return dict(zip(_QUANTITIES, (up, down, share, memory, 1 / down, 1 / up), strict=True))


def _estimates(up: np.ndarray) -> dict[str, tuple[float, float]]:
    """Estimate and standard error by quantity, from int[T, L] of independent links."""
    before, after = up[:-1], up[1:]
    ups, downs = before.sum(axis=0), (1 - before).sum(axis=0)
    falls, rises = (before * (1 - after)).sum(axis=0), ((1 - before) * after).sum(axis=0)
    (rise, rise_parts), (fall, fall_parts) = _ratio(rises, downs), _ratio(falls, ups)
    found = (
        (rise, rise_parts),
        (fall, fall_parts),
        _ratio(up.sum(axis=0), np.full(up.shape[1], len(up))),
        (1 - fall - rise, fall_parts + rise_parts),
        _ratio(ups, falls),
        _ratio(downs, rises),
    )
    scale = up.shape[1] / (up.shape[1] - 1)
    return {
        name: (value, np.sqrt(scale * np.sum(parts**2)))
        for name, (value, parts) in zip(_QUANTITIES, found, strict=True)
    }


def _ratio(counts: np.ndarray, out_of: np.ndarray) -> tuple[float, np.ndarray]:
    """A ratio of totals, and what each link adds to its error to first order."""
    ratio = counts.sum() / out_of.sum()
    return ratio, (counts - ratio * out_of) / out_of.sum()
