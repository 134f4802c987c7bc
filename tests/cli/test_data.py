"""The command that brings data, from nothing to a problem that reads them."""

import sys

import pytest

from fedjax_links import datasets
from fedjax_links.datasets import npz, system_copies
from tests.cli.command import refused, run
from tests.datasets import published
from tests.datasets.serving import serving


def test_fetch_list_and_use(tmp_path, monkeypatch):
    pytest.importorskip('pooch')
    monkeypatch.setenv('TFDS_DATA_DIR', str(tmp_path / 'data'))
    published.write_mnist(tmp_path / 'served')
    published.replace_files(monkeypatch, 'mnist', tmp_path / 'served')
    before = run('data', 'list').stdout.splitlines()
    assert before[0] == f'Data sets in {tmp_path}/data'
    assert before[1].split(maxsplit=1)[0] == 'mnist'
    assert 'missing' in before[1]
    assert '  cifar10          missing; 170 MB to download from www.cs.toronto.edu' in (
        before
    )
    with serving(tmp_path / 'served') as (mirror, settings):
        done = run('data', 'fetch', 'mnist', f'--mirror={mirror}')
        assert (done.returncode, done.stderr) == (0, '')
        first, second = done.stdout.splitlines()
        file = tmp_path / 'data' / 'mnist.npz'
        size = f'{file.stat().st_size / 1e6:.3g} MB'
        assert first == f'mnist: {size} in {file}, from {mirror}'
        assert second.startswith("The publisher's files, ")
        num_requests = len(settings['requests'])
        again = run('data', 'fetch', 'mnist', f'--mirror={mirror}')
        assert again.stdout == f'mnist: {file} is there, {size}, from {mirror}\n'
        assert len(settings['requests']) == num_requests
    listed = f'  mnist            mnist.npz, {size}, from {mirror}'
    assert run('data').stdout.splitlines()[1] == listed
    assert len(datasets.published('mnist').train_labels) == published.TRAIN


def fashion_mnist_line():
    """The line of ``data list`` about a data set that Debian packs."""
    lines = run('data', 'list').stdout.splitlines()
    return next(line for line in lines if line.startswith('  fashion_mnist '))


def test_the_systems_copy_is_listed_then_read(tmp_path, monkeypatch):
    monkeypatch.setenv('TFDS_DATA_DIR', str(tmp_path / 'data'))
    monkeypatch.setattr(system_copies, 'FOLDER', tmp_path / 'system')
    without_pooch(monkeypatch)
    copy = tmp_path / 'system' / 'fashion-mnist'
    published.write_mnist(copy)
    assert fashion_mnist_line() == f'  fashion_mnist    to be read from {copy}'
    done = run('data', 'fetch', 'fashion_mnist')
    file = tmp_path / 'data' / 'fashion_mnist.npz'
    size = f'{file.stat().st_size / 1e6:.3g} MB'
    assert done.stdout == f'fashion_mnist: {size} in {file}, from {copy}\n'
    assert fashion_mnist_line() == (
        f'  fashion_mnist    fashion_mnist.npz, {size}, from {copy}'
    )
    # A file that was written without its source, as before 0.2.
    datasets.save_npz(datasets.published('fashion_mnist'), file)
    assert npz.source_of(file) == ''
    assert fashion_mnist_line().split(',')[2:] == []


@pytest.mark.parametrize('has_apt', [True, False])
def test_missing_data_name_the_shortest_way(has_apt, tmp_path, monkeypatch):
    programs = tmp_path / 'bin'
    programs.mkdir()
    if has_apt:
        (programs / 'apt').touch(mode=0o755)
    monkeypatch.setenv('PATH', str(programs))
    monkeypatch.setenv('TFDS_DATA_DIR', str(tmp_path / 'data'))
    monkeypatch.setattr(system_copies, 'FOLDER', tmp_path / 'system')
    without_pooch(monkeypatch)
    install = '`apt install dataset-fashion-mnist`'
    shown = f'missing; {install}, or 31 MB' if has_apt else 'missing; 31 MB'
    assert shown in fashion_mnist_line()
    refusal = refused('data', 'fetch', 'fashion_mnist')
    assert (install in refusal) == has_apt
    assert 'downloads need pooch' in refusal
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        datasets.published('fashion_mnist')
    first = f'run {install}, then ' if has_apt else 'run '
    command = '`python -m fedjax_links data fetch fashion_mnist`'
    assert f'({first}{command}), got no ' in str(caught.value)
    with pytest.raises(
        ValueError, match=r'\(run `python -m fedjax_links data fetch mni'
    ):
        datasets.published('mnist')  # for which there is no package
    copy = tmp_path / 'system' / 'fashion-mnist'
    published.write_mnist(copy)
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        datasets.published('fashion_mnist')
    assert f'(run {command}, which reads {copy}), got no ' in str(caught.value)


def without_pooch(monkeypatch):
    """Makes the package that downloads missing."""
    monkeypatch.setitem(sys.modules, 'pooch', None)


def test_mistakes_cost_one_line(tmp_path):
    pytest.importorskip('pooch')
    (tmp_path / 'file').touch()
    data_flag = f'--data_dir={tmp_path}/file'
    for arguments, message in (
        (['fetsh', 'mnist'], "`data` has no 'fetsh'; did you mean 'fetch'?"),
        (['fetch', 'minst'], "`data` has no 'minst'; did you mean 'mnist'?"),
        (
            ['fetch', 'svhn', 'minst', '--mirror=http://127.0.0.1:1'],
            "`data` has no 'minst'; did you mean 'mnist'?",
        ),
        (['fetch'], '`data fetch` must be given a name of `data list`, got none.'),
        (['list', 'mnist'], '`data list` must be given no names, got mnist.'),
        (['list', '--mirror=here'], '`mirror` must go with `fetch`, got here.'),
        (['fetch', 'mnist', '--mirror=http://127.0.0.1:1', data_flag], '`/'),
    ):
        assert refused('data', *arguments).startswith(f'error: {message}')
