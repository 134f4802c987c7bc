"""Makes link chains of participation patterns that select or stop clients together.

The module `chains` says what a link chain and its modes are.
"""

import itertools
import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from fedjax_links.analysis import _checks, cohort_chain
from fedjax_links.analysis.link_chains import chains, patterns
from fedjax_links.analysis.link_chains.chains import ClientLinks, LinkChain
from fedjax_links.core import errors

_MAX_SHOCKS = 12  # Their joint chain has 4^12 transitions, 200 MB.


def minimum_separation(
    weights: ArrayLike,
    *,
    separation: ArrayLike,
    cohort_size: int = 1,
    design: str = 'product',
    groups: ArrayLike | None = None,
    max_modes: int = 20_000,
) -> LinkChain:
    """Makes clients wait R rounds after they took part, as `participation.minimum_separation`.

    In each round a cohort of B clients is drawn by weight among the selectable clients. All
    clients start selectable. A mode is the vector of remaining waits and the cohort.

    Args:
      weights: float[U], positive, of any scale; per client, or per group.
      separation: R, or int[U], rounds to wait.
      cohort_size: B, clients (or groups) per round.
      design: ``'product'``, ``'successive'`` or ``'sum'`` (`cohort_law`).
      groups: int[N], the group of each client. Then whole groups take part. By default each
        client is selected alone.
      max_modes: a chain with more modes raises an error.

    Returns:
      The chain. Its probabilities are known if R = 0, so that rounds are independent, and B = 1.

    Raises:
      ValueError: for values out of range, or too many modes.

    Example:
      >>> from fedjax_links import analysis
      >>> chain = analysis.link_chains.minimum_separation([1.0, 1.0, 2.0], separation=1)
      >>> modes = chain.modes()
      >>> print((modes.stationary @ modes.masks).round(3))
      [0.3 0.3 0.4]

    References:
      Sun et al., ICLR 2025, Definition 1 and Proposition 1.
    """
    limit = _checks.checked_int('max_modes', max_modes, minimum=1)
    draws = cohort_chain.cohort_draws(
        weights, separation, cohort_size, design, max_states=limit
    )
    num_units = draws.states.shape[1]
    # A mode is the state that a draw leads to, together with the cohort drawn.
    results = np.column_stack([draws.targets, draws.cohorts])
    modes, mode_of_draw = np.unique(results, axis=0, return_inverse=True)
    mode_of_draw = mode_of_draw.ravel()
    _checks.require(len(modes) <= limit, 'max_modes', 'cover every mode', limit)
    start = np.zeros(len(modes))
    is_first = draws.sources == 0
    np.add.at(start, mode_of_draw[is_first], draws.probs[is_first])
    # From each mode, list all draws that its state allows.
    by_state = sparse.csr_array(
        (draws.probs, (draws.sources, mode_of_draw)),
        shape=(len(draws.states), len(modes)),
    )
    transition = by_state[modes[:, 0]]
    is_up = np.zeros((len(modes), num_units), bool)
    np.put_along_axis(is_up, modes[:, 1:], True, axis=1)
    probs = np.full(num_units, np.nan)
    if cohort_size == 1 and not np.any(separation):
        probs = np.asarray(weights, np.float64) / np.sum(weights)
    labels = np.arange(num_units) if groups is None else _labels(groups, num_units)
    kinds = tuple(
        chains.shared_links(is_up[:, unit], np.full(len(modes), probs[unit]))
        for unit in range(num_units)
    )
    return LinkChain(transition, start, kinds, labels)


def periodic_groups(
    groups: ArrayLike, *, active_rounds: int, cohort_size: int
) -> LinkChain:
    """Makes groups available in turn, as `participation.periodic_groups`.

    In each round S clients take part, drawn uniformly from the group whose turn it is. The
    first turn, of group 0, is shortened by a random offset.

    Args:
      groups: int[N], group of each client; labels 0 to G - 1, each used.
      active_rounds: rounds of one turn, at least 1.
      cohort_size: S, at most the size of the smallest group.

    Returns:
      The chain. A mode is a round of the cycle and the cohort.

    Raises:
      ValueError: for labels with gaps, a cohort larger than a group, or over 100,000 modes.

    Example:
      >>> from fedjax_links import analysis
      >>> chain = analysis.link_chains.periodic_groups(
      ...     [0, 0, 1], active_rounds=2, cohort_size=1
      ... )
      >>> modes = chain.modes()
      >>> print(len(modes.start), modes.stationary @ modes.masks)
      6 [0.25 0.25 0.5 ]

    References:
      Wang and Ji, NeurIPS 2022, Appendix D.
    """
    labels = _labels(groups)
    num_groups = int(labels.max()) + 1
    turn = _checks.checked_int('active_rounds', active_rounds, minimum=1)
    sizes = np.bincount(labels)
    size = _checks.checked_int(
        'cohort_size', cohort_size, minimum=1, maximum=int(sizes.min())
    )
    num_cohorts = sum(math.comb(int(n), size) for n in sizes)
    num_modes = turn * num_cohorts
    too_large = 'active_rounds' if num_cohorts <= chains.MAX_MODES else 'cohort_size'
    requirement = f'leave at most {chains.MAX_MODES:,} modes of a turn and a cohort'
    shown = errors.count_text(num_modes)
    got = f'{shown} with {turn} rounds and cohorts of {size}'
    _checks.require(num_modes <= chains.MAX_MODES, too_large, requirement, got)
    num_phases = turn * num_groups
    ups = []
    phase_of_mode = []
    prob_of_mode = []
    for phase in range(num_phases):
        group = phase // turn
        members = np.flatnonzero(labels == group)
        for cohort in itertools.combinations(members, size):
            ups.append(np.isin(np.arange(len(labels)), cohort))
            phase_of_mode.append(phase)
            prob_of_mode.append(1.0 / math.comb(len(members), size))
    is_up = np.array(ups)
    phases = np.array(phase_of_mode)
    cohort_probs = np.array(prob_of_mode)
    # From each mode, list all cohorts of the next phase.
    by_phase = sparse.csr_array(
        (cohort_probs, (phases, np.arange(len(phases)))),
        shape=(num_phases, len(phases)),
    )
    transition = by_phase[(phases + 1) % num_phases]
    start = np.where(phases < turn, cohort_probs / turn, 0.0)
    group_of_mode = phases // turn
    kinds = []
    for client, group in enumerate(labels):
        prob = np.where(group_of_mode == group, size / sizes[group], 0.0)
        kinds.append(chains.shared_links(is_up[:, client], prob))
    return LinkChain(transition, start, tuple(kinds), np.arange(len(labels)))


