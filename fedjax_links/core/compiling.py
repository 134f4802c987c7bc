"""Compiles functions of objects and arrays once for the same objects, while the objects live.

A second call with the same algorithm, pattern and other functions should not compile again. So
compiled programs are cached by the functions that they were made from. The cache refers to these
functions weakly: no program keeps an algorithm, a pattern or a user's function alive. When one of
its functions is gone, a program is dropped.
"""

import concurrent.futures
import functools
import threading
import types
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

import jax
import numpy as np
from jax.extend.core import get_opaque_trace_state

from fedjax_links.base import PyTree

_Result = TypeVar('_Result')

_PROGRAMS: dict[Hashable, '_Program'] = {}


class _Program:
    """Holds a jitted function that refers to its objects only during a call.

    Attributes:
      references: weak references to the functions that the program was made from.
      compiled: ``arrays -> result``.
    """

    def __init__(
        self,
        fn: Callable[..., PyTree],
        references: list[weakref.ref[Callable[..., object]]],
    ) -> None:
        self.references = references
        self._current = threading.local()
        self.compiled = jax.jit(lambda *arrays: fn(*self._current.objects, *arrays))

    def __call__(
        self, objects: tuple[object, ...], arrays: tuple[PyTree, ...]
    ) -> PyTree:
        self._current.objects = objects
        try:
            return self.compiled(*arrays)
        finally:
            del self._current.objects


def call(
    fn: Callable[..., _Result], objects: tuple[object, ...], *arrays: PyTree
) -> _Result:
    """Calls ``fn(*objects, *arrays)``, compiled unless the caller is being traced.

    Args:
      fn: a function of a module.
      objects: functions, named tuples of functions, and plain values; the same ones share a
        program.
      *arrays: pytrees of arrays.

    Returns:
      What ``fn`` returns. Inside a trace ``fn`` is called uncompiled. It is also called uncompiled
      with objects or arrays that the cache cannot hold, such as bound methods.
    """
    leaves = list(_leaves_of(objects))
    functions = [leaf for leaf in leaves if callable(leaf)]
    if not (_is_outside_trace() and _are_lasting(functions) and _are_passable(arrays)):
        return fn(*objects, *arrays)
    # Values stand with their types: 2 and 2.0 are equal and make different programs.
    key = (
        fn,
        *(id(leaf) if callable(leaf) else (type(leaf), leaf) for leaf in leaves),
    )
    try:
        program = _cached_program(fn, key, functions)
    except TypeError:
        # An object cannot be hashed, or referred to weakly.
        return fn(*objects, *arrays)
    return program(objects, arrays)


def _cached_program(
    fn: Callable[..., PyTree], key: Hashable, functions: Sequence[Callable[..., object]]
) -> _Program:
    """Returns the program of a key, made if there is none."""
    program = _PROGRAMS.get(key)
    if program is None:
        forget = functools.partial(_forget, _PROGRAMS, key)
        references = [weakref.ref(function, forget) for function in functions]
        program = _Program(fn, references)
        _PROGRAMS[key] = program
    return program


def _forget(programs: dict[Hashable, _Program], key: Hashable, _: object) -> None:
    """Drops a program when one of its functions is gone, perhaps as the interpreter exits."""
    programs.pop(key, None)


def _leaves_of(objects: Iterable[object]) -> Iterator[object]:
    """Yields the functions and plain values of nested tuples."""
    for entry in objects:
        if isinstance(entry, tuple):
            yield from _leaves_of(entry)
        else:
            yield entry


def _are_lasting(functions: Sequence[object]) -> bool:
    """Returns whether no function is a method, of which each access makes a new object."""
    temporary = types.MethodType | types.BuiltinMethodType
    return not any(isinstance(function, temporary) for function in functions)


def _are_passable(arrays: PyTree) -> bool:
    """Returns whether all leaves are arrays and all static fields can be hashed."""
    leaves, structure = jax.tree.flatten(arrays)
    try:
        hash(structure)
    except TypeError:
        return False
    return all(isinstance(leaf, jax.Array | np.ndarray | np.generic) for leaf in leaves)


@functools.cache
def _state_outside_trace() -> object:
    """Returns JAX's trace state outside of any trace: the state in which a new thread begins."""
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        return executor.submit(get_opaque_trace_state).result()


def _is_outside_trace() -> bool:
    """Returns whether nothing is being traced or transformed here."""
    return bool(get_opaque_trace_state() == _state_outside_trace())
