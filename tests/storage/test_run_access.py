"""Access to run folders: files of others stay as they are, and a live run excludes all others."""

import errno
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import fedjax_links as fl
from fedjax_links import runs
from fedjax_links.core import errors
from fedjax_links.pages import figure
from fedjax_links.runs import comparison, export
from fedjax_links.storage import (
    atomic_files,
    documents,
    file_locks,
    outputs,
    run_access,
)
from tests import refusals
from tests.experiment.configs import files_of
from tests.runner import running
from tests.runner.made_in_python import quadratic

NAMES = (
    'config.json',
    'experiment.json',
    'environment.json',
    'identity.json',
    'examples.npz',
    'metrics.jsonl',
    'metrics.npz',
    'metrics.csv',
    'links.npz',
    'clients.npz',
    'lanes.json',
    'report.md',
    'live.html',
    'comparison.png',
    'figure.png',
    'figure.csv',
    'figure.md',
    'links.png',
    'partition.png',
    'certificate.json',
    '.lock',
    '.opening',
    '.written.json',
    'checkpoints/main-fedavg-0000-links-0@2.npz',
    'checkpoints/main-fedavg-0000-links-0@4.npz',
    'checkpoints/a.npz.partial',
    'checkpoints/.a@2.npz.12-0123abcd.partial',
    'a.partial',
    '.experiment.json.77-0123abcd.partial',
    'photos/backup.tar.partial',
    'states/x.npz',
    'claims/shard-0-of-2.lock',
    'claims/main-fedavg-0000-links-0.lock',
    'failures/lane.txt',
    'inner/experiment.json',
    'inner/checkpoints/b@2.npz',
    'inner/.lock',
)


def contents(folder):
    """All files in a folder, by path."""
    files = (path for path in folder.rglob('*') if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.fixture
def foreign(tmp_path):
    """A folder of somebody else with files of every name that we use."""
    folder = tmp_path / 'foreign'
    for name in NAMES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f'{{"mine": "{name}"}}')
    return folder


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
    """The folder of a finished run, which tests do not change."""
    folder = tmp_path_factory.mktemp('finished') / 'run'
    quadratic().run(folder, devices=1)
    return folder


@pytest.fixture
def run(finished, tmp_path):
    """A copy of it."""
    return shutil.copytree(finished, tmp_path / 'run')


COMMANDS = {
    'run': lambda foreign, run: quadratic().run(foreign, devices=1),
    'shard': lambda foreign, run: quadratic().shard(0, 2).run(foreign, devices=1),
    'fork': lambda foreign, run: quadratic(rounds=6).fork(run, 4, foreign, devices=1),
    'source of a fork': lambda foreign, run: running.fork(
        quadratic(rounds=6), foreign, 4
    ),
    'merge into': lambda foreign, run: runs.merge([run], foreign),
    'merge of': lambda foreign, run: runs.merge([foreign]),
    'merge of both': lambda foreign, run: runs.merge([run, foreign], run),
    'start over': lambda foreign, run: run_access.set_aside('workdir', foreign),
    'read': lambda foreign, run: runs.read(foreign),
    'status': lambda foreign, run: runs.status(foreign),
    'report': lambda foreign, run: fl.report.write(runs.read(foreign)),
    'export to': lambda foreign, run: export.export(run, foreign),
    'export of': lambda foreign, run: export.export(foreign, foreign.with_name('to')),
    'archive to': lambda foreign, run: export.archive(run, foreign),
    'picture': lambda foreign, run: figure.save_page(
        foreign / 'links.png', lambda _: None, title='', caption='', size=(2, 2)
    ),
    'certificate': lambda foreign, run: outputs.write(
        'workdir', foreign, [('certificate.json', b'')]
    ),
}


@pytest.mark.parametrize('name', COMMANDS)
def test_a_foreign_folder_is_left_as_it_is(name, foreign, finished):
    before = contents(foreign)
    ours = files_of(finished)
    with pytest.raises(errors.InvalidError) as refused:
        COMMANDS[name](foreign, finished)
    assert str(foreign) in str(refused.value)
    assert contents(foreign) == before
    assert files_of(finished) == ours


def test_one_foreign_file_is_enough(tmp_path):
    (tmp_path / 'notes.txt').write_text('mine')
    with pytest.raises(errors.InvalidError, match=r'which holds notes\.txt'):
        quadratic().run(tmp_path, devices=1)
    assert [path.name for path in tmp_path.iterdir()] == ['notes.txt']


