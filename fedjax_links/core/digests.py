"""Computes digests of what a run is made of: arrays, and programs as JAX traces them.

Equal digests mean equal content. A digest of a program covers its operations, their parameters and
the constants that it holds. It does not depend on names of functions, on comments, or on where
in memory anything lies. Digests of programs compare under one version of JAX.
"""

import functools
import hashlib
import inspect
import re
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

_NAMES_ONLY = {'name', 'debug_info', 'source_info'}
"""Parameters of operations that change no result."""
_CALLS_THE_HOST = ('pure_callback', 'io_callback')
_ADDRESS = re.compile(r' at 0x[0-9a-f]+')
_CHUNK_BYTES = 2**24

ArrayOrNumber: TypeAlias = jax.Array | np.ndarray | np.generic | float


def combine(parts: Sequence[str]) -> str:
    """Returns one digest of several."""
    return hashlib.sha256('\n'.join(parts).encode()).hexdigest()


def of_bytes(content: bytes) -> str:
    """Returns the digest of the content of a file."""
    return hashlib.sha256(content).hexdigest()


def of_array(array: ArrayOrNumber) -> str:
    """Returns the digest of an array: its dtype, its shape and every entry."""
    values = _plain(array)
    header = f'{values.dtype.str} {values.shape}'
    if values.ndim == 0 or values.size == 0:
        return of_bytes(header.encode() + values.tobytes())
    return of_bytes(header.encode() + row_hashes(values).tobytes())


