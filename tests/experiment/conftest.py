"""A run that several modules fork or extend."""

import pytest

from fedjax_links.runner import save_clock
from tests.experiment.futures import build


@pytest.fixture(scope='session')
def past(tmp_path_factory):
    """A finished run of eight rounds with checkpoints after 6 and 8, and its links."""
    folder = tmp_path_factory.mktemp('past') / 'run'
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(save_clock.SaveClock, 'is_due', lambda clock: True)
        build(log=('links',)).run(folder)
    remaining = {
        path.stem.split('@')[1] for path in (folder / 'checkpoints').glob('*.npz')
    }
    assert remaining == {'6', '8'}
    return folder
