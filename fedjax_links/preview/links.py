"""Links before anything is trained: drawn by a pattern or read from a log; as text, as a page."""

import textwrap
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedjax_links import analysis, base, plot, simulation
from fedjax_links.analysis.independent_links import batch_means
from fedjax_links.core import errors
from fedjax_links.pages import figure as pages
from fedjax_links.participation.link_laws import LinkLaw
from fedjax_links.participation.traces.intervals import Intervals, as_intervals
from fedjax_links.participation.traces.look_alike import losses
from fedjax_links.participation.traces.trace import WRAPS, availability
from fedjax_links.plot.links import MAP_ROUNDS

_MAX_CELLS = 2**29
_MOST_DAYS = 730
_MOST_MAP_ROUNDS = 600
_LAGS, _MOST_LAGS = 40, 300
_WIDTH, _LABEL, _MAP_ROWS = 80, 10, 10
_SHADES = ' ░▒▓█'


def record_links(
    participation: base.Participation, *, num_rounds: int, seed: int
) -> base.MaskLinks:
    """Draws the links that a run with this seed meets.

    Args:
      participation: the pattern.
      num_rounds: T.
      seed: the run's seed.

    Returns:
      Their sample as NumPy arrays, leaves [T, ...].

    Raises:
      ValueError: if T times the number of clients does not fit into memory comfortably.
    """
    clients = participation.num_clients
    if num_rounds * clients > _MAX_CELLS:
        requirement = f'be at most {_MAX_CELLS // clients} for {clients} clients'
        raise errors.invalid('rounds', requirement, num_rounds)

    @jax.jit
    def draw(key: base.Key) -> base.MaskLinks:
        return base.as_masks(
            simulation.realised_links(key, participation, num_rounds=num_rounds)
        )

    drawn: base.MaskLinks = jax.device_get(draw(jax.random.key(seed)))
    return drawn


def of_log(
    intervals: Intervals,
    *,
    tick: float,
    rounds: int | None = None,
    overlaps: str = 'reject',
) -> tuple[base.MaskLinks, LinkLaw]:
    """Looks at a log at the times of rounds.

    Args:
      intervals: the log, time 0 being midnight.
      tick: seconds per round.
      rounds: T, by default as in `availability`.
      overlaps: as in `availability`.

    Returns:
      The links, and their law, which says no more than that they repeat every day, if a day has
      whole rounds.

    Raises:
      ValueError: as for `availability`.
    """
    mask = availability(intervals, tick=tick, rounds=rounds, overlaps=overlaps)
    day, whole = WRAPS['day'] / tick, None
    said = (
        f'a log, {len(mask):,} rounds of {tick:g} s ({round(len(mask) / day, 2):,g} days); '
        "FedAvg's weights {:.4f} ± {:.4f} from equal (L1)".format(*bias(mask))
    )
    if day.is_integer():
        whole = int(day)
        lost = losses(mask, rounds_per_day=whole)
        said += (
            f'; look_alike would miss times up and down by {lost.of_markov:.2f} (markov), the day '
            f'by {lost.of_semi_markov:.2f} (semi_markov)'
        )
    sample: Any = mask, np.full(mask.shape, np.nan, np.float32)
    return base.LinkSample(*sample), LinkLaw(said, period=whole)


def bias(mask: np.ndarray) -> tuple[float, float]:
    """L1 distance of FedAvg's implicit weights from equal, as realised, and its standard error.

    Args:
      mask: bool[T, N], who takes part.

    Returns:
      Both; NaN of less than two rounds, or where nobody ever takes part.
    """
    if not mask.any() or len(mask) < 2:
        return np.nan, np.nan
    batches = min(32, len(mask))
    away = (
        analysis.effective_weights(masks=mask, num_batches=batches).weights
        - 1 / mask.shape[1]
    )
    _, (error,) = batch_means(mask, batches, np.sign(away)[:, None])
    return float(np.abs(away).sum()), float(error)


def warnings(intervals: Intervals) -> list[str]:
    """What is odd about the times of a log, a line each.

    Args:
      intervals: the log, time 0 being midnight.

    Raises:
      ValueError: for times that no log can have, as `availability`.
    """
    as_intervals(intervals)
    ends = intervals.end if intervals.period is None else intervals.period
    length, first, day = float(np.max(ends)), float(intervals.start.min()), WRAPS['day']
    found, unit = list(intervals.notes), 'if its times are no seconds, give their unit'
    if 0 < length < day:
        found.append(
            f'the log lasts {length:g} s and is repeated to fill a day; {unit}'
        )
    if length - first > _MOST_DAYS * day:
        found.append(f'the log lasts {(length - first) / day:,.0f} days; {unit}')
    if first >= day:
        away = f'nobody is there in the first {first / day:,.0f} days'
        found.append(f"{away}; with the origin 'first' the log begins")
    return found


# What is known of links beside their law, and what a record of them says.


def foldable(law: LinkLaw, num_rounds: int) -> int | None:
    """The period at which a record can be folded: known, longer than a round, seen at least twice.

    Args:
      law: the exact law of the links.
      num_rounds: T.

    Returns:
      The period, or None.
    """
    period = law.period
    return period if period is not None and 1 < period <= num_rounds // 2 else None


def chain(law: LinkLaw) -> tuple[np.ndarray, np.ndarray] | None:
    """P(absent -> present) and P(present -> absent), float64[N] each, where both are known."""
    if law.memoryless and law.rates is not None:
        return law.rates, 1 - law.rates
    return (
        None
        if law.up_rate is None or law.down_rate is None
        else (law.up_rate, law.down_rate)
    )


