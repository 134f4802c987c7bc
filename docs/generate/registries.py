"""Write a page for each registry of names that a config can use, with the options of each."""

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import fedjax_links.__main__ as front
from fedjax_links.problems.losses import LOSSES, Loss
from generate import api, fields, options, text


class RegistryPage(NamedTuple):
    """Describe where a config uses the names of a registry.

    Attributes:
      where: a sentence that names the field.
      example: fields of a config that show it.
      supplied: parameters of factories that the package fills in; they are no options.
    """

    where: str
    example: Mapping[str, Any]
    supplied: tuple[str, ...] = ()


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
REGISTRY_PAGES: dict[str, RegistryPage] = {
    'problems': RegistryPage(
        '``problem`` of a config: the data, the model and the loss.',
        {'problem': {'name': 'gaussians', 'num_clients': 10, 'bayes_accuracy': 0.7}},
    ),
    'models': RegistryPage(
        '``model`` of a problem: a name, a section, or a flax module of your own as '
        '``module:factory``.',
        {'problem': {**_DIGITS, 'model': {'name': 'mlp', 'hidden': [64, 32]}}},
        ('num_classes',),
    ),
    'losses': RegistryPage(
        '``loss`` of `fedjax_links.problems.from_arrays` and `fedjax_links.problems.from_flax`, '
        'with ``metrics`` by name.',
        {},
    ),
    'partitions': RegistryPage(
        '``partition`` of a problem: who owns which examples. Its options are fields of the '
        'problem.',
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
    'datasets': RegistryPage(
        '``dataset`` of the problem ``images``, with its options in ``data``: '
        ':doc:`your data </howto/own_data>`.',
        {'problem': _IMAGES},
    ),
    'augmentations': RegistryPage(
        '``augment`` of the problem ``images``: a list of names.',
        {'problem': {**_IMAGES, 'augment': ['crop', 'mirror']}},
        ('key', 'images'),
    ),
    'learning rates': RegistryPage(
        '``decay`` of ``client``: the schedule of its rate over rounds.',
        {'client': {**fields.BASE['client'], 'decay': {'name': 'inverse_sqrt'}}},
        ('eta',),
    ),
    'schedules': RegistryPage(
        '``schedule`` of a pattern with ``probs``: how the probabilities change over rounds.',
        {
            'links': {
                'name': 'bernoulli',
                'probs': 0.5,
                'schedule': {'name': 'sine', 'gamma': 0.3, 'period': 40},
            }
        },
        ('p', 'probs'),
    ),
    'client programs': RegistryPage(
        '``name`` of ``client``: what a client does with a model in a round.',
        {'client': {**fields.BASE['client'], 'name': 'proximal_sgd', 'mu': 0.1}},
    ),
    'optimizers': RegistryPage(
        '``optimizer`` of ``client``, which gets the client rate, or ``server_optimizer`` of an '
        'algorithm: those of optax, and three as in Algorithm 2 of Reddi et al.',
        {
            'algorithms': {
                'fedopt': {'server_optimizer': {'name': 'adam', 'learning_rate': 0.01}}
            }
        },
    ),
    'eval fns': RegistryPage(
        '``eval_fn`` of a config: what an evaluation measures.',
        {'eval_fn': 'problem_metrics'},
    ),
    'probs': RegistryPage(
        '``probs`` of a pattern: the probability that the uplink of each client delivers. A '
        'number or a list needs no name.',
        {
            'links': {
                'name': 'bernoulli',
                'probs': {'name': 'label_dependent', 'sigma': 5.0},
            }
        },
        ('problem',),
    ),
    'weights': RegistryPage(
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
    'groups': RegistryPage(
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
    'device speeds': RegistryPage(
        '``step``, ``uplink`` and ``downlink`` of the layout ``cost`` and of ``times``, by '
        'client. A number holds for all clients.',
        {
            'reports': {
                'cost': {
                    'name': 'cost',
                    'targets': [0.85],
                    'step': 0.1,
                    'uplink': {'name': 'lognormal', 'median': 2e5, 'sigma': 1.0},
                    'downlink': 1e6,
                }
            }
        },
        ('num_clients',),
    ),
    'packets': RegistryPage(
        '``num_packets`` of the pattern ``packets``: the number of packets in an upload.',
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
    'times': RegistryPage(
        '``times`` of the pattern ``quorum``: the duration of a round for each client.',
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
    'graphs': RegistryPage(
        '``graph`` of the pattern ``peers``: which clients can reach each other.',
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
    'sojourns': RegistryPage(
        '``up`` and ``down`` of the pattern ``semi_markov``: how long a link stays up or down.',
        {
            'links': {
                'name': 'semi_markov',
                'up': {'name': 'geometric', 'rate': 0.2},
                'down': {'name': 'weibull', 'scale': 10.0, 'shape': 0.7},
            }
        },
    ),
    'links': RegistryPage(
        '``links`` or one of ``patterns``, beside the :doc:`patterns <../../patterns/index>`.',
        {'links': {'name': 'recorded', 'folder': 'runs/first', 'seed': 0}},
        ('num_clients',),
    ),
    'trace formats': RegistryPage(
        '``format`` of the patterns ``trace`` and ``synthetic_trace`` with a ``path``.',
        {'links': {**_LOG, 'format': {'name': 'csv', 'unit': 'h'}}},
        ('path',),
    ),
    'reports': RegistryPage(
        '``name`` of a section of ``reports``: a layout of a page. Without ``reports``, a '
        'config gets the layouts that suit it.',
        {
            'reports': {
                'differences': {'name': 'comparison', 'tail': 0.2},
                'all': {'name': 'metrics'},
            }
        },
        ('source',),
    ),
}
ELSEWHERE = {'algorithms': '../../algorithms/index', 'patterns': '../../patterns/index'}
"""Registries whose entries have separate pages."""

TITLES = {'reports': 'layouts', 'links': 'recorded links', 'eval fns': 'evaluations'}
_INTRODUCTION = """\
Find a name for a section of a config, and its options. The ``name`` of a section is one of these,
or ``module:factory`` for your own function beside the config. The other fields of the section are
the options of the function. ``python -m fedjax_links`` lists the same names. :doc:`Config fields
<../fields>` has the fields.
"""


def tables() -> dict[str, Mapping[str, Any]]:
    """Return all registries by title: those that the commands list, and losses."""
    registries = dict(front.registries())
    names = list(registries)
    after_models = names.index('models') + 1
    return {
        **{name: registries[name] for name in names[:after_models]},
        'losses': LOSSES,
        **{name: registries[name] for name in names[after_models:]},
    }


def slug(title: str) -> str:
    """Turn the title of a registry into the name of a file."""
    return title.replace(' ', '_')


def anchor(title: str, name: str) -> str:
    """Return the label of an entry."""
    return f'name-{slug(title)}-{name}'.replace('_', '-')


def write(folder: Path) -> None:
    """Write an index, and a page for each registry without pages elsewhere."""
    rows = []
    for title, table in tables().items():
        page = ELSEWHERE.get(title, slug(title))
        registry_page = REGISTRY_PAGES.get(title)
        where = registry_page.where if registry_page else f'``{title}`` of a config.'
        shown = TITLES.get(title, title)
        rows.append((f':doc:`{shown} <{page}>`', where, ', '.join(table)))
        if registry_page is not None:
            write_page(folder / f'{page}.rst', title, table, registry_page)
    text.write(
        folder / 'index.rst',
        text.heading('Names that a config can use'),
        _INTRODUCTION,
        text.table(('registry', 'where', 'names'), rows, kind='names'),
        text.hidden_contents(
            [slug(title) for title in tables() if title in REGISTRY_PAGES]
        ),
    )


def write_page(
    path: Path, title: str, table: Mapping[str, Any], page: RegistryPage
) -> None:
    """Write the page of a registry."""
    shown = TITLES.get(title, title)
    rows = [
        (f':ref:`{name} <{anchor(title, name)}>`', purpose(factory))
        for name, factory in table.items()
    ]
    parts = [
        text.heading(f'{shown[0].upper()}{shown[1:]}'),
        f'{page.where}\n',
        text.table(('name', 'what'), rows),
        text.code(fields.in_python(dict(page.example))) if page.example else '',
    ]
    for name, factory in table.items():
        parts += [
            f'.. _{anchor(title, name)}:\n',
            text.heading(name, '-'),
            entry(factory, page),
        ]
    text.write(path, *parts)


def entry(factory: Any, page: RegistryPage) -> str:
    """Describe an entry of a registry and its options."""
    if isinstance(factory, Loss):
        return _loss(factory)
    function = _function(factory)
    if not function.__module__.startswith('fedjax_links'):
        summary = (
            f'{text.first_line(function)}: ``optax.{function.__name__}``, '
            'whose options it has.\n'
        )
        return '\n'.join([summary, options.table(options.of(factory, page.supplied))])
    option_table = options.table(options.of(factory, page.supplied))
    public = api.public_name(function)
    known = f'In Python: `{public}`.\n' if public else ''
    return '\n'.join(
        [
            f'.. py:currentmodule:: {function.__module__}\n',
            options.before_arguments(function),
            option_table or 'No options.\n',
            known,
        ]
    )


def purpose(factory: Any) -> str:
    """Return the first line of the docstring of an entry."""
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
    function: Callable[..., Any] = factory
    return function
