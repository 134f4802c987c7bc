"""Computes digests of what a run is made of: arrays, and programs as JAX traces them.

Equal digests mean equal content, but for collisions of `row_hashes`. The digest of a program covers
the program's operations, the parameters of each operation, and the program's constants. The digest
does not depend on names of functions, on comments, or on where in memory anything lies. Digests of
programs compare under one version of JAX.
"""

import functools
import hashlib
import inspect
import json
import math
import re
import sys
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jax_core

from fedjax_links.base import PyTree
from fedjax_links.core import errors

_IGNORED_PARAMS = {'name', 'debug_info', 'source_info'}
"""Parameters of operations that change no result."""
_HOST_CALLBACKS = ('pure_callback', 'io_callback')
_ADDRESS = re.compile(r' at 0x[0-9a-f]+')
_CHUNK_BYTES = 2**24  # Of rows that are hashed at a time. Not measured.

ArrayOrNumber: TypeAlias = jax.Array | np.ndarray | np.generic | float


def combine(parts: Sequence[str]) -> str:
    """Combines digests, or other texts, into one digest."""
    return hashlib.sha256('\n'.join(parts).encode()).hexdigest()


def hash_bytes(content: bytes) -> str:
    """Returns the digest of the content of a file."""
    return hashlib.sha256(content).hexdigest()


def hash_json(values: object) -> str:
    """Returns the digest of plain values, whatever the order of their names."""
    return hash_bytes(json.dumps(values, sort_keys=True).encode())


def hash_array(array: ArrayOrNumber) -> str:
    """Returns the digest of an array: its dtype, its shape and every entry."""
    values = _plain(array)
    # NumPy writes all types of one byte from ml_dtypes, such as int4 and uint4, as `V1`.
    is_ambiguous = values.dtype.kind == 'V' and values.itemsize == 1
    dtype_name = values.dtype.name if is_ambiguous else values.dtype.str
    header = f'{dtype_name} {values.shape}'
    if values.ndim == 0 or values.size == 0:
        return hash_bytes(header.encode() + values.tobytes())
    return hash_bytes(header.encode() + row_hashes(values).tobytes())


