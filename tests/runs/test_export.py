"""What is exported is what the folder holds, to the bit."""

import csv
import io
import json

import numpy as np
import pytest

from fedjax_links import experiment, report, runs
from fedjax_links.report import run_view
from fedjax_links.runs import comparison, export
from fedjax_links.storage import checksummed_npz
from tests import refusals
from tests.experiment.configs import values


@pytest.fixture(scope='module')
def configured(tmp_path_factory):
    """A run from a config, of an algorithm whose clients keep models."""
    folder = tmp_path_factory.mktemp('runs') / 'configured'
    grid = {'client': {'learning_rate': (0.1, 0.2)}}
    experiment.build(values(algorithms={'fedpbc': {}}, grid=grid)).run(folder)
    return folder


def stored(folder, point, pattern, seed, algorithm, round):
    """The leaves of a checkpoint by path; ``point`` is the index in the grid."""
    name = f'main-{algorithm}-{point:04d}-{pattern}-{seed}@{round}.npz'
    with np.load(folder / runs.CHECKPOINTS / name) as file:
        about = json.loads(bytes(file['about']))['leaves']
        return {leaf['path']: file[f'{i:05d}'] for i, leaf in enumerate(about)}


def opened(path):
    with np.load(path) as file:
        return dict(file)


def assert_same_bits(one, other):
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    assert one.tobytes() == other.tobytes()


