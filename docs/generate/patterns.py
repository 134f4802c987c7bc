"""Write a page for each participation pattern, with a picture of a draw."""

from pathlib import Path

import jax
import numpy as np

from fedjax_links import simulation
from fedjax_links.core.registry import ParticipationEntry
from fedjax_links.participation import PARTICIPATION, combining
from generate import pictures, text

_NUM_CLIENTS = 12
_MANY_ROUNDS = 4_000
_INTRODUCTION = """\
Compare the participation patterns. In each round a pattern draws which uplinks deliver, and
reports the probability of each. The last two columns were counted over {rounds:,} rounds of each
pattern's example with {clients} clients.
"""


def write(folder: Path) -> None:
    """Write an index, and a page for each registered pattern."""
    rows = []
    for name, entry in PARTICIPATION.items():
        pattern = entry.example(_NUM_CLIENTS)
        links = simulation.realised_links(
            jax.random.key(1), pattern, num_rounds=_MANY_ROUNDS
        )
        mask, prob = np.asarray(links.mask), np.asarray(links.prob)
        pictures.draw_pattern(mask, prob, folder / f'{name}.png')
        facts = _facts(entry, pattern.cycle, mask, prob)
        _write_page(folder / f'{name}.rst', name, entry, facts)
        source = entry.references[0].short if entry.references else ''
        rows.append(
            (f':doc:`{name}`', text.first_line(entry.factory), source, *facts.values())
        )
    text.write(
        folder / 'index.rst',
        text.heading('Participation patterns'),
        _INTRODUCTION.format(rounds=_MANY_ROUNDS, clients=_NUM_CLIENTS),
        text.table(('pattern', 'what', 'source', *facts), rows),
        text.hidden_contents(PARTICIPATION),
    )


def _facts(
    entry: ParticipationEntry, cycle: int | None, mask: np.ndarray, prob: np.ndarray
) -> dict[str, str]:
    """Collect what the registry says of a pattern, and what its example did."""
    known = 'yes' if entry.prob_is_marginal else 'over time'
    if np.isnan(prob).any():
        known = 'no'
    size = str(entry.cohort_size(_NUM_CLIENTS)) if entry.cohort_size else 'varies'
    return {
        'knows p': known,
        'cohort': size,
        'repeats after': f'{cycle} rounds' if cycle else 'no period',
        'active per round': f'{mask.sum(axis=1).mean():.2f}',
        'empty rounds': f'{100 * (~mask.any(axis=1)).mean():.1f} %',
    }


def _write_page(
    path: Path, name: str, entry: ParticipationEntry, facts: dict[str, str]
) -> None:
    factory = entry.factory.__name__
    text.write(
        path,
        text.heading(name),
        text.first_line(entry.factory) + '.\n',
        f'.. image:: {name}.png\n   :alt: eighty rounds of {name}\n',
        pictures.PATTERN_CAPTION + '\n',
        text.heading('Pattern', '-'),
        f'.. autofunction:: fedjax_links.participation::{factory}\n',
        text.heading('Measured properties of the example', '-'),
        text.table(('', ''), list(facts.items())),
        text.heading('The draw of a round', '-'),
        text.code(sampler(entry)),
        text.sources(entry.references, f"fl.PARTICIPATION['{name}'].citation"),
    )


def sampler(entry: ParticipationEntry) -> str:
    """Return the source of a pattern's sampler; combinators share one."""
    sampler_source = text.inner_functions(entry.factory, 'sample')
    return sampler_source or text.inner_functions(combining.combine, 'sample')