def row_hashes(array: ArrayOrNumber) -> np.ndarray:
    """Hashes each row of an array.

    Args:
      array: [E, ...], of any dtype.

    Returns:
      uint64[E]. Rows with equal bytes have equal hashes; different rows differ but for one chance
      in 2**63.
    """
    values = _plain(array)
    count = len(values)
    if count == 0:
        return np.zeros(0, np.uint64)
    row_bytes = values.nbytes // count
    num_words = -(-row_bytes // 8)
    weights = np.random.default_rng(0).integers(0, 2**63, num_words, dtype=np.uint64)
    weights = weights * np.uint64(2) + np.uint64(1)
    hashes = np.empty(count, np.uint64)
    step = max(1, _CHUNK_BYTES // max(1, row_bytes))
    for first in range(0, count, step):
        rows = np.ascontiguousarray(values[first : first + step])
        row_content = rows.reshape(len(rows), -1).view(np.uint8)
        padded = np.zeros((len(rows), 8 * num_words), np.uint8)
        padded[:, :row_bytes] = row_content.reshape(len(rows), -1)
        words = padded.view(np.uint64)
        mixed = (words ^ (words >> np.uint64(31))) * weights
        mixed = mixed ^ (mixed >> np.uint64(29))
        hashes[first : first + step] = mixed.sum(axis=1, dtype=np.uint64)
    return hashes


def of_tree(tree: PyTree) -> str:
    """Returns the digest of all leaves of a pytree with their paths."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return combine(
        [f'{jax.tree_util.keystr(path)} {of_array(leaf)}' for path, leaf in leaves]
    )


def of_program(function: Callable[..., PyTree], *arguments: PyTree) -> str:
    """Traces a function and returns the digest of what it computes.

    Args:
      function: pure, as for `jax.jit`.
      *arguments: pytrees of arrays or of their shapes. Their values do not matter.

    Returns:
      The digest.
    """
    return of_jaxpr(jax.make_jaxpr(function)(*arguments))


def of_jaxpr(closed: jax_core.ClosedJaxpr) -> str:
    """Returns the digest of a `jax.extend.core.ClosedJaxpr`, its constants among it."""
    return _ProgramDigests().closed(closed)


def of_structure(jaxpr: jax_core.Jaxpr) -> str:
    """Returns the digest of a `jax.extend.core.Jaxpr`, whatever its own constants are."""
    return _ProgramDigests().open(jaxpr)


class _ProgramDigests:
    """Computes digests of jaxprs; that of a program inside programs is computed once."""

    def __init__(self) -> None:
        # By id; the jaxprs stay alive, so that no other gets the id of one.
        self._known: dict[int, tuple[Any, str]] = {}

    def closed(self, program: jax_core.ClosedJaxpr) -> str:
        """Returns the digest of a closed jaxpr, its constants included."""
        constants = [of_array(value) for value in program.consts]
        return combine([self.open(program.jaxpr), *constants])

    def open(self, jaxpr: jax_core.Jaxpr) -> str:
        """Returns the digest of a jaxpr."""
        if id(jaxpr) in self._known:
            _, digest = self._known[id(jaxpr)]
            return digest
        # Variables are numbered in the order in which they come up.
        numbers: dict[Any, int] = {}

        def define(variable: jax_core.Var) -> str:
            numbers[variable] = len(numbers)
            return f'{numbers[variable]}:{variable.aval}'

        def use(atom: jax_core.Var | jax_core.Literal) -> str:
            if isinstance(atom, jax_core.Literal):
                return f'{atom.aval}={self.value(atom.val)}'
            return str(numbers[atom])

        lines = [' '.join(define(v) for v in [*jaxpr.constvars, *jaxpr.invars])]
        for equation in jaxpr.eqns:
            inputs = ' '.join(use(atom) for atom in equation.invars)
            if equation.primitive.name in _CALLS_THE_HOST:
                callback = equation.params['callback']
                host_function = getattr(callback, 'callback_func', None)
                inputs = f'{inputs} {_HostCode().of(host_function)}'
            params = self._params(equation)
            outputs = ' '.join(define(v) for v in equation.outvars)
            lines.append(f'{outputs} = {equation.primitive.name} {inputs} [{params}]')
        lines.append(' '.join(use(atom) for atom in jaxpr.outvars))
        digest = combine(lines)
        self._known[id(jaxpr)] = jaxpr, digest
        return digest

    def _params(self, equation: jax_core.JaxprEqn) -> str:
        """Describes the parameters of an operation that may change its result."""
        return ' '.join(
            f'{name}={self.value(value)}'
            for name, value in sorted(equation.params.items())
            if name not in _NAMES_ONLY
        )

    def value(self, value: object) -> str:
        """Describes a parameter of an operation."""
        if isinstance(value, Mapping | set | frozenset | list | tuple):
            return self._collection(value)
        if isinstance(value, jax_core.ClosedJaxpr):
            return self.closed(value)
        if isinstance(value, jax_core.Jaxpr):
            return self.open(value)
        if isinstance(value, np.ndarray | np.generic | jax.Array):
            return of_array(value)
        if isinstance(value, str | int | float | complex | bool | type(None)):
            return repr(value)
        if callable(value) and not isinstance(value, type):
            # What it computes is traced into the program where it is used.
            return 'function'
        return _ADDRESS.sub('', repr(value))

    def _collection(self, values: Mapping[str, object] | Collection[object]) -> str:
        if isinstance(values, Mapping):
            return str({str(key): self.value(entry) for key, entry in values.items()})
        entries = [self.value(entry) for entry in values]
        if isinstance(values, set | frozenset):
            return str(sorted(entries))
        return f'{type(values).__name__}{entries}'


class _HostCode:
    """Describes functions of the host, which no jaxpr shows: their code and what it refers to."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def of(self, value: object) -> str:
        """Describes a function, or what one refers to."""
        if isinstance(value, np.ndarray | np.generic | jax.Array):
            return of_array(value)
        if isinstance(value, str | bytes | int | float | complex | bool | type(None)):
            return repr(value)
        if id(value) in self._seen:
            return 'known'
        self._seen.add(id(value))
        if isinstance(value, Mapping):
            return str({str(key): self.of(entry) for key, entry in value.items()})
        if isinstance(value, list | tuple):
            return str([self.of(entry) for entry in value])
        return self._of_code(value)

    def _of_code(self, value: object) -> str:
        """Describes what can be called, and code; anything else by its name."""
        if isinstance(value, functools.partial):
            return self.of([value.func, value.args, value.keywords])
        if isinstance(value, types.MethodType):
            return self.of([value.__func__, vars(value.__self__)])
        if isinstance(value, types.FunctionType) and not _is_of_library(value):
            return self._of_function(value)
        if isinstance(value, types.CodeType):
            return f'{value.co_code.hex()} {value.co_names} {self.of(value.co_consts)}'
        return str(getattr(value, '__qualname__', type(value).__qualname__))

    def _of_function(self, function: types.FunctionType) -> str:
        """Describes a user's function by its code, and by what that refers to."""
        code = function.__code__
        variables = inspect.getclosurevars(function)
        consts = [value for value in code.co_consts if value != function.__doc__]
        parts: list[Any] = [code.co_code.hex(), code.co_names, consts]
        parts += [function.__defaults__]
        parts += [function.__kwdefaults__, variables.nonlocals, variables.globals]
        return self.of(parts)


def _is_of_library(function: types.FunctionType) -> bool:
    file = Path(function.__code__.co_filename)
    # The cell of a notebook is no file.
    return file.is_file() and not errors.is_users_file(file)


def _plain(array: ArrayOrNumber) -> np.ndarray:
    """Returns a NumPy array with the bits of any array, those of typed keys too."""
    if isinstance(array, jax.Array) and jnp.issubdtype(
        array.dtype, jax.dtypes.prng_key
    ):
        array = jax.random.key_data(array)
    values = np.asarray(array)
    if values.dtype.kind in 'OUS':
        values = np.frombuffer(repr(values.tolist()).encode(), np.uint8)
    return np.ascontiguousarray(values) if values.ndim else values
