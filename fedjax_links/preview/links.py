"""Shows links before anything is trained: sampled from a pattern, or read from a log.

A record is the links of a run's rounds. A law (`LinkLaw`) is what is known exactly about who takes
part.
"""

import math
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
from fedjax_links.participation.traces.intervals import (
    Intervals,
    as_intervals,
    remarks,
)
from fedjax_links.participation.traces.synthetic_trace import losses
from fedjax_links.participation.traces.trace import WRAPS, availability
from fedjax_links.plot.links import MAP_ROUNDS

_MAX_CELLS = 2**29
"""Most rounds times clients of a record: 2.5 GiB, a bool and a float32 each."""
_MAX_MAP_ROUNDS = 600
_NUM_LAGS = 40
_MAX_LAGS = 300
"""Most rounds and lags of a panel; a choice that the picture's size can show."""
_WIDTH = 80
_LABEL_WIDTH = 10
_MAP_ROWS = 10
_SHADES = ' ░▒▓█'


def record_links(
    participation: base.Participation, *, num_rounds: int, seed: int
) -> base.MaskLinks:
    """Samples the links of a run with a seed.

    Args:
      participation: the pattern.
      num_rounds: T.
      seed: the run's seed.

    Returns:
      The links as NumPy arrays, leaves [T, ...].

    Raises:
      ValueError: if T times the number of clients is too large.
    """
    _check_size(num_rounds, participation.num_clients)

    @jax.jit
    def sample(key: base.Key) -> base.MaskLinks:
        return base.as_masks(
            simulation.realised_links(key, participation, num_rounds=num_rounds)
        )

    links: base.MaskLinks = jax.device_get(sample(jax.random.key(seed)))
    return links


def _check_size(num_rounds: int, num_clients: int) -> None:
    """Raises for more rounds than text and picture can describe."""
    if num_rounds * num_clients > _MAX_CELLS:
        requirement = (
            f'be at most {_MAX_CELLS // num_clients} for {num_clients} clients'
        )
        raise errors.invalid('rounds', requirement, num_rounds)


def sample_log(
    intervals: Intervals,
    *,
    tick: float,
    rounds: int | None = None,
    overlaps: str = 'reject',
) -> tuple[base.MaskLinks, LinkLaw]:
    """Reads who is available in a log at the start of each round.

    Args:
      intervals: the log, time 0 being midnight.
      tick: seconds per round.
      rounds: T, by default as in `availability`.
      overlaps: as in `availability`.

    Returns:
      The links, and their law. The only number of the law is a period, if a day has a whole number
      of rounds.

    Raises:
      ValueError: as for `availability`.
    """
    if rounds is not None:
        _check_size(rounds, len(intervals.names))
    # A log shorter than a round is repeated; `log_warnings` warns of that.
    wrap = intervals.last_end if intervals.period is None else None
    mask = availability(
        intervals, tick=tick, rounds=rounds, wrap=wrap, overlaps=overlaps
    )
    rounds_per_day = WRAPS['day'] / tick
    days = round(len(mask) / rounds_per_day, 2)
    distance, standard_error = bias(mask)
    weights = f"FedAvg's weights {distance:.4f} ± {standard_error:.4f} from equal (L1)"
    if not mask.any():
        weights = 'no client is available, so FedAvg has no weights'
    elif len(mask) < 2:
        weights = "a single round is too short for FedAvg's weights"
    description = (
        f'a log, {len(mask):,} rounds of {tick:g} s ({days:,g} days); {weights}'
    )
    period = None
    if rounds_per_day.is_integer():
        period = int(rounds_per_day)
        model_losses = losses(mask, rounds_per_day=period)
        description += (
            f'; synthetic_trace would miss times up and down by {model_losses.of_markov:.2f} '
            f'(markov), the day by {model_losses.of_semi_markov:.2f} (semi_markov)'
        )
    unknown: Any = np.full(mask.shape, np.nan, np.float32)
    sample: Any = mask
    return base.LinkSample(sample, unknown), LinkLaw(description, period=period)


def bias(mask: np.ndarray) -> tuple[float, float]:
    """Returns the L1 distance of FedAvg's realised weights from equal ones, and its standard error.

    Args:
      mask: bool[T, N], who takes part.

    Returns:
      The distance and its standard error; NaN for fewer than two rounds, and for links never up.
    """
    if not mask.any() or len(mask) < 2:
        return np.nan, np.nan
    num_batches = min(32, len(mask))
    weights = analysis.effective_weights(masks=mask, num_batches=num_batches).weights
    difference = weights - 1 / mask.shape[1]
    signs = np.sign(difference)[:, None]
    _, (standard_error,) = batch_means(mask, num_batches, signs)
    return float(np.abs(difference).sum()), float(standard_error)


