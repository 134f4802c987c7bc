"""Runs that several modules begin with; nobody changes them, tests change copies."""

import shutil

import pytest

from fedjax_links import experiment
from fedjax_links.runner import stages
from tests.experiment.configs import tuned
from tests.runner.made_in_python import quadratic
from tests.runner.study import Study


@pytest.fixture(scope='session')
def tuned_run(tmp_path_factory):
    """The folder of a tuned run in one process, whose lanes are saved at their end alone."""
    folder = tmp_path_factory.mktemp('tuned') / 'run'
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, '_SAVE_SECONDS', 3600.0)
        experiment.build(tuned()).run(folder)
    return folder


@pytest.fixture(scope='session')
def quadratic_run(tmp_path_factory):
    """The folder of a run of `quadratic`."""
    folder = tmp_path_factory.mktemp('quadratic') / 'run'
    quadratic().run(folder)
    return folder


@pytest.fixture
def quadratic_copy(quadratic_run, tmp_path):
    """A copy of the folder of a run of `quadratic`."""
    return shutil.copytree(quadratic_run, tmp_path / 'quadratic')


@pytest.fixture(scope='session')
def finished_study(tmp_path_factory):
    """A folder with a study of a user and its run.

    Tests may change files of the study, as `Study` restores them.
    """
    folder = tmp_path_factory.mktemp('finished')
    Study(folder / 'study').run(folder / 'run')
    return folder
