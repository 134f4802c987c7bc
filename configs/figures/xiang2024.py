"""Redraws figures of Xiang et al. 2024: traces and rates of links, weights, FedAvg's limit."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy import stats

from fedjax_links import analysis, local_training, partition, plot, problems, sweeps
from fedjax_links.algorithms import fedavg
from fedjax_links.base import delivers
from fedjax_links.config import link_sections
from fedjax_links.core import checks, errors, factory_options
from fedjax_links.core.records import Section
from fedjax_links.pages import tables
from fedjax_links.pages.figure import FigureResult, stack
from fedjax_links.participation import (
    bernoulli,
    label_dependent_probs,
    markov,
    probabilities,
)
from fedjax_links.participation.markov import rates
from fedjax_links.plot.panels import grid, label_axes
from fedjax_links.preview.links import record_links

_UP_RATE = 0.05
_LINK_ROUNDS = 4000
_QUANTITIES = (
    'up_rate',
    'down_rate',
    'share_up',
    'correlation',
    'rounds_up',
    'rounds_down',
)
_PANELS = {
    'transition rates': _QUANTITIES[:2],
    'correlation of adjacent rounds': _QUANTITIES[3:4],
    'mean length of a stay, rounds': _QUANTITIES[4:],
}
_NUM_CLASSES = 10
_FIRST_PROB = 0.5
"""Probability of the first client's link in `two_client_limit`."""
_TARGETS = np.array([0.0, 100.0])
_LIMIT_ROUNDS = 300
_NUM_LISTED = 6
"""About how many values of p_2 its table lists."""


class _Panel(NamedTuple):
    """Holds the options of a panel of `link_traces`."""

    links: Section
    rounds: int


def link_traces(*, panels: Mapping[str, Section], probs: Any) -> FigureResult:
    """Draws one link per probability and pattern, over time.

    Args:
      panels: by label, ``links`` (a section for `link_sections.bind_links`, without ``probs``)
        and ``rounds``.
      probs: float[K], base probabilities, drawn from top to bottom.

    Returns:
      Columns ``pattern``, ``base_prob``, ``round``, ``prob`` (as the pattern reports it) and
      ``up``.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.

    References:
      Xiang et al. 2024, Figure 6.
    """
    checks.not_empty('config.figure.panels', panels)
    checks.probabilities('config.figure.probs', probs)
    base = np.array(probs, np.float64)
    names = [f'p = {p:g}' for p in base]
    problem = problems.quadratic(np.zeros((base.size, 1)))
    records = {}
    parts = []
    rows = []
    for label, panel in panels.items():
        where = f'config.figure.panels.{label}'
        factory_options.check(where, _Panel, panel)
        links, rounds = _Panel(**panel)
        section = {**links, 'probs': {'name': 'listed', 'values': list(base)}}
        pattern = link_sections.bind_links(section, problem, f'{where}.links').build()
        records[label] = record = record_links(pattern, num_rounds=rounds, seed=0)
        shares = [f'{share:.3f}' for share in delivers(record).mean(axis=0)]
        rows.append([label, str(rounds), *shares])
        for p, prob, up in zip(
            base, record.prob.T, delivers(record).T.astype(int), strict=True
        ):
            part = {'pattern': label, 'base_prob': p, 'round': np.arange(rounds)}
            parts.append({**part, 'prob': prob, 'up': up})

    def draw(figure: Any) -> None:
        client_ids = range(base.size)
        for axes, label in zip(grid(figure, len(records), 2), records, strict=True):
            record = records[label]
            plot.link_map(
                delivers(record), order=client_ids, num_rounds=len(record.mask), ax=axes
            )
            # Each link's probability over time: 0 at the lower edge of its row, 1 at the upper.
            for row, prob in enumerate(record.prob.T):
                axes.plot(row + 0.4 - 0.8 * prob, color=plot.COLOURS[1], linewidth=1)
            axes.set_yticks(client_ids, names)
            axes.set_title(label, fontsize=10)

    caption = 'Share of the rounds in which each link was up; seed 0, one link each.'
    table = tables.Table(['pattern', 'rounds', *names], rows, caption)
    return FigureResult(stack(parts), table, draw)


