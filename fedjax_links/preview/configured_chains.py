"""Makes the link chain of a configured pattern, for the exact theory of links with memory.

A link chain (`LinkChain`) is the law of links as a Markov chain.
"""

from collections.abc import Callable, Mapping

import numpy as np

from fedjax_links.analysis import link_chains
from fedjax_links.analysis.link_chains import LinkChain
from fedjax_links.config.bound import BoundFactory
from fedjax_links.core import errors
from fedjax_links.participation import schedules
from fedjax_links.participation.cyclic import block_lengths
from fedjax_links.participation.link_laws import LawInputs
from fedjax_links.preview import configured_links

_MAX_PERIOD = 1_000
_MAX_CLIENTS = 10_000
"""Chosen limits of a periodic chain, which then holds float64[_MAX_PERIOD, _MAX_CLIENTS], 80 MB."""
_DETERMINISTIC = 'constant', 'sine', 'diurnal'
"""Schedules whose probabilities are not random."""


class NotExactError(Exception):
    """States why nothing exact is known, in words that the command line prints."""


def link_chain(links: BoundFactory) -> LinkChain:
    """Makes the chain that the uplinks of a pattern follow.

    Args:
      links: a pattern's section of a config, bound.

    Returns:
      The chain.

    Raises:
      NotExactError: for a pattern without a chain, or whose chain is too large.
    """
    make_chain = _CHAINS.get(links.name)
    if make_chain is None:
        raise NotExactError(f'no link chain of {links.name} is known')
    inputs = configured_links.law_inputs(links)
    if inputs.probs.size > _MAX_CLIENTS:
        raise NotExactError(f'more than {_MAX_CLIENTS:,} clients')
    try:
        return make_chain(inputs)
    except errors.InvalidError as error:
        raise NotExactError(str(error)) from error


def _always(inputs: LawInputs) -> LinkChain:
    return link_chains.independent(np.ones(inputs.options['num_clients']))


def _bernoulli(inputs: LawInputs) -> LinkChain:
    if inputs.schedule_name in ('constant', 'jitter'):
        return link_chains.independent(inputs.probs)
    if inputs.schedule_name not in _DETERMINISTIC:
        requirement = 'may have random probabilities that clients share'
        raise NotExactError(f'the schedule {inputs.schedule_name} {requirement}')
    return link_chains.independent(_probs_of_period(inputs))


def _markov(inputs: LawInputs) -> LinkChain:
    if inputs.schedule_name not in _DETERMINISTIC:
        raise NotExactError(
            f'probabilities of the schedule {inputs.schedule_name} are random'
        )
    probs = inputs.probs
    if inputs.schedule_name != 'constant':
        probs = _probs_of_period(inputs)
    return link_chains.markov(
        probs,
        inputs.options.get('up_rate'),
        correlation_time=inputs.options.get('correlation_time'),
    )


def _probs_of_period(inputs: LawInputs) -> np.ndarray:
    """Returns the mean probabilities of the rounds of a period, float64[K, N]."""
    schedule = inputs.options['schedule']
    period = schedule.cycle
    if not period or period > _MAX_PERIOD:
        requirement = f'does not repeat within {_MAX_PERIOD:,} rounds'
        raise NotExactError(f'the schedule {inputs.schedule_name} {requirement}')
    return np.array([schedule.mean(t) for t in range(period)], np.float64)


def _cyclic(inputs: LawInputs) -> LinkChain:
    length = inputs.options.get('cycle_length', 100)
    reset = inputs.options.get('reset', False)
    # The pattern rounds block lengths in single precision; any precision rounds k / L alike.
    active, _ = block_lengths(schedules.as_floats(inputs.probs), length)
    return link_chains.cyclic(active / length, cycle_length=length, reset=reset)


def _minimum_separation(inputs: LawInputs) -> LinkChain:
    options = inputs.options
    return link_chains.minimum_separation(
        options['weights'],
        separation=options['separation'],
        cohort_size=options.get('cohort_size', 1),
        design=options.get('design', 'product'),
        groups=options.get('groups'),
    )


def _uniform_cohort(inputs: LawInputs) -> LinkChain:
    num_clients = inputs.options['num_clients']
    size = inputs.options['cohort_size']
    # A uniform cohort is a minimum separation of 0 with equal weights: no client has to wait.
    chain = link_chains.minimum_separation(
        np.ones(num_clients), separation=0, cohort_size=size
    )
    kinds = []
    for kind in chain.kinds:
        prob = np.full_like(kind.prob, size / num_clients)
        kinds.append(kind._replace(prob=prob))
    return chain._replace(kinds=tuple(kinds))


def _periodic_groups(inputs: LawInputs) -> LinkChain:
    options = inputs.options
    return link_chains.periodic_groups(
        options['groups'],
        active_rounds=options['active_rounds'],
        cohort_size=options['cohort_size'],
    )


def _semi_markov(inputs: LawInputs) -> LinkChain:
    options = inputs.options
    up = np.atleast_2d(options['up'])
    down = np.atleast_2d(options['down'])
    kinds = options.get('kinds')
    if kinds is None and len(up) == len(down) == 1:
        kinds = np.zeros(options.get('num_clients') or 1, int)
    return link_chains.semi_markov(up, down, kinds=kinds)


def _shared_shocks(inputs: LawInputs) -> LinkChain:
    options = inputs.options
    return link_chains.shared_shocks(
        link_chain(options['pattern']),
        options['groups'],
        up_rate=options['up_rate'],
        down_rate=options['down_rate'],
    )


_CHAINS: Mapping[str, Callable[[LawInputs], LinkChain]] = {
    'always': _always,
    'bernoulli': _bernoulli,
    'cyclic': _cyclic,
    'markov': _markov,
    'minimum_separation': _minimum_separation,
    'periodic_groups': _periodic_groups,
    'semi_markov': _semi_markov,
    'shared_shocks': _shared_shocks,
    'uniform_cohort': _uniform_cohort,
}
"""Makers of chains by names of `PARTICIPATION`; a pattern without an entry is only simulated."""