def test_a_start_that_was_killed_early_resumes(tmp_path):
    """It may leave each of these files and folders."""
    for name in ('.lock', '.experiment.json.77-0123abcd.partial'):
        (tmp_path / name).touch()
    for name in ('checkpoints', 'claims'):
        (tmp_path / name).mkdir()
    quadratic().run(tmp_path, devices=1)
    assert not list(tmp_path.rglob('*.partial'))


def test_two_runs_are_joined_in_neither_order(finished, tmp_path):
    shutil.copytree(finished, tmp_path / 'a')
    quadratic(rate=0.9).run(tmp_path / 'b', devices=1)
    before = contents(tmp_path)
    for first, second in ('ab', 'ba'):
        for parts, target in (
            ([first], second),
            ([first, second], first),
            ([first, second], 'new'),
        ):
            with pytest.raises(errors.InvalidError, match='rounds of fedavg'):
                runs.merge([tmp_path / part for part in parts], tmp_path / target)
    assert contents(tmp_path) == before
    assert not (tmp_path / 'new').exists()


@pytest.mark.parametrize(
    'lock', ['.lock', 'claims/shard-1-of-2.lock', 'claims/a-lane.lock']
)
def test_what_runs_is_not_set_aside(lock, run, tmp_path):
    (run / 'claims').mkdir()
    held = file_locks.acquire(run / lock)
    assert held is not None
    with pytest.raises(errors.InvalidError, match='not be in use'):
        run_access.set_aside('workdir', run)
    held.release()
    assert run_access.set_aside('workdir', run) == tmp_path / 'run.old-1'
    assert not run.exists()


@pytest.mark.parametrize('path', ['.', '..', 'run/..'])
def test_a_folder_without_a_name_is_not_set_aside(path, run, tmp_path, monkeypatch):
    monkeypatch.chdir(run)
    with refusals.names('workdir', 'by its name', f'got {path}.'):
        run_access.set_aside('workdir', Path(path))
    assert [*tmp_path.iterdir()] == [run]


