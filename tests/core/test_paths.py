"""Paths as users write them."""

import pytest

from fedjax_links.core import paths
from tests import refusals


class BytesPath:
    """A path of bytes, as `os.DirEntry` is one for a folder named in bytes."""

    def __fspath__(self):
        """Returns the path."""
        return b'runs'


@pytest.mark.parametrize('value', ['', None, 3, b'runs', BytesPath()])
def test_what_is_no_path_is_refused(value):
    with refusals.names('workdir', 'be a path'):
        paths.as_path(value, 'workdir')
