"""Checks refusals: by field, by pattern or by message. `tests/core` has what each check says."""

import contextlib
import re
from collections.abc import Iterator

import pytest

from fedjax_links.core import errors


@contextlib.contextmanager
def names(field: str, *words: str) -> Iterator[None]:
    """Expects one line that names this field, with these words."""
    with pytest.raises(errors.InvalidError) as caught:
        yield
    assert caught.value.path == field
    assert '\n' not in str(caught.value)
    assert not [word for word in words if word not in str(caught.value)], str(
        caught.value
    )


@contextlib.contextmanager
def one_line(pattern: str) -> Iterator[None]:
    """Expects a ValueError whose message is one line that matches a regular expression."""
    with pytest.raises(ValueError, match=pattern) as caught:
        yield
    assert '\n' not in str(caught.value)


def refuses(message: str):
    """Expects a ValueError with exactly this message."""
    return pytest.raises(ValueError, match=f'^{re.escape(message)}$')
