"""A run folder refuses other programs and data than its own, and accepts harmless changes."""

import dataclasses
import shutil

import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import base, local_training, participation, problems, runs
from fedjax_links.config import bound, resolver
from fedjax_links.core import errors
from fedjax_links.runner import identity
from tests.experiment.configs import files_of
from tests.runner.changes import (
    CHANGES,
    HARMLESS,
    UNDER_THE_CONFIG,
    change_a_pixel,
    change_test_data,
    relabel,
    reorder,
)
from tests.runner.made_in_python import quadratic
from tests.runner.study import Study
from tests.tiers import cases

COVERED_BY = 'test_another_experiment_under_the_same_labels_is_refused'
"""The test whose default cases stand for the slow cases of all tests here until a release."""


@pytest.fixture
def finished_copy(finished_study, tmp_path):
    """A copy of the finished study and of its run folder."""
    shutil.copytree(finished_study, tmp_path / 'copy')
    study = Study(tmp_path / 'copy' / 'study')
    return study, tmp_path / 'copy' / 'run'


@pytest.mark.parametrize(
    'name', cases(CHANGES, ['rate', 'labels', 'log', 'module', 'version'], COVERED_BY)
)
def test_another_experiment_under_the_same_labels_is_refused(
    name, finished_copy, monkeypatch
):
    study, run = finished_copy
    change, words = CHANGES[name]
    change(study, monkeypatch)
    before = files_of(run)
    with pytest.raises(errors.InvalidError, match=r'^`') as refused:
        study.run(run)
    assert words in str(refused.value), str(refused.value)
    assert files_of(run) == before


@pytest.mark.parametrize(
    'name', cases(HARMLESS, ['title', 'comment in a module', 'data moved'], COVERED_BY)
)
def test_a_harmless_change_resumes(name, finished_copy, monkeypatch):
    study, run = finished_copy
    HARMLESS[name](study, monkeypatch)
    before = (run / runs.METRICS).read_bytes()
    study.run(run)
    assert (run / runs.METRICS).read_bytes() == before


@pytest.mark.parametrize('name', cases(UNDER_THE_CONFIG, ['labels'], COVERED_BY))
def test_a_fork_of_what_has_changed_since_is_refused(
    name, finished_study, tmp_path, monkeypatch
):
    """What a fork's own config says may differ; what has changed under the same config may not."""
    study = Study(finished_study / 'study')
    change, words = CHANGES[name]
    change(study, monkeypatch)
    planned = study.build(num_rounds=6)
    with (
        resolver.importable(study.folder),
        pytest.raises(errors.InvalidError) as refused,
    ):
        planned.fork(finished_study / 'run', 2, tmp_path / 'fork', devices=1)
    assert words in str(refused.value)
    assert not (tmp_path / 'fork').exists()


@pytest.mark.slow
@pytest.mark.usefixtures('unrendered')
def test_an_allowed_change_resumes_and_the_report_says_so(finished_copy, monkeypatch):
    study, run = finished_copy
    relabel(study, monkeypatch)
    with resolver.importable(study.folder):
        planned = study.build(num_rounds=8)
        results = planned.run(run, devices=1, allow_changed=True)
        fl.report.write(results)
    assert 'data: 32 of 48 examples differ' in (run / 'report.md').read_text()
    study.run(run, num_rounds=8)  # what was allowed is known


@pytest.mark.slow
@pytest.mark.parametrize('change', [relabel, reorder, change_test_data])
def test_lanes_from_before_an_allowed_change_resume(change, finished_copy, monkeypatch):
    """They are done, so they keep the identity from before the change."""
    study, run = finished_copy
    change(study, monkeypatch)
    with resolver.importable(study.folder):
        study.build().run(run, devices=1, allow_changed=True)
    study.run(run)
    study.run(run, num_rounds=6)
    change_a_pixel(study, monkeypatch)
    with pytest.raises(errors.InvalidError, match='data: 1 of 48'):
        study.run(run, num_rounds=6)


@pytest.mark.parametrize('growth', [{'rounds': 8}, {'seeds': [0, 1]}])
def test_an_experiment_of_python_grows(growth, quadratic_copy):
    grown = quadratic(**growth).run(quadratic_copy, devices=1)
    assert len(grown['round']) == 4


def test_parts_that_functions_make_are_the_same_parts(quadratic_copy):
    planned = quadratic()
    before = files_of(quadratic_copy)
    by_makers = dataclasses.replace(
        planned,
        problem=lambda: planned.problem,
        patterns={'links': lambda: planned.patterns['links']},
        algorithms={'fedavg': lambda: planned.algorithms['fedavg']},
    )
    by_makers.run(quadratic_copy, devices=1)
    assert files_of(quadratic_copy) == before


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


