"""What the choice of an algorithm depends on (docs/choosing.md), for the links of a config."""

import numpy as np

from fedjax_links import evaluation
from fedjax_links.participation.laws import LinkLaw
from fedjax_links.problems import owners
from fedjax_links.report.screens.configured import ConfiguredLinks
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
        'clients': _clients(links),
        'overlap': f'best model: {known}' if known else 'not known',
    }
    return [
        'What decides which algorithm to take (docs/choosing.md)',
        *(f'  {name:<18}{text}'[:80] for name, text in found.items()),
    ]


def _probabilities(record: LinkRecord) -> str:
    known = ~np.isnan(record.prob).any(axis=0)
    if known.all():
        return 'known, as fedavg_known needs them'
    return f'not known for {(~known).sum():,} of {known.size:,} clients: no fedavg_known'


def _memory(law: LinkLaw, cycle: int | None) -> str:
    if cycle is not None and cycle > 1:
        return f'they repeat every {cycle:,} rounds'
    if law.memoryless:
        return 'nothing: rounds are independent'
    if law.up_rate is None or law.down_rate is None:
        return 'not known'
    kept = 1 - law.up_rate - law.down_rate  # the correlation of a round with the next
    scales = np.where(kept >= 1, np.inf, -1 / np.log(np.clip(kept, 1e-300, 1 - 1e-16)))
    scale = float(np.median(scales))
    return 'for less than a round' if scale < 1 else f'for {scale:.3g} rounds (median client)'


def _silence(active: np.ndarray) -> str:
    """How long clients are away, which is how old their memory gets."""
    rounds = np.arange(1, len(active) + 1)[:, None]
    last = np.maximum.accumulate(np.where(active, rounds, 0), axis=0)
    age = (rounds - last).mean(axis=0)
    return f'the last update of the median client is {np.median(age):.3g} rounds old on average'


def _clients(links: ConfiguredLinks) -> str:
    problem = links.problem
    counts = np.asarray(problem.counts)
    text = f'{counts.mean():.4g} examples each'
    labels = getattr(problem.data, 'labels', None)
    if labels is None or not np.issubdtype(np.asarray(labels).dtype, np.integer):
        return text
    pairs = np.unique(np.stack([owners(problem), np.asarray(labels)]), axis=1)
    kinds = len(np.unique(np.asarray(labels)))
    return f'{text}, of {pairs.shape[1] / counts.size:.2g} of {kinds} labels'
