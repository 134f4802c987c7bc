"""A folder knows of which programs and data it is: others are refused, harmless changes are not."""

import shutil

import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import local_training, participation, problems, runs
from fedjax_links.config import sections
from fedjax_links.core import errors
from fedjax_links.machines import environment
from tests.experiment.configs import files_of
from tests.runner.study import HELPER, LOG, MODULE, Study
from tests.tiers import cases


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
    'rule': (edit('algorithms.fedavg', {'name': 'fedpbc'}), 'config.algorithms.fedavg'),
    'server rate': (edit('algorithms.fedavg', {'server_lr': 0.5}), 'server_lr'),
    'rule of a label': (
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
    'clients of one class': (edit('problem.num_clients', 3), 'num_clients'),
    'model': (edit('problem.model', 'mine:Scores'), 'config.problem.model'),
    'test held out': (edit('problem.holdout_examples', 0.25), 'config.problem.holdout'),
    'labels': (relabel, 'data: 32 of 48 examples differ'),
    'a pixel': (change_a_pixel, 'data: 1 of 48 examples differ'),
    'test data': (change_test_data, 'evaluation data: 1 of 12 examples differ'),
    'fewer examples': (fewer_examples, 'data: 48 examples and not 40'),
    'log': (change_log, 'links log'),
    'module': (change_module, 'module mine.py'),
    'module of the module': (change_helper, 'module helper.py'),
    'version': (change_version, 'fedjax_links is'),
    'precision': (edit('matmul_precision', 'highest'), 'matmul_precision'),
    'seeds': (edit('first_seed', 7), 'config.first_seed'),
    'period': (edit('eval_every', 1), 'eval_every'),
    'draws': (edit('redraw', 'by_seed'), 'redraw'),
}


def rename_module(study, monkeypatch):
    study.write('other.py', MODULE)
    study.config['algorithms']['own'] = {'name': 'other:rule'}


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
    'reports': edit('reports', {'mine': {'name': 'levels'}}),
    'baseline': edit('baseline', 'own'),
    'log': edit('log', ['links']),
    'metric': edit('metric', 'eval_loss'),
    'rate as text of an int': edit('client.learning_rate', np.float64(0.1)),
    'name for a section': edit('problem.model', {'name': 'softmax'}),
    'default given': edit('grid_mode', 'cross'),
    'default of a rule': edit('algorithms.fedavg', {'server_lr': 1.0}),
    'default of links': edit('patterns.log.wrap', None),
    'comment in a module': comment_module,
    'module renamed': rename_module,
    'data moved': move_data,
    'data written again': touch_data,
    'study moved': move_study,
    'tuples for lists': edit('names', (('fedavg', 'FedAvg'),)),
}


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
    """A study that has run, and its folder; nobody changes them."""
    folder = tmp_path_factory.mktemp('finished')
    study = Study(folder / 'study')
    study.run(folder / 'run')
    return folder


@pytest.fixture
def again(finished, tmp_path):
    """A copy of the study and of its run."""
    shutil.copytree(finished, tmp_path / 'copy')
    study = Study(tmp_path / 'copy' / 'study')
    return study, tmp_path / 'copy' / 'run'


@pytest.mark.parametrize(
    'name', cases(CHANGES, ['rate', 'labels', 'log', 'module', 'version'])
)
def test_another_experiment_under_the_same_labels_is_refused(name, again, monkeypatch):
    study, run = again
    change, words = CHANGES[name]
    change(study, monkeypatch)
    before = files_of(run)
    with pytest.raises(errors.InvalidError, match=r'^`') as refused:
        study.run(run)
    assert words in str(refused.value), str(refused.value)
    assert files_of(run) == before


@pytest.mark.parametrize(
    'name', cases(HARMLESS, ['title', 'comment in a module', 'data moved'])
)
def test_a_harmless_change_goes_on(name, again, monkeypatch):
    study, run = again
    HARMLESS[name](study, monkeypatch)
    before = (run / runs.METRICS).read_bytes()
    study.run(run)
    assert (run / runs.METRICS).read_bytes() == before


def merge_both(study, run):
    other = run.with_name('other')
    study.build().run(other, devices=1)
    runs.merge([run, other], run.with_name('target'))


GOING_ON = {
    'rounds': lambda study, run: study.build(num_rounds=8).run(run, devices=1),
    'seeds': lambda study, run: study.build(num_seeds=2).run(run, devices=1),
    'shard': lambda study, run: study.build().shard(0, 2).run(run, devices=1),
    'merge': merge_both,
}


@pytest.mark.parametrize(
    'name', cases(['rate', 'labels', 'log', 'module', 'version', 'model'], ['labels'])
)
@pytest.mark.parametrize('how', GOING_ON)
def test_however_one_goes_on_it_is_refused(name, how, again, monkeypatch):
    study, run = again
    change, words = CHANGES[name]
    change(study, monkeypatch)
    before = files_of(run)
    with (
        sections.importable(study.folder),
        pytest.raises(errors.InvalidError) as refused,
    ):
        GOING_ON[how](study, run)
    assert words in str(refused.value)
    assert files_of(run) == before
    assert not run.with_name('target').exists()


