"""A run folder is data: whatever a stranger writes into it, nothing of it runs."""

import importlib
import inspect
import shutil
import sys
from pathlib import Path

import pytest

from fedjax_links import experiment, report, runs
from fedjax_links.config import bound, resolver
from fedjax_links.core import errors
from tests import rendering, tiers
from tests.attacks import strangers
from tests.cli.command import refused, run

CONFIG = {
    'title': 'A run to be spoilt',
    'problem': {'name': 'counterexample', 'num_clients': 5, 'dimension': 3},
    'links': {'name': 'bernoulli', 'probs': 0.5},
    'client': {'local_steps': 2, 'learning_rate': 0.1},
    'algorithms': {'fedavg': {}, 'fedpbc': {}},
    'log': ('links',),
    'num_rounds': 4,
    'eval_every': 2,
    'num_seeds': 2,
}
COMMANDS = {
    'status': ('status', '--workdir=stranger'),
    'watch': ('status', '--workdir=stranger', '--watch=0.01'),
    'report': ('report', '--workdir=stranger'),
    'table': ('report', '--workdir=stranger', '--table=comparison'),
    'cost': (
        'report',
        '--workdir=stranger',
        '--cost={"step": 0.1, "uplink": 1e6, "downlink": 1e6}',
    ),
    'compare': ('compare', 'stranger', 'honest'),
    'export': ('export', 'stranger', '--to=exported'),
    'archive': ('export', 'stranger', '--archive', '--to=archived'),
    'merge': ('merge', '--workdir=stranger'),
}
FAST = [
    'a page is a command',
    'printed numbers are a text',
    'the package runs a file for a stranger',
    'an algorithm is labelled as a module',
    'an endless grid',
    'states are pickled',
    'lines have columns with paths',
    'the lock is a link',
]


@pytest.fixture(scope='module')
def honest(tmp_path_factory):
    """The folder of a run, and all that commands import for it."""
    folder = tmp_path_factory.mktemp('honest') / 'run'
    built = experiment.build(CONFIG)
    with rendering.skipped():
        report.write(built.run(folder), built)
    return folder


@pytest.fixture
def stranger(honest, tmp_path, monkeypatch, unrendered):
    """Spoils a copy of the run; the module it names can be imported from where commands run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / f'{strangers.MODULE}.py').write_text(strangers.SOURCE)
    shutil.copytree(honest, tmp_path / 'honest')

    def make(way):
        shutil.copytree(honest, tmp_path / 'stranger')
        (tmp_path / 'stranger' / f'{strangers.MODULE}.py').write_text(strangers.SOURCE)
        strangers.ALL[way](tmp_path / 'stranger')
        return tmp_path / 'stranger'

    return make


def outside(folder):
    """What lies where no command may write: beside its folders, above them, and in `/tmp`."""
    folders = ('stranger', 'honest', 'exported', 'archived', 'elsewhere')
    beside = {path for path in folder.iterdir() if path.name not in folders}
    return beside.union(folder.parent.iterdir(), Path('/tmp').glob('outside*'))


@pytest.mark.parametrize(
    'way',
    tiers.cases(strangers.ALL, FAST, 'test_nothing_that_a_stranger_names_is_run'),
)
def test_nothing_that_a_stranger_names_is_run(way, stranger, tmp_path):
    stranger(way)
    before = outside(tmp_path)
    for name, arguments in COMMANDS.items():
        done = run(*arguments, cwd=tmp_path)
        output = f'{name}: {done.stderr}{done.stdout}'
        assert done.returncode in (0, 1, 2), output
        assert 'Traceback' not in done.stderr, output
        if done.returncode == 2:
            assert done.stderr.startswith('error: '), output
            assert done.stderr.count('\n') == 1, output
        assert not (tmp_path / strangers.CANARY).exists(), output
        assert strangers.MODULE not in sys.modules, output
        assert '\x1b' not in done.stdout + done.stderr, output
    assert outside(tmp_path) == before


@pytest.mark.parametrize(
    'section',
    [strangers.BORROWED, strangers.COMMAND, strangers.IMPORT, strangers.LOAD],
)
def test_functions_that_a_stranger_names_take_their_options(section):
    options = dict(section)
    module, _, name = options.pop('name').partition(':')
    function = getattr(importlib.import_module(module), name)
    inspect.signature(function).bind(**options)


def test_functions_that_papers_only_import_are_foreign():
    name = strangers.BORROWED['name']
    assert list(bound.foreign_names('x', strangers.BORROWED)) == [('x.name', name)]
    own = {'name': 'fedjax_links.papers.xiang2024.released:f3ast_positions_as_ids'}
    assert list(bound.foreign_names('x', own)) == []


@pytest.mark.parametrize(
    'way', ['an algorithm is a command', 'an algorithm is labelled as a module']
)
def test_certificates_and_forks_of_a_folder_import_nothing(way, stranger, tmp_path):
    folder = stranger(way)
    message = refused('certify', '--workdir=stranger', cwd=tmp_path)
    assert 'must name nothing outside fedjax_links' in message
    assert '--allow_imports' in message
    for path in (folder / runs.CHECKPOINTS).glob('*@2.npz'):
        path.unlink()  # so that lanes are advanced again
    config = {**CONFIG, 'num_rounds': 6}
    with pytest.raises(
        errors.InvalidError, match='must name nothing outside fedjax_links'
    ):
        experiment.build(config).fork(folder, 2)
    assert not (tmp_path / strangers.CANARY).exists()


OWN = """
from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.report.layouts.page import Page
from fedjax_links.pages.printed_numbers import PrintedAccuracy
from fedjax_links.pages.tables import Table


