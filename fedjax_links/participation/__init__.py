"""Draws which clients take part in each round: participation patterns, driven by random keys.

`PARTICIPATION` lists all patterns by name. `SCHEDULES` lists the probabilities that vary over
rounds, which the module `schedules` defines. `trace_formats` reads recorded availability.
`label_dependent_probs` computes link probabilities from the labels of clients.
"""

from collections.abc import Mapping

import numpy as np

from fedjax_links.base import Participation
from fedjax_links.core.registry import ParticipationEntry, Registry
from fedjax_links.links import graphs
from fedjax_links.participation import durations, schedules
from fedjax_links.participation.always import always, always_law
from fedjax_links.participation.bernoulli import bernoulli, bernoulli_law
from fedjax_links.participation.caps import cap
from fedjax_links.participation.combinators import (
    both,
    both_law,
    by_group,
    either,
    either_law,
    mixture,
    outage,
    switch,
)
from fedjax_links.participation.cyclic import cyclic, cyclic_law
from fedjax_links.participation.duplex import (
    duplex,
    duplex_law,
    unavailable,
    unavailable_law,
)
from fedjax_links.participation.markov import markov, markov_law
from fedjax_links.participation.minimum_separation import (
    minimum_separation,
    minimum_separation_law,
)
from fedjax_links.participation.packets import packets, packets_law
from fedjax_links.participation.peers import peers, peers_law
from fedjax_links.participation.periodic_groups import (
    periodic_groups,
    periodic_groups_law,
)
from fedjax_links.participation.probabilities import label_dependent_probs
from fedjax_links.participation.quorum import Times, quorum, quorum_law
from fedjax_links.participation.regularized import regularized, regularized_law
from fedjax_links.participation.replay import replay
from fedjax_links.participation.schedules import (
    SCHEDULES,
    constant,
    diurnal,
    jitter,
    sine,
)
from fedjax_links.participation.semi_markov import semi_markov, semi_markov_law
from fedjax_links.participation.shared_shocks import shared_shocks, shared_shocks_law
from fedjax_links.participation.traces import trace_formats
from fedjax_links.participation.traces.intervals import Intervals, intervals
from fedjax_links.participation.traces.synthetic_trace import synthetic_trace
from fedjax_links.participation.traces.trace import availability, trace
from fedjax_links.participation.uniform_cohort import uniform_cohort, uniform_cohort_law

look_alike = synthetic_trace  # its name in version 0.1.0

# The functions below build an example of each pattern for any number of clients.


def _probs(num_clients: int) -> np.ndarray:
    return np.linspace(0.1, 0.9, num_clients)


def _halves(num_clients: int) -> np.ndarray:
    return np.arange(num_clients) * min(2, num_clients) // num_clients


