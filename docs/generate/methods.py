"""Write a page for each algorithm, and the table of what each needs, keeps and sends."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedjax_links import local_training
from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.core.registry import AlgorithmEntry
from fedjax_links.testing import AlgorithmFacts, algorithm_facts
from generate import pictures, text

_HEADER = (
    'method',
    'paper',
    'year',
    'needs p?',
    'memory, in models',
    'numbers per client',
    'who computes',
    'active clients get the broadcast',
    'empty rounds',
)
_COMPUTING = {
    'all': 'all clients',
    'active': 'active clients',
    'selected': 'active clients that are selected',
}
_BROADCAST_TIMES = {
    'start': 'before they train',
    'end': 'after they train',
    'never': 'at any time, links are ignored',
}
_INTRODUCTION = """\
Compare what the algorithms need, keep and send. N is the number of clients, and p the probability
that an uplink delivers. A client is *active* in a round in which its uplink delivers.

The cells are measured by running each algorithm (`fedjax_links.testing.algorithm_facts`): with
NaN for the probabilities, with the downlink of one client cut, with no active client, and with
other numbers of clients and parameters. They hold for the registered example of each algorithm.
FedAvg and FedPBC, for example, have both kinds of computing.

* *Memory* counts what the simulation keeps between rounds: models that exist once, and models per
  client.
* Broadcasts to clients whose uplink is down have no effect, unless the column says so.
* The last column says what rounds without active clients do to the server model.
"""


def write(folder: Path) -> None:
    """Write an index, and a page for each registered algorithm."""
    facts = {name: algorithm_facts(entry) for name, entry in ALGORITHMS.items()}
    draw = pictures.Trajectories()
    for name, entry in ALGORITHMS.items():
        draw.draw(name, entry, folder / f'{name}.png')
        _write_page(folder / f'{name}.rst', name, entry, facts[name])
    rows = [
        (f':doc:`{name}`', *row(ALGORITHMS[name], facts[name])) for name in ALGORITHMS
    ]
    text.write(
        folder / 'index.rst',
        text.heading('Algorithms'),
        _INTRODUCTION,
        text.table(_HEADER, rows),
        '``fl.ALGORITHMS[name].citation`` is the BibTeX of the source.\n',
        text.hidden_contents(ALGORITHMS),
    )


def row(entry: AlgorithmEntry, facts: AlgorithmFacts) -> tuple[str, ...]:
    """Return the cells of the table, without the name."""
    families, _, year = entry.references[0].short.rpartition(' ')
    return (
        families,
        year,
        'yes' if facts.needs_prob else 'no',
        memory(facts),
        str(facts.client_numbers),
        _COMPUTING[facts.computing],
        _BROADCAST_TIMES[facts.receive_at]
        + (', and other clients too' if facts.inactive_receive else ''),
        'may change the model' if facts.moves_when_empty else 'keep the model',
    )


def calls(name: str, entry: AlgorithmEntry) -> str:
    """Write the lines of Python that make an algorithm with its registered example."""
    program = entry.client_program or local_training.local_sgd
    client_options = _keywords({**entry.client_example, 'local_steps': 5})
    options = _keywords(entry.example)
    if 'server_optimizer' in entry.example:
        options = (
            'server_optimizer=optax.sgd(1.0)'  # A made optimizer has no short text.
        )
    arguments = ', '.join(filter(None, ['client', options]))
    return (
        f'client = local_training.{program.__name__}(0.02, {client_options})\n'
        f"algorithm = fl.ALGORITHMS['{name}']({arguments})"
    )


def _keywords(options: Mapping[str, Any]) -> str:
    return ', '.join(f'{key}={value!r}' for key, value in options.items())


def memory(facts: AlgorithmFacts) -> str:
    """Write the number of models that are kept, as in ``2 + N``."""
    per_client = {0: '', 1: ' + N'}.get(
        facts.client_models, f' + {facts.client_models} N'
    )
    return f'{facts.models}{per_client}'


def _write_page(
    path: Path, name: str, entry: AlgorithmEntry, facts: AlgorithmFacts
) -> None:
    client_program = entry.client_program
    what = client_program or entry.factory
    parts = [
        text.heading(name),
        text.first_line(what) + '.\n',
        f'.. image:: {path.stem}.png\n   :alt: {name} on ten quadratics\n',
        pictures.TRAJECTORY_CAPTION + '\n',
        text.code(calls(name, entry)),
        text.heading('Algorithm', '-'),
    ]
    if client_program:
        parts.append(f':doc:`{entry.factory.__name__}` with another client program:\n')
        full_name = f'{client_program.__module__}::{client_program.__name__}'
        parts.append(f'.. autofunction:: {full_name}\n   :no-index:\n')
    else:
        parts.append(
            f'.. autofunction:: fedjax_links.algorithms::{entry.factory.__name__}\n'
        )
    parts += [
        text.heading('Measured properties', '-'),
        text.table(('', ''), list(zip(_HEADER[1:], row(entry, facts), strict=True))),
        text.heading('The round', '-'),
        text.code(text.inner_functions(entry.factory, 'round_step')),
        text.sources(entry.references, f"fl.ALGORITHMS['{name}'].citation"),
    ]
    text.write(path, *parts)
