"""What the choice of an algorithm depends on (docs/choosing.md), for the links of a config."""

import numpy as np

from fedjax_links import evaluation
from fedjax_links.base import Problem
from fedjax_links.participation.laws import LinkLaw
from fedjax_links.report.screens import partitions
from fedjax_links.report.screens.configured import ConfiguredLinks
from fedjax_links.report.screens.link_statistics import chain
from fedjax_links.report.screens.recording import LinkRecord


def lines(links: ConfiguredLinks, record: LinkRecord) -> list[str]:
    """Probabilities, time scale of the links, silence, clients' data and overlap, a line each.

    Args:
      links: the pattern.
      record: its links, simulated.

    Returns:
      Lines of at most 80 columns.
    """
    known = evaluation.attainable_text(links.problem)
    found = {
        'probabilities': _probabilities(record),
        'links remember': _memory(links.law, links.participation.cycle),
        'silence': _silence(record.participates),
        'clients': _clients(links.problem),
        'overlap': f'best model: {known}' if known else 'not known',
    }
    return [
        'What decides which algorithm to take (docs/choosing.md)',
        *(f'  {name:<18}{text}'[:80] for name, text in found.items()),
    ]


def _probabilities(record: LinkRecord) -> str:
    unknown = np.isnan(record.prob).any(axis=0)
    if not unknown.any():
        return 'known, as fedavg_known needs them'
    return f'not known for {unknown.sum():,} of {unknown.size:,} clients: no fedavg_known'


def _memory(law: LinkLaw, cycle: int | None) -> str:
    if cycle is not None and cycle > 1:
        return f'they repeat every {cycle:,} rounds'
    if law.memoryless:
        return 'nothing: rounds are independent'
    if (rates := chain(law)) is None:
        return 'not known'
    kept = 1 - sum(rates)  # the correlation of a round with the next
    scales = np.where(kept >= 1, np.inf, -1 / np.log(np.clip(kept, 1e-300, 1 - 1e-16)))
    scale = float(np.median(scales))
    return 'for less than a round' if scale < 1 else f'for {scale:.3g} rounds (median client)'


def _silence(active: np.ndarray) -> str:
    """How long clients are away, which is how old their memory gets."""
    rounds = np.arange(1, len(active) + 1)[:, None]
    last = np.maximum.accumulate(np.where(active, rounds, 0), axis=0)
    age = (rounds - last).mean(axis=0)
    return f'the last update of the median client is {np.median(age):.3g} rounds old on average'


def _clients(problem: Problem) -> str:
    held = partitions.of_problem(problem)
    mix = f', of {held.classes_held.mean():.2g} of {held.global_mix.size} labels'
    return f'{held.counts.mean():.4g} examples each{mix if held.global_mix.size else ""}'
