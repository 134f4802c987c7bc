"""What is known exactly about configured links, collected from `fedjax_links.analysis`."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import analysis, describing, errors
from fedjax_links.sections import Bound

_MAX_ENUMERATED_UNITS = 10
_MAX_PERIOD = 10_000
_STEADY_SCHEDULES = ('constant', 'jitter')
_UNKNOWN = 'simulated only, no closed form'


class SeparationLaw(NamedTuple):
    """Stationary law of minimum separation over the units that it selects.

    Attributes:
      law: float64[U], share of the selections that falls on each client or group.
      separation: R, a number of rounds or one per unit.
      cohort_size: B, units per round.
      group_size: clients per unit; None where units are single clients or of unequal size.
      source: how the law was computed.
    """

    law: np.ndarray
    separation: Any
    cohort_size: int
    group_size: int | None
    source: str


class LinkLaw(NamedTuple):
    """Exact facts about who takes part; None for what is not known exactly.

    Attributes:
      description: one line.
      probs: float64[N], participation probabilities of clients that are independent of each other
        within a round, the same in every round.
      memoryless: whether rounds are independent and alike.
      rates: float64[N], long-run participation rates.
      weights: float64[N], ``E[1{i in A} / |A|  given A not empty]`` in the long run.
      weights_source: which formula they come from.
      never_empty: whether every round has a participant.
      up_rate: float64[N], P(absent -> present) where each client by itself is a stationary
        two-state chain; rounds that are independent count as one.
      down_rate: float64[N], P(present -> absent), likewise.
      separation: the law of minimum separation.
      period: rounds after which the law of a round repeats; None if it never changes, or never
        repeats.
    """

    description: str
    probs: np.ndarray | None = None
    memoryless: bool = False
    rates: np.ndarray | None = None
    weights: np.ndarray | None = None
    weights_source: str = ''
    never_empty: bool = False
    up_rate: np.ndarray | None = None
    down_rate: np.ndarray | None = None
    separation: SeparationLaw | None = None
    period: int | None = None


def link_law(links: Bound) -> LinkLaw:
    """The exact law of the clients that hear the server, train and deliver.

    Args:
      links: what `sections.bind_links` makes of a section.

    Returns:
      What is known; a law without numbers for patterns that are only simulated.
    """
    name, options = links.name, links.options
    if name == 'always':
        law = _independent('every client in every round', np.ones(options['num_clients']))
        return law._replace(never_empty=True)
    if name in ('bernoulli', 'markov'):
        return _scheduled(name, options)
    if name == 'cyclic':
        return _cyclic(options)
    if name in ('uniform_cohort', 'regularized', 'periodic_groups'):
        return _cohorts(name, options)
    if name == 'minimum_separation':
        return _separated(options)
    if name == 'unavailable':
        return link_law(options['pattern'])
    if name in ('both', 'either', 'duplex'):
        return _combined(name, options)
    return LinkLaw(_UNKNOWN)


def _independent(description: str, probs: np.ndarray) -> LinkLaw:
    """Independent over clients and rounds, the same law in every round."""
    return LinkLaw(
        description,
        probs=probs,
        memoryless=True,
        rates=probs,
        weights=analysis.fedavg_weights(probs) if probs.any() else None,
        weights_source='independent links',
        up_rate=probs,
        down_rate=1 - probs,
    )


def _scheduled(name: str, options: Mapping[str, Any]) -> LinkLaw:
    schedule: Bound = options['schedule']
    kind, probs = schedule.name, np.asarray(schedule.args[0], np.float64)
    if name != 'markov' and kind in _STEADY_SCHEDULES:
        return _independent('independent over clients and rounds', probs)
    if kind == 'constant':
        up, down = _markov_rates(probs, options)
        return LinkLaw(
            'two-state Markov chains, independent over clients',
            probs=probs,
            rates=probs,
            weights=analysis.fedavg_weights(probs) if probs.any() else None,
            weights_source='independent each round',
            up_rate=up,
            down_rate=down,
        )
    given = schedule.options
    lengths = np.unique(given.get('period', given.get('rounds_per_day', 24)))
    repeats = kind in ('sine', 'diurnal') and lengths.size == 1 and float(lengths[0]).is_integer()
    period = int(lengths[0]) if repeats and lengths[0] <= _MAX_PERIOD else None
    if name == 'markov' or period is None:
        memory = 'with memory' if name == 'markov' else 'without memory'
        return LinkLaw(f'probabilities follow a {kind} schedule, {memory}', period=period)
    mean = schedule.build().mean
    by_round = np.array([mean(t) for t in range(period)], np.float64)
    return LinkLaw(
        f'independent, probabilities follow a {kind} schedule',
        rates=by_round.mean(axis=0),
        weights=_mean_weights(by_round),
        weights_source='by round of the period',
        period=period,
    )


def _mean_weights(probs: np.ndarray) -> np.ndarray | None:
    """Long-run weights of independent rounds with probabilities float64[P, N] in turn."""
    some = -np.expm1(np.log1p(-np.minimum(probs, 1 - 1e-16)).sum(axis=1))
    if not some.any():
        return None
    weights = np.array([analysis.fedavg_weights(row) for row in probs[some > 0]])
    return some[some > 0] @ weights / some.sum()


def _markov_rates(probs: np.ndarray, options: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Transition probabilities of links whose stationary probabilities are ``probs``."""
    if options.get('correlation_time') is not None:
        forgotten = -np.expm1(-1 / np.asarray(options['correlation_time'], np.float64))
        return probs * forgotten, (1 - probs) * forgotten
    given = options.get('up_rate')
    up_rate = np.broadcast_to(np.float64(0.05 if given is None else given), probs.shape)
    ratio = (1 - probs) / np.where(probs > 0, probs, 1)
    capped = (probs == 0) | (up_rate * ratio > 1)
    rise = np.where(capped, probs / np.where(capped, 1 - probs, 1), up_rate)
    return rise, np.where(capped, 1, up_rate * ratio)