def shared_shocks(
    chain: LinkChain,
    groups: ArrayLike,
    *,
    up_rate: ArrayLike,
    down_rate: ArrayLike,
) -> LinkChain:
    """Adds outages that groups of clients share, as `participation.shared_shocks`.

    Each group has a hidden two-state Markov chain that starts stationary. While this chain is
    down, no uplink of the group delivers.

    Args:
      chain: the uplinks while their group is up.
      groups: int[N], group of each client; labels 0 to G - 1, each used.
      up_rate: P(down -> up) per round, in (0, 1], one number or float[G].
      down_rate: P(up -> down), likewise.

    Returns:
      The chain. Its probabilities hold without knowledge of the hidden chains' states.

    Raises:
      ValueError: for a value out of range, more than 12 groups, or if numbers of clients
        differ.

    Example:
      >>> from fedjax_links import analysis
      >>> links = analysis.link_chains.independent([0.5, 0.5])
      >>> chain = analysis.link_chains.shared_shocks(
      ...     links, [0, 0], up_rate=0.1, down_rate=0.3
      ... )
      >>> modes = chain.modes()
      >>> print(modes.stationary @ modes.masks)
      [0.125 0.125]
    """
    chains.check_chain(chain)
    labels = _labels(groups)
    size = chain.num_clients
    _checks.require(len(labels) == size, 'groups', f'have {size} entries', len(labels))
    num_groups = int(labels.max()) + 1
    requirement = f'name at most {_MAX_SHOCKS} groups, whose outages are listed'
    _checks.require(num_groups <= _MAX_SHOCKS, 'groups', requirement, num_groups)
    rise = _checks.checked_rate('up_rate', up_rate)
    fall = _checks.checked_rate('down_rate', down_rate)
    _checks.checked('up_rate', rise, rise > 0, 'be positive')
    _checks.checked('down_rate', fall, fall > 0, 'be positive')
    rise = _checks.checked_shape('up_rate', rise, (num_groups,), 'one per group')
    fall = _checks.checked_shape('down_rate', fall, (num_groups,), 'one per group')
    up_probs = rise / (rise + fall)
    shocks = patterns.two_state(up_probs[None], rise[None], fall[None]).modes()
    num_shocks = len(shocks.start)
    kinds = []
    pairs = np.column_stack([chain.kind_of_client, labels])
    distinct, kind_of_client = np.unique(pairs, axis=0, return_inverse=True)
    for kind, group in distinct:
        links = chain.kinds[kind]
        is_open = np.tile(shocks.masks[:, group], len(chain.start))
        kinds.append(
            ClientLinks(
                np.repeat(links.transition, num_shocks, axis=0),
                np.repeat(links.start, num_shocks, axis=0),
                np.repeat(links.is_up, num_shocks, axis=0) & is_open[:, None],
                np.repeat(links.prob, num_shocks) * up_probs[group],
            )
        )
    return LinkChain(
        sparse.kron(chain.transition, shocks.transition, format='csr'),
        np.kron(chain.start, shocks.start),
        tuple(kinds),
        kind_of_client.ravel(),
    )


def _labels(groups: ArrayLike, num_groups: int | None = None) -> np.ndarray:
    """Checks labels of groups, int64[N]: 0 to G - 1, each used."""
    requirement = 'have labels 0 to G - 1, each of them used'
    labels = _checks.as_array('groups', groups, requirement)
    is_valid = labels.ndim == 1 and labels.dtype.kind in 'iu' and labels.size > 0
    if is_valid:
        used = np.unique(labels)
        count = len(used) if num_groups is None else num_groups
        is_valid = np.array_equal(used, np.arange(count))
    if num_groups is not None:
        requirement = f'have labels 0 to {num_groups - 1}, each of them used'
    _checks.require_value(is_valid, 'groups', requirement, groups)
    return labels.astype(np.int64)
