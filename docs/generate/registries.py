"""A page for every table of names that a config can use, with a section and options for each."""

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import fedjax_links.__main__ as front
from fedjax_links.problems.losses import LOSSES, Loss
from generate import api, fields, options, text


class Place(NamedTuple):
    """Where names of a table stand.

    Attributes:
      where: a sentence.
      example: fields of a config that show it.
      given: parameters of factories that are no options.
    """

    where: str
    example: Mapping[str, Any]
    given: tuple[str, ...] = ()


_DIGITS = fields.BASE['problem']
_LOG = {'name': 'trace', 'path': 'phones.csv', 'tick': 600.0}
_STEADY = fields.BASE['links']
_IMAGES = {
    'name': 'images',
    'dataset': 'synthetic_images',
    'data': {'num_train': 500, 'num_test': 100},
    'model': 'softmax',
    'num_clients': 10,
}
PLACES: dict[str, Place] = {
    'problems': Place(
        '``problem`` of a config; the data, the model and the loss.',
        {'problem': {'name': 'gaussians', 'num_clients': 10, 'bayes_accuracy': 0.7}},
    ),
    'models': Place(
        '``model`` of a problem: a name, a section, or a flax module of your own as '
        '``module:factory``.',
        {'problem': {**_DIGITS, 'model': {'name': 'mlp', 'hidden': [64, 32]}}},
        ('num_classes',),
    ),
    'losses': Place(
        '``loss`` of `fedjax_links.problems.from_arrays` and `fedjax_links.problems.from_flax`, '
        'with ``metrics`` by name.',
        {},
    ),
    'partitions': Place(
        '``partition`` of a problem, which takes the options beside it: who owns which examples.',
        {
            'problem': {
                'name': 'digits',
                'num_clients': 10,
                'partition': 'dirichlet',
                'alpha': 0.1,
            }
        },
        ('labels', 'num_clients', 'seed'),
    ),
    'datasets': Place(
        '``dataset`` of the problem ``images``, with its options in ``data``: '
        ':doc:`your data </howto/own_data>`.',
        {'problem': _IMAGES},
        ('seed',),
    ),
    'augmentations': Place(
        '``augment`` of the problem ``images``: a list of names.',
        {'problem': {**_IMAGES, 'augment': ['crop', 'mirror']}},
        ('key', 'images'),
    ),
    'learning rates': Place(
        '``decay`` of ``client``: how its rate changes with the round.',
        {'client': {**fields.BASE['client'], 'decay': {'name': 'inverse_sqrt'}}},
        ('eta',),
    ),
    'schedules': Place(
        '``schedule`` of a pattern with ``probs``: how they change with the round.',
        {
            'links': {
                'name': 'bernoulli',
                'probs': 0.5,
                'schedule': {'name': 'sine', 'gamma': 0.3, 'period': 40},
            }
        },
        ('p', 'probs'),
    ),
    'client programs': Place(
        '``name`` of ``client``: what a client does with a model in a round.',
        {'client': {**fields.BASE['client'], 'name': 'proximal_sgd', 'mu': 0.1}},
    ),
    'optimizers': Place(
        '``optimizer`` of ``client``, which is given the rate, or ``server_optimizer`` of an '
        'algorithm: those of optax, and three of Reddi et al. as their Algorithm 2 has them.',
        {
            'algorithms': {
                'fedopt': {'server_optimizer': {'name': 'adam', 'learning_rate': 0.01}}
            }
        },
    ),
    'eval fns': Place(
        '``eval_fn`` of a config: what is measured of a model.',
        {'eval_fn': 'problem_metrics'},
    ),
    'probs': Place(
        '``probs`` of a pattern: the probability of every client that its uplink delivers. A '
        'number and a list do without a name.',
        {
            'links': {
                'name': 'bernoulli',
                'probs': {'name': 'label_dependent', 'sigma': 5.0},
            }
        },
        ('problem',),
    ),
    'weights': Place(
        '``weights`` of a pattern: one for each client, or each group.',
        {
            'links': {
                'name': 'minimum_separation',
                'weights': {'name': 'power', 'exponent': 1.0},
                'separation': 3,
            }
        },
        ('problem',),
    ),
    'groups': Place(
        '``groups`` of a pattern: the group of each client.',
        {
            'links': {
                'name': 'periodic_groups',
                'groups': {'name': 'contiguous', 'num_groups': 2},
                'active_rounds': 5,
                'cohort_size': 2,
            }
        },
        ('problem',),
    ),
    'device speeds': Place(
        '``step``, ``uplink`` and ``downlink`` of the layout ``price`` and of ``times``: one of '
        'each client. A number does for all.',
        {
            'reports': {
                'price': {
                    'name': 'price',
                    'targets': [0.85],
                    'step': 0.1,
                    'uplink': {'name': 'lognormal', 'median': 2e5, 'sigma': 1.0},
                    'downlink': 1e6,
                }
            }
        },
        ('num_clients',),
    ),
    'packets': Place(
        '``num_packets`` of the pattern ``packets``: how many an upload has.',
        {
            'links': {
                'name': 'packets',
                'pattern': _STEADY,
                'loss': 0.01,
                'num_packets': {'name': 'of_model', 'packet_bytes': 1500},
            }
        },
        ('problem',),
    ),
    'times': Place(
        '``times`` of the pattern ``quorum``: how long a client takes for a round.',
        {
            'links': {
                'name': 'quorum',
                'quorum': 5,
                'times': {
                    'name': 'devices',
                    'step': 0.1,
                    'uplink': 2e5,
                    'downlink': 1e6,
                    'local_steps': 5,
                },
            }
        },
        ('problem',),
    ),
    'graphs': Place(
        '``graph`` of the pattern ``peers``: who could hear whom.',
        {
            'links': {
                'name': 'peers',
                'pattern': _STEADY,
                'graph': {'name': 'ring', 'degree': 2},
                'prob': 0.5,
            },
            'algorithms': {'gossip': {}},
        },
        ('num_clients',),
    ),
    'sojourns': Place(
        '``up`` and ``down`` of the pattern ``semi_markov``: how long a link stays.',
        {
            'links': {
                'name': 'semi_markov',
                'up': {'name': 'geometric', 'rate': 0.2},
                'down': {'name': 'weibull', 'scale': 10.0, 'shape': 0.7},
            }
        },
    ),
    'links': Place(
        '``links`` or one of ``patterns``, besides the :doc:`patterns <../../patterns/index>`.',
        {'links': {'name': 'recorded', 'folder': 'runs/first', 'seed': 0}},
        ('num_clients',),
    ),
    'trace formats': Place(
        '``format`` of the patterns ``trace`` and ``look_alike`` with a ``path``.',
        {'links': {**_LOG, 'format': {'name': 'csv', 'unit': 'h'}}},
        ('path',),
    ),
    'reports': Place(
        '``name`` of a section of ``reports``: a layout, by the name of the file that it writes. '
        'A config without ``reports`` has those that suit it.',
        {
            'reports': {
                'final': {'name': 'levels', 'tail': 0.2},
                'all': {'name': 'metrics'},
            }
        },
        ('source',),
    ),
}
ELSEWHERE = {'algorithms': '../../algorithms/index', 'patterns': '../../patterns/index'}
"""Tables whose entries have pages of their own."""

