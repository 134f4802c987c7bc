"""A page for every participation pattern, with a picture of a draw of it."""

from pathlib import Path

import jax
import numpy as np

from fedjax_links import simulation
from fedjax_links.core.registry import ParticipationEntry
from fedjax_links.participation import PARTICIPATION
from generate import pictures, text

_NUM_CLIENTS = 12
_MANY_ROUNDS = 4_000
_INTRODUCTION = """\
A pattern says in every round whose uplink delivers, and with which probability it was to. The
last two columns were counted over {rounds:,} rounds of each pattern's example with {clients}
clients.
"""


def write(folder: Path) -> None:
    """Writes an index and a page for every registered pattern."""
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
        text.heading('Patterns'),
        _INTRODUCTION.format(rounds=_MANY_ROUNDS, clients=_NUM_CLIENTS),
        text.table(('pattern', 'what', 'source', *facts), rows),
        text.hidden_contents(PARTICIPATION),
    )


def _facts(
    entry: ParticipationEntry, cycle: int | None, mask: np.ndarray, prob: np.ndarray
) -> dict[str, str]:
    """What the registry promises of a pattern, and what its example did."""
    known = (
        'no'
        if np.isnan(prob).any()
        else 'yes'
        if entry.prob_is_marginal
        else 'over time'
    )
    size = str(entry.cohort_size(_NUM_CLIENTS)) if entry.cohort_size else 'varies'
    return {
        'knows p': known,
        'cohort': size,
        'repeats after': f'{cycle} rounds' if cycle else '',
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
        text.heading('Rule', '-'),
        f'.. autofunction:: fedjax_links.participation::{factory}\n',
        text.heading('The example', '-'),
        text.table(('', ''), list(facts.items())),
        text.heading('A round', '-'),
        text.code(text.inner_functions(entry.factory, 'sample')),
        text.sources(entry.references, f"fl.PARTICIPATION['{name}'].citation"),
    )
