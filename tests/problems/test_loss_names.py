"""Losses and metrics by name: a mistake is named in one line."""

import re

import pytest

from fedjax_links import problems
from tests.problems.regressions import regression


@pytest.mark.parametrize(
    'options, message',
    [
        (
            {'loss': 'squared_eror'},
            "`loss` has no 'squared_eror'; did you mean 'squared_error'?",
        ),
        (
            {'loss': 'huber', 'metrics': ('r3',)},
            "`metrics` has no 'r3'; did you mean 'r2'?",
        ),
        (
            {'loss': 'huber', 'metrics': 'r2'},
            "`metrics` must be a collection of names, got 'r2'.",
        ),
        (
            {'loss': lambda o, y: 0.0, 'metrics': ('r2',)},
            '`metrics` must go with a loss by name',
        ),
    ],
)
def test_a_mistake_is_named(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        regression(8, **options)


@pytest.mark.parametrize(
    'options, message',
    [
        ({'loss_fn': 'huber'}, '`predict` must be given for a loss by name, got None.'),
        (
            {'loss_fn': lambda p, b: 0.0, 'metrics': ('r2',)},
            '`metrics` must be a function',
        ),
        (
            {'loss_fn': 'huber', 'predict': lambda p, x: x, 'metrics': lambda p, b: {}},
            '`metrics` must be names for a loss by name',
        ),
    ],
)
def test_arrays_refuse_names_without_their_functions(options, message):
    with pytest.raises(ValueError, match=message):
        problems.from_arrays([[1.0]], [1.0], [0], init_params=lambda key: {}, **options)