def test_the_last_state_of_every_lane_is_there_with_its_models(configured, tmp_path):
    done = export.export(configured, tmp_path)
    result = sorted(name for name in done if name.startswith('states/'))
    assert result == [
        f'states/fedpbc/links/client.learning_rate={rate}/{seed}.npz'
        for rate in (0.1, 0.2)
        for seed in (0, 1)
    ]
    for index, name in enumerate(result):
        leaves = opened(tmp_path / name)
        state = stored(configured, index // 2, 'links', index % 2, 'fedpbc', 4)
        assert len(leaves) == len(state)
        for leaf in ('kernel', 'bias'):
            path = f".algorithm.server['Dense_0']['{leaf}']"
            assert_same_bits(leaves[f'algorithm.server.Dense_0.{leaf}'], state[path])


def test_metrics_are_read_back_as_the_same_numbers(configured, tmp_path):
    export.export(configured, tmp_path)
    rows = list(csv.DictReader(io.StringIO((tmp_path / export.CSV).read_text())))
    columns = runs.read(configured).columns
    assert list(rows[0]) == list(columns)
    assert len(rows) == 8
    for name, column in columns.items():
        if column.dtype.kind == 'f':
            again = np.array([float(row[name] or 'nan') for row in rows])
            assert_same_bits(again, column)
        else:
            assert [row[name] for row in rows] == [
                str(value) for value in column.tolist()
            ]


def test_links_are_plain_masks(configured, tmp_path):
    export.export(configured, tmp_path)
    with (
        np.load(configured / runs.LINKS) as saved,
        np.load(tmp_path / runs.LINKS) as links,
    ):
        assert set(links.files) == set(saved.files)
        mask = links['mask/links']
        assert (mask.dtype, mask.shape) == (np.dtype(bool), (4, 8))
        assert_same_bits(np.packbits(mask, axis=-1), saved['mask/links'])
    columns = runs.read(configured).columns
    np.testing.assert_array_equal(
        mask.reshape(2, 2, 8).sum(axis=(1, 2)), columns['rounds/num_active'][:2]
    )


def test_states_of_a_run_made_in_python_are_exported_too(standing_run, tmp_path):
    done = export.export(standing_run, tmp_path)
    assert len([name for name in done if name.startswith('states/')]) == 8
    leaves = opened(tmp_path / 'states/odd/some/level=2.0/3.npz')
    state = stored(standing_run, 1, 'some', 3, 'odd', 8)
    assert_same_bits(leaves['algorithm.server'], state[".algorithm['server']"])
    assert_same_bits(leaves['links.mask'], state['.links.mask'])
    half = leaves['algorithm.half']  # npz has no bfloat16
    np.testing.assert_array_equal(half, np.full(2, 2, np.float32))
    assert half.dtype == np.float32


def test_names_of_files_have_no_separators():
    labels = {
        'stage': 'main',
        'algorithm': 'a',
        'pattern': 'b',
        'seed': 0,
        'x': 'a/b c,d=0.1',
    }
    name = export._name(runs.LaneRecord('', labels, (0, 0), 0, [], {}))
    assert name == 'states/a/b/x=a%2Fb c%2Cd%3D0.1/0.npz'
    long = [
        export._name(
            runs.LaneRecord('', {**labels, 'x': [0.5] * 99 + [last]}, (0, 0), 0, [], {})
        )
        for last in (0.5, 0.25)
    ]
    assert len(set(long)) == 2
    assert all(len(part) <= 255 for name in long for part in name.split('/'))
    named = export._by_dotted_path({".algorithm.params['Dense_0'][1]": np.zeros(1)})
    assert list(named) == ['algorithm.params.Dense_0.1']


def test_leaves_of_one_name_are_refused():
    with pytest.raises(ValueError, match=r'whose dotted paths differ, got a\.b twice'):
        export._by_dotted_path({'.a.b': np.zeros(1), "['a'].b": np.zeros(1)})


def test_a_mistake_costs_one_line(standing_run, tmp_path):
    with pytest.raises(
        ValueError, match=r'`to` must be another folder than that of a run, got'
    ):
        export.export(standing_run, standing_run)
    with pytest.raises(ValueError, match=r'`folder` must hold a run'):
        export.export(tmp_path, tmp_path / 'to')
    (tmp_path / 'file').touch()
    with pytest.raises(
        ValueError, match=r'`to` must name a folder, got .*file is a file'
    ):
        export.export(standing_run, tmp_path / 'file')
    (tmp_path / 'links.npz').write_bytes(b'made by hand')
    before = sorted(tmp_path.rglob('*'))
    with pytest.raises(ValueError, match=r'`to` must hold no other links\.npz'):
        export.export(standing_run, tmp_path)
    assert sorted(tmp_path.rglob('*')) == before


# Archives.


@pytest.mark.usefixtures('unrendered')
def test_an_archive_is_read_like_the_run(configured, tmp_path):
    done = export.archive(configured, tmp_path)
    assert set(done) >= {'metrics.npz', 'config.json', 'experiment.json'}
    run = runs.read(configured)
    saved = runs.read(tmp_path)
    assert saved.facts == run.facts
    assert list(saved.columns) == list(run.columns)
    for name, column in run.columns.items():
        assert_same_bits(saved[name], column)
    text, _, _ = report.write(saved).rpartition('\nWrote')
    assert len(text) > 1000
    assert report.write(run).startswith(text)  # links come last, and stay behind


def test_an_archive_holds_any_column_or_chosen_metrics(tmp_path):
    mixed = np.empty(3, object)
    mixed[:] = ['a', None, 2]
    columns = {
        'stage': np.array(['main', 'main', 'tuning']),
        'algorithm': mixed,
        'round': np.array([1, 300, 2**40]),
        'finite': np.array([True, False, True]),
        'server/loss': np.array([0.1, np.nan, 1e-300]),
        'server/accuracy': np.array([0.5, np.inf, np.nan]),
    }
    path = tmp_path / 'metrics.npz'
    path.write_bytes(checksummed_npz.pack_metrics(columns))
    for name, column in checksummed_npz.read_metrics(path).items():
        if name == 'algorithm':
            assert column.tolist() == mixed.tolist()
        else:
            assert_same_bits(column, columns[name])
    path.write_bytes(checksummed_npz.pack_metrics(columns, ['accuracy']))
    assert set(checksummed_npz.read_metrics(path)) == set(columns) - {'server/loss'}
    with pytest.raises(
        ValueError, match=r"has no 'acuracy'; did you mean 'accuracy'\?"
    ):
        checksummed_npz.pack_metrics(columns, ['acuracy'])
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(ValueError, match='hold a readable metrics'):
        checksummed_npz.read_metrics(path)


@pytest.mark.filterwarnings('error')
def test_a_metric_beyond_float32_is_archived_without_a_warning(tmp_path):
    columns = {'server/loss': np.array([0.5, 1e300])}
    path = tmp_path / 'metrics.npz'
    path.write_bytes(checksummed_npz.pack_metrics(columns))
    column = checksummed_npz.read_metrics(path)['server/loss']
    assert_same_bits(column, columns['server/loss'])


@pytest.mark.usefixtures('unrendered')
def test_an_archive_of_one_metric_has_its_report(configured, tmp_path):
    export.archive(
        configured, tmp_path / 'kept', metrics=['eval_loss', 'eval_accuracy']
    )
    saved = run_view.from_run(runs.read(tmp_path / 'kept'))
    assert saved.metrics == ['eval_accuracy', 'eval_loss']
    full = run_view.from_run(runs.read(configured))
    assert list(saved.members) == list(full.members)
    assert_same_bits(saved.data['eval_loss'].values, full.data['eval_loss'].values)
    assert 'Wrote report.md' in report.write(runs.read(tmp_path / 'kept'))
    with pytest.raises(ValueError, match=r"must hold 'eval_accuracy', the run's own"):
        export.archive(configured, tmp_path / 'other', metrics=['eval_loss'])
    with refusals.names('metrics', "did you mean 'eval_accuracy'"):
        export.archive(configured, tmp_path / 'other', metrics=['eval_accurcy'])


def test_nothing_resumes_from_an_archive(configured, tmp_path):
    export.archive(configured, tmp_path / 'kept')
    planned = experiment.build(values(algorithms={'fedpbc': {}}))
    with pytest.raises(ValueError, match='not of an archive'):
        planned.run(tmp_path / 'kept')
    with pytest.raises(ValueError, match='another folder than that of a run'):
        export.archive(configured, configured)


def test_an_archive_is_neither_compared_nor_merged(configured, tmp_path):
    """It has no lanes: two archives would seem equal, and a merge would write no metrics."""
    archive = tmp_path / 'archive'
    export.archive(configured, archive)
    before = sorted(archive.iterdir())
    words = 'not of an archive'
    with refusals.names('first', words):
        comparison.compare(archive, configured)
    with refusals.names('second', words):
        comparison.compare(configured, archive)
    for folders in ([archive], [archive, configured], [configured, archive]):
        with refusals.names('folders', words):
            runs.merge(folders, tmp_path / 'merged')
    with refusals.names('workdir', words):
        runs.merge(archive)
    assert sorted(archive.iterdir()) == before
    with refusals.names('folder', 'lanes with their states'):
        runs.model(archive)