def markov_links(*, probs: Sequence[float], num_links: int = 200) -> FigureResult:
    """Compares the rates of `participation.markov` and what they mean, for several p.

    Transition rates are ``q* = P(down -> up)`` and ``q = P(up -> down)``; a stay lasts ``1 / q``
    rounds up and ``1 / q*`` rounds down on average, and rounds k apart correlate by
    ``(1 - q - q*)^k``. Every simulated number is a ratio of counts over all links, with the
    standard error that its linearisation over independent links gives.

    Args:
      probs: float[K] in (0, 1), stationary probabilities p.
      num_links: independent links per probability, at least 2.

    Returns:
      Columns ``prob``, ``quantity``, ``exact``, ``simulated`` and ``standard_error``.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.

    References:
      Xiang et al. 2024, Figures 7 and 8.
    """
    checks.static_int('config.figure.num_links', num_links, minimum=2)
    checks.probabilities('config.figure.probs', probs, axis='link')
    p = np.array(probs, np.float64)
    for prob in p:
        if prob in (0, 1):
            raise errors.invalid('config.figure.probs', 'lie in (0, 1)', prob)
    pattern = markov(np.repeat(p, num_links), _UP_RATE)
    record = record_links(pattern, num_rounds=_LINK_ROUNDS, seed=0)
    links = np.reshape(record.mask, (_LINK_ROUNDS, p.size, num_links)).astype(np.int64)
    exact = _exact(p)
    simulated = _estimates(links)
    words = {name: name.replace('_', ' ') for name in _QUANTITIES}

    def draw(figure: Any) -> None:
        fine = np.linspace(0.005, 0.995, 199)
        row = figure.subplots(1, len(_PANELS))
        for axes, (title, names) in zip(row, _PANELS.items(), strict=True):
            # There are more colours than names.
            for colour, name in zip(plot.COLOURS, names, strict=False):
                axes.plot(fine, _exact(fine)[name], color=colour)
                mean, error = simulated[name]
                look = {'fmt': 'o', 'ms': 4, 'color': colour, 'label': words[name]}
                axes.errorbar(p, mean, 4.5 * error, **look)
            axes.set(xlim=(0, 1), yscale='log' if len(names) > 1 else 'linear')
            label_axes(axes, 'p, probability to be up', title, legend='best', grid=True)

    parts = []
    rows = []
    for name, (mean, error) in simulated.items():
        part = {'prob': p, 'quantity': name, 'exact': exact[name]}
        parts.append({**part, 'simulated': mean, 'standard_error': error})
    for k, prob in enumerate(p):
        rows.append(
            [f'{prob:g}', 'exact', *(f'{values[k]:.3g}' for values in exact.values())]
        )
        pairs = [
            f'{mean[k]:.3g} ± {error[k]:.1g}' for mean, error in simulated.values()
        ]
        rows.append(['', 'simulated', *pairs])
    caption = (
        f'± standard error, {num_links} links x {_LINK_ROUNDS:,} rounds; '
        'correlation at lag 1.'
    )
    table = tables.Table(['p', '', *words.values()], rows, caption)
    return FigureResult(stack(parts), table, draw)


def _exact(p: np.ndarray) -> dict[str, np.ndarray]:
    """Computes the exact quantities at probabilities p."""
    up_rate, down_rate = rates(p, _UP_RATE, np)
    return {
        'up_rate': up_rate,
        'down_rate': down_rate,
        'share_up': analysis.markov_stationary(up_rate, down_rate),
        'correlation': analysis.markov_autocorrelation(up_rate, down_rate, 1),
        'rounds_up': 1 / down_rate,
        'rounds_down': 1 / up_rate,
    }