def test_a_lane_of_another_run_is_not_joined(quadratic_copy, tmp_path):
    quadratic(seeds=[0, 1]).run(quadratic_copy, devices=1)
    quadratic(0.9, seeds=[0, 1]).run(tmp_path / 'other', devices=1)
    put_lane_of_another_run(tmp_path / 'other', quadratic_copy, '*-1@4.npz')
    with pytest.raises(errors.InvalidError, match=r'differs from .* rounds of fedavg'):
        runs.merge(quadratic_copy)


def test_what_a_point_of_the_grid_refuses_changes_no_file(tmp_path):
    """Neither seeds nor rounds of the folder grow before all of it is compared."""
    targets = {'first': np.array([[0.0], [10.0]]), 'second': np.array([[1.0], [3.0]])}
    client = local_training.local_sgd(0.1, local_steps=1)

    def planned(**growth):
        settings = {'num_rounds': 2, 'seeds': [0], **growth}
        return fl.Experiment(
            title='grid',
            problem=lambda kind='first': problems.quadratic(targets[kind]),
            patterns={'links': participation.bernoulli([0.5, 0.3])},
            algorithms={'fedavg': fl.ALGORITHMS['fedavg'](client)},
            eval_every=2,
            grid={'kind': ['first', 'second']},
            **settings,
        )

    planned().run(tmp_path, devices=1)
    before = files_of(tmp_path)
    original = targets['second']
    targets['second'] = original + 1
    for growth in ({'seeds': [0, 1]}, {'num_rounds': 4}):
        with pytest.raises(errors.InvalidError, match='data'):
            planned(**growth).run(tmp_path, devices=1)
    assert files_of(tmp_path) == before
    targets['second'] = original
    planned().run(tmp_path, devices=1)


def test_clients_of_other_names_are_refused(tmp_path):
    """The arrays are the same, but what is measured would get other names."""

    def named(*names):
        planned = quadratic()
        problem = dataclasses.replace(planned.problem, named=base.ClientNames(names))
        return dataclasses.replace(planned, problem=problem)

    named('north', 'south').run(tmp_path, devices=1)
    named('north', 'south').run(tmp_path, devices=1)
    with pytest.raises(errors.InvalidError, match='names of clients differ'):
        named('south', 'north').run(tmp_path, devices=1)


def test_a_metric_of_another_name_is_refused(tmp_path):
    """The programs are the same, as names of outputs are no part of them."""

    def measured(name):
        return quadratic(eval_fn=lambda params, *_: {name: params.sum()})

    measured('loss').run(tmp_path, devices=1)
    with pytest.raises(errors.InvalidError, match='loss and not accuracy'):
        measured('accuracy').run(tmp_path, devices=1)


def coin(probs, seeds=(0, 1), redraw='fixed'):
    """An experiment whose links have a quality of their own by seed, if that is redrawn."""
    client = local_training.local_sgd(0.1, local_steps=1)

    def links(links_quality_seed=0):
        return participation.bernoulli(
            np.clip(np.array(probs) + 0.01 * links_quality_seed, 0, 1)
        )

    return fl.Experiment(
        title='coin',
        problem=problems.quadratic(np.array([[0.0], [10.0]])),
        patterns={'links': links},
        algorithms={'fedavg': fl.ALGORITHMS['fedavg'](client)},
        num_rounds=2,
        eval_every=2,
        seeds=list(seeds),
        redraw={'links_quality': redraw},
    )


def put_lane_of_another_run(other, folder, pattern):
    """Copies a save of a lane over the one of that name."""
    stranger = next((other / runs.CHECKPOINTS).glob(pattern))
    shutil.copy(stranger, folder / runs.CHECKPOINTS / stranger.name)


def check_refused_by_all(planned, folder):
    """Checks that all that opens a folder refuses a lane of another run in it."""
    match = r'links|another run'
    with pytest.raises(errors.InvalidError, match=match):
        planned.run(folder, devices=1)
    with pytest.raises(errors.InvalidError, match=match):
        runs.read(folder)
    with pytest.raises(errors.InvalidError, match=match):
        fl.report.table(folder)
    with pytest.raises(errors.InvalidError, match=match):
        runs.merge(folder)


@pytest.mark.parametrize('redraw', ['fixed', 'by_seed'])
@pytest.mark.parametrize('seed', cases([0, 1], [1]))
def test_a_lane_of_other_links_is_found_out(seed, redraw, tmp_path):
    """Links of the two runs differ in numbers alone, and no program of an algorithm does."""
    for probs, folder in (([0.5, 0.3], 'a'), ([0.5, 0.4], 'b')):
        coin(probs, redraw=redraw).run(tmp_path / folder, devices=1)
    put_lane_of_another_run(tmp_path / 'b', tmp_path / 'a', f'*-{seed}@2.npz')
    before = files_of(tmp_path / 'a')
    check_refused_by_all(coin([0.5, 0.3], redraw=redraw), tmp_path / 'a')
    assert files_of(tmp_path / 'a') == before


