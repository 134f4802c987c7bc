"""What each check accepts, and its full message where it does not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import participation, problems
from fedjax_links.core import checks, errors
from fedjax_links.links import graphs
from tests import refusals

NAN = float('nan')
INF = float('inf')
TOO_LARGE = 'be at most 2147483647 or have a decimal point'


@pytest.mark.parametrize(
    'check, value, message',
    [
        (checks.numbers, 'a', "be a number, got 'a'"),
        (checks.numbers, True, 'be a number, got True'),
        (checks.numbers, [1, 'a'], "hold numbers, got [1, 'a']"),
        (checks.numbers, [[1], [1, 2]], 'hold numbers, got [[1], [1, 2]]'),
        (
            checks.positive,
            2**31,
            'be at most 2147483647 or have a decimal point, got 2147483648',
        ),
        (
            checks.finite,
            -(2**31),
            'be at least -2147483647 or have a decimal point, got -2147483648',
        ),
        (checks.not_empty, (), 'hold at least one value, got ()'),
        (checks.positive, 0.0, 'be positive, got 0.0'),
        (checks.positive, -1.0, 'be positive, got -1.0'),
        (checks.positive, NAN, 'be positive, got nan'),
        (checks.positive, INF, 'be finite, got inf'),
        (checks.positive, [2.0, 0.0], 'be positive, got 0.0 at client 1'),
        (checks.positive, '1', "be a number, got '1'"),
        (
            checks.probabilities,
            0.5,
            'be a vector with one entry per client, got 0.5',
        ),
        (
            checks.probabilities,
            [],
            'be a vector with one entry per client, got shape (0,)',
        ),
        (
            checks.probabilities,
            [[0.5], [0.5, 0.1]],
            'hold numbers, got [[0.5], [0.5, 0.1]]',
        ),
        (checks.probabilities, [0.5, 1.5], 'lie in [0, 1], got 1.5 at client 1'),
        (checks.finite, INF, 'be finite, got inf'),
        (checks.finite, [1.0, NAN], 'be finite, got nan at client 1'),
        (checks.finite, 'a', "be a number, got 'a'"),
        (checks.probabilities, [NAN, 1.0], 'lie in [0, 1], got nan at client 0'),
        (checks.finite, 2**64, f'{TOO_LARGE}, got {2**64}'),
        (checks.static_int, 2.5, 'be a Python integer, got 2.5'),
        (checks.static_int, True, 'be a Python integer, got True'),
        (checks.static_int, 0, 'be at least 1, got 0'),
        (checks.static_int, 2**31, 'be at most 2147483647, got 2147483648'),
        (checks.seed, -1, 'be at least 0, got -1'),
        (checks.seed, 2**32, 'be at most 4294967295, got 4294967296'),
        (checks.ids, [], 'be a non-empty vector, got shape (0,)'),
        (checks.ids, [[0, 1]], 'be a non-empty vector, got shape (1, 2)'),
        (checks.ids, [0.0, 1.0], 'have an integer dtype, got float64'),
        (
            checks.ids,
            ['ann', 'bob'],
            'have an integer dtype, as np.unique(..., return_inverse=True)[1] makes of names, '
            'got <U3',
        ),
        (checks.ids, [0, 1, -1], 'be at least 0, got -1 at 2'),
        (checks.names, 'ab', "be a collection of names, got 'ab'"),
        (checks.names, ['a', 1], 'hold names alone, got 1'),
    ],
)
def test_a_check_says_in_one_line_what_is_wrong(check, value, message):
    with pytest.raises(errors.InvalidError) as caught:
        check('field', value)
    assert str(caught.value) == f'`field` must {message}.'


@pytest.mark.parametrize('value', [-0.5, 1.5, NAN])
def test_an_interval_says_its_bounds(value):
    with pytest.raises(errors.InvalidError) as caught:
        checks.within('field', value, 0, 1)
    assert str(caught.value) == f'`field` must lie in [0, 1], got {value}.'


@pytest.mark.parametrize(
    'field, words, make',
    [
        ('neighbours', '9 at neighbour 1', lambda: peers(neighbours=[[1, 1], [0, 9]])),
        ('edge_prob', '1.5 at neighbour 0', lambda: peers(edge_prob=[[[1], [1.5]]])),
        ('prob', '1.5 at edge 2', lambda: connected(prob=[0.5, 0.5, 1.5])),
        ('curvature', '0.0 at client 1', lambda: curved([[1, 1], [0, 1]])),
        ('up_rate', '2.0 at group 1', lambda: shocked([0.5, 2.0])),
    ],
)
def test_an_entry_is_named_by_what_its_axis_is_over(field, words, make):
    with refusals.names(field, words):
        make()


def peers(neighbours=((1,), (0,)), edge_prob=None):
    up = np.ones((1, *np.shape(neighbours)), bool)
    return participation.replay(
        [[True, True]], neighbours=neighbours, edges=up, edge_prob=edge_prob
    )


def connected(prob):
    return participation.peers(participation.always(3), graphs.ring(3), prob=prob)


def curved(curvature):
    return problems.quadratic([[0.0, 1.0], [1.0, 0.0]], curvature=curvature)


def shocked(up_rate):
    pattern = participation.always(2)
    return participation.shared_shocks(
        pattern, groups=[0, 1], up_rate=up_rate, down_rate=0.5
    )


@pytest.mark.parametrize('value', [1, 0, None, 'no', 'False', np.array(True), [True]])
def test_a_flag_is_true_or_false_and_nothing_else(value):
    checks.flags(first=True, second=np.bool_(False))
    with pytest.raises(errors.InvalidError) as caught:
        checks.flags(first=True, second=value)
    assert str(caught.value) == f'`second` must be True or False, got {value!r}.'


def test_bounds_belong_to_what_is_accepted():
    checks.within('field', [0, 0.5, 1], 0, 1)
    checks.probabilities('field', [0.0, 1.0])
    checks.positive('field', np.array([1e-30, 1e30]))
    checks.static_int('field', 0, minimum=0)
    checks.static_int('field', np.int64(2**31 - 1))
    checks.seed('field', 2**32 - 1)
    np.testing.assert_array_equal(checks.ids('field', [2, 0]), [2, 0])
    assert checks.names('field', ['a', 'b']) == ('a', 'b')


def test_a_tracer_passes_unread():
    def unread(value):
        checks.positive('field', value)
        checks.within('field', value, 0, 1)
        checks.finite('field', jnp.log(value))
        return value

    assert jax.jit(unread)(jnp.float32(-3)) == -3


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(errors.InvalidError) as caught:
        checks.choice('field', 'deltas', ('delta', 'gradient'))
    assert str(caught.value) == "`field` has no 'deltas'; did you mean 'delta'?"


@pytest.mark.parametrize('name', ['DELTA', 'Delta', ' delta', 'DELTAS', 'delta\n'])
def test_the_nearest_name_has_whatever_capitals(name):
    with pytest.raises(errors.InvalidError, match="did you mean 'delta'"):
        checks.choice('field', name, ('delta', 'gradient', 'Other'))
    with pytest.raises(errors.InvalidError, match="did you mean 'Other'"):
        checks.choice('field', 'other', ('delta', 'gradient', 'Other'))


def test_what_does_not_fit_into_memory_says_so(monkeypatch):
    monkeypatch.setattr(checks.memory, 'host_bytes', lambda: 2**21)
    checks.fits('field', 3, 2**21)
    with pytest.raises(errors.InvalidError) as caught:
        checks.fits('field', 3, 2**22)
    assert (
        str(caught.value)
        == '`field` must fit into memory, got 3: 4.0 MiB, where 2.0 MiB are free.'
    )


def test_small_arrays_fit_without_a_look_at_memory(monkeypatch):
    monkeypatch.setattr(checks.memory, 'host_bytes', lambda: pytest.fail('looked'))
    checks.fits('field', 3, 2**20)


def test_an_error_under_its_own_root_can_be_raised_from_itself():
    with pytest.raises(errors.InvalidError) as caught, errors.context('config.links'):
        raise errors.invalid('config.links.p', 'lie in [0, 1]', 2)
    first, second = errors.causes(caught.value)
    assert first is not second
    assert str(first) == str(second) == '`config.links.p` must lie in [0, 1], got 2.'
    first.__cause__ = first
    assert errors.causes(first) == [first]
