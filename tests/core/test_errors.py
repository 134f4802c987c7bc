"""Errors in one line, with one full stop."""

import pytest

from fedjax_links.core import errors


@pytest.mark.parametrize(
    'error, described',
    [
        (TypeError("needs 'rngs'."), "TypeError: needs 'rngs'"),
        (TypeError('two\n  lines'), 'TypeError: two lines'),
        (ValueError('.'), 'ValueError'),
        (KeyError(), 'KeyError'),
    ],
)
def test_an_error_of_other_code_ends_a_sentence(error, described):
    assert errors.describe(error) == described
    mistake = errors.invalid('module', 'suit the features', errors.describe(error))
    assert str(mistake) == f'`module` must suit the features, got {described}.'
