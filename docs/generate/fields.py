"""Write the page of config fields: type, default, meaning, and an example that a test builds."""

import dataclasses
import pprint
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedjax_links import experiment, local_training
from fedjax_links.config import schema
from fedjax_links.planning import seeding
from fedjax_links.planning.sequential_seeds import UntilDecided
from fedjax_links.planning.tuning import Tuning
from generate import options, text
from generate.options import Option

BASE: dict[str, Any] = {
    'title': 'Two rules, two rates',
    'problem': {'name': 'digits', 'num_clients': 10, 'alpha': 0.3},
    'links': {'name': 'bernoulli', 'probs': 0.5},
    'client': {'learning_rate': 0.1, 'local_steps': 5, 'batch_size': 16},
    'algorithms': {'fedavg': {}, 'fedpbc': {}},
    'num_rounds': 40,
    'eval_every': 20,
}
"""A config; examples are fields that are added to it."""

EXAMPLES: dict[str, Any] = {
    **BASE,
    'problems': {'links': {'alpha': 0.1}},
    'initial_params': 'pretrained.npz',
    'patterns': {
        'steady': {'name': 'bernoulli', 'probs': 0.5},
        'sticky': {'name': 'markov', 'probs': 0.5, 'up_rate': 0.05},
    },
    'num_seeds': 5,
    'first_seed': 100,
    'seeds': {'until': 'decided', 'least': 5, 'most': 20},
    'redraw': {'partition': 'by_seed', 'init': 'fixed'},
    'grid': {
        'client': {'learning_rate': [0.05, 0.1]},
        'problem': {'alpha': [0.1, 1.0]},
    },
    'grid_mode': 'cross',
    'tuning': {'learning_rates': [0.05, 0.1], 'num_seeds': 3},
    'eval_fn': 'train_and_eval',
    'evaluate_start': True,
    'matmul_precision': 'highest',
    'metric': 'eval_accuracy',
    'direction': 'max',
    'baseline': 'fedpbc',
    'names': [('fedavg', 'FedAvg'), ('fedpbc', 'FedPBC')],
    'reports': {'final': {'name': 'levels', 'tail': 0.2}, 'course': {'name': 'curves'}},
    'caption': 'At {config.num_rounds} rounds; the paper has 2,000.',
    'log': ['links'],
}
CLIENT: dict[str, Any] = {
    'name': 'local_sgd',
    'learning_rate': 0.05,
    'decay': {'name': 'inverse_sqrt'},
    'local_steps': 10,
    'local_epochs': 1,
    'batch_size': 0,
    'optimizer': {'name': 'sgd', 'momentum': 0.9},
    'chunk_size': 4,
    'client_steps': [1, 2, 3, 4, 5, 5, 5, 5, 5, 5],
}
TUNING: dict[str, Any] = {
    'learning_rates': [0.05, 0.1],
    'server_lrs': [0.5, 1.0],
    'grid': {'client': {'learning_rate': [0.05, 0.1], 'local_steps': [2, 5]}},
    'num_rounds': 20,
    'num_seeds': 3,
    'most_seeds': 6,
    'ties': 0,
    'grow': 2,
    'pattern': 'links',
    'model': 'server',
}
SEEDS: dict[str, Any] = {
    'until': 'decided',
    'least': 4,
    'most': 20,
    'margin': 0.01,
    'level': 0.99,
    'tail': 0.2,
}
DEFAULTS = {'num_seeds': 1, 'first_seed': 0, 'seeds': None}
"""Of fields that are not those of an `Experiment`."""

_OWN = {
    'name': (
        'text',
        "``'local_sgd'``",
        'See :doc:`names/client_programs`, and their options.',
    ),
    'decay': (
        'text or a section',
        "``'constant'``",
        'See :doc:`names/learning_rates`.',
    ),
    'learning_rates': ('a list of numbers', '', 'Rates of clients to try.'),
    'server_lrs': (
        'a list of numbers',
        '',
        'Rates of the server to try, for algorithms that have one.',
    ),
    'until': (
        'text',
        options.REQUIRED,
        "``'decided'``: each difference to the baseline has a verdict.",
    ),
    'optimizer': (
        'text or a section',
        '``None``',
        'None for SGD; see :doc:`names/optimizers`.',
    ),
}
"""Options that a config has in place of those of the Python call, or in addition."""

