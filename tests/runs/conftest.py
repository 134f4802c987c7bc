"""A run that several modules compare, copy and export."""

import pytest

from fedjax_links.runner import save_clock
from tests.report import standing


@pytest.fixture(scope='session')
def standing_run(tmp_path_factory):
    """The folder of a run made in Python, with two states of each lane."""
    folder = tmp_path_factory.mktemp('standing') / 'run'
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(save_clock.SaveClock, 'is_due', lambda clock: True)
        standing.experiment().run(folder)
    return folder