def algorithm(local_train):
    return ALGORITHMS['fedavg'](local_train)


def page(source):
    return Page('My own page', [Table(['a'], [['b']], 'By me.')])


def printed():
    return {('links', 'own'): PrintedAccuracy(0.5, None)}
"""


@pytest.fixture(scope='module')
def users_folder(tmp_path_factory):
    """A folder with a module of the user's own and a run with it, which tests do not change."""
    folder = tmp_path_factory.mktemp('own')
    (folder / 'own_module.py').write_text(OWN)
    printed = {'name': 'comparison', 'published': {'name': 'own_module:printed'}}
    pages = {'own': 'own_module:page', 'comparison': printed}
    algorithms = {'own': {'name': 'own_module:algorithm'}, 'fedpbc': {}}
    with rendering.skipped(), resolver.importable(folder):
        built = experiment.build({**CONFIG, 'algorithms': algorithms, 'reports': pages})
        report.write(built.run(folder / 'run'), built)
    return folder


@pytest.fixture
def owned(users_folder, tmp_path, monkeypatch, unrendered):
    """A copy of the run; its module lies in the working folder."""
    shutil.copytree(users_folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / 'run'


def test_a_report_lacks_what_the_user_does_not_allow(owned, tmp_path):
    assert '## My own page' in (owned / 'report.md').read_text()
    done = run('report', '--workdir=run', cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for position in (
        '`config.reports.own`',
        '`config.reports.comparison.published.name`',
    ):
        assert (
            f'Left out of the report: {position} must name nothing outside'
            in done.stdout
        )
    assert '--allow_imports' in done.stdout
    text = (owned / 'report.md').read_text()
    assert 'My own page' not in text
    assert '## Final' in text
    assert '| paper |' not in text
    done = run('report', '--workdir=run', '--allow_imports', cwd=tmp_path)
    text = (owned / 'report.md').read_text()
    assert done.returncode == 0, done.stderr
    assert '## My own page' in text
    assert '| paper |' in text
    with pytest.raises(errors.InvalidError, match='must name nothing outside'):
        report.table(owned, 'own')
    with resolver.importable(tmp_path):
        assert report.table(owned, 'own', allow_imports=True)['a'].tolist() == ['b']


def test_a_merge_imports_what_the_user_allows(owned, tmp_path):
    done = run('merge', '--workdir=run', cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert 'The report lacks losses of clients' in done.stderr
    assert done.stderr.count('\n') == 1
    done = run('merge', '--workdir=run', '--allow_imports', cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, '')
    assert '## My own page' in (owned / 'report.md').read_text()


def test_a_fork_may_name_what_its_own_config_names(owned, tmp_path):
    config = runs.read_json(owned, runs.CONFIG)
    for path in (owned / runs.CHECKPOINTS).glob('*@2.npz'):
        path.unlink()
    with resolver.importable(tmp_path):
        longer = experiment.build({**config, 'num_rounds': 6})
        assert longer.fork(owned, 2)['round'].max() == 6


def test_a_fork_from_a_kept_state_imports_nothing(owned):
    """Its own config names no module of the run's, which is not imported either."""
    config = {**CONFIG, 'algorithms': {'fedpbc': {}}, 'num_rounds': 6}
    assert experiment.build(config).fork(owned, 4)['round'].max() == 6
    assert 'own_module' not in sys.modules
