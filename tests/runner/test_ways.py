"""Each way to resume or extend a run refuses a changed experiment, and no harmless change."""

import contextlib
import re
import shutil

import pytest

from fedjax_links import experiment, runs
from fedjax_links.config import resolver
from fedjax_links.core import errors
from tests.experiment.configs import files_of
from tests.runner import changes, made
from tests.runner.study import Study
from tests.tiers import cases

NO_FIRST_STATE = (
    'hold states that fit',
    'hold seed',
    "must have the problem's clients",
)
"""Why a fork is refused whose lanes do not find their first states."""


class Halt(experiment.Callback):
    """Ends a run once its folder is open, before anything is compiled."""

    def on_start(self, planned):
        """Ends it."""
        raise experiment.Stop


def built(source, rounds=None, more_seeds=0):
    """Builds the experiment of a `Study` or `PythonStudy`, with other rounds or more seeds."""
    growth = {}
    if rounds is not None:
        growth['num_rounds'] = rounds
    if more_seeds and isinstance(source, Study):
        growth['num_seeds'] = 1 + more_seeds
    elif more_seeds:
        first = source.fields.get('seeds', [0])
        growth['seeds'] = [*first, *range(100, 100 + more_seeds)]
    return source.build(**growth)


def attempt(source, go):
    """Calls a function; lists the error by which it is refused, or nothing."""
    imports = contextlib.nullcontext()
    if isinstance(source, Study):
        imports = resolver.importable(source.folder)
    try:
        with imports:
            go()
    except experiment.Stop:
        return []
    except errors.InvalidError as refused:
        return [str(refused)]
    return []


def open_folder(source, folder, planned):
    """Runs in the folder, and stops before anything is compiled."""
    return attempt(source, lambda: planned.run(folder, [Halt()], devices=1))


def merge(source, here):
    """Merges the run with one of the changed experiment, into a new folder and into the run."""
    assert open_folder(source, here / 'other', built(source)) == []
    before = files_of(here / 'other')
    run = here / 'run'
    other = here / 'other'
    refusals = [
        *attempt(source, lambda: runs.merge([run, other], here / 'new')),
        *attempt(source, lambda: runs.merge([other, run], run)),
    ]
    assert len(refusals) in (0, 2)
    if refusals:
        assert files_of(here / 'other') == before
        assert not (here / 'new').exists()
    shutil.rmtree(here / 'other')
    return refusals


def fork(source, here):
    """Resumes in the folder of a fork that is done."""
    planned = built(source, rounds=8)

    def go():
        planned.fork(here / 'run', 4, here / 'fork', [Halt()], devices=1)

    return attempt(source, go)


WAYS = {
    'same folder': lambda source, here: open_folder(
        source, here / 'run', built(source)
    ),
    'rounds': lambda source, here: open_folder(
        source, here / 'run', built(source, rounds=8)
    ),
    'seeds': lambda source, here: open_folder(
        source, here / 'run', built(source, more_seeds=1)
    ),
    'shard': lambda source, here: open_folder(
        source, here / 'run', built(source).shard(0, 2)
    ),
    'merge': merge,
    'fork': fork,
}
COVERED_BY = 'test_another_experiment_under_the_same_labels_is_refused'
"""The test whose default cases cover the rest between releases."""
OF_A_RELEASE = (pytest.mark.slow, pytest.mark.release(COVERED_BY))
EACH_WAY = [
    pytest.param(way, marks=() if way in ('same folder', 'merge') else OF_A_RELEASE)
    for way in WAYS
]
"""More rounds and seeds are compared as the same folder is, so releases alone run them."""


@pytest.fixture(scope='module')
def fork_of_study(finished_study, tmp_path_factory):
    folder = tmp_path_factory.mktemp('config') / 'fork'
    study = Study(finished_study / 'study')
    with resolver.importable(study.folder):
        longer = study.build(num_rounds=8)
        longer.fork(finished_study / 'run', 4, folder, devices=1)
    return folder


