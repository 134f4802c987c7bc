"""What reads a run refuses arguments of another kind in one line."""

import json
import shutil

import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import plot, runs
from fedjax_links.report import provenance
from fedjax_links.runs import comparison, export
from fedjax_links.storage import run_files
from tests import refusals
from tests.runner.made_in_python import quadratic


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """A small finished run."""
    path = tmp_path_factory.mktemp('run')
    quadratic().run(path, devices=1)
    return path


CALLS = {
    'folders': lambda folder: runs.merge(3),
    'lane': lambda folder: runs.model(folder, 3),
    'number': lambda folder: fl.report.table(folder, number='first'),
    'run': lambda folder: fl.report.write(str(folder)),
    'above': lambda folder: plot.learning_curves(runs.read(folder), above='a'),
    'levels': lambda folder: plot.learning_curves(runs.read(folder), levels='a'),
    'exact': lambda folder: plot.learning_curves(runs.read(folder), exact=[1]),
    'against': lambda folder: plot.learning_curves(runs.read(folder), against=[1]),
    'names': lambda folder: plot.learning_curves(runs.read(folder), names=['a']),
}


FOLDERS = {
    'first': lambda v, folder: comparison.compare(v, folder),
    'second': lambda v, folder: comparison.compare(folder, v),
    'to': lambda v, folder: export.export(folder, v),
    'to of an archive': lambda v, folder: export.archive(folder, v),
    'into': lambda v, folder: runs.merge(folder, v),
    'folders': lambda v, folder: runs.merge([v, folder], folder),
    'folder of a model': lambda v, folder: runs.model(v),
    'folder of metrics': lambda v, folder: runs.read(v),
    'folder of a status': lambda v, folder: runs.status(v),
    'folder of links': lambda v, folder: runs.links(v),
}


@pytest.mark.parametrize('argument', FOLDERS)
@pytest.mark.parametrize('value', [3, '', b'runs', True, [], np.nan])
def test_what_is_no_path_is_refused_by_name(argument, value, folder):
    with refusals.names(argument.partition(' ')[0], 'path'):
        FOLDERS[argument](value, folder)


def test_bytes_are_no_list_of_folders():
    with refusals.names('folders', 'path'):
        runs.merge(b'runs')


@pytest.mark.parametrize('argument', ['first', 'second'])
def test_a_folder_without_a_run_is_named(argument, folder, tmp_path):
    with refusals.names(argument, 'hold a run'):
        FOLDERS[argument](tmp_path, folder)


@pytest.mark.parametrize('metrics', [3, True, 'distance', ['distance', 3], ['other']])
def test_metrics_of_an_archive_are_names(metrics, folder, tmp_path):
    with refusals.names('metrics'):
        export.archive(folder, tmp_path / 'archive', metrics=metrics)


@pytest.mark.parametrize('at_round', [[4], {}, np.array([4, 5]), 'a', 5, {4}])
def test_a_save_is_of_one_round(at_round, folder):
    with refusals.names('at_round', 'save: 4'):
        runs.model(folder, at_round=at_round)


def test_an_array_is_no_label_of_a_lane(folder):
    with refusals.names('lane'):
        runs.model(folder, {'seed': np.arange(2)})
    at_seed = runs.model(folder, {'seed': np.int64(0)}, at_round=4.0)
    np.testing.assert_array_equal(at_seed, runs.model(folder))


@pytest.mark.parametrize(
    'names', [['a', 'a.b'], ['a.b', 'a'], ['', 'a'], ['a', ''], []]
)
def test_arrays_of_an_npz_are_a_model(names, tmp_path):
    np.savez(tmp_path / 'model.npz', **{name: np.ones(2) for name in names})
    with refusals.names('folder', 'hold arrays'):
        runs.model(tmp_path / 'model.npz')


@pytest.mark.parametrize('argument', CALLS)
def test_another_kind_of_argument_costs_one_line(argument, folder):
    with refusals.names(argument):
        CALLS[argument](folder)


@pytest.mark.parametrize(
    'values',
    [
        {},
        {'lanes': 3, 'sizes': {}, 'modules': {}},
        {'lanes': {'fedavg on links': {}}, 'sizes': {}, 'modules': {}},
    ],
)
def test_a_file_without_an_identity_is_refused(values, folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / 'run')
    (copy / run_files.IDENTITY).write_bytes(runs.as_json(values))
    with refusals.names('folder', run_files.IDENTITY, str(copy)):
        runs.read(copy)


@pytest.mark.parametrize(
    'values, lines',
    [
        ({'versions': 3}, []),
        ({'date': 'today', 'devices': 3}, []),
        ({'date': 1, 'devices': [3]}, ['Last started on 1 on 3.']),
    ],
)
def test_a_report_passes_over_a_strange_environment(values, lines, folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / 'run')
    seeds, _, _, data = provenance.lines(runs.read(copy))
    (copy / runs.ENVIRONMENT).write_text(json.dumps(values))
    assert provenance.lines(runs.read(copy)) == [seeds, *lines, data]


@pytest.mark.parametrize('into', [None, 'target'])
def test_no_folder_is_nothing_to_merge(into, tmp_path):
    with refusals.names('folders', 'at least one'):
        runs.merge([], into and tmp_path / into)


@pytest.mark.parametrize('at', ['distance', 3, ['distance']])
def test_a_part_is_selected_by_columns(at, folder):
    with refusals.names('at'):
        runs.read(folder).select(at)