@pytest.mark.parametrize(
    'name', cases(['labels', 'log', 'module', 'version'], ['labels'])
)
def test_a_fork_of_what_has_changed_since_is_refused(name, tmp_path, monkeypatch):
    """What a fork's own config says may differ; what has changed under the same config may not."""
    study = Study(tmp_path / 'study')
    study.run(tmp_path / 'run')
    change, words = CHANGES[name]
    change(study, monkeypatch)
    planned = study.build(num_rounds=6)
    with (
        sections.importable(study.folder),
        pytest.raises(errors.InvalidError) as refused,
    ):
        planned.fork(tmp_path / 'run', 2, tmp_path / 'fork', devices=1)
    assert words in str(refused.value)
    assert not (tmp_path / 'fork').exists()


def test_who_allows_it_goes_on_and_every_page_says_so(again, monkeypatch):
    study, run = again
    relabel(study, monkeypatch)
    with sections.importable(study.folder):
        planned = study.build(num_rounds=8)
        results = planned.run(run, devices=1, allow_changed=True)
        fl.report.write(results)
    assert 'data: 32 of 48 examples differ' in (run / 'report.md').read_text()
    study.run(run, num_rounds=8)  # what was allowed is known


def quadratic(
    rate=0.1, targets=((0.0,), (10.0,)), probs=(0.5, 0.3), rounds=4, steps=2, **more
):
    """An experiment made in Python, where nothing but objects says what it is."""
    client = local_training.local_sgd(rate, local_steps=steps)
    return fl.Experiment(
        title='cell',
        problem=problems.quadratic(np.array(targets)),
        patterns={'links': participation.bernoulli(np.array(probs))},
        algorithms={'fedavg': fl.ALGORITHMS[more.pop('rule', 'fedavg')](client)},
        num_rounds=rounds,
        eval_every=2,
        seeds=more.pop('seeds', [0]),
        **more,
    )


@pytest.mark.parametrize(
    'changes, words',
    [
        ({'rate': 0.9}, 'rounds of fedavg'),
        ({'targets': ((0.0,), (999.0,))}, 'data: 1 of 2 examples differ'),
        ({'probs': (0.5, 0.4)}, 'links links'),
        ({'steps': 3}, 'rounds of fedavg'),
        ({'rule': 'fedavg_all'}, 'rounds of fedavg'),
        (
            {'eval_fn': lambda params, key, problem: {'distance': params[0]}},
            'evaluation of fedavg',
        ),
        ({'matmul_precision': 'highest'}, 'matmul_precision'),
    ],
)
@pytest.mark.parametrize('growth', [{}, {'rounds': 8}, {'seeds': [0, 1]}])
def test_in_python_too_it_is_refused(changes, words, growth, tmp_path):
    quadratic().run(tmp_path, devices=1)
    before = files_of(tmp_path)
    with pytest.raises(errors.InvalidError) as refused:
        quadratic(**changes, **growth).run(tmp_path, devices=1)
    assert words in str(refused.value)
    assert files_of(tmp_path) == before
    grown = quadratic(**growth).run(tmp_path, devices=1)
    assert len(grown['round']) == 2 * (2 if growth else 1)


def test_a_grid_of_python_is_compared_at_every_point(tmp_path):
    client = local_training.local_sgd(0.1, local_steps=1)

    def planned(slope):
        return fl.Experiment(
            title='grid',
            problem=problems.quadratic(np.array([[0.0], [10.0]])),
            patterns={
                'links': lambda p: participation.bernoulli([p, 0.5 + slope * (p - 0.5)])
            },
            algorithms={'fedavg': fl.ALGORITHMS['fedavg'](client)},
            num_rounds=2,
            eval_every=2,
            grid={'p': [0.5, 0.9]},
        )

    planned(0.0).run(tmp_path, devices=1)
    with pytest.raises(errors.InvalidError, match='links'):
        planned(1.0).run(tmp_path, devices=1)


def test_a_lane_of_another_run_is_not_joined(tmp_path):
    for rate, folder in ((0.1, 'a'), (0.9, 'b')):
        quadratic(rate, seeds=[0, 1]).run(tmp_path / folder, devices=1)
    stranger = next((tmp_path / 'b' / runs.CHECKPOINTS).glob('*-1@4.npz'))
    shutil.copy(stranger, tmp_path / 'a' / runs.CHECKPOINTS / stranger.name)
    with pytest.raises(errors.InvalidError, match=r'differs from .* rounds of fedavg'):
        runs.merge(tmp_path / 'a')


def test_the_report_ends_with_seeds_versions_and_data(finished):
    fl.report.write(runs.read(finished / 'run'))
    last = (finished / 'run' / 'report.md').read_text().split('## What ran')[1]
    assert 'Seeds: 0.' in last
    assert f'fedjax_links {fl.__version__}' in last
    assert 'npz, 48 examples of 4 clients, SHA-256 ' in last
