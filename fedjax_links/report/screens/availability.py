"""A log of availability as links: who is there in which round, and what FedAvg makes of it."""

import numpy as np

from fedjax_links import analysis
from fedjax_links.participation.laws import LinkLaw
from fedjax_links.participation.traces.look_alike import losses
from fedjax_links.participation.traces.trace import WRAPS, Intervals, availability, check_times
from fedjax_links.report.screens.recording import LinkRecord, standard_errors

_BATCHES = 32
_MOST_DAYS = 730


def of_log(
    intervals: Intervals, *, tick: float, rounds: int | None = None, overlaps: str = 'reject'
) -> tuple[LinkRecord, LinkLaw]:
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
    day = WRAPS['day'] / tick
    lasting = f'{len(mask):,} rounds of {tick:g} s ({round(len(mask) / day, 2):,g} days)'
    away = "FedAvg's weights {:.4f} ± {:.4f} from equal (L1)".format(*bias(mask))
    said = f'a log, {lasting}; {away}'
    if day.is_integer():
        lost = losses(mask, rounds_per_day=int(day))
        said += (
            f'; look_alike would miss times up and down by {lost.of_markov:.2f} (markov), the day '
            f'by {lost.of_semi_markov:.2f} (semi_markov)'
        )
    law = LinkLaw(said, period=int(day) if day.is_integer() else None)
    unknown = np.full(mask.shape, np.nan, np.float32)
    return LinkRecord(mask, mask, mask, mask, unknown, duplex=False, seed=0), law


def bias(mask: np.ndarray) -> tuple[float, float]:
    """L1 distance of FedAvg's implicit weights from equal, as realised, and its standard error.

    Args:
      mask: bool[T, N], who takes part.

    Returns:
      Both; NaN of less than two rounds, or where nobody ever takes part.
    """
    if not mask.any() or len(mask) < 2:
        return np.nan, np.nan
    batches = min(_BATCHES, len(mask))
    found = analysis.effective_weights(masks=mask, num_batches=batches)
    away = found.weights - 1 / mask.shape[1]
    (error,) = standard_errors(mask, np.sign(away)[:, None], batches)
    return float(np.abs(away).sum()), float(error)


def warnings(intervals: Intervals) -> list[str]:
    """What is odd about the times of a log, a line each.

    Args:
      intervals: the log, time 0 being midnight.

    Raises:
      ValueError: for times that no log can have, as `availability`.
    """
    check_times(intervals)
    ends = intervals.end if intervals.period is None else intervals.period
    length, first = float(np.max(ends)), float(intervals.start.min())
    found = []
    if 0 < length < WRAPS['day']:
        found.append(
            f'the log lasts {length:g} s and is repeated to fill a day; if its times are no '
            'seconds, give their unit'
        )
    if length - first > _MOST_DAYS * WRAPS['day']:
        days = f'{(length - first) / WRAPS["day"]:,.0f} days'
        found.append(f'the log lasts {days}; if its times are no seconds, give their unit')
    if first >= WRAPS['day']:
        days = f'{first / WRAPS["day"]:,.0f} days'
        found.append(f"nobody is there in the first {days}; with the origin 'first' the log begins")
    return found
