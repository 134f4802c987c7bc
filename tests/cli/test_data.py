"""The command that brings data, from nothing to a problem that reads them."""

import pytest

from fedjax_links import datasets
from tests.cli.command import refused, run
from tests.datasets import published
from tests.datasets.published import TRAIN, small
from tests.datasets.test_fetching import serving


def test_fetch_list_and_use(tmp_path, monkeypatch):
    pytest.importorskip('pooch')
    monkeypatch.setenv('TFDS_DATA_DIR', str(tmp_path / 'data'))
    published.write_mnist(tmp_path / 'served')
    small(monkeypatch, 'mnist', tmp_path / 'served')
    before = run('data', 'list').stdout.splitlines()
    assert before[0] == f'Data sets in {tmp_path}/data'
    assert before[1].split(maxsplit=1)[0] == 'mnist'
    assert 'missing' in before[1]
    assert '  cifar10          missing; 170 MB to download' in before
    with serving(tmp_path / 'served') as (mirror, told):
        done = run('data', 'fetch', 'mnist', f'--mirror={mirror}')
        assert (done.returncode, done.stderr) == (0, '')
        first, second = done.stdout.splitlines()
        file = tmp_path / 'data' / 'mnist.npz'
        size = f'{file.stat().st_size / 1e6:.3g} MB'
        assert first == f'mnist: {size} in {file}'
        assert second.startswith("The publisher's files, ")
        asked = len(told['asked'])
        again = run('data', 'fetch', 'mnist', f'--mirror={mirror}')
        assert again.stdout == f'mnist: {file} is there, {size}\n'
        assert len(told['asked']) == asked
    assert run('data').stdout.splitlines()[1] == f'  mnist            mnist.npz, {size}'
    assert len(datasets.published('mnist').train_labels) == TRAIN


def test_mistakes_cost_one_line(tmp_path):
    pytest.importorskip('pooch')
    (tmp_path / 'file').touch()
    place = f'--data_dir={tmp_path}/file'
    for arguments, message in (
        (['fetsh', 'mnist'], "`data` has no 'fetsh'; did you mean 'fetch'?"),
        (['fetch', 'minst'], "`data` has no 'minst'; did you mean 'mnist'?"),
        (['fetch'], '`data fetch` must be given a name of `data list`, got none.'),
        (['fetch', 'mnist', '--mirror=http://127.0.0.1:1', place], '`/'),
    ):
        assert refused('data', *arguments).startswith(f'error: {message}')
