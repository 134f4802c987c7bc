"""Changes of a study under the same labels: those that make it another experiment, and the rest."""

import shutil

import numpy as np

from fedjax_links.machines import environment
from tests.runner.study import HELPER, LOG, MODULE


def edit(path, value):
    """A change of a field of the config, by dotted path."""

    def change(study, monkeypatch):
        *parents, name = path.split('.')
        section = study.config
        for parent in parents:
            section = section[parent]
        section[name] = value

    return change


def relabel(study, monkeypatch):
    study.arrays['train_labels'] = study.arrays['train_labels'][::-1].copy()
    study.write_data()


def reorder(study, monkeypatch):
    for name in ('train_features', 'train_labels'):
        study.arrays[name] = study.arrays[name][::-1].copy()
    study.write_data()


def change_a_pixel(study, monkeypatch):
    study.arrays['train_features'][5, 1] += 1e-3
    study.write_data()


def change_test_data(study, monkeypatch):
    study.arrays['test_features'][0] += 1
    study.write_data()


def fewer_examples(study, monkeypatch):
    study.arrays['train_features'] = study.arrays['train_features'][:40]
    study.arrays['train_labels'] = study.arrays['train_labels'][:40]
    study.write_data()


def fewer_clients(study, monkeypatch):
    study.config['problem']['num_clients'] = 3
    study.write('log.csv', LOG.replace('3,2,4\n', ''))


def change_log(study, monkeypatch):
    study.write('log.csv', LOG.replace('1,1,4', '1,2,4'))


def change_module(study, monkeypatch):
    study.write('mine.py', MODULE.replace('SCALE * server_lr', 'SCALE * server_lr / 2'))


def change_helper(study, monkeypatch):
    study.write('helper.py', HELPER.replace('1.0', '0.25'))


def change_version(study, monkeypatch):
    monkeypatch.setattr(environment, 'version', lambda: '99.0.0')


CHANGES = {
    'rate': (edit('client.learning_rate', 0.2), 'client.learning_rate'),
    'steps': (edit('client.local_steps', 3), 'config.client.local_steps'),
    'batch': (edit('client.batch_size', 8), 'config.client.batch_size'),
    'full batch': (edit('client.batch_size', 0), 'config.client.batch_size'),
    'decay': (edit('client.decay', 'inverse_sqrt'), 'config.client.decay'),
    'proximal': (
        edit('algorithms.fedavg', {'name': 'fedprox', 'client': {'mu': 0.1}}),
        'config.algorithms.fedavg',
    ),
    'algorithm': (
        edit('algorithms.fedavg', {'name': 'fedpbc'}),
        'config.algorithms.fedavg',
    ),
    'server rate': (edit('algorithms.fedavg', {'server_lr': 0.5}), 'server_lr'),
    'algorithm of a label': (
        edit('algorithms.own', {'name': 'fedavg_all'}),
        'config.algorithms.own',
    ),
    'probability': (
        edit('patterns.coin.probs.value', 0.25),
        'config.patterns.coin.probs.value',
    ),
    'pattern': (edit('patterns.coin.name', 'markov'), 'config.patterns.coin.name'),
    'wrapper': (
        edit(
            'patterns.coin',
            {'name': 'outage', 'pattern': {'name': 'always'}, 'start': 1, 'stop': 2},
        ),
        'patterns.coin',
    ),
    'tick': (edit('patterns.log.tick', 2.0), 'config.patterns.log.tick'),
    'partition': (edit('problem.partition', 'dirichlet'), 'partition'),
    'seed of the partition': (edit('problem.partition_seed', 3), 'partition'),
    'fewer clients': (fewer_clients, 'config.problem.num_clients'),
    'model': (edit('problem.model', 'mine:Scores'), 'config.problem.model'),
    'test held out': (edit('problem.holdout_examples', 0.25), 'config.problem.holdout'),
    'labels': (relabel, 'data: 32 of 48 examples differ'),
    'order': (reorder, 'partition: the same 48 examples lie with other clients'),
    'a pixel': (change_a_pixel, 'data: 1 of 48 examples differ'),
    'test data': (change_test_data, 'evaluation data: 1 of 12 examples differ'),
    'fewer examples': (fewer_examples, 'data: 48 examples and not 40'),
    'log': (change_log, 'the program of links log differs'),
    'module': (change_module, 'the module mine.py differs'),
    'module of the module': (change_helper, 'the module helper.py differs'),
    'version': (change_version, 'fedjax_links is'),
    'precision': (edit('matmul_precision', 'highest'), 'matmul_precision'),
    'seeds': (edit('first_seed', 7), 'config.first_seed'),
    'period': (edit('eval_every', 1), 'eval_every'),
    'draws': (edit('redraw', 'by_seed'), 'redraw'),
}
"""A change of the study, and words of the error that refuses it."""


UNDER_THE_CONFIG = (
    'labels',
    'a pixel',
    'test data',
    'fewer examples',
    'log',
    'module',
    'module of the module',
    'version',
)
"""Changes of files or of the version, which leave the config as it is."""


def rename_module(study, monkeypatch):
    study.write('other.py', MODULE)
    study.config['algorithms']['own'] = {'name': 'other:algorithm'}


def comment_module(study, monkeypatch):
    study.write('mine.py', f'# A comment.\n{MODULE}')


def move_data(study, monkeypatch):
    shutil.move(study.folder / 'data.npz', study.folder / 'moved.npz')
    study.config['problem']['data'] = {'path': str(study.folder / 'moved.npz')}


def touch_data(study, monkeypatch):
    study.write_data()


def move_study(study, monkeypatch):
    moved = study.folder.with_name('moved')
    shutil.move(study.folder, moved)
    study.folder = moved
    study.config['problem']['data'] = {'path': str(moved / 'data.npz')}


HARMLESS = {
    'nothing': lambda study, monkeypatch: None,
    'title': edit('title', 'another'),
    'caption': edit('caption', 'A caption.'),
    'names': edit('names', [['fedavg', 'FedAvg']]),
    'reports': edit('reports', {'mine': {'name': 'comparison'}}),
    'baseline': edit('baseline', 'own'),
    'log': edit('log', ['links']),
    'metric': edit('metric', 'eval_loss'),
    'rate as a number of NumPy': edit('client.learning_rate', np.float64(0.1)),
    'name for a section': edit('problem.model', {'name': 'softmax'}),
    'default given': edit('grid_mode', 'cross'),
    'default of an algorithm': edit('algorithms.fedavg', {'server_lr': 1.0}),
    'default of links': edit('patterns.log.wrap', None),
    'comment in a module': comment_module,
    'module renamed': rename_module,
    'data moved': move_data,
    'data written again': touch_data,
    'study moved': move_study,
    'tuples for lists': edit('names', (('fedavg', 'FedAvg'),)),
}