TITLES = {'reports': 'layouts', 'links': 'recorded links', 'eval fns': 'evaluations'}
_INTRODUCTION = """\
Wherever a config has a section, its ``name`` is one of these, or ``module:factory`` for a function
of your own beside the config; the other fields of the section are the function's options.
``python -m fedjax_links`` lists the same names. The :doc:`fields of a config <../fields>` have a
page of their own.
"""


def tables() -> dict[str, Mapping[str, Any]]:
    """All tables by title: those that the command line lists, and losses."""
    found = dict(front.registries())
    names = list(found)
    place = names.index('models') + 1
    return {
        **{name: found[name] for name in names[:place]},
        'losses': LOSSES,
        **{name: found[name] for name in names[place:]},
    }


def slug(title: str) -> str:
    """A table's title as the name of a file."""
    return title.replace(' ', '_')


def anchor(title: str, name: str) -> str:
    """The label of an entry."""
    return f'name-{slug(title)}-{name}'.replace('_', '-')


def write(folder: Path) -> None:
    """Writes an index and a page for every table without pages elsewhere."""
    rows = []
    for title, table in tables().items():
        page = ELSEWHERE.get(title, slug(title))
        place = PLACES.get(title)
        where = place.where if place else f'``{title}`` of a config.'
        shown = TITLES.get(title, title)
        rows.append((f':doc:`{shown} <{page}>`', where, ', '.join(table)))
        if place is not None:
            write_page(folder / f'{page}.rst', title, table, place)
    text.write(
        folder / 'index.rst',
        text.heading('What a config can name'),
        _INTRODUCTION,
        text.table(('table', 'where', 'names'), rows, kind='names'),
        text.hidden_contents([slug(title) for title in tables() if title in PLACES]),
    )


def write_page(path: Path, title: str, table: Mapping[str, Any], place: Place) -> None:
    """Writes the page of a table."""
    shown = TITLES.get(title, title)
    rows = [
        (f':ref:`{name} <{anchor(title, name)}>`', purpose(factory))
        for name, factory in table.items()
    ]
    parts = [
        text.heading(f'{shown[0].upper()}{shown[1:]}'),
        f'{place.where}\n',
        text.table(('name', 'what'), rows),
        text.code(fields.in_python(dict(place.example))) if place.example else '',
    ]
    for name, factory in table.items():
        parts += [
            f'.. _{anchor(title, name)}:\n',
            text.heading(name, '-'),
            entry(factory, place),
        ]
    text.write(path, *parts)


def entry(factory: Any, place: Place) -> str:
    """What an entry of a table is, and its options."""
    if isinstance(factory, Loss):
        return _loss(factory)
    function = _function(factory)
    if not function.__module__.startswith('fedjax_links'):
        summary = (
            f'{text.first_line(function)}: ``optax.{function.__name__}``, '
            'whose options it has.\n'
        )
        return '\n'.join([summary, options.table(options.of(factory, place.given))])
    made = options.table(options.of(factory, place.given))
    public = api.public_name(function)
    known = f'In Python: `{public}`.\n' if public else ''
    return '\n'.join(
        [
            f'.. py:currentmodule:: {function.__module__}\n',
            options.before_arguments(function),
            made or 'No options.\n',
            known,
        ]
    )


def purpose(factory: Any) -> str:
    """The first line on an entry."""
    if isinstance(factory, Loss):
        return text.first_line(factory.loss)
    return text.first_line(_function(factory))


def _loss(loss: Loss) -> str:
    rows = [
        (f'``{name}``', 'larger' if metric.larger else 'smaller')
        for name, metric in loss.metrics.items()
    ]
    return '\n'.join(
        [
            f'.. py:currentmodule:: {loss.loss.__module__}\n',
            inspect.getdoc(loss.loss) or '',
            '',
            text.table(('metric', 'is better when'), rows),
        ]
    )


def _function(factory: Any) -> Callable[..., Any]:
    while isinstance(factory, functools.partial):
        factory = factory.func
    found: Callable[..., Any] = factory
    return found
