"""Options are refused where Python refuses the call."""

import contextlib
import functools
import inspect
import itertools

import pytest

from fedjax_links.core import errors, factory_options


def plain(first, second=2):
    """Takes both by position or keyword."""


def keyword_only(first, *, decay=0.5):
    """Takes an option by keyword alone."""


def positional_only(first, /, decay):
    """Takes its first argument by position alone."""


def collecting(*parts, decay):
    """Collects all positional arguments."""


def collecting_further(first, *rest, decay=0.5):
    """Collects all positional arguments but one."""


FACTORIES = {
    'plain': plain,
    'keyword_only': keyword_only,
    'positional_only': positional_only,
    'collecting': collecting,
    'collecting_further': collecting_further,
    'partial': functools.partial(collecting_further, 0),
}
NAMES = ('first', 'second', 'decay')


@pytest.mark.parametrize('factory', FACTORIES.values(), ids=FACTORIES)
def test_options_are_refused_where_the_call_would_be(factory):
    subsets = [
        names
        for size in range(len(NAMES) + 1)
        for names in itertools.combinations(NAMES, size)
    ]
    for num_args, names in itertools.product(range(4), subsets):
        args = range(num_args)
        options = dict.fromkeys(names, 0.1)
        expected = contextlib.nullcontext()
        try:
            inspect.signature(factory).bind(*args, **options)
        except TypeError:
            expected = pytest.raises(errors.InvalidError)
        with expected:
            factory_options.check('algorithms.mine', factory, options, *args)
