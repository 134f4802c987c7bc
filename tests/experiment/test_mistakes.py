"""Mistakes in a config cost one line that names the field and the nearest valid name."""

import re

import pytest

from fedjax_links import experiment
from tests import refusals
from tests.experiment.configs import tuned, values


@pytest.mark.parametrize(
    'changes, message',
    [
        ({'num_ronds': 3}, "`config` has no 'num_ronds'; did you mean 'num_rounds'?"),
        ({'num_rounds': 0}, '`config.num_rounds` must be at least 1, got 0.'),
        (
            {'eval_every': 3},
            '`config.num_rounds` must be a multiple of `eval_every` = 3, got 4.',
        ),
        ({'title': None}, "`config` must have 'title', got only ["),
        ({'patterns': {}}, "`config` must have either 'links' or 'patterns', got "),
        ({'direction': 'up'}, "`config.direction` has no 'up'; valid names: max, min."),
        ({'log': ('link',)}, "`config.log` has no 'link'; did you mean 'links'?"),
        ({'client': 3}, '`config.client` must be a section, got 3.'),
        (
            {'problem': {'name': 'digts'}},
            "`config.problem.name` has no 'digts'; did you mean 'digits'?",
        ),
        (
            {'links': {'name': 'uniform_cohort', 'cohort_sise': 3}},
            "`config.links` has no 'cohort_sise'; did you mean 'cohort_size'?",
        ),
        (
            {'links': {'name': 'uniform_cohort', 'cohort_size': 11}},
            '`config.links.cohort_size` must be at most 8, got 11.',
        ),
        (
            {'links': {'name': 'bernoulli', 'probs': {'name': 'equal', 'value': 1.5}}},
            '`config.links.probs` must lie in [0, 1], got 1.5 at client 0.',
        ),
        (
            {
                'links': {
                    'name': 'bernoulli',
                    'probs': {'name': 'equal', 'value': float('nan')},
                }
            },
            '`config.links.probs.value` must be finite, got nan.',
        ),
        (
            {'algorithms': {'fedpcb': {}}},
            "`config.algorithms.fedpcb.name` has no 'fedpcb'; did you mean 'fedpbc'?",
        ),
        (
            {'algorithms': {'FedLaAvg': {}}},
            "`config.algorithms.FedLaAvg.name` has no 'FedLaAvg'; did you mean 'mifa'?",
        ),
        (
            {'algorithms': {'fedavg': {'servr_lr': 1.0}}},
            "`config.algorithms.fedavg` has no 'servr_lr'; did you mean 'server_lr'?",
        ),
        (
            {'client': {'learning_rate': -0.1, 'local_steps': 1}},
            '`config.algorithms.fedavg.client.learning_rate` must be positive, got -0.1.',
        ),
        (
            {'client': {'learning_rate': 0.1, 'local_steps': 1, 'decay': 'sqrt'}},
            "`config.algorithms.fedavg.client.decay` has no 'sqrt'; did you mean 'inverse_sqrt'?",
        ),
        (
            {'client': {'learning_rate': 0.1, 'local_steps': 1, 'decay': 'warmup'}},
            '`config.algorithms.fedavg.client.decay.initial` must be given, got None.',
        ),
        (
            {
                'client': {
                    'learning_rate': 0.1,
                    'local_steps': 1,
                    'decay': {'name': 'warmup', 'initial': 0.1, 'round': 3},
                }
            },
            "`config.algorithms.fedavg.client.decay` has no 'round'; did you mean 'rounds'?",
        ),
        (
            {
                'client': {
                    'learning_rate': 0.1,
                    'local_steps': 1,
                    'decay': {'name': 'warmup', 'initial': -1.0, 'rounds': 3},
                }
            },
            '`config.algorithms.fedavg.client.decay.initial` must be positive, got -1.0.',
        ),
        (
            {'client': {'learning_rate': 0.1, 'local_steps': 1, 'decay': 3}},
            '`config.algorithms.fedavg.client.decay` must be a section, got 3.',
        ),
        (
            {'problem': {'name': 'digits', 'alhpa': 0.1}},
            "`config.problem` has no 'alhpa'; did you mean 'alpha'?",
        ),
        (
            {'problem': {'name': 'digits', 'partition': 'iid', 'alpha': 0.1}},
            "`config.problem` has no 'alpha' with this partition; valid names: augment, ",
        ),
        (
            {'problem': {'name': 'images', 'dataset': 'digits', 'num_clients': 3}},
            '`config.problem.model` must be given, got None.',
        ),
        (
            {'client': {'learning_rate': 0.1}},
            '`config.algorithms.fedavg.client.local_steps` must be given, or else `local_epochs`, ',
        ),
        (
            {'links': {'name': 'bernoulli'}},
            '`config.links.probs` must be a number, a list or a section, got None.',
        ),
        ({'links': 'cyclic'}, '`config.links.probs` must be given, got None.'),
    ],
)
def test_a_mistake_costs_one_line_that_names_it(changes, message):
    with refusals.one_line(f'^{re.escape(message)}'):
        experiment.build(values(**changes))