@pytest.fixture(scope='module')
def run_of_objects(tmp_path_factory):
    folder = tmp_path_factory.mktemp('python') / 'run'
    made.PythonStudy().build().run(folder, devices=1)
    return folder


@pytest.fixture(scope='module')
def fork_of_objects(run_of_objects, tmp_path_factory):
    folder = tmp_path_factory.mktemp('python') / 'fork'
    longer = made.PythonStudy().build(num_rounds=8)
    longer.fork(run_of_objects, 4, folder, devices=1)
    return folder


@pytest.fixture
def study(way, finished_study, tmp_path, request):
    """A copy of the study and of what has run, which a test may change."""
    here = tmp_path / 'here'
    shutil.copytree(finished_study, here)
    if way == 'fork':
        shutil.copytree(request.getfixturevalue('fork_of_study'), here / 'fork')
    return Study(here / 'study'), here


@pytest.fixture
def objects(way, run_of_objects, tmp_path, request):
    """Parts of an experiment made in Python, and a copy of what has run."""
    here = tmp_path / 'here'
    shutil.copytree(run_of_objects, here / 'run')
    if way == 'fork':
        shutil.copytree(request.getfixturevalue('fork_of_objects'), here / 'fork')
    return made.PythonStudy(), here


def files_of_runs(here):
    """Returns the files of the run, and of its fork where a test has one."""
    return {name: files_of(here / name) for name in ('run', 'fork')}


def check_refused(way, subject, change, words, monkeypatch):
    """Checks that each refusal names what differs, and that nothing was written."""
    source, here = subject
    change(source, monkeypatch)
    before = files_of_runs(here)
    refusals = WAYS[way](source, here)
    assert refusals
    expected = [words]
    if way == 'merge':  # also in the other order
        pattern = r'(\d+) examples and not (\d+)'
        expected.append(re.sub(pattern, r'\2 examples and not \1', words))
    elif way == 'fork':
        expected += NO_FIRST_STATE
    for refusal in refusals:
        assert any(part in refusal for part in expected), refusal
    assert files_of_runs(here) == before


@pytest.mark.parametrize('name', cases(changes.CHANGES, ['labels'], COVERED_BY))
@pytest.mark.parametrize('way', EACH_WAY)
def test_another_study_is_refused_by_every_way(way, name, study, monkeypatch):
    check_refused(way, study, *changes.CHANGES[name], monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize('name', cases(made.CHANGES, ['own algorithm'], COVERED_BY))
@pytest.mark.parametrize('way', EACH_WAY)
def test_other_objects_are_refused_by_every_way(way, name, objects, monkeypatch):
    check_refused(way, objects, *made.CHANGES[name], monkeypatch)


def lines_of(folder):
    """Returns what the lanes of a run have measured."""
    return {lane.name: list(lane.lines) for lane in runs.lanes(folder)}


def check_resumes(way, subject, change, monkeypatch):
    """Checks that nothing is refused, and that what has run is as it was."""
    source, here = subject
    change(source, monkeypatch)
    before = lines_of(here / 'run')
    refusals = WAYS[way](source, here)
    if change is changes.rename_module and way == 'fork':
        # The config of the fork's source names a module that the study no longer names.
        (refusal,) = refusals
        assert '--allow_imports' in refusal
    else:
        assert refusals == []
    assert lines_of(here / 'run') == before


@pytest.mark.parametrize(
    'name', cases(changes.HARMLESS, ['comment in a module'], COVERED_BY)
)
@pytest.mark.parametrize('way', EACH_WAY)
def test_a_harmless_change_of_a_study_resumes_by_every_way(
    way, name, study, monkeypatch
):
    check_resumes(way, study, changes.HARMLESS[name], monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize('name', cases(made.HARMLESS, ['parts by makers'], COVERED_BY))
@pytest.mark.parametrize('way', EACH_WAY)
def test_a_harmless_change_of_objects_resumes_by_every_way(
    way, name, objects, monkeypatch
):
    check_resumes(way, objects, made.HARMLESS[name], monkeypatch)