def _estimates(up: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Estimates quantities with standard errors, float64[...], from int[T, ..., L] links."""
    before = up[:-1]
    after = up[1:]
    ups = before.sum(axis=0)
    downs = (1 - before).sum(axis=0)
    falls = (before * (1 - after)).sum(axis=0)
    rises = ((1 - before) * after).sum(axis=0)
    rise = _ratio(rises, downs)
    fall = _ratio(falls, ups)
    share = _ratio(up.sum(axis=0), np.full(up.shape[1:], len(up)))
    ratios = {
        'up_rate': rise,
        'down_rate': fall,
        'share_up': share,
        'correlation': (1 - fall[0] - rise[0], fall[1] + rise[1]),
        'rounds_up': _ratio(ups, falls),
        'rounds_down': _ratio(downs, rises),
    }
    num_links = up.shape[-1]
    return {
        name: (value[..., 0], num_links * stats.sem(parts, axis=-1))
        for name, (value, parts) in ratios.items()
    }


def _ratio(counts: np.ndarray, out_of: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns ratios of totals over links [..., 1], and each link's part of the error."""
    total = out_of.sum(axis=-1, keepdims=True)
    ratio = counts.sum(axis=-1, keepdims=True) / total
    return ratio, (counts - ratio * out_of) / total


def class_weights(*, published: Sequence[float], num_draws: int = 400) -> FigureResult:
    """Draws class weights r and probabilities ``p_i = max(0, <r, nu_i>)`` over many draws.

    100 clients have class shares ``nu_i ~ Dirichlet(0.1)`` over ten classes, and r is log-normal
    with sigma 10.

    Args:
      published: example weights of ten classes, to show above three of ours.
      num_draws: draws of r and all nu_i, at least 2.

    Returns:
      Columns ``low`` and ``high`` (a bin), ``clients`` (how many on average fall into it),
      ``standard_error`` of that over draws, and ``first_draw`` (how many in the draw of seed 0).

    References:
      Xiang et al. 2024, Figure 4.
    """
    checks.static_int('config.figure.num_draws', num_draws, minimum=2)
    shape = list(checks.numbers('config.figure.published', published).shape)
    if shape != [_NUM_CLASSES]:
        requirement = f'have shape [{_NUM_CLASSES}]'
        raise errors.invalid('config.figure.published', requirement, shape)
    edges = np.linspace(0, 1, 21)
    counts = []
    below = []
    weights = []
    for seed in range(num_draws):
        shares = partition.dirichlet_shares(100, _NUM_CLASSES, alpha=0.1, seed=seed)
        probs = label_dependent_probs(shares, sigma=10.0, minimum=0.0, seed=seed)
        counts.append(np.histogram(probs, edges)[0])
        below.append(np.mean(probs < 0.1))
        weights.append(probabilities.class_weights(_NUM_CLASSES, sigma=10.0, seed=seed))
    clients = np.mean(counts, axis=0)
    error = stats.sem(counts)
    first = counts[0]

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        class_weights = np.array([published, *weights[:3]])
        shares = class_weights / class_weights.sum(axis=1, keepdims=True)
        plot.partition(shares, order=range(len(shares)), colorbar=False, ax=left)
        left.set_xticks(
            range(len(shares)),
            ['paper', *(f'seed {k}' for k in range(len(shares) - 1))],
        )
        left.set_xlabel('')
        left.set_title('Share of each class in r', fontsize=10)
        centres = (edges[:-1] + edges[1:]) / 2
        name = f'mean of {num_draws} draws'
        whiskers = {'yerr': 1.96 * error, 'ecolor': plot.EXACT, 'capsize': 2}
        right.bar(
            centres, clients, edges[1], color=plot.COLOURS[0], label=name, **whiskers
        )
        right.plot(centres, first, 'D', color=plot.COLOURS[1], label='seed 0')
        right.set_yscale('symlog', linthresh=1)
        right.set_title('Histogram of $p_i$, delta = 0', fontsize=10)
        label_axes(right, '$p_i$', 'clients of 100', legend='best')

    second, largest = np.sort(weights, axis=1).T[-2:]
    shares_by_name = {
        'clients with p_i < 0.1': below,
        'largest class weight': largest,
        'second largest': second,
    }
    rows = [
        [name, f'{np.mean(values):.3f} ± {1.96 * stats.sem(values):.3f}']
        for name, values in shares_by_name.items()
    ]
    caption = f'{num_draws} draws, m = 100, alpha = 0.1, sigma = 10, delta = 0.'
    table = tables.Table(['share', 'mean ± 1.96 standard errors'], rows, caption)
    columns = {
        'low': edges[:-1],
        'high': edges[1:],
        'clients': clients,
        'standard_error': error,
    }
    return FigureResult({**columns, 'first_draw': first}, table, draw)


def two_client_limit(*, num_points: int = 20, num_seeds: int = 1000) -> FigureResult:
    """Draws ``lim E[x^t]`` of FedAvg against the second client's link probability.

    The exact limit is ``sum_i w_i u_i`` with the implicit weights w. Simulated means come from one
    compiled sweep over probabilities and seeds.

    The first link has probability 1/2, the minimisers of ``F_i(x) = 0.5 (x - u_i)^2`` are 0 and
    100, training starts at zero; models are read after 300 rounds of 5 steps of 0.02.

    Args:
      num_points: simulated values of p_2, equally spaced on (0, 1].
      num_seeds: S, at least 2.

    Returns:
      Columns ``second_prob``, ``exact``, ``simulated``, ``standard_error``; no simulated value at
      ``p_2 = 0``.

    References:
      Xiang et al. 2024, Figure 2.
    """
    checks.static_int('config.figure.num_points', num_points)
    checks.static_int('config.figure.num_seeds', num_seeds, minimum=2)
    probs = np.linspace(0, 1, num_points + 1)
    client = local_training.local_sgd(0.02, local_steps=5)
    result = sweeps.sweep(
        lambda: fedavg(client),
        lambda second: bernoulli(jnp.stack([_FIRST_PROB, second])),
        problems.quadratic(_TARGETS[:, None]),
        seeds=range(num_seeds),
        grid={'participation': {'second': probs[1:]}},
        num_rounds=_LIMIT_ROUNDS,
        eval_fn=lambda params, key, problem: params[0],
        batching='vmap',
    )
    final = np.asarray(result.evals['server'], np.float64)[:, :, 0]
    simulated = np.append(np.nan, final.mean(axis=1))
    error = np.append(np.nan, stats.sem(final.T))
    optimum = _TARGETS.mean()

    def limits(probs: np.ndarray) -> np.ndarray:
        return np.array(
            [analysis.fedavg_fixed_point([_FIRST_PROB, p], _TARGETS) for p in probs]
        )

    def draw(figure: Any) -> None:
        axes = figure.add_subplot()
        fine = np.linspace(0, 1, 201)
        axes.plot(fine, limits(fine), color=plot.EXACT, label='exact')
        look = {'fmt': 'o', 'markersize': 4, 'capsize': 3, 'color': plot.COLOURS[0]}
        label = f'simulated, {num_seeds:,} seeds (95 %)'
        axes.errorbar(probs, simulated, 1.96 * error, label=label, **look)
        axes.axhline(optimum, linestyle='--', color=plot.COLOURS[4], label='optimum')
        axes.set_xlim(0, 1.02)
        limit = r'$\lim \, E[x^t]$ of FedAvg'
        label_axes(axes, '$p_2$', limit, legend='lower right', grid=True)

    exact = limits(probs)
    step = max(num_points // _NUM_LISTED, 1)
    columns = {'second_prob': probs, 'exact': exact}
    columns |= {'simulated': simulated, 'standard_error': error}
    rows = [
        [f'{second:.2f}', *(f'{value:.3f}' for value in others)]
        for second, *others in np.transpose([*columns.values()])[step::step]
    ]
    caption = (
        f'p1 = {_FIRST_PROB}, u = (0.0, 100.0), optimum {optimum:g}; {num_seeds:,} seeds x '
        f'{_LIMIT_ROUNDS} rounds; largest |z| over {num_points} points '
        f'{np.nanmax(np.abs(simulated - exact) / error):.2f}.'
    )
    table = tables.Table(['p2', 'exact', 'simulated', 'standard error'], rows, caption)
    return FigureResult(columns, table, draw)