@pytest.mark.slow
def test_start_over_beside_a_live_run_is_refused(tmp_path):
    """Two true processes: the first writes on, into its own folder alone."""
    config = tmp_path / 'long.py'
    config.write_text(
        'def get_config():\n'
        "    return {'title': 'long', 'problem': {'name': 'digits', 'num_clients': 4},\n"
        "            'links': 'always', 'client': {'learning_rate': 0.1, 'local_steps': 1},\n"
        "            'algorithms': {'fedavg': {}}, 'num_rounds': 10_000_000, 'eval_every': 100}\n"
    )
    run = tmp_path / 'run'
    command = [sys.executable, '-m', 'fedjax_links', 'simulate', f'--config={config}']
    command += [f'--workdir={run}', '--devices=1']
    first = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(1200):
            if (run / 'experiment.json').exists():
                break
            threading.Event().wait(0.25)
        second = subprocess.run(
            [*command, '--start_over', '--config.client.learning_rate=0.001'],
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        first.terminate()
        first.wait()
    assert second.returncode == 2
    assert 'not be in use' in second.stderr
    assert not run.with_name('run.old-1').exists()
    assert 0.001 not in runs.read(run)['client.learning_rate']


def test_temporary_names_differ_in_all_processes(tmp_path):
    names = {atomic_files.temporary_name(tmp_path / 'x').name for _ in range(100)}
    assert len(names) == 100
    writers = [
        threading.Thread(
            target=atomic_files.write,
            args=(tmp_path / 'x', bytes([k]) * 9999),
        )
        for k in range(16)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(set((tmp_path / 'x').read_bytes())) == 1
    assert [path.name for path in tmp_path.iterdir()] == ['x']


def test_temporaries_of_one_file_alone_are_removed(tmp_path):
    """Not those of a file whose name begins like its name, or holds signs of a pattern."""
    left, *others = (
        atomic_files.temporary_name(tmp_path / name)
        for name in ('[a]', '[a].b', 'a', '[a].1-01234567.partial', 'c')
    )
    for path in (left, *others):
        path.touch()
    atomic_files.remove_temporaries(tmp_path, '[a]')
    assert set(tmp_path.iterdir()) == set(others)


@pytest.mark.parametrize('code', [errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK])
def test_a_disk_without_locks_is_named_as_such(code, tmp_path, monkeypatch):
    def flock(file, kind):
        raise OSError(code, 'no locks here')

    monkeypatch.setattr(file_locks.fcntl, 'flock', flock)
    with pytest.raises(errors.InvalidError, match=r'file locks .* no locks here'):
        quadratic().run(tmp_path, devices=1)


def test_an_output_of_ours_is_written_again_and_no_other(tmp_path):
    for content in (b'first', b'second'):
        outputs.write('workdir', tmp_path, [('figure.md', content)])
    assert (tmp_path / 'figure.md').read_bytes() == b'second'
    (tmp_path / 'figure.md').write_bytes(b'edited by hand')
    with pytest.raises(errors.InvalidError, match=r'hold no other figure\.md'):
        outputs.write('workdir', tmp_path, [('figure.md', b'third')])
    assert (tmp_path / 'figure.md').read_bytes() == b'edited by hand'


def test_an_output_whose_digests_are_no_list_is_anothers(tmp_path):
    (tmp_path / 'figure.md').write_bytes(b'made by hand')
    content = documents.as_json({'files': {'figure.md': 3}})
    (tmp_path / outputs.LIST).write_bytes(content)
    with pytest.raises(errors.InvalidError, match=r'hold no other figure\.md'):
        outputs.write('workdir', tmp_path, [('figure.md', b'second')])


def test_a_file_of_another_is_found_before_anything_is_written(tmp_path):
    (tmp_path / 'figure.csv').write_bytes(b'made by hand')
    files = {'figure.md': b'text', 'figure.csv': b'numbers'}
    with pytest.raises(errors.InvalidError, match=r'hold no other figure\.csv'):
        outputs.write('workdir', tmp_path, files.items())
    assert [path.name for path in tmp_path.iterdir()] == ['figure.csv']


class KilledError(Exception):
    """Stands for the end of a process."""


@pytest.mark.parametrize('writes', range(1, 5))
@pytest.mark.parametrize('is_before', [True, False])
def test_an_output_whose_writer_was_killed_is_written_again(
    writes, is_before, tmp_path, monkeypatch
):
    """The process ends before or after any of its writes; the next one goes on."""
    files = [('figure.md', b'first'), ('figure.csv', b'1')]
    outputs.write('workdir', tmp_path, files)
    write = atomic_files.write
    left = [writes]

    def killed(path, content):
        left[0] -= 1
        if left[0] == 0 and is_before:
            raise KilledError
        write(path, content)
        if left[0] == 0:
            raise KilledError

    newer = [('figure.md', b'second'), ('figure.csv', b'2')]
    with monkeypatch.context() as patch:
        patch.setattr(atomic_files, 'write', killed)
        with pytest.raises(KilledError):
            outputs.write('workdir', tmp_path, newer)
    newest = [('figure.md', b'third'), ('figure.csv', b'3')]
    outputs.write('workdir', tmp_path, newest)
    assert {name: (tmp_path / name).read_bytes() for name, _ in newest} == dict(newest)
    (tmp_path / 'figure.csv').write_bytes(b'edited by hand')
    with pytest.raises(errors.InvalidError, match=r'hold no other figure\.csv'):
        outputs.write('workdir', tmp_path, newer)


@pytest.mark.slow
def test_a_leading_tilde_is_the_home(tmp_path, monkeypatch):
    """All that take a folder in Python, as commands do."""
    home = tmp_path / 'home'
    elsewhere = tmp_path / 'elsewhere'
    home.mkdir()
    elsewhere.mkdir()
    monkeypatch.setenv('HOME', str(home))
    monkeypatch.chdir(elsewhere)
    quadratic().run('~/run', devices=1)
    quadratic(rounds=6).fork('~/run', 4, '~/fork', devices=1)
    for shard in range(2):
        quadratic(seeds=[0, 1]).shard(shard, 2).run('~/shards', devices=1)
    runs.merge('~/shards', '~/whole')
    quadratic(seeds=[0]).run('~/run', devices=1)
    assert len(runs.read('~/run')['round']) == 2
    assert len(runs.read('~/whole')['round']) == 4
    assert runs.status('~/run').done == 1
    assert runs.links('~/run').masks
    assert runs.model('~/run') is not None
    assert len(fl.report.table('~/run')) == 1
    assert comparison.compare('~/run', '~/run').equal
    export.export('~/run', '~/exported')
    export.archive('~/run', '~/archive')
    assert runs.read('~/archive')['round'].tolist() == [2, 4]
    built = {'run', 'fork', 'shards', 'whole', 'exported', 'archive'}
    assert {path.name for path in home.iterdir()} == built
    assert not list(elsewhere.iterdir())
