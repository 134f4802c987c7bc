"""Checks arguments of the analysis functions; an error names the argument and its value."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from fedjax_links.core import errors
from fedjax_links.core.values import has_flag, has_hidden_entries

_LARGEST_INT = 2**63 - 1
_MAX_ROUNDS = 10**8  # A loop of this many rounds takes a quarter of an hour or more.


def require(is_valid: object, name: str, requirement: str, got: object) -> None:
    """Raises an error unless a condition holds."""
    if not is_valid:
        raise errors.invalid(name, requirement, got)


def require_value(is_valid: object, name: str, requirement: str, value: object) -> None:
    """Raises an error that shows a value of any size unless a condition holds."""
    # The text of a large chain or list takes long, so it is made only for an error.
    if not is_valid:
        raise errors.invalid(name, requirement, errors.text_of(value))


def as_array(name: str, values: object, requirement: str) -> np.ndarray:
    """Converts values of any kind to an array; raises for ragged rows and masked entries."""
    if has_hidden_entries(values):
        raise errors.invalid(name, errors.NO_MASKED_ENTRIES, errors.text_of(values))
    try:
        return np.asarray(values)
    except ValueError:
        raise errors.invalid(name, requirement, errors.text_of(values)) from None


def as_doubles(name: str, values: object) -> np.ndarray:
    """Returns real numbers as float64, or raises an error.

    A single True or False is no number, but a matrix of flags counts as zeros and ones.
    """
    array = as_array(name, values, 'hold numbers')
    is_flag = array.ndim < 2 and array.dtype.kind == 'b'
    if is_flag or not _has_numbers(array.dtype) or has_flag(values):
        raise errors.invalid(name, 'hold numbers', errors.text_of(values))
    return array.astype(np.float64)


def _has_numbers(dtype: np.dtype) -> bool:
    """Returns whether a dtype holds real numbers, including small floats such as bfloat16."""
    is_small_float = dtype.kind == 'V' and not dtype.name.startswith('void')
    return dtype.kind in 'fiub' or is_small_float


def checked_number(name: str, value: object) -> float:
    """Returns one real number as a float."""
    array = as_doubles(name, value)
    require_value(array.ndim == 0, name, 'be one number', value)
    return float(array)


def checked_at_least_zero(name: str, value: object) -> float:
    """Returns one finite real number of at least 0 as a float."""
    number = checked_number(name, value)
    require(0 <= number < np.inf, name, 'be finite and at least 0', value)
    return number


def checked_positive(name: str, value: object) -> float:
    """Returns one finite real number above 0 as a float."""
    number = checked_number(name, value)
    require(0 < number < np.inf, name, 'be positive and finite', value)
    return number


def checked_prob(name: str, value: object) -> float:
    """Returns one probability, or another number in [0, 1], as a float."""
    number = checked_number(name, value)
    require(0 <= number <= 1, name, 'lie in [0, 1]', value)
    return number


def checked_contraction(learning_rate: object, local_steps: Any) -> float:
    """Returns ``(1 - eta)^s``, by which local steps scale the distance to a target."""
    rate = checked_number('learning_rate', learning_rate)
    require(0 < rate < 2, 'learning_rate', 'lie in (0, 2)', learning_rate)
    steps = checked_int('local_steps', local_steps, minimum=1)
    return float((1.0 - rate) ** steps)


def checked_kind(name: str, value: object, kind: type, what: str) -> None:
    """Raises unless ``value`` is an object of the class ``kind``; ``what`` describes the class."""
    require_value(isinstance(value, kind), name, f'be {what}', value)


def checked_shape(
    name: str, array: np.ndarray, shape: tuple[int, ...], what: str
) -> np.ndarray:
    """Returns one number, or numbers of a shape, as an array of that shape.

    Args:
      name: name of the argument.
      array: value of the argument.
      shape: the shape that an array of several numbers must have.
      what: the shape in words.
    """
    fits = array.shape in ((), shape)
    require(fits, name, f'be one number or {what}', f'shape {array.shape}')
    return np.broadcast_to(array, shape)


def checked(
    name: str,
    array: np.ndarray,
    is_valid: np.ndarray,
    requirement: str,
    where: str = '',
) -> np.ndarray:
    """Returns ``array``, or raises an error for its first entry that is not valid.

    Args:
      name: name of the argument.
      array: value of the argument.
      is_valid: bool, of the shape of ``array``.
      requirement: what every entry must do.
      where: text that the error adds after the entry; ``{}`` stands for the entry's index.
    """
    if not np.all(is_valid):
        first = int(np.argmin(is_valid))
        got = f'{array.flat[first]}{where.format(first)}'
        raise errors.invalid(name, requirement, got)
    return array


def checked_vector(name: str, values: ArrayLike, *, axis: str = 'client') -> np.ndarray:
    """Returns `values` as a finite, non-empty float64 vector.

    Args:
      name: name of the argument.
      values: value of the argument.
      axis: what each entry belongs to, for the error.
    """
    vector = as_doubles(name, values)
    is_valid = vector.ndim == 1 and vector.size > 0
    require(is_valid, name, 'be a non-empty vector', f'shape {vector.shape}')
    return checked(name, vector, np.isfinite(vector), 'be finite', f' at {axis} {{}}')


def checked_probs(name: str, values: ArrayLike, *, axis: str = 'client') -> np.ndarray:
    """Returns `values` as a float64 vector of probabilities, one for each of ``axis``."""
    vector = checked_vector(name, values, axis=axis)
    is_prob = (vector >= 0) & (vector <= 1)
    return checked(name, vector, is_prob, 'lie in [0, 1]', f' at {axis} {{}}')


def checked_some_link(name: str, values: ArrayLike) -> np.ndarray:
    """Returns probabilities of links; raises if all are zero, as no round would have uploads."""
    vector = checked_probs(name, values)
    require(vector.any(), name, 'hold a positive probability', 'only zeros')
    return vector


def checked_law(name: str, values: ArrayLike, *, axis: str = 'client') -> np.ndarray:
    """Returns a probability law over ``axis``: non-negative and summing to 1 up to rounding."""
    vector = checked_probs(name, values, axis=axis)
    total = float(vector.sum())
    require(abs(total - 1.0) <= 1e-6, name, 'sum to 1', total)
    return vector


def check_stochastic(
    name: str, matrix: np.ndarray | sparse.csr_array, *, tolerance: float
) -> None:
    """Raises unless entries are at least 0 and rows sum to 1 up to a tolerance."""
    is_sparse = isinstance(matrix, sparse.csr_array)
    entries = np.asarray(matrix.data if is_sparse else matrix)
    checked(name, entries, entries >= 0, 'have entries of at least 0')
    row_sums = matrix.sum(axis=1)
    is_stochastic = np.abs(row_sums - 1.0) < tolerance
    checked(name, row_sums, is_stochastic, 'have rows that sum to 1', ' in row {}')


def checked_weights(name: str, values: ArrayLike) -> np.ndarray:
    """Returns `values` as a vector of positive selection weights (their scale is free)."""
    vector = checked_vector(name, values)
    return checked(name, vector, vector > 0, 'be positive', ' at client {}')


def checked_client_weights(name: str, values: ArrayLike) -> np.ndarray:
    """Returns `values` as a vector of weights; some weights may be zero, but not all."""
    vector = checked_vector(name, values)
    checked(name, vector, vector >= 0, 'be at least 0', ' at client {}')
    require(vector.any(), name, 'hold a positive weight', 'only zeros')
    return vector


def checked_rate(name: str, values: ArrayLike) -> np.ndarray:
    """Returns transition probabilities of any shape as float64."""
    array = as_doubles(name, values)
    require_value(array.size, name, 'hold numbers', values)
    return checked(name, array, (array >= 0) & (array <= 1), 'lie in [0, 1]')


def checked_targets(name: str, values: ArrayLike, num_clients: int) -> np.ndarray:
    """Returns per-client optima as finite float64 of shape [N] or [N, d]."""
    array = as_doubles(name, values)
    if array.ndim not in (1, 2) or array.shape[0] != num_clients:
        raise errors.invalid(
            name, f'have shape [{num_clients}] or [{num_clients}, d]', array.shape
        )
    return checked(name, array, np.isfinite(array), 'be finite')


def checked_masks(
    name: str, values: ArrayLike, *, ndim: int | None = None
) -> np.ndarray:
    """Returns participation masks as bool[..., N]; integers 0 and 1 are accepted."""
    array = as_array(name, values, 'be boolean')
    if array.ndim == 0 or array.size == 0 or (ndim is not None and array.ndim != ndim):
        expected = '[T, N]' if ndim == 2 else '[..., N]'
        raise errors.invalid(name, f'be non-empty {expected}', f'shape {array.shape}')
    if array.dtype != np.bool_:
        checked(name, array, (array == 0) | (array == 1), 'be boolean')
    return array.astype(bool, copy=False)


def checked_int(
    name: str, value: Any, *, minimum: int, maximum: int | None = _LARGEST_INT
) -> int:
    """Returns ``value`` as a Python int in range; floats and booleans are refused."""
    is_int = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_int or value < minimum:
        got = errors.text_of(value)
        raise errors.invalid(name, f'be an integer of at least {minimum}', got)
    if maximum is not None and value > maximum:
        raise errors.invalid(name, f'be at most {maximum}', value)
    return int(value)


def check_memory(name: str, value: object, num_bytes: int) -> None:
    """Raises if the system has no memory for an array of ``num_bytes``, which an argument sets."""
    try:
        np.empty(num_bytes, np.uint8)  # The system reserves memory and fills nothing.
    except (MemoryError, ValueError):
        shown = value if isinstance(value, str) else errors.text_of(value)
        got = f'{shown}, which takes {min(num_bytes, 10**300):.3g} bytes'
        raise errors.invalid(name, 'fit into memory', got) from None


def checked_length(name: str, value: Any, *, minimum: int, num_bytes: int = 16) -> int:
    """Returns the length of an array as a Python int; raises if memory cannot hold the array.

    Args:
      name: name of the argument.
      value: value of the argument.
      minimum: the least valid value.
      num_bytes: bytes of each entry of the array.
    """
    length = checked_int(name, value, minimum=minimum, maximum=None)
    check_memory(name, value, num_bytes * length)
    return length


def checked_rounds(name: str, value: Any, *, minimum: int, num_bytes: int = 0) -> int:
    """Returns a loop's number of rounds as a Python int; raises if the loop would take too long.

    Args:
      name: name of the argument.
      value: value of the argument.
      minimum: the least valid value.
      num_bytes: bytes that each round adds to the result.
    """
    rounds = checked_int(name, value, minimum=minimum, maximum=None)
    check_memory(name, value, num_bytes * rounds)
    requirement = f'be at most {_MAX_ROUNDS:,}, as rounds run one after another'
    require_value(rounds <= _MAX_ROUNDS, name, requirement, value)
    return rounds


def checked_flag(name: str, value: object) -> bool:
    """Returns True or False as a Python bool; raises for any other value."""
    is_flag = isinstance(value, bool | np.bool_)
    require_value(is_flag, name, 'be True or False', value)
    return bool(value)


def checked_choice(name: str, value: object, valid: Iterable[str]) -> str:
    """Returns ``value`` if it is one of the valid names; raises otherwise."""
    names = list(valid)
    requirement = f'be one of {", ".join(map(repr, names))}'
    if not isinstance(value, str) or value not in names:
        raise errors.invalid(name, requirement, errors.text_of(value))
    return value


def checked_survival(name: str, law: ArrayLike) -> np.ndarray:
    """Returns survival functions float64[..., L] of durations of at least one round."""
    array = as_doubles(name, law)
    has_entries = array.ndim > 0 and array.size > 0
    falls = has_entries and (np.diff(array, prepend=1.0) <= 0).all()
    if not falls or (array < 0).any() or (array[..., 0] != 1).any():
        raise errors.invalid(name, 'begin at 1 and fall to 0', errors.text_of(law))
    return array