def test_the_only_lane_of_another_run_is_found_out(tmp_path):
    for probs, folder in (([0.5, 0.3], 'a'), ([0.5, 0.4], 'b')):
        coin(probs, seeds=[0]).run(tmp_path / folder, devices=1)
    put_lane_of_another_run(tmp_path / 'b', tmp_path / 'a', '*@2.npz')
    check_refused_by_all(coin([0.5, 0.3], seeds=[0]), tmp_path / 'a')


def unequal_data(num_extra=0, seeds=(0, 1)):
    """An experiment whose seeds draw how many examples the clients have."""
    client = local_training.local_sgd(0.1, local_steps=1, batch_size=1)

    def drawn(data_seed=0):
        owners = np.array([0, 1, *[1] * (data_seed % 7 + num_extra)])
        values = np.arange(len(owners), dtype=np.float32)[:, None]
        return problems.from_arrays(
            values,
            np.zeros(len(owners), int),
            owners,
            init_params=lambda key: np.zeros(1, np.float32),
            loss_fn=lambda params, examples: (
                0.5 * ((params[None] - examples.features) ** 2).mean()
            ),
        )

    return fl.Experiment(
        title='unequal',
        problem=drawn,
        patterns={'links': participation.bernoulli([0.5, 0.8])},
        algorithms={'fedavg': fl.ALGORITHMS['fedavg'](client)},
        num_rounds=2,
        eval_every=2,
        seeds=list(seeds),
        redraw={'data': 'by_seed'},
    )


@pytest.fixture(scope='module')
def runs_of_unequal_data(tmp_path_factory):
    """Two runs, `a` and `b`, whose clients have other numbers of examples."""
    folder = tmp_path_factory.mktemp('unequal')
    for num_extra, name in ((0, 'a'), (1, 'b')):
        unequal_data(num_extra).run(folder / name, devices=1)
    return folder


def test_seeds_may_draw_how_many_examples_there_are(runs_of_unequal_data, tmp_path):
    """Programs then differ by seed, and the folder is still one run."""
    expected = runs.read(runs_of_unequal_data / 'a').columns
    unequal_data(seeds=[0]).run(tmp_path, devices=1)
    unequal_data().run(tmp_path, devices=1)
    read = runs.read(tmp_path).columns
    assert read.keys() == expected.keys()
    for name, column in expected.items():
        np.testing.assert_array_equal(read[name], column)


@pytest.mark.parametrize('seed', [0, 1])
def test_a_lane_of_other_data_is_found_out(seed, runs_of_unequal_data, tmp_path):
    shutil.copytree(runs_of_unequal_data / 'a', tmp_path / 'a')
    put_lane_of_another_run(
        runs_of_unequal_data / 'b', tmp_path / 'a', f'*-{seed}@2.npz'
    )
    for use in (runs.read, runs.merge, fl.report.table):
        with pytest.raises(errors.InvalidError, match=r'program|another run'):
            use(tmp_path / 'a')


@pytest.mark.usefixtures('unrendered')
def test_the_report_ends_with_seeds_versions_and_data(finished_copy):
    _, run = finished_copy
    fl.report.write(runs.read(run))
    last = (run / 'report.md').read_text().split('## What ran')[1]
    assert 'Seeds: 0.' in last
    assert f'fedjax_links {fl.__version__}' in last
    assert 'npz, 48 examples of 4 clients, SHA-256 ' in last


@pytest.mark.parametrize(
    'source', ['import helper', 'from helper import f', 'from . import helper']
)
def test_modules_in_the_folder_of_a_named_one_count(source, tmp_path, monkeypatch):
    (tmp_path / 'mine.py').write_text(source)
    (tmp_path / 'helper.py').write_text('def f(): pass')
    monkeypatch.setitem(bound.FILES, 'mine', tmp_path / 'mine.py')
    modules = identity._modules_of({'name': 'mine:make'})
    assert list(modules) == ['helper.py', 'mine.py']


def test_modules_of_one_file_name_count_both(tmp_path, monkeypatch):
    for name in ('first', 'second'):
        (tmp_path / name).mkdir()
        (tmp_path / name / 'make.py').write_text('')
        monkeypatch.setitem(bound.FILES, f'{name}.make', tmp_path / name / 'make.py')
    config = {'problem': 'first.make:f', 'links': 'second.make:f'}
    before = identity._modules_of(config)
    for name in ('first', 'second'):
        (tmp_path / name / 'make.py').write_text('def f(): pass')
        after = identity._modules_of(config)
        assert list(after) == ['make.py']
        assert after != before
        before = after
