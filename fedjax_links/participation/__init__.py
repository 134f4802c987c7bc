"""Samples who can deliver in each round: participation patterns, driven by keys.

`PARTICIPATION` names all patterns. `schedules` has probabilities that vary over rounds, named
in `SCHEDULES`. `trace_formats` reads recorded availability. `label_dependent_probs` computes
link probabilities from the labels of clients.
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
from fedjax_links.participation.traces.look_alike import look_alike
from fedjax_links.participation.traces.trace import availability, trace
from fedjax_links.participation.uniform_cohort import uniform_cohort, uniform_cohort_law


def _probs(num_clients: int) -> np.ndarray:
    return np.linspace(0.1, 0.9, num_clients)


def _halves(num_clients: int) -> np.ndarray:
    return np.arange(num_clients) * min(2, num_clients) // num_clients


def _third(num_clients: int) -> int:
    return max(1, num_clients // 3)


def _divisor(num_clients: int) -> int:
    return max(d for d in range(1, _third(num_clients) + 1) if num_clients % d == 0)


def _some(num_clients: int) -> Participation:
    return bernoulli(_probs(num_clients))


def _days(num_clients: int) -> Intervals:
    """Returns four days on which each client is up once."""
    client = np.repeat(np.arange(num_clients), 4)
    day = np.tile(np.arange(4), num_clients)
    hour = 3600.0
    start = hour * (24 * day + (5 * client + 3 * day) % 15)
    end = start + hour * (5 + client % 5)
    return intervals(client, start, end, num_clients=num_clients)


def _directed(num_clients: int) -> Participation:
    uplink = _some(num_clients)
    downlink = bernoulli(np.flip(_probs(num_clients)))
    return duplex(uplink=uplink, downlink=downlink, compute=uplink)


def _separated(num_clients: int) -> Participation:
    weights = (1.0 + np.arange(num_clients)) ** -1.5
    size = _third(num_clients)
    wait = min(2, num_clients // size - 1)
    return minimum_separation(weights, separation=wait, cohort_size=size)


def _in_turns(num_clients: int) -> Participation:
    return periodic_groups(
        _halves(num_clients), active_rounds=4, cohort_size=_third(num_clients)
    )


def _fastest(num_clients: int) -> Participation:
    times = Times(np.ones(num_clients), sigma=0.5, fixed=0.1)
    return quorum(times, quorum=_third(num_clients))


def _lasting(num_clients: int) -> Participation:
    up = durations.lognormal(2 + np.arange(num_clients) % 5, 0.8)
    return semi_markov(up, durations.weibull(3.0, 0.7))


def _shocked(num_clients: int) -> Participation:
    return shared_shocks(
        _some(num_clients), _halves(num_clients), up_rate=0.3, down_rate=0.1
    )


_E = ParticipationEntry

_ENTRIES = (
    _E(always, always, lambda n: n, law=always_law),
    _E(bernoulli, _some, law=bernoulli_law),
    _E(both, lambda n: both(_some(n), markov(1 - 0.5 * _probs(n))), law=both_law),
    _E(
        by_group,
        lambda n: by_group(
            _halves(n), [markov(_probs(m)) for m in np.bincount(_halves(n))]
        ),
    ),
    _E(
        cap,
        lambda n: cap(_some(n), _third(n), rule='permutation'),
        carries_pattern=True,
    ),
    _E(
        cyclic,
        lambda n: cyclic(_probs(n), cycle_length=10),
        prob_is_marginal=False,
        law=cyclic_law,
    ),
    _E(duplex, _directed, law=duplex_law),
    _E(either, lambda n: either(_some(n), markov(_probs(n))), law=either_law),
    _E(look_alike, lambda n: look_alike(_days(n), num_clients=n, tick=10_800.0)),
    _E(markov, lambda n: markov(_probs(n), 0.2), law=markov_law),
    _E(minimum_separation, _separated, _third, law=minimum_separation_law),
    _E(mixture, lambda n: mixture([_some(n), always(n)], [0.75, 0.25])),
    _E(
        outage,
        lambda n: outage(_some(n), start=3, stop=6, clients=[0]),
        carries_pattern=True,
    ),
    _E(
        packets,
        lambda n: packets(_some(n), loss=0.1, num_packets=3),
        carries_pattern=True,
        law=packets_law,
    ),
    _E(peers, lambda n: peers(_some(n), graphs.ring(n), prob=0.5), law=peers_law),
    _E(periodic_groups, _in_turns, _third, law=periodic_groups_law),
    _E(quorum, _fastest, _third, carries_pattern=True, law=quorum_law),
    _E(
        regularized,
        lambda n: regularized(n, _divisor(n)),
        _divisor,
        law=regularized_law,
    ),
    _E(replay, lambda n: replay(np.arange(7)[:, None] % 3 <= np.arange(n)[None] % 4)),
    _E(semi_markov, _lasting, law=semi_markov_law),
    _E(shared_shocks, _shocked, law=shared_shocks_law),
    _E(switch, lambda n: switch([_some(n), markov(_probs(n))], 5)),
    _E(trace, lambda n: trace(_days(n), tick=10_800.0)),
    _E(
        unavailable,
        lambda n: unavailable(_some(n)),
        carries_pattern=True,
        law=unavailable_law,
    ),
    _E(
        uniform_cohort,
        lambda n: uniform_cohort(n, _third(n)),
        _third,
        law=uniform_cohort_law,
    ),
)
PARTICIPATION: Mapping[str, ParticipationEntry] = Registry(
    {entry.factory.__name__: entry for entry in _ENTRIES}
)

__all__ = [
    'PARTICIPATION',
    'SCHEDULES',
    'availability',
    'constant',
    'diurnal',
    'intervals',
]
__all__ += [
    'Times',
    'durations',
    'jitter',
    'label_dependent_probs',
    'schedules',
    'sine',
]
__all__ += ['trace_formats', *PARTICIPATION]
