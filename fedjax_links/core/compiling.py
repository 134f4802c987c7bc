"""Functions of objects and arrays, compiled once for the same objects and forgotten with them.

What calls a jitted function again and again with the same functions inside should not compile anew.
Programs are found by the functions that they were made of, which are referred to weakly: no program
keeps an algorithm, a pattern or a user's function alive, and where one of them is gone so is the
program.
"""

import concurrent.futures
import functools
import threading
import types
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

import jax
import numpy as np
from jax.extend.core import get_opaque_trace_state

_PROGRAMS: dict[Hashable, '_Program'] = {}


class _Program:
    """A jitted function; its objects are there while it is called, and it is traced then.

    Attributes:
      references: weak ones to the functions that it was made of.
      compiled: ``arrays -> result``.
    """

    def __init__(
        self, fn: Callable[..., Any], references: list[weakref.ref[Any]]
    ) -> None:
        self.references, self._given = references, threading.local()
        self.compiled = jax.jit(lambda *arrays: fn(*self._given.objects, *arrays))

    def __call__(self, objects: tuple[Any, ...], arrays: tuple[Any, ...]) -> Any:
        self._given.objects = objects
        try:
            return self.compiled(*arrays)
        finally:
            del self._given.objects


def call(fn: Callable[..., Any], objects: tuple[Any, ...], *arrays: Any) -> Any:
    """Calls ``fn(*objects, *arrays)``, compiled unless that is the caller's to do.

    Args:
      fn: a function of a module.
      objects: functions, named tuples of functions, and plain values; the same ones find the same
        program.
      *arrays: pytrees of arrays.

    Returns:
      What the function returns. Inside a trace, or with objects or arrays that no program can be
      found by, it is called as it is.
    """
    leaves = [*_leaves_of(objects)]
    functions = [leaf for leaf in leaves if callable(leaf)]
    if not (_is_outside() and _can_be_found(functions) and _can_be_passed(arrays)):
        return fn(*objects, *arrays)
    key = (fn, *(id(leaf) if callable(leaf) else leaf for leaf in leaves))
    try:
        program = _PROGRAMS.get(key)
        if program is None:
            forget = functools.partial(_forget, _PROGRAMS, key)
            program = _Program(
                fn, [weakref.ref(function, forget) for function in functions]
            )
            _PROGRAMS[key] = program
    except TypeError:  # what cannot be hashed, or referred to weakly
        return fn(*objects, *arrays)
    return program(objects, arrays)


def _forget(programs: dict[Hashable, _Program], key: Hashable, _: Any) -> None:
    """Drops a program, of whose functions one is gone; at the very end, too, without a word."""
    programs.pop(key, None)


def _leaves_of(objects: Iterable[Any]) -> Iterator[Any]:
    """The functions and plain values of objects, one after the other."""
    for thing in objects:
        if isinstance(thing, tuple):
            yield from _leaves_of(thing)
        else:
            yield thing


def _can_be_found(functions: list[Any]) -> bool:
    """Whether functions live as long as whoever holds them; a method is made anew at each look."""
    fleeting = types.MethodType | types.BuiltinMethodType
    return not any(isinstance(function, fleeting) for function in functions)


def _can_be_passed(arrays: Any) -> bool:
    """Whether all leaves are arrays, and what is static can be compared."""
    leaves, structure = jax.tree.flatten(arrays)
    try:
        hash(structure)
    except TypeError:
        return False
    return all(isinstance(leaf, jax.Array | np.ndarray | np.generic) for leaf in leaves)


@functools.cache
def _outside() -> Any:
    """What JAX's state is outside of any trace: a thread begins there."""
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        return executor.submit(get_opaque_trace_state).result()


def _is_outside() -> bool:
    """Whether nothing is being traced or transformed here."""
    return bool(get_opaque_trace_state() == _outside())