def stated_rates(law: LinkLaw, record: base.MaskLinks) -> tuple[str, np.ndarray | None]:
    """What is said of the clients' rates: ``exact`` or ``nominal`` ones, or nothing.

    Args:
      law: what is known of the links.
      record: the same, simulated.

    Returns:
      The name, and float64[N], NaN where a client's is unknown; None where all are.
    """
    if law.rates is not None:
        return 'exact', law.rates
    nominal = np.asarray(record.prob).mean(axis=0, dtype=np.float64)
    return 'nominal', None if np.isnan(nominal).all() else nominal


def text(title: str, record: base.MaskLinks, law: LinkLaw) -> str:
    """A map of who takes part when; counts, gaps, staleness and weights, by quantiles over clients.

    Args:
      title: first line.
      record: the links, leaves [T, ...].
      law: what is known exactly.

    Returns:
      Lines of at most 80 columns.
    """
    active = np.asarray(base.participants(record))
    lines = [title[:_WIDTH], *textwrap.wrap(f'links: {law.description}', _WIDTH)]
    if base.tells_directions(record):
        parts: Any = active, base.delivers(record), record.downlink, record.compute
        names = 'takes part', 'delivers', 'hears', 'can train'
        means = (
            f'{k} {np.mean(mask):.3f}' for k, mask in zip(names, parts, strict=True)
        )
        lines.append(f'means: {", ".join(means)}')
    if base.has_peers(record):
        neighbours = record.neighbours[0]
        there = (
            np.not_equal(neighbours, np.arange(len(neighbours))[:, None])
            .sum(axis=1)
            .mean()
        )
        heard = f'{record.edges.mean(axis=0).sum(axis=1).mean():.3g} of {there:.3g}'
        lines.append(f'peers: {heard} neighbours heard in a round')
    lines += _map(active, foldable(law, len(active)))
    return '\n'.join([*lines, analysis.participation_report(active).text()])


def _map(active: np.ndarray, period: int | None) -> list[str]:
    """Clients by rate downwards, rounds to the right, the darker the more take part."""
    most = _WIDTH - _LABEL - 2
    per_cell = max(1, -(-2 * (period or 0) // most))
    columns = min(most, len(active) // per_cell)
    shown = active[
        : columns * per_cell, np.argsort(-active.mean(axis=0), kind='stable')
    ]
    cells = shown.reshape(columns, per_cell, -1).mean(axis=1)
    bands = np.array_split(np.arange(active.shape[1]), min(_MAP_ROWS, active.shape[1]))
    beside = f', {per_cell} rounds a cell' if per_cell > 1 else ''
    rounds = f'by round 0 to {columns * per_cell - 1}{beside}'
    lines = [f'clients, best first ({len(bands)} bands), {rounds}']
    for band in bands:
        darkness = np.ceil(cells[:, band].mean(axis=1) * (len(_SHADES) - 1)).astype(int)
        label = f'{band[0] + 1}-{band[-1] + 1}' if len(band) > 1 else f'{band[0] + 1}'
        lines.append(
            f'{label:>{_LABEL}} |{"".join(_SHADES[k] for k in darkness)}'.rstrip()
        )
    return lines


def picture(path: Path, title: str, record: base.MaskLinks, law: LinkLaw) -> None:
    """The page: map, rates, gaps, memory and number of participants.

    Args:
      path: where the PNG goes.
      title: above everything.
      record: the links, leaves [T, ...].
      law: what is known exactly.
    """
    active = np.asarray(base.participants(record))
    num_rounds, rates, period = len(active), chain(law), foldable(law, len(active))
    rounds = min(max(MAP_ROUNDS, 2 * (period or 0)), _MOST_MAP_ROUNDS)
    titles = {
        'map': f'Who takes part in which of the first {rounds:,} rounds',
        'rates': f'Rates over {num_rounds:,} rounds',
        'gaps': 'Rounds from one participation to the next',
        'memory': 'Autocorrelation of participation',
        'sizes': 'Participants by round' + (f', folded at {period}' if period else ''),
    }
    below = ['gaps'] * 2 + ['memory'] * 2 + ['sizes'] * 2
    if base.has_peers(record):
        titles['peers'] = 'Edges by how often they were up'
        below[2:] = ['memory', 'sizes', 'peers', 'peers']

    def draw(figure: Any) -> None:
        axes = figure.subplot_mosaic(
            [['map'] * 4 + ['rates'] * 2, below], height_ratios=[1.15, 1]
        )
        for name, above in titles.items():
            axes[name].set_title(above, fontsize=10)
        plot.link_map(record, num_rounds=rounds, ax=axes['map'])
        name, probs = stated_rates(law, record)
        plot.participation_rates(active, probs, name=name, ax=axes['rates'])
        plot.gap_law(active, rates, ax=axes['gaps'])
        lags = min(max(_LAGS, 2 * (law.period or 0)), _MOST_LAGS)
        plot.link_memory(active, rates, num_lags=lags, ax=axes['memory'])
        sums = np.sum(record.prob[:period], axis=1) if period else np.zeros(1)
        expected = None if np.isnan(sums).any() or np.ptp(sums) == 0 else sums
        mean = None if law.probs is None else float(law.probs.sum())
        plot.participants(
            active, period=period, expected=expected, mean=mean, ax=axes['sizes']
        )
        if base.has_peers(record):
            between = record.neighbours[0], record.edges.mean(axis=0)
            plot.peer_graph(*between, rates=active.mean(axis=0), ax=axes['peers'])

    pages.save_page(path, draw, title=title, caption='', size=(12, 7.5))