def _cyclic(options: Mapping[str, Any]) -> LinkLaw:
    length = options.get('cycle_length', 100)
    reset = options.get('reset', False)
    probs = np.asarray(options['probs'], np.float64)
    active = np.maximum(1, np.rint(length * probs))
    period = np.broadcast_to(
        length if reset else active + np.maximum(1, length - active), active.shape
    )
    alike = np.unique(period)
    return LinkLaw(
        f'cycles of {length} rounds, offsets {"redrawn every cycle" if reset else "drawn once"}',
        rates=active / period,
        period=int(alike[0]) if alike.size == 1 else None,
    )


def _cohorts(name: str, options: Mapping[str, Any]) -> LinkLaw:
    size, num_clients = options['cohort_size'], options.get('num_clients', 1)
    uniform = np.full(num_clients, 1 / num_clients)
    if name == 'uniform_cohort':
        rates = size * uniform
        return LinkLaw(
            f'{size:,} of {num_clients:,} clients, uniformly, rounds independent',
            memoryless=True,
            rates=rates,
            weights=uniform,
            weights_source='equal by symmetry',
            never_empty=True,
            up_rate=rates,
            down_rate=1 - rates,
        )
    if name == 'regularized':
        turns = -(-num_clients // size)
        return LinkLaw(
            f'every client once in {turns} rounds, {size} at a time',
            rates=np.full(num_clients, 1 / turns),
            weights=uniform,
            weights_source='equal by symmetry',
            never_empty=True,
            period=turns,
        )
    groups = np.asarray(options['groups'])
    sizes = np.bincount(groups)
    weights = 1 / (len(sizes) * sizes[groups])
    return LinkLaw(
        f'{len(sizes)} groups in turns of {options["active_rounds"]} rounds, {size} clients each',
        rates=size * weights,
        weights=weights,
        weights_source='equal turns of groups',
        never_empty=True,
        period=len(sizes) * options['active_rounds'],
    )


def _separated(options: Mapping[str, Any]) -> LinkLaw:
    weights = np.asarray(options['weights'], np.float64)
    separation, size = options['separation'], options.get('cohort_size', 1)
    design = options.get('design', 'product')
    groups = None if options.get('groups') is None else np.asarray(options['groups'])
    unit = 'clients' if groups is None else 'groups'
    if np.ndim(separation) == 0:
        wait = f'a separation of {separation} rounds'
    else:
        each = describing.span(str(np.min(separation)), str(np.max(separation)))
        wait = f'separations of {each} rounds'
    description = f'{size:,} of {weights.size:,} {unit} by weight, {wait}'
    selected = weights > 0
    found = _selection_law(
        weights[selected],
        separation if np.ndim(separation) == 0 else np.asarray(separation)[selected],
        size,
        design,
    )
    if found is None:
        return LinkLaw(description, never_empty=True)
    law = np.zeros(weights.size)
    law[selected], source = found
    group_sizes = np.ones(weights.size) if groups is None else np.bincount(groups)
    equal = np.unique(group_sizes).size == 1
    members = np.arange(weights.size) if groups is None else groups
    rates = size * law[members]
    independent = size == 1 and not np.any(separation)
    return LinkLaw(
        description,
        memoryless=independent,
        rates=rates,
        weights=(law / group_sizes)[members] if equal or size == 1 else None,
        weights_source=source,
        never_empty=True,
        up_rate=rates if independent else None,
        down_rate=1 - rates if independent else None,
        separation=SeparationLaw(
            law=law,
            separation=separation,
            cohort_size=size,
            group_size=int(group_sizes[0]) if groups is not None and equal else None,
            source=source,
        ),
    )


def _selection_law(
    weights: np.ndarray, separation: Any, size: int, design: str
) -> tuple[np.ndarray, str] | None:
    """Shares of the selections and where they come from; None beyond closed form and listing."""
    if np.ndim(separation) == 0 and (size == 1 or design == 'product'):
        law = analysis.minimum_separation_stationary(weights, int(separation), size)
        return law, 'closed form'
    if weights.size > _MAX_ENUMERATED_UNITS:
        return None
    try:
        chain = analysis.minimum_separation_chain(weights, separation, size, design)
    except errors.InvalidError:  # more states than it lists
        return None
    return chain.marginal, f'chain of {len(chain.states)} states'


def _combined(name: str, options: Mapping[str, Any]) -> LinkLaw:
    """Patterns of independent parts; exact if each part is independent over clients and rounds."""
    names = {'duplex': ('uplink', 'downlink', 'compute')}.get(name, ('first', 'second'))
    given = [options[part] for part in names if options.get(part)]
    parts = [link_law(part) for part in given]
    if len(parts) == 1:
        return parts[0]
    if name == 'either' and all(map(_is_duplex, given)):
        return LinkLaw(_UNKNOWN)  # a client may hear through one and deliver through the other
    probs = [part.probs for part in parts if part.memoryless and part.probs is not None]
    if len(probs) < len(parts):
        return LinkLaw(_UNKNOWN)
    if name == 'either':
        joint = 1 - np.prod([1 - p for p in probs], axis=0)
    else:
        joint = np.prod(probs, axis=0)
    return _independent('independent over clients and rounds', joint)


def _is_duplex(links: Bound) -> bool:
    """Whether a pattern of independent parts tells uplink, downlink and compute apart."""
    if links.name not in ('both', 'either', 'duplex'):
        return False
    parts = [links.options.get(part) for part in ('first', 'second')]
    return links.name == 'duplex' or any(_is_duplex(part) for part in parts if part)
