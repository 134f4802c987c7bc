"""The folder of a finished run: what it says, and what is found or mended after a change."""

import json
import shutil

import numpy as np
import pytest

from fedjax_links import report, runs
from fedjax_links.core import errors
from fedjax_links.runner import stores
from tests.experiment.configs import last_files_of
from tests.runner.identities import OneIdentity
from tests.runner.made_in_python import in_python
from tests.storage.flips import flip_bit


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
    """The folder and the results of a finished run that recorded its links."""
    folder = tmp_path_factory.mktemp('finished') / 'run'
    return folder, in_python(log=('links',)).run(folder)


@pytest.fixture
def copy(finished, tmp_path):
    """A folder of that run which a test may change."""
    return shutil.copytree(finished[0], tmp_path / 'run')


def test_a_folder_says_what_ran_where_and_with_what(finished):
    folder, results = finished
    names = {path.name for path in folder.iterdir()}
    assert {
        runs.EXPERIMENT,
        runs.ENVIRONMENT,
        runs.METRICS,
        runs.LINKS,
        runs.CHECKPOINTS,
    } <= names
    assert runs.CONFIG not in names  # it was made in Python
    environment = json.loads((folder / runs.ENVIRONMENT).read_text())
    assert {'versions', 'devices', 'threads', 'flags', 'python'} <= environment.keys()
    assert runs.read(folder).facts == json.loads(json.dumps(results.facts))
    # Seeds 0 and 3, 40 rounds of six clients. The entries of the first seed have no number.
    with np.load(folder / runs.LINKS) as stored:
        mask = np.unpackbits(stored['mask/some'], axis=-1, count=6)
        assert stored['prob/some/3'].shape == (40, 6)
    # Evaluations lie four rounds apart, and ten of them are of the first seed.
    active = results['rounds/num_active'][(results['algorithm'] == 'fedavg')]
    np.testing.assert_array_equal(mask.reshape(10, 4, 6).sum(axis=(1, 2)), active[:10])


@pytest.mark.usefixtures('unrendered')
def test_another_backend_is_refused_but_may_be_unknown(copy):
    report.write(runs.read(copy))
    written = (copy / 'report.md').read_bytes()
    facts = in_python(log=('links',)).plan.facts()
    other = {**facts, 'numerics': {**facts['numerics'], 'backend': 'gpu'}}
    with pytest.raises(
        ValueError, match=r"where config\.numerics\.backend is 'cpu' and not 'gpu'"
    ):
        stores.RunFolder(copy, facts=other, identities=OneIdentity())
    del facts['numerics']
    (copy / runs.EXPERIMENT).write_bytes(runs.as_json(facts))
    report.write(runs.read(copy))
    assert (copy / 'report.md').read_bytes() == written


@pytest.mark.usefixtures('unrendered')
def test_changed_descriptions_and_links_are_refused(copy):
    for name in (runs.EXPERIMENT, runs.LINKS):
        full = (copy / name).read_bytes()
        flip_bit(copy / name)
        with pytest.raises(ValueError, match=f'{name}, which has changed'):
            report.write(runs.read(copy))
        (copy / name).write_bytes(full)
    assert 'Wrote' in report.write(runs.read(copy))


def test_changed_metrics_are_no_results_and_are_mended(finished, copy):
    path = copy / runs.METRICS
    full = path.read_bytes()
    path.write_bytes(full.replace(b'"round": 28', b'"round": 29'))
    np.testing.assert_array_equal(runs.read(copy)['round'], finished[1]['round'])
    in_python(log=('links',)).run(copy)
    assert path.read_bytes() == full


@pytest.mark.parametrize('end', [True, False])
def test_a_flipped_bit_in_a_lanes_file_is_found_and_mended(copy, capsys, end):
    """Also in bytes that unpacking does not read."""
    path = sorted((copy / runs.CHECKPOINTS).glob('main-fedpbc-*@40.npz'))[1]
    size = path.stat().st_size
    before = last_files_of(copy)
    step = size // 40
    for index in range(size - 80, size, 8) if end else range(0, size, step):
        flip_bit(path, index)
        with pytest.raises(errors.InvalidError, match=rf'{path.name}: it has changed'):
            runs.read(copy)
        flip_bit(path, index)
    flip_bit(path, size - 1 if end else 12)
    in_python(log=('links',)).run(copy)
    assert capsys.readouterr().err.count(f'{path} is damaged') == 1
    assert last_files_of(copy) == before


def test_an_unknown_column_is_named_with_the_nearest(finished):
    with pytest.raises(KeyError, match='did you mean'):
        finished[1]['server/distanse']