_INTRODUCTION = """\
Look up a field of a config. The file that ``--config`` names has a function ``get_config`` that
returns these fields as numbers, texts, lists and sections (:doc:`write a config
</howto/config>`). A section is a ``name`` and the options of the Python call that it names
(:doc:`all names <names/index>`). A flag sets any field, whether the file has it or not:
``--config.num_rounds=100`` or ``--config.client.learning_rate=0.05``. The tests build each
example.
"""
_NESTED = {
    'client': 'The client program. ``client`` in the section of an algorithm overrides it.',
    'tuning': 'Rates or a ``grid`` to try: :doc:`/howto/tuning`.',
    'seeds': 'Seeds until decided, in place of ``num_seeds``: :doc:`/howto/tuning`.',
}
_REDRAW = """\
``'by_seed'`` or ``'fixed'`` for each stream of draws, or one of the two for all. ``data``,
``partition`` and ``links_quality`` are by seed unless a section or the grid has a seed for them.
The others are by seed. With a ``grid`` over ``redraw``, one stream at a time follows the seed.
The layout ``spread`` then shows how much each stream changes the results. Streams: {streams}.
"""
_REST = """\
``quick`` is a section of fields that replace those of the config with ``--quick``. Without the flag
it has no effect. The config of a figure (``python -m fedjax_links figure``) has other fields:
``title``, ``caption``, ``figure`` (a ``module:factory`` and its options), and ``width`` and
``height`` in tenths of an inch.
"""


def top() -> list[Option]:
    """All fields of a config, as `config.schema.FIELDS` has them."""
    own = options.documented(experiment.build)
    meanings = {**own, **options.documented(experiment.Experiment), **own}
    defaults = {f.name: f.default for f in dataclasses.fields(experiment.Experiment)}
    defaults |= DEFAULTS
    found = []
    for name in sorted(schema.FIELDS, key=[*meanings].index):
        default = defaults.get(name, dataclasses.MISSING)
        if name in schema.REQUIRED:
            shown = options.REQUIRED
        elif default is dataclasses.MISSING or default in (None, ''):
            shown = ''
        else:
            shown = options.in_python(default)
        found.append(
            Option(name, options.words(schema.FIELDS[name]), shown, meanings[name])
        )
    return found


def nested() -> dict[str, tuple[list[Option], dict[str, Any]]]:
    """Options and examples of the sections whose options are no named thing's."""
    tuning = [_own(name) for name in ('learning_rates', 'server_lrs')]
    seeds = [o for o in options.of(UntilDecided) if o.name != 'first']
    client = [_own('name'), _own('decay')]
    client += [
        _own(o.name) if o.name in _OWN else o
        for o in options.of(local_training.local_sgd)
    ]
    return {
        'client': (client, CLIENT),
        'tuning': (tuning + options.of(Tuning), TUNING),
        'seeds': ([_own('until'), *seeds], SEEDS),
    }


def write(folder: Path) -> None:
    """Writes the page."""
    parts = [
        text.heading('Config fields'),
        _INTRODUCTION,
        _table(top(), EXAMPLES),
        text.heading('A whole config', '-'),
        text.code(in_python(BASE)),
    ]
    for field, (rows, examples) in nested().items():
        parts += [
            text.heading(field, '-'),
            f'{_NESTED[field]}\n',
            _table(rows, examples),
        ]
    streams = ', '.join(f'``{stream}``' for stream in seeding.STREAMS)
    parts += [
        text.heading('redraw', '-'),
        _REDRAW.format(streams=streams),
        text.heading('quick, and figures', '-'),
        _REST,
    ]
    text.write(folder / 'fields.rst', *parts)


def in_python(value: Any) -> str:
    """A value as it stands in a config."""
    return pprint.pformat(value, width=88, sort_dicts=False)


def _own(name: str) -> Option:
    return Option(name, *_OWN[name])


def _table(rows: list[Option], examples: Mapping[str, Any]) -> str:
    cells = [
        (f'``{o.name}``', o.meaning, o.kind, o.default, f'``{examples[o.name]!r}``')
        for o in rows
    ]
    return text.table(
        ('field', 'meaning', 'is', 'default', 'example'), cells, kind='options'
    )
