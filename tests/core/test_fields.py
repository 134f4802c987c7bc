"""Fields that a dataclass declares once."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from fedjax_links.core import errors, fields
from fedjax_links.core.fields import declare


@fields.documented
@dataclasses.dataclass(frozen=True, kw_only=True)
class Engine:
    """An engine."""

    power: int = declare('In kW.', example=3, check=fields.integer(maximum=9))
    fuel: str | None = declare(
        'What it burns.', example='oil', default=None, check=fields.one_of('oil', 'gas')
    )
    parts: Mapping[str, int] | str = declare('Its parts.', example={}, default={})
    gears: Sequence[int] = declare('Ratios.', example=[1], default=())
    loss: float = declare(
        'A portion.', example=0.1, default=0.0, check=fields.number_within(0, 1)
    )
    hidden: int = 0

    def __post_init__(self):
        """Checks the values."""
        fields.check_values(self, 'engine.')


def test_a_declaration_says_all_of_a_field():
    declared = fields.declared(Engine)
    assert list(declared) == ['power', 'fuel', 'parts', 'gears', 'loss']
    assert declared['power'].default is fields.REQUIRED
    assert declared['parts'].default == {}
    assert declared['fuel'].meaning == 'What it burns.'
    assert declared['gears'].example == [1]


@pytest.mark.parametrize(
    'name, accepted, refused',
    [
        ('power', [3], [True, '3', None, 3.0]),
        ('fuel', ['oil', 'coal'], [None, 3]),
        ('parts', [{}, 'all'], [3, [1]]),
        ('gears', [[1], (1,), []], ['12', {}]),
        ('loss', [0.5, 1], [True, '0.5']),
    ],
)
def test_a_field_accepts_values_of_its_type(name, accepted, refused):
    field = fields.declared(Engine)[name]
    assert all(field.accepts(value) for value in accepted)
    assert not any(field.accepts(value) for value in refused)


@pytest.mark.parametrize(
    'changes, message',
    [
        ({'power': 10}, '`engine.power` must be at most 9, got 10.'),
        ({'fuel': 'gaz'}, "`engine.fuel` has no 'gaz'; did you mean 'gas'?"),
        ({'loss': 1.5}, '`engine.loss` must lie in [0, 1], got 1.5.'),
    ],
)
def test_a_value_that_a_field_cannot_have_is_named(changes, message):
    with pytest.raises(errors.InvalidError) as caught:
        Engine(**{'power': 3, **changes})
    assert str(caught.value) == message


def test_numbers_of_numpy_become_plain_ones():
    engine = Engine(power=np.int64(3), loss=np.float32(0.5), hidden=np.int32(1))
    assert [type(v) for v in (engine.power, engine.loss, engine.hidden)] == [
        int,
        float,
        int,
    ]


def test_defaults_are_not_shared_between_instances():
    assert Engine(power=1).parts is not Engine(power=1).parts


def test_the_docstring_lists_the_fields():
    assert '\n  fuel: What it burns.\n' in Engine.__doc__
    assert Engine.__doc__.count('Attributes:') == 1
