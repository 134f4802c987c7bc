"""Digests of programs: equal for what computes the same, different for what does not."""

import subprocess
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links.core import digests
from tests import ROOT

X = jnp.zeros(2, jnp.float32)
SHAPE = jax.ShapeDtypeStruct((2,), jnp.float32)
FACTOR = 1.0


def first_host(x):
    return np.asarray(x) + 1


def second_host(x):
    return np.asarray(x) + 2


def asks_host(host):
    return lambda x: jax.pure_callback(host, SHAPE, x)


def scaled(scale):
    """Holds a constant in a closure."""

    def host(x):
        """Scales."""
        return np.asarray(x) * scale

    return host


def scaled_again(scale):
    def another_name(x):
        """Says something else."""
        return np.asarray(x) * scale  # with a comment

    return another_name


def by_global(x):
    return np.asarray(x) * FACTOR


def by_default(x, scale=1.0):
    return np.asarray(x) * scale


def by_other_default(x, scale=2.0):
    return np.asarray(x) * scale


class Scaling:
    """Holds a constant in an object."""

    def __init__(self, scale):
        """Keeps it."""
        self.scale = scale

    def method(self, x):
        """Scales by it."""
        return np.asarray(x) * self.scale

    def __call__(self, x):
        """Scales likewise."""
        return self.method(x)


class Slots:
    """Holds a constant in a slot."""

    __slots__ = ('scale',)

    def __init__(self, scale):
        """Keeps it."""
        self.scale = scale

    def method(self, x):
        """Scales by it."""
        return np.asarray(x) * self.scale


class PrivateSlots(Slots):
    """Holds another constant in a private slot."""

    __slots__ = '__offset'

    def __init__(self, offset):
        """Keeps it."""
        super().__init__(1.0)
        self.__offset = offset

    def method(self, x):
        """Adds it."""
        return super().method(x) + self.__offset


class DescribedSlots:
    """Holds a constant in a slot that has a description."""

    __slots__ = {'scale': 'the constant'}

    def __init__(self, scale):
        """Keeps it."""
        self.scale = scale

    def method(self, x):
        """Scales by it."""
        return np.asarray(x) * self.scale


class Doubling(Scaling):
    """Keeps the same constant and does something else with it."""

    def __call__(self, x):
        """Scales by its double."""
        return 2 * self.method(x)


def by_attribute(options):
    """Holds an object in a closure, and a constant in that."""
    return lambda x: np.asarray(x) * options.scale


def within(x):
    """Refers to a global in a function within it."""
    return np.stack([entry * FACTOR for entry in np.asarray(x)])


def plus(constant):
    """A function whose constant is in its code."""
    return eval(f'lambda x: np.asarray(x) + {constant}', globals())


def summed(*functions):
    """A function that refers to several."""

    def host(x):
        return sum(function(x) for function in functions)

    return host


def of_host(host):
    return digests.hash_program(asks_host(host), X)


@pytest.mark.parametrize(
    'one, other',
    [
        (scaled(1.0), scaled(2.0)),
        (scaled(np.ones(2)), scaled(np.array([1.0, 2.0]))),
        (lambda x: np.asarray(x) + 1, lambda x: np.asarray(x) - 1),
        (lambda x: np.asarray(x) + 1, lambda x: np.asarray(x) + 2),
        (lambda x: np.sin(x), lambda x: np.cos(x)),
        (by_default, by_other_default),
        (Scaling(1.0).method, Scaling(2.0).method),
        (Scaling(1.0), Scaling(2.0)),
        (Scaling(1.0), Doubling(1.0)),
        (Slots(1.0).method, Slots(2.0).method),
        (PrivateSlots(1.0).method, PrivateSlots(2.0).method),
        (DescribedSlots(1.0).method, DescribedSlots(2.0).method),
        (by_attribute(Scaling(1.0)), by_attribute(Scaling(2.0))),
        (by_attribute(Slots(1.0)), by_attribute(Slots(2.0))),
        (
            by_attribute(types.SimpleNamespace(scale=1.0)),
            by_attribute(types.SimpleNamespace(scale=2.0)),
        ),
        (scaled(scaled(1.0)), scaled(scaled(2.0))),
        (summed(plus(1), plus(2), plus(3)), summed(plus(1), plus(2), plus(4))),
        (summed(np.sin, plus(2), plus(3)), summed(np.sin, plus(2), plus(5))),
        (
            summed(first_host, second_host, first_host),
            summed(first_host, second_host, second_host),
        ),
    ],
)
def test_another_function_of_the_host_is_another_program(one, other):
    assert of_host(one) != of_host(other)


def test_names_and_comments_of_a_host_function_change_nothing():
    assert of_host(scaled(2.0)) == of_host(scaled_again(2.0))


@pytest.mark.parametrize('host', [by_global, within])
def test_a_global_of_a_function_of_the_host_counts(host, monkeypatch):
    before = of_host(host)
    monkeypatch.setitem(globals(), 'FACTOR', 2.0)
    assert of_host(host) != before


def test_objects_of_equal_content_are_one_program():
    assert of_host(Scaling(2.0)) == of_host(Scaling(2.0))
    assert of_host(by_attribute(Slots(2.0))) == of_host(by_attribute(Slots(2.0)))


DIGEST = """
import jax
from fedjax_links.runner.identity import Identities
from tests.runner import made
print(Identities(made.PythonStudy().build().plan).run_identity().digest())
"""


@pytest.mark.slow
def test_another_process_finds_the_same_digests():
    results = {
        subprocess.run(
            [sys.executable, '-c', DIGEST],
            cwd=ROOT,
            env={'PYTHONHASHSEED': str(seed), 'PATH': ''},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in (0, 1)
    }
    assert len(results) == 1


def test_dtypes_of_one_byte_have_digests_of_their_own():
    dtypes = [jnp.int8, jnp.uint8, jnp.bool_, jnp.int4, jnp.uint4, jnp.float8_e4m3fn]
    distinct = set()
    for dtype in dtypes:
        array = np.ones(3, np.int8).view(jnp.dtype(dtype))
        distinct.add(digests.hash_array(array))
    assert len(distinct) == len(dtypes)
