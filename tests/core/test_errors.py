"""Errors in one line, with one full stop."""

import pytest

from fedjax_links.config import bound
from fedjax_links.core import errors
from fedjax_links.storage import checkpoints


@pytest.mark.parametrize(
    'error, described',
    [
        (TypeError("needs 'rngs'."), "TypeError: needs 'rngs'"),
        (TypeError('two\n  lines'), 'TypeError: two lines'),
        (ValueError('saw 3 fields.\n'), 'ValueError: saw 3 fields'),
        (ValueError('.'), 'ValueError'),
        (KeyError(), 'KeyError'),
    ],
)
def test_an_error_of_other_code_ends_a_sentence(error, described):
    assert errors.describe(error) == described
    mistake = errors.invalid('module', 'suit the features', errors.describe(error))
    assert str(mistake) == f'`module` must suit the features, got {described}.'


@pytest.mark.parametrize('text', ['', ' '])
def test_a_blank_value_is_shown_in_quotes(text):
    mistake = errors.invalid('shard', 'read I/N', text)
    assert str(mistake) == f'`shard` must read I/N, got {text!r}.'


@pytest.mark.parametrize('kind', [bound.RefusedImportError, checkpoints.DamagedError])
def test_a_context_keeps_the_class_by_which_an_error_is_handled(kind):
    with (
        pytest.raises(kind, match=r'^`config\.problem\.name` must be known, got 1\.$'),
        errors.context('config'),
        errors.context('problem'),
    ):
        raise kind('name', 'be known', 1)


def test_an_unknown_option_names_its_section_in_any_context():
    with (
        pytest.raises(errors.InvalidError, match=r'^`config\.client` ') as caught,
        errors.context('config'),
        errors.context('client'),
    ):
        raise errors.unknown_option('local_sgd', 'rate', ['learning_rate'], 'here')
    assert type(caught.value) is errors.InvalidError