def log_warnings(intervals: Intervals) -> list[str]:
    """Lists oddities of the times of a log, a line each.

    Args:
      intervals: the log, time 0 being midnight.

    Raises:
      ValueError: for times that no log can have, as `availability`.
    """
    log = as_intervals(intervals)  # Raises for impossible times.
    end = float(np.max(log.end if log.period is None else log.period))
    lines = remarks(log)
    if 0 < end < WRAPS['day']:
        text = f'the log lasts {end:g} s and is repeated to fill a day'
        lines.append(f'{text}; if its times are not in seconds, give their unit')
    return lines


# Numbers that follow from a law, or from a record of simulated links.


def folding_period(law: LinkLaw, num_rounds: int) -> int | None:
    """Returns the period at which a record can be folded.

    The record must show at least two periods, of more than one round each.

    Args:
      law: the exact law of the links.
      num_rounds: T.

    Returns:
      The period; None if there is none, or if the record is too short.
    """
    period = law.period
    if period is None or not 1 < period <= num_rounds // 2:
        return None
    return period


def transition_probs(law: LinkLaw) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns each client's probabilities of going up and of going down in a round.

    Args:
      law: the exact law of the links.

    Returns:
      Two arrays float64[N]; None if the probabilities are not known.
    """
    if law.memoryless and law.rates is not None:
        return law.rates, 1 - law.rates
    if law.up_rate is None or law.down_rate is None:
        return None
    return law.up_rate, law.down_rate


def stated_rates(law: LinkLaw, record: base.MaskLinks) -> tuple[str, np.ndarray | None]:
    """Returns the clients' participation rates as the law or the pattern states them.

    Args:
      law: the exact law of the links.
      record: the same links, simulated.

    Returns:
      ``exact`` for rates of the law, ``nominal`` for the pattern's mean probabilities. The second
      result is the rates, float64[N], NaN for a client whose rate is unknown; None if all are
      unknown.
    """
    if law.rates is not None:
        return 'exact', law.rates
    nominal = np.asarray(record.prob).mean(axis=0, dtype=np.float64)
    if np.isnan(nominal).all():
        return 'nominal', None
    return 'nominal', nominal


def text(title: str, record: base.MaskLinks, law: LinkLaw) -> str:
    """Writes a map of who takes part when, and counts, gaps, staleness and weights.

    Args:
      title: the first line.
      record: the links, leaves [T, ...].
      law: their exact law.

    Returns:
      Lines of at most 80 columns.
    """
    active = np.asarray(base.participants(record))
    lines = [title[:_WIDTH], *textwrap.wrap(f'links: {law.description}', _WIDTH)]
    if base.is_duplex(record):
        masks: dict[str, Any] = {
            'takes part': active,
            'delivers': base.delivers(record),
            'receives': record.downlink,
            'can train': record.compute,
        }
        means = (f'{name} {np.mean(mask):.3f}' for name, mask in masks.items())
        lines.append(f'means: {", ".join(means)}')
    if base.has_peers(record):
        lines.append(_peers_line(record))
    lines += _map_lines(active, folding_period(law, len(active)))
    lines.append(analysis.participation_report(active).text())
    return '\n'.join(lines)


def _peers_line(record: Any) -> str:
    """Says how many neighbours a client receives from in a round, on average."""
    neighbours = record.neighbours[0]
    # The row of a client with fewer neighbours than others is padded with the client itself.
    is_neighbour = np.not_equal(neighbours, np.arange(len(neighbours))[:, None])
    degree = is_neighbour.sum(axis=1).mean()
    num_up = record.edges.mean(axis=0).sum(axis=1).mean()
    return f'peers: {num_up:.3g} of {degree:.3g} neighbours received from in a round'


def _map_lines(active: np.ndarray, period: int | None) -> list[str]:
    """Draws clients by falling rate against rounds, darker where more take part.

    Args:
      active: bool[T, N], who takes part.
      period: rounds after which links repeat; two periods are shown. None for no period.
    """
    num_clients = active.shape[1]
    bands = np.array_split(np.arange(num_clients), min(_MAP_ROWS, num_clients))
    labels = [_band_label(band) for band in bands]
    label_width = max(_LABEL_WIDTH, *map(len, labels))
    max_columns = _WIDTH - label_width - 2
    rounds_per_cell = max(1, math.ceil(2 * (period or 0) / max_columns))
    num_columns = min(max_columns, len(active) // rounds_per_cell)
    num_rounds = num_columns * rounds_per_cell
    best_first = np.argsort(-active.mean(axis=0), kind='stable')
    shown = active[:num_rounds, best_first]
    cells = shown.reshape(num_columns, rounds_per_cell, -1).mean(axis=1)

    heading = (
        f'clients, best first ({len(bands)} bands), by round 0 to {num_rounds - 1}'
    )
    if rounds_per_cell > 1:
        heading += f', {rounds_per_cell} rounds a cell'
    lines = [heading]
    for band, label in zip(bands, labels, strict=True):
        rates = cells[:, band].mean(axis=1)
        darkness = np.ceil(rates * (len(_SHADES) - 1)).astype(int)
        row = ''.join(_SHADES[shade] for shade in darkness)
        lines.append(f'{label:>{label_width}} |{row}'.rstrip())
    return lines


def _band_label(band: np.ndarray) -> str:
    """Writes the ranks of the clients in a band of the map, from 1: ``31-40``, or ``31`` alone."""
    first = band[0] + 1
    last = band[-1] + 1
    return f'{first}' if first == last else f'{first}-{last}'


def picture(path: Path, title: str, record: base.MaskLinks, law: LinkLaw) -> None:
    """Draws a page: map, rates, gaps, memory and number of participants.

    Args:
      path: where the PNG goes.
      title: the text above all panels.
      record: the links, leaves [T, ...].
      law: their exact law.
    """
    active = np.asarray(base.participants(record))
    num_rounds = len(active)
    transitions = transition_probs(law)
    period = folding_period(law, num_rounds)
    map_rounds = min(max(MAP_ROUNDS, 2 * (period or 0)), _MAX_MAP_ROUNDS)
    titles = {
        'map': f'Who takes part in which of the first {map_rounds:,} rounds',
        'rates': f'Rates over {num_rounds:,} rounds',
        'gaps': 'Rounds from one participation to the next',
        'memory': 'Autocorrelation of participation',
        'sizes': 'Participants by round',
    }
    if period:
        titles['sizes'] += f', folded at {period}'
    upper = ['map', 'map', 'map', 'map', 'rates', 'rates']
    lower = ['gaps', 'gaps', 'memory', 'memory', 'sizes', 'sizes']
    if base.has_peers(record):
        titles['peers'] = 'Edges by how often they were up'
        lower = ['gaps', 'gaps', 'memory', 'sizes', 'peers', 'peers']

    def draw(figure: Any) -> None:
        axes = figure.subplot_mosaic([upper, lower], height_ratios=[1.15, 1])
        for name, axes_title in titles.items():
            axes[name].set_title(axes_title, fontsize=10)
        plot.link_map(record, num_rounds=map_rounds, ax=axes['map'])
        name, probs = stated_rates(law, record)
        plot.participation_rates(active, probs, name=name, ax=axes['rates'])
        plot.gap_law(active, transitions, ax=axes['gaps'])
        lags = min(max(_NUM_LAGS, 2 * (law.period or 0)), _MAX_LAGS)
        plot.link_memory(active, transitions, num_lags=lags, ax=axes['memory'])
        plot.participants(
            active,
            period=period,
            expected=_expected_sizes(record, period),
            mean=None if law.probs is None else float(law.probs.sum()),
            ax=axes['sizes'],
        )
        if base.has_peers(record):
            plot.peer_graph(
                record.neighbours[0],
                record.edges.mean(axis=0),
                rates=active.mean(axis=0),
                ax=axes['peers'],
            )

    pages.save_page(path, draw, title=title, caption='', size=(12, 7.5))


def _expected_sizes(record: base.MaskLinks, period: int | None) -> np.ndarray | None:
    """Returns the expected number of participants by round of a period.

    Args:
      record: the links, leaves [T, ...].
      period: in rounds; None for none.

    Returns:
      float[period]; None if the number is unknown, or the same in all rounds.
    """
    if not period:
        return None
    sizes = np.sum(record.prob[:period], axis=1)
    if np.isnan(sizes).any() or np.ptp(sizes) == 0:
        return None
    return np.asarray(sizes)
