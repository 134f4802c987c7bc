"""Wrong kinds, sizes and relations: each ends in a one-line error that names the field."""

import pytest

from fedjax_links import experiment
from tests.experiment.configs import values
from tests.experiment.sections import bernoulli, client, links

NAN = float('nan')
QUADRATIC = {'name': 'quadratic', 'targets': ((0.0,), (1.0,))}


REFUSED = [
    # Kinds.
    ({'title': None}, '`config.title` must be text, got None.'),
    ({'num_rounds': 4.0}, '`config.num_rounds` must be a whole number, got 4.0.'),
    ({'num_rounds': '4'}, "`config.num_rounds` must be a whole number, got '4'."),
    ({'num_seeds': True}, '`config.num_seeds` must be a whole number, got True.'),
    (
        client(local_steps=5.0),
        'client.local_steps` must be a whole number or None, got 5.0.',
    ),
    (
        client(batch_size=False),
        'client.batch_size` must be a whole number or None, got False.',
    ),
    (client(learning_rate='0.1'), "client.learning_rate` must be a number, got '0.1'."),
    (client(learning_rate=None), 'client.learning_rate` must be a number, got None.'),
    (client(learning_rate=True), 'client.learning_rate` must be a number, got True.'),
    (client(learning_rate=[0.1]), 'client.learning_rate` must be a number, got [0.1].'),
    (
        {'algorithms': {'fedavg': {'server_lr': '1'}}},
        'server_lr` must be a number, got',
    ),
    (
        {'algorithms': {'fedavg': None}},
        '`config.algorithms.fedavg` must be a section, got None.',
    ),
    (
        {'algorithms': {'fedavg': {'client': 3}}},
        '.fedavg.client` must be a section, got 3.',
    ),
    (
        links('cyclic', probs=[0.5] * 8, reset=1),
        '`config.links.reset` must be True or False',
    ),
    (
        links('outage', pattern=3, start=1, stop=2),
        '`config.links.pattern` must be a Participation',
    ),
    ({'log': 'links'}, "`config.log` must be a list of values, got 'links'."),
    (
        {'problem': {'name': 'digits', 'num_clients': 8.0}},
        'config.problem.num_clients` must be a',
    ),
    (
        {'problem': {'name': 'digits', 'alpha': '1'}},
        '`config.problem.alpha` must be a number',
    ),
    (
        {'problem': {**QUADRATIC, 'targets': ((0.0,), ('x',))}},
        '`config.problem.targets` must be a number or a list of numbers, or of lists of one length',
    ),
    # Numbers.
    (
        client(learning_rate=float('inf')),
        '`config.client.learning_rate` must be finite, got inf.',
    ),
    (
        client(learning_rate=1e39),
        '`config.client.learning_rate` must be at most 3.4e+38',
    ),
    (
        client(learning_rate=10**30),
        '`config.client.learning_rate` must be within 64 bits',
    ),
    (client(mu=NAN), '`config.client.mu` must be finite, got nan.'),
    ({'caption': b'x'}, "`config.caption` must be text, got b'x'."),
    (
        {'first_seed': 2**32},
        '`config.first_seed` must be at most 4294967294, got 4294967296.',
    ),
    (
        {'problem': {'name': 'digits', 'seed': 2**32}},
        '`config.problem.seed` must be at most 429',
    ),
    (
        bernoulli(schedule={'name': 'sine', 'gamma': 0.7, 'period': 4}),
        'schedule.gamma` must lie in',
    ),
    (
        bernoulli(schedule={'name': 'sine', 'gamma': 0.1, 'period': [4]}),
        'be one number or a list of 8',
    ),
    (
        bernoulli(schedule={'name': 'jitter', 'width': 0.6}),
        'schedule.width` must lie in [0, 0.5]',
    ),
    (
        {
            'algorithms': {
                'fedopt': {'server_optimizer': {'name': 'sgd', 'learning_rate': -1.0}}
            }
        },
        'server_optimizer.learning_rate` must lie in ',
    ),
    (
        client(optimizer={'name': 'sgd', 'momentum': 2.0}),
        'optimizer.momentum` must lie in [0, 1]',
    ),
    (
        client(optimizer={'name': 'sgd', 'momentum': []}),
        'optimizer.momentum` must be one number',
    ),
    # Names and labels.
    ({'': 1}, "`config` has no ''; valid names: "),
    (
        {'algorithms': {'fedavg': {'client': {1: 2}}}},
        'must have texts as names of its fields',
    ),
    (
        {'algorithms': {'fedavg': {}, 'FedAvg': {'name': 'fedpbc'}}},
        "got 'fedavg' and 'FedAvg'.",
    ),
    (
        {'algorithms': {'..': {'name': 'fedavg'}}},
        r"labels that are file names without '/', '\' and '..'",
    ),
    (
        {'algorithms': {'.hidden': {'name': 'fedavg'}}},
        "'..', a dot in front and spaces at the ends, got '.hidden'",
    ),
    (
        {'algorithms': {'a/b': {'name': 'fedavg'}}},
        'must have labels that are file names',
    ),
    (
        {'algorithms': {'x' * 101: {'name': 'fedavg'}}},
        'must have labels of at most 100 bytes',
    ),
    (
        {'algorithms': {'ж' * 51: {'name': 'fedavg'}}},
        'must have labels of at most 100 bytes',
    ),
    *(
        (
            {'reports': {name: 'comparison'}},
            '`config.reports` must leave the names links and participation to the pages of the '
            f'links, got {name}.',
        )
        for name in ('Links', 'participation')
    ),
    (
        {'reports': {'a/b': 'comparison'}},
        '`config.reports` must have labels that are file names',
    ),
    ({'names': (('fedavg', 3),)}, '`config.names` must show texts, got 3.'),
    (
        {'names': (('fedavg', 'A'), ('fedavg', 'B'))},
        'names` must have one name for fedavg, got A and B.',
    ),
    ({'baseline': ''}, "`config.baseline` has no ''"),
    ({'metric': ''}, "`config.metric` has no ''"),
    (links('always', probs=0.5), "`config.links` has no 'probs'"),
    (
        links('always', num_clients=3),
        "`config.links.num_clients` must be left out, as it is the problem's, got 3.",
    ),
    (
        {'links': {'probs': {'name': 'equal', 'value': 0.5}}},
        '`config.links.name` must be given; ',
    ),
    (
        {'links': {'name': 'synthetic_trace', 'num_clients': 5, 'tick': 60.0}},
        "`config.links.num_clients` must be left out, as it is the problem's, got 5.",
    ),
    (
        {'links': {'name': 'synthetic_trace', 'tick': 60.0}},
        '`config.links.path` must name the file of a log, got None.',
    ),
    (
        {
            'links': {'name': 'bernoulli', 'probs': 0.5},
            'grid': {'links': {'probs': {'value': [0.3, 0.6]}}},
        },
        "`config.links.probs` must be a section, to have 'value', got 0.5.",
    ),
    ({'links': {'start': 1}}, 'valid names: always, bernoulli, both, '),
    (
        {'problem': {'num_clients': 8}},
        '`config.problem.name` must be given; valid names: count',
    ),
    (
        {'algorithms': {'mine': {'name': None}}},
        '`config.algorithms.mine.name` must be given; ',
    ),
    (
        bernoulli(schedule={'gamma': 0.1}),
        '`config.links.schedule.name` must be given; ',
    ),
    (
        links('cyclic', probs={'value': 0.5}),
        '`config.links.probs.name` must be given; ',
    ),
    (
        links('outage', pattern={'probs': [0.5] * 8}, start=1, stop=2),
        '`config.links.pattern.name` must be given; ',
    ),
    (
        client(decay={'gamma': 0.5}),
        '.client.decay.name` must be given; valid names: constant',
    ),
    (
        {'eval_fn': {}},
        '`config.eval_fn.name` must be given; valid names: gradient_norm, problem_metrics, ',
    ),
    # A client's rate that nothing says.
    (
        {'client': {'local_steps': 1}},
        '`config.client.learning_rate` must be given, or several as',
    ),
    (
        {
            'client': {'local_steps': 1},
            'algorithms': {'fedavg': {'client': {'learning_rate': 0.1}}, 'fedpbc': {}},
        },
        '`config.tuning.learning_rates`, for fedpbc, got None.',
    ),
    # Empty.
    ({'algorithms': {}}, '`config.algorithms` must have at least one entry, got {}.'),
    ({'grid': {}}, '`config.grid` must have at least one entry, got {}.'),
    (
        {'grid': {'client': {}}},
        '`config.grid.client` must have at least one column, got {}.',
    ),
    (
        {'grid': {'client': {'mu': (0.1,)}, 'client.mu': (0.2,)}},
        "`config.grid` must name each column once, got 'client.mu'.",
    ),
    (
        {'grid': {'client': {'mu': ()}}},
        '`config.grid.client.mu` must be a list of at least one',
    ),
    ({'tuning': {}}, '`config.tuning` must have at least one entry, got {}.'),
    # Tuning that would have no effect, or overrule what is given.
    (
        {'tuning': {'learning_rates': (0.01, 0.05), 'num_rounds': 2}},
        '`config.tuning.learning_rates` must be left out, or else `config.client.learning_rate`, '
        'got [0.01, 0.05] beside 0.1.',
    ),
    (
        {'tuning': {'pattern': 'links', 'num_rounds': 2}},
        "`config.tuning` must have 'learning_rates', 'server_lrs' or 'grid', got ['num_rounds', ",
    ),
    (
        {
            'grid': {'client': {'learning_rate': (0.1, 0.2)}},
            'tuning': {
                'grid': {'client': {'learning_rate': (0.1, 0.2)}},
                'num_rounds': 2,
            },
        },
        '`config.tuning.grid` must leave out the columns of `grid`, got client.learning_rate.',
    ),
    *(
        (
            {
                'client': {'local_steps': 1},
                'algorithms': {
                    'fedavg': {'client': {'learning_rate': 0.1}},
                    'fedpbc': {},
                },
                **rates,
            },
            '`config.algorithms.fedavg.client.learning_rate` must be left out, as `config.grid` or '
            '`config.tuning` has rates for all, got 0.1.',
        )
        for rates in (
            {'grid': {'client': {'learning_rate': (0.1, 0.2)}}},
            {'tuning': {'learning_rates': (0.1, 0.2), 'num_rounds': 2}},
        )
    ),
    # Grids.
    (
        {'grid': {'client': {'learning_rate': ('0.1',)}}},
        'learning_rate` must be a number',
    ),
    (
        {'grid': {'client': {'learning_rate': (0.1, 0.1)}}},
        '`config.grid` must have no point twice',
    ),
    (
        {'grid': {'client': {'learning_rate': ({'x': 1},)}}},
        'must hold numbers, names or lists',
    ),
    (
        {'grid': {'problem': {'model': (print,)}}},
        '`config.grid.problem.model` must hold numbers',
    ),
    # Relations.
    (
        links('cyclic', probs=[0.5] * 7),
        '`config.links.probs.values` must have 8 entries, got 7.',
    ),
    # Sizes.
    (
        {'num_rounds': 2**31, 'eval_every': 2},
        '`config.num_rounds` must be at most 2147483647',
    ),
    ({'num_seeds': 2**31}, '`config.num_seeds` must be at most 2147483647'),
    ({'num_seeds': 2**30}, '`config.num_seeds` must give at most 100,000 lanes'),
    (
        {'num_rounds': 2**30},
        '`config.eval_every` must give at most 10,000,000 evaluations in all',
    ),
    (
        client(local_steps=10**7),
        'client.local_steps` must be at most 1000000, got 10000000.',
    ),
    (
        {'problem': {'name': 'counterexample', 'num_clients': 2**31 - 1}},
        '.num_clients` must fit',
    ),
    (
        {'problem': {'name': 'synthetic', 'num_clients': 2**30}},
        '.num_clients` must fit into',
    ),
    (
        {'problem': {'name': 'robust_regression', 'dimension': 2**30}},
        '` must fit into memory',
    ),
    (
        {'problem': {'name': 'digits', 'num_clients': 5_000}},
        '.num_clients` must be at most 1438, got 5000.',
    ),
    (
        {
            'problem': {
                'name': 'digits',
                'model': {'name': 'mlp', 'hidden': (2**20, 2**20)},
            }
        },
        '`config.problem.model` must fit into memory, got ',
    ),
    (
        {'problem': {'name': 'digits', 'model': {'name': 'mlp', 'hidden': (-1,)}}},
        '`config.problem.model.hidden` must be at least 1, got -1.',
    ),
    # What is imported.
    (
        {'eval_fn': 'builtins:dict'},
        '`config.eval_fn` must name what returns a function',
    ),
    (
        {'eval_fn': 'tests.experiment.parts:text_as_metric'},
        '`config.eval_fn` must return numbers by name, got TypeError: ',
    ),
    (
        {'eval_fn': 'tests.experiment.parts:metric_without_key'},
        '`config.eval_fn` must take (params, key, problem), got a function of (params)',
    ),
    (
        {'problem': {'name': 'builtins:dict'}},
        '`config.problem` must name what returns a Problem',
    ),
    (
        {'links': 'builtins:dict'},
        '`config.links` must name what returns a Participation',
    ),
]


@pytest.mark.parametrize('changes, message', REFUSED)
def test_it_costs_one_line(changes, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        experiment.build({**values(), **changes})
    assert message in str(caught.value)
    assert str(caught.value).startswith('`config')
    assert '\n' not in str(caught.value)