@pytest.mark.parametrize(
    'changes, message',
    [
        (
            {'metric': 'eval_acuracy'},
            "`config.metric` has no 'eval_acuracy'; did you mean 'eval_accuracy'?",
        ),
        (
            {
                'problem': {'name': 'quadratic', 'targets': ((0.0,), (1.0,))},
                'metric': 'accuracy',
            },
            "`config.metric` has no 'accuracy'; valid names: distance, loss.",
        ),
        (
            {'baseline': 'fedpcb'},
            "`config.baseline` has no 'fedpcb'; did you mean 'fedpbc'?",
        ),
        ({'problems': {'markov': {}}}, "`config.problems` has no 'markov'; "),
        (
            {'names': (('fedpcb', 'F'),)},
            "`config.names` has no 'fedpcb'; did you mean 'fedpbc'?",
        ),
        (
            {'names': (('fedpbc', 'fedavg'),)},
            '`config.names` must name fedavg and fedpbc differently, got fedavg.',
        ),
        (
            {'names': (('bernoulli', 'links'), ('cohort', 'links'))},
            '`config.names` must name bernoulli and cohort differently, got links.',
        ),
        (
            {'names': ('fedpbc',)},
            "`config.names` must be pairs (label, name), got 'fedpbc'.",
        ),
        ({'names': 'fedpbc'}, "`config.names` must be a list of values, got 'fedpbc'."),
        (
            {'tuning': {}},
            '`config.client.learning_rate` must be given, or several as '
            '`config.tuning.learning_rates`, for fedavg, got None.',
        ),
        (
            {'tuning': {**tuned()['tuning'], 'learning_rates': (0.1, -0.1)}},
            '`config.tuning.learning_rates` must be positive, got -0.1.',
        ),
        (
            {'tuning': {**tuned()['tuning'], 'num_rounds': 6}},
            '`config.tuning.num_rounds` must be a multiple of `eval_every` = 4, got 6.',
        ),
        (
            {'tuning': {**tuned()['tuning'], 'model': 'sever'}},
            "`config.tuning.model` has no 'sever'; did you mean 'server'?",
        ),
        (
            {'tuning': {**tuned()['tuning'], 'patern': 'bernoulli'}},
            "`config.tuning` has no 'patern'; did you mean 'pattern'?",
        ),
        (
            {'tuning': {**tuned()['tuning'], 'pattern': 'bernouli'}},
            "`config.tuning.pattern` has no 'bernouli'; did you mean 'bernoulli'?",
        ),
        (
            {'algorithms': {'fedavg': {'client': {'learning_rate': {'cohort': 0.1}}}}},
            '`config.algorithms.fedavg.client.learning_rate` must be a number, got ',
        ),
        (
            {'patterns': {'bernoulli': {'name': 'bernouli'}}},
            "`config.patterns.bernoulli.name` has no 'bernouli'; did you mean 'bernoulli'?",
        ),
        (
            {'grid': {'client': {'lerning_rate': (0.1,)}}},
            "`config.algorithms.fedavg.client` has no 'lerning_rate'; did you mean 'learning_rate'",
        ),
        ({'grid': {'clients': {'mu': (0.1,)}}}, "`config.grid` has no 'clients.mu'; "),
        (
            {'grid': {'client': {'mu': 0.1}}},
            '`config.grid.client.mu` must be a list of values',
        ),
        (
            {'grid': {'client': {'learning_rate': (0.1, -0.2)}}, 'tuning': None},
            '`config.algorithms.fedavg.client.learning_rate` must be positive, got -0.2.',
        ),
        (
            {
                'grid': {
                    'client': {'learning_rate': (0.1, 0.2), 'local_steps': (1, 2, 3)}
                },
                'grid_mode': 'together',
            },
            "`config.grid` must have columns of one length in mode 'together'",
        ),
        (
            {'grid_mode': 'crossed'},
            "`config.grid_mode` has no 'crossed'; did you mean 'cross'?",
        ),
    ],
)
def test_a_mistake_in_a_comparison_costs_one_line(changes, message):
    with refusals.one_line(f'^{re.escape(message)}'):
        experiment.build(tuned(**changes))


def test_a_deciding_metric_of_unknown_direction_is_refused():
    """Tuning by it needs a direction; showing it does not."""
    changes = {'eval_fn': 'tests.experiment.parts:size_of_model', 'metric': 'size'}
    with pytest.raises(
        ValueError, match=r"`config\.direction` must be 'max' or 'min', as nothing"
    ):
        experiment.build(tuned(**changes))
    assert experiment.build(tuned(**changes, direction='min')).plan.directions == {
        'size': 'min'
    }
    del changes['metric']
    by_default = experiment.build(tuned(**changes, metric=None, direction='min')).plan
    assert by_default.directions == {'size': 'min'}
    plain = experiment.build(values(**changes))
    assert plain.plan.directions == {'size': None}