def row_hashes(array: ArrayOrNumber) -> np.ndarray:
    """Hashes each row of an array.

    Args:
      array: [E, ...], of any dtype but texts.

    Returns:
      uint64[E]. Rows with equal bytes have equal hashes. Two random rows have equal hashes with
      probability 2^-64. The hash is fast and not cryptographic. Rows that differ in a few chosen
      bits, such as bits 30 and 61 of two words, can have equal hashes, too.
    """
    values = _plain(array)
    count = len(values)
    if count == 0:
        return np.zeros(0, np.uint64)
    row_bytes = values.nbytes // count
    num_words = math.ceil(row_bytes / 8)
    weights = np.random.default_rng(0).integers(0, 2**63, num_words, dtype=np.uint64)
    weights = weights * np.uint64(2) + np.uint64(1)  # Odd, so no product loses bits.
    hashes = np.empty(count, np.uint64)
    chunk_rows = max(1, _CHUNK_BYTES // max(1, row_bytes))
    for first in range(0, count, chunk_rows):
        rows = np.ascontiguousarray(values[first : first + chunk_rows])
        row_content = rows.reshape(len(rows), -1).view(np.uint8)
        padded = np.zeros((len(rows), 8 * num_words), np.uint8)
        padded[:, :row_bytes] = row_content
        words = padded.view(np.uint64)
        # A weighted sum alone is linear, so many rows that differ in few bits would collide. Shifts
        # before and after the product leave few rows that collide.
        mixed = (words ^ (words >> np.uint64(31))) * weights
        mixed = mixed ^ (mixed >> np.uint64(29))
        hashes[first : first + chunk_rows] = mixed.sum(axis=1, dtype=np.uint64)
    return hashes


def hash_tree(tree: PyTree) -> str:
    """Returns the digest of all leaves of a pytree with their paths."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return combine(
        [f'{jax.tree_util.keystr(path)} {hash_array(leaf)}' for path, leaf in leaves]
    )


def hash_program(function: Callable[..., PyTree], *arguments: PyTree) -> str:
    """Traces a function and returns the digest of what it computes.

    Args:
      function: pure, as for `jax.jit`.
      *arguments: pytrees of arrays or of their shapes. Their values do not matter.

    Returns:
      The digest.
    """
    return hash_jaxpr(jax.make_jaxpr(function)(*arguments))


def hash_jaxpr(closed: jax_core.ClosedJaxpr) -> str:
    """Returns the digest of a `jax.extend.core.ClosedJaxpr`, its constants included."""
    return _ProgramDigests().hash_closed_jaxpr(closed)


def hash_structure(jaxpr: jax_core.Jaxpr) -> str:
    """Returns the digest of a `jax.extend.core.Jaxpr`, whatever its own constants are."""
    return _ProgramDigests().hash_jaxpr(jaxpr)


class _ProgramDigests:
    """Computes digests of jaxprs, only once for a jaxpr that occurs several times."""

    def __init__(self) -> None:
        # Jaxprs and their digests, by id. Holding the jaxprs keeps ids from being reused.
        self._cache: dict[int, tuple[Any, str]] = {}

    def hash_closed_jaxpr(self, program: jax_core.ClosedJaxpr) -> str:
        """Returns the digest of a closed jaxpr, its constants included."""
        constants = [hash_array(value) for value in program.consts]
        return combine([self.hash_jaxpr(program.jaxpr), *constants])

    def hash_jaxpr(self, jaxpr: jax_core.Jaxpr) -> str:
        """Returns the digest of a jaxpr without its constants."""
        if id(jaxpr) in self._cache:
            _, digest = self._cache[id(jaxpr)]
            return digest
        # Variables are numbered in the order of their definitions.
        numbers: dict[Any, int] = {}

        def define(variable: jax_core.Var) -> str:
            numbers[variable] = len(numbers)
            return f'{numbers[variable]}:{variable.aval}'

        def use(atom: jax_core.Var | jax_core.Literal) -> str:
            if isinstance(atom, jax_core.Literal):
                return f'{atom.aval}={self._describe(atom.val)}'
            return str(numbers[atom])

        lines = [' '.join(define(v) for v in [*jaxpr.constvars, *jaxpr.invars])]
        for equation in jaxpr.eqns:
            inputs = ' '.join(use(atom) for atom in equation.invars)
            if equation.primitive.name in _HOST_CALLBACKS:
                callback = equation.params['callback']
                host_function = getattr(callback, 'callback_func', None)
                inputs = f'{inputs} {_HostCode().describe(host_function)}'
            params = self._params(equation)
            outputs = ' '.join(define(v) for v in equation.outvars)
            lines.append(f'{outputs} = {equation.primitive.name} {inputs} [{params}]')
        lines.append(' '.join(use(atom) for atom in jaxpr.outvars))
        digest = combine(lines)
        self._cache[id(jaxpr)] = jaxpr, digest
        return digest

    def _params(self, equation: jax_core.JaxprEqn) -> str:
        """Describes the parameters of an operation that may change its result."""
        return ' '.join(
            f'{name}={self._describe(value)}'
            for name, value in sorted(equation.params.items())
            if name not in _IGNORED_PARAMS
        )

    def _describe(self, value: object) -> str:
        """Describes a parameter of an operation."""
        if isinstance(value, Mapping | set | frozenset | list | tuple):
            return self._describe_collection(value)
        if isinstance(value, jax_core.ClosedJaxpr):
            return self.hash_closed_jaxpr(value)
        if isinstance(value, jax_core.Jaxpr):
            return self.hash_jaxpr(value)
        if isinstance(value, np.ndarray | np.generic | jax.Array):
            return hash_array(value)
        if isinstance(value, str | int | float | complex | bool | type(None)):
            return repr(value)
        if callable(value) and not isinstance(value, type):
            # A function's operations are traced into the program where the function is called.
            return 'function'
        return _ADDRESS.sub('', repr(value))

    def _describe_collection(
        self, values: Mapping[str, object] | Collection[object]
    ) -> str:
        """Describes several parameters; the parameters of a set in sorted order."""
        if isinstance(values, Mapping):
            return str(
                {str(key): self._describe(entry) for key, entry in values.items()}
            )
        entries = [self._describe(entry) for entry in values]
        if isinstance(values, set | frozenset):
            return str(sorted(entries))
        return f'{type(values).__name__}{entries}'


class _HostCode:
    """Describes functions of the host, whose code no jaxpr shows, and what they refer to."""

    def __init__(self) -> None:
        # The number of each value so far, by id. Holding the values keeps ids from being reused.
        self._seen: dict[int, tuple[int, object]] = {}

    def describe(self, value: object) -> str:
        """Describes a function, or a value that a function refers to."""
        if isinstance(value, np.ndarray | np.generic | jax.Array):
            return hash_array(value)
        if isinstance(value, str | bytes | int | float | complex | bool | type(None)):
            return repr(value)
        if id(value) in self._seen:
            number, _ = self._seen[id(value)]
            return f'value {number}'
        self._seen[id(value)] = len(self._seen), value
        if isinstance(value, Mapping):
            return str({str(key): self.describe(entry) for key, entry in value.items()})
        if isinstance(value, list | tuple):
            return str([self.describe(entry) for entry in value])
        if isinstance(value, set | frozenset):
            return str(sorted(self.describe(entry) for entry in value))
        return self._describe_code(value)

    def _describe_code(self, value: object) -> str:
        """Describes callables, code and objects of the user; anything else by its name."""
        if isinstance(value, functools.partial):
            return self.describe([value.func, value.args, value.keywords])
        if isinstance(value, types.MethodType):
            return self.describe([value.__func__, _state_of(value.__self__)])
        if isinstance(value, types.FunctionType) and not _is_of_library(value):
            return self._describe_function(value)
        if isinstance(value, types.CodeType):
            constants = self.describe(value.co_consts)
            return f'{value.co_code.hex()} {value.co_names} {constants}'
        if not _is_of_user(value):
            return str(getattr(value, '__qualname__', type(value).__qualname__))
        methods = [entry for entry in vars(type(value)).values() if callable(entry)]
        return f'object {self.describe([methods, _state_of(value)])}'

    def _describe_function(self, function: types.FunctionType) -> str:
        """Describes a user's function by its code, and by the values that the code refers to."""
        code = function.__code__
        variables = inspect.getclosurevars(function)
        parts = [
            code.co_code.hex(),
            code.co_names,
            [value for value in code.co_consts if value != function.__doc__],
            function.__defaults__,
            function.__kwdefaults__,
            variables.nonlocals,
            _globals_of(function),
        ]
        return self.describe(parts)


def _globals_of(function: types.FunctionType) -> dict[str, object]:
    """Returns the globals that a function, or a function inside it, refers to."""
    remaining_codes = [function.__code__]
    values: dict[str, object] = {}
    while remaining_codes:
        code = remaining_codes.pop()
        names = [name for name in code.co_names if name in function.__globals__]
        values.update({name: function.__globals__[name] for name in names})
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                remaining_codes.append(constant)
    return dict(sorted(values.items()))


def _state_of(value: object) -> dict[str, object]:
    """Returns the attributes of an object, also those in slots."""
    slots: list[str] = []
    for base in type(value).__mro__:
        for name, entry in vars(base).items():
            # The slot's name is the attribute's name, also for slots such as `__scale`.
            if isinstance(entry, types.MemberDescriptorType):
                slots.append(name)
    state = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return {**state, **getattr(value, '__dict__', {})}


def _is_of_user(value: object) -> bool:
    """Returns whether a value is an instance of a class in the user's code."""
    if isinstance(value, type | types.ModuleType):
        return False
    # The class of a namespace is Python's, but what the namespace holds is the user's.
    if isinstance(value, types.SimpleNamespace):
        return True
    module = sys.modules.get(type(value).__module__)
    if module is None or type(value).__module__ == 'builtins':
        return False
    file = getattr(module, '__file__', None)
    # Cells of a notebook are in a module without a file.
    if file is None:
        return type(value).__module__ == '__main__'
    return errors.is_users_file(Path(file))


def _is_of_library(function: types.FunctionType) -> bool:
    """Returns whether a function comes from an installed package, not from the user."""
    file = Path(function.__code__.co_filename)
    # The cell of a notebook is no file.
    return file.is_file() and not errors.is_users_file(file)


def _plain(array: ArrayOrNumber) -> np.ndarray:
    """Converts an array, also of typed keys, to NumPy; texts become bytes of their repr."""
    if isinstance(array, jax.Array) and jnp.issubdtype(
        array.dtype, jax.dtypes.prng_key
    ):
        array = jax.random.key_data(array)
    values = np.asarray(array)
    if values.dtype.kind in 'OUS':
        values = np.frombuffer(repr(values.tolist()).encode(), np.uint8)
    # NumPy makes a contiguous copy of a scalar a vector.
    return np.ascontiguousarray(values) if values.ndim else values
