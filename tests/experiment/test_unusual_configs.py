"""Unusual configs that run, and tuning, factories and sizes that do not suit."""

import re
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.typing import ArrayLike

from fedjax_links import experiment, simulation
from fedjax_links.core import errors, type_hints
from fedjax_links.planning import validation
from tests import refusals
from tests.experiment.configs import tuned, values
from tests.experiment.sections import bernoulli, client, links

NAN = float('nan')


@pytest.mark.parametrize(
    'changes, message',
    [
        (
            {'num_rounds': 12},
            '`config.tuning.num_rounds` must be at most `num_rounds` = 8, got 12.',
        ),
        (
            {'num_rounds': 8.0},
            '`config.tuning.num_rounds` must be a Python integer, got 8.0.',
        ),
        ({'num_seeds': 0}, '`config.tuning.num_seeds` must be at least 1, got 0.'),
        ({'grow': -1}, '`config.tuning.grow` must be at least 0, got -1.'),
        ({'grow': 'far'}, "`config.tuning.grow` must be a Python integer, got 'far'."),
        (
            {'num_seeds': 3, 'most_seeds': 2},
            '`config.tuning.most_seeds` must be at least 3, got 2.',
        ),
        (
            {'model': {'fedpcb': 'server'}},
            "`config.tuning.model` has no 'fedpcb'; did you mean 'fedpbc'?",
        ),
        (
            {'model': {'fedavg': 'client_mean'}},
            "`config.tuning.model.fedavg` has no 'client_mean'; ",
        ),
        (
            {'grid': {'client': {'mu': (0.1,)}}},
            "`config.tuning` must have either 'grid' or 'learning_rates' and 'server_lrs', got",
        ),
        (
            {'learning_rates': ()},
            '`config.tuning.learning_rates` must be a list of at least one',
        ),
        (
            {'learning_rates': 0.1},
            '`config.tuning.learning_rates` must be a list of at least one',
        ),
        (
            {'learning_rates': ('0.1',)},
            '`config.tuning.learning_rates` must be a number',
        ),
        (
            {'learning_rates': (0.1, 0.1)},
            '`config.tuning.learning_rates` must hold each number',
        ),
    ],
)
def test_wrong_tuning_costs_one_line(changes, message):
    with refusals.one_line(f'^{re.escape(message)}'):
        experiment.build(tuned(tuning={**tuned()['tuning'], **changes}))


@pytest.mark.parametrize(
    'changes',
    [
        client(learning_rate=1e30),
        client(batch_size=0),
        client(batch_size=None),
        client(learning_rate=np.float32(0.1)),
        links('outage', pattern='always', start=3, stop=900),
        links('cyclic', probs=[0.5] * 8, cycle_length=90),
        bernoulli(schedule={'name': 'sine', 'gamma': [0.1] * 8, 'period': 400}),
        links('replay', mask=[[True] * 8], prob=[[NAN] * 8]),
        {'caption': '', 'names': (), 'log': (), 'reports': {}},
    ],
)
def test_unusual_configs_are_built_and_described(changes):
    lines = experiment.build({**values(), **changes}).describe().splitlines()
    assert any(line.startswith('work ') for line in lines)


def test_an_error_inside_a_factory_of_ones_own_stays_what_it_is():
    with pytest.raises(TypeError, match='unsupported operand') as caught:
        experiment.build({**values(), 'links': 'tests.experiment.parts:mistaken'})
    file, line = errors.innermost_user_frame(caught.value)
    assert file.endswith('parts.py')
    assert "return 1 + 'x'" in Path(file).read_text().splitlines()[line - 1]


@pytest.mark.parametrize(
    'changes, message',
    [
        (
            {'links': {'name': 'statistics:mean', 'data': 3}},
            '`config.links` must suit mean, got ',
        ),
        (
            {'links': {'name': 'replay', 'mask': [[1, 0], [1]]}},
            '`config.links.mask` must be a number or a list of numbers, or of lists of one length',
        ),
        (
            {'links': {'name': 'trace', 'tick': 1, 'intervals': [[0, {}, 1]]}},
            '`config.links.intervals` must ',
        ),
    ],
)
def test_what_a_factory_cannot_use_is_a_mistake_in_its_section(changes, message):
    with pytest.raises(errors.InvalidError) as caught:
        experiment.build({**values(), **changes})
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    'value, kind, suits',
    [
        (3, int, True),
        (True, int, False),
        (3.0, int, False),
        (3, float, True),
        ('3', float, False),
        (True, float, False),
        (True, bool, True),
        (1, bool, False),
        (True, bool | int, True),
        (True, bool | float | None, True),
        (True, ArrayLike, False),
        (None, int | None, True),
        ('x', int | None, False),
        ([1, 2], tuple[int, ...], True),
        ([1, 'x'], list[int], False),
        ('ab', list[str], False),
        ({}, list[int], False),
        (np.float32(3), str, True),
        ([3], np.ndarray | float, True),
        (3, Any | None, True),
        (['x', 1], int | Any, True),
        ([1, 'x'], tuple[int, str], True),
        (['x', 1], tuple[int, str], False),
        ([0.5, 'x'], tuple[float, float], False),
        (3, complex, True),
        ('3', complex, False),
    ],
)
def test_values_are_matched_with_annotations(value, kind, suits):
    assert type_hints.matches_annotation(value, kind) == suits


@pytest.mark.parametrize(
    'kind, description',
    [
        (complex | None, 'a number or None'),
        (int | float, 'a number'),
        (bool | float, 'True or False or a number'),
        (Any | None, 'anything'),
        (tuple[int, str], 'a list of values'),
        (tuple[float, float], 'a list of numbers'),
    ],
)
def test_errors_describe_the_kind_in_words(kind, description):
    assert type_hints.describe_annotation(kind) == description


def test_lanes_and_rounds_are_counted_before_they_are_listed():
    validation.check_work(10, 10**6, 10**3, lanes='grid')
    with pytest.raises(
        ValueError, match=r'^`grid` must give at most 100,000 lanes, got 1,000,000'
    ):
        validation.check_work(10**6, 1, 1, lanes='grid')
    with pytest.raises(
        ValueError, match=r'^`num_rounds` must give at most 1,000,000,000,000 rou'
    ):
        validation.check_work(10**4, 10**9, 10**9, lanes='grid')


def test_patterns_can_be_parts_of_patterns_by_name_alone():
    planned = experiment.build(
        {**values(), **links('outage', pattern='always', start=1, stop=2)}
    )
    sample = simulation.realised_links(
        jax.random.key(0), planned.pattern_at('links', {}), num_rounds=3
    )
    np.testing.assert_array_equal(sample.mask.sum(axis=1), [8, 0, 8])
