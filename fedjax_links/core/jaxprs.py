"""Traced functions: what they compute, apart from the arrays that they close over.

Two functions of equal structure compute the same of other numbers, so one program serves both.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend import core as jax_core

from fedjax_links.base import PyTree


class Traced(NamedTuple):
    """A function as traced.

    Attributes:
      structure: equal for functions that differ in closed-over arrays alone.
      constants: those arrays.
      shapes: shapes and dtypes of the outputs.
      bind: ``constants -> function``, which computes as the traced one with other arrays.
    """

    structure: Hashable
    constants: Sequence[Any]
    shapes: PyTree
    bind: Callable[[Sequence[Any]], Callable[..., PyTree]]


def trace(function: Callable[..., PyTree], *inputs: PyTree) -> Traced:
    """Traces a function and splits off the arrays that it closes over.

    Numbers that are no arrays stay in the structure, as they may decide what is compiled.

    Args:
      function: of pytrees, without side effects.
      *inputs: what it takes, or the shapes.

    Returns:
      The function, to be called within other traced functions.
    """
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(*inputs)
    out_kind = jax.tree.structure(shapes)

    def bind(constants: Sequence[Any]) -> Callable[..., PyTree]:
        compute = jax_core.jaxpr_as_fun(jax_core.ClosedJaxpr(closed.jaxpr, constants))

        def bound(*inputs: PyTree) -> PyTree:
            return jax.tree.unflatten(out_kind, compute(*jax.tree.leaves(inputs)))

        return bound

    structure = jax.tree.structure(inputs), out_kind, _of_jaxpr(closed.jaxpr)
    return Traced(structure, [_as_array(a) for a in closed.consts], shapes, bind)


class _Itself:
    """A value without a hash, equal to itself alone."""

    def __init__(self, value: Any) -> None:
        """Keeps the value alive, so that no other one takes its identity."""
        self.value = value

    def __eq__(self, other: object) -> bool:
        """Whether it is the same object."""
        return isinstance(other, _Itself) and self.value is other.value

    def __hash__(self) -> int:
        """Of the object."""
        return id(self.value)


def _as_array(constant: Any) -> Any:
    return constant if isinstance(constant, jax.Array) else np.asarray(constant)


def _of_jaxpr(jaxpr: Any) -> Hashable:
    """The equations of a jaxpr, with its variables by number."""
    numbers: dict[Any, int] = {}

    def number_of(variable: Any) -> Hashable:
        if isinstance(variable, jax_core.Literal):
            return _of_array(variable.val), variable.aval
        return numbers.setdefault(variable, len(numbers))

    inputs = [(number_of(v), v.aval) for v in (*jaxpr.constvars, *jaxpr.invars)]
    equations = [
        (
            equation.primitive,
            tuple(map(number_of, equation.invars)),
            _of_param(equation.params),
            tuple((number_of(v), v.aval) for v in equation.outvars),
        )
        for equation in jaxpr.eqns
    ]
    outputs = tuple(map(number_of, jaxpr.outvars))
    return len(jaxpr.constvars), tuple(inputs), tuple(equations), outputs


def _of_param(value: Any) -> Hashable:
    """What a parameter of an equation is; a value that cannot be compared is like itself alone."""
    if isinstance(value, jax_core.ClosedJaxpr):
        return _of_jaxpr(value.jaxpr), tuple(map(_of_array, value.consts))
    if isinstance(value, jax_core.Jaxpr):
        return _of_jaxpr(value)
    if isinstance(value, Mapping):
        return tuple((name, _of_param(value[name])) for name in sorted(value))
    if isinstance(value, list | tuple):
        return type(value), tuple(map(_of_param, value))
    if isinstance(value, np.ndarray):
        return _of_array(value)
    try:
        hash(value)
    except TypeError:
        return _Itself(value)
    return value


def _of_array(value: Any) -> Hashable:
    """The bits of an array or number."""
    if isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        return value.dtype, _of_array(jax.random.key_data(value))
    array = np.asarray(value)
    return array.dtype, array.shape, array.tobytes()