def _cohort_size(num_clients: int) -> int:
    return max(1, num_clients // 3)


def _cohort_size_that_divides(num_clients: int) -> int:
    return max(
        d for d in range(1, _cohort_size(num_clients) + 1) if num_clients % d == 0
    )


def _independent(num_clients: int) -> Participation:
    return bernoulli(_probs(num_clients))


def _daily_log(num_clients: int) -> Intervals:
    """Returns four days on which each client is up once."""
    client = np.repeat(np.arange(num_clients), 4)
    day = np.tile(np.arange(4), num_clients)
    hour = 3600.0
    start = hour * (24 * day + (5 * client + 3 * day) % 15)
    end = start + hour * (5 + client % 5)
    return intervals(client, start, end, num_clients=num_clients)


def _duplex(num_clients: int) -> Participation:
    uplink = _independent(num_clients)
    downlink = bernoulli(np.flip(_probs(num_clients)))
    return duplex(uplink=uplink, downlink=downlink, compute=uplink)


def _minimum_separation(num_clients: int) -> Participation:
    weights = (1.0 + np.arange(num_clients)) ** -1.5
    size = _cohort_size(num_clients)
    wait = min(2, num_clients // size - 1)
    return minimum_separation(weights, separation=wait, cohort_size=size)


def _periodic_groups(num_clients: int) -> Participation:
    return periodic_groups(
        _halves(num_clients), active_rounds=4, cohort_size=_cohort_size(num_clients)
    )


def _quorum(num_clients: int) -> Participation:
    times = Times(np.ones(num_clients), sigma=0.5, fixed=0.1)
    return quorum(times, quorum=_cohort_size(num_clients))


def _semi_markov(num_clients: int) -> Participation:
    up = durations.lognormal(2 + np.arange(num_clients) % 5, 0.8)
    return semi_markov(up, durations.weibull(3.0, 0.7))


def _shared_shocks(num_clients: int) -> Participation:
    return shared_shocks(
        _independent(num_clients), _halves(num_clients), up_rate=0.3, down_rate=0.1
    )


_ENTRIES = (
    ParticipationEntry(always, always, lambda n: n, law=always_law),
    ParticipationEntry(bernoulli, _independent, law=bernoulli_law),
    ParticipationEntry(
        both, lambda n: both(_independent(n), markov(1 - 0.5 * _probs(n))), law=both_law
    ),
    ParticipationEntry(
        by_group,
        lambda n: by_group(
            _halves(n), [markov(_probs(m)) for m in np.bincount(_halves(n))]
        ),
    ),
    ParticipationEntry(
        cap,
        lambda n: cap(_independent(n), _cohort_size(n), rule='permutation'),
        carries_pattern=True,
    ),
    ParticipationEntry(
        cyclic,
        lambda n: cyclic(_probs(n), cycle_length=10),
        prob_is_marginal=False,
        law=cyclic_law,
    ),
    ParticipationEntry(duplex, _duplex, law=duplex_law),
    ParticipationEntry(
        either, lambda n: either(_independent(n), markov(_probs(n))), law=either_law
    ),
    ParticipationEntry(markov, lambda n: markov(_probs(n), 0.2), law=markov_law),
    ParticipationEntry(
        minimum_separation,
        _minimum_separation,
        _cohort_size,
        law=minimum_separation_law,
    ),
    ParticipationEntry(
        mixture, lambda n: mixture([_independent(n), always(n)], [0.75, 0.25])
    ),
    ParticipationEntry(
        outage,
        lambda n: outage(_independent(n), start=3, stop=6, clients=[0]),
        carries_pattern=True,
    ),
    ParticipationEntry(
        packets,
        lambda n: packets(_independent(n), loss=0.1, num_packets=3),
        carries_pattern=True,
        law=packets_law,
    ),
    ParticipationEntry(
        peers, lambda n: peers(_independent(n), graphs.ring(n), prob=0.5), law=peers_law
    ),
    ParticipationEntry(
        periodic_groups, _periodic_groups, _cohort_size, law=periodic_groups_law
    ),
    ParticipationEntry(
        quorum, _quorum, _cohort_size, carries_pattern=True, law=quorum_law
    ),
    ParticipationEntry(
        regularized,
        lambda n: regularized(n, _cohort_size_that_divides(n)),
        _cohort_size_that_divides,
        law=regularized_law,
    ),
    ParticipationEntry(
        replay, lambda n: replay(np.arange(7)[:, None] % 3 <= np.arange(n)[None] % 4)
    ),
    ParticipationEntry(semi_markov, _semi_markov, law=semi_markov_law),
    ParticipationEntry(shared_shocks, _shared_shocks, law=shared_shocks_law),
    ParticipationEntry(
        switch, lambda n: switch([_independent(n), markov(_probs(n))], 5)
    ),
    ParticipationEntry(
        synthetic_trace,
        lambda n: synthetic_trace(_daily_log(n), num_clients=n, tick=10_800.0),
    ),
    ParticipationEntry(trace, lambda n: trace(_daily_log(n), tick=10_800.0)),
    ParticipationEntry(
        unavailable,
        lambda n: unavailable(_independent(n)),
        carries_pattern=True,
        law=unavailable_law,
    ),
    ParticipationEntry(
        uniform_cohort,
        lambda n: uniform_cohort(n, _cohort_size(n)),
        _cohort_size,
        law=uniform_cohort_law,
    ),
)
PARTICIPATION: Mapping[str, ParticipationEntry] = Registry(
    {entry.factory.__name__: entry for entry in _ENTRIES}
)

__all__ = [
    'PARTICIPATION',
    'SCHEDULES',
    'Times',
    'availability',
    'constant',
    'diurnal',
    'durations',
    'intervals',
    'jitter',
    'label_dependent_probs',
    'look_alike',
    'schedules',
    'sine',
    'trace_formats',
    *PARTICIPATION,
]
