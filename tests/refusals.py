"""How tests look at a refusal: the field that it names; what each check says is in `core`."""

import contextlib
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
