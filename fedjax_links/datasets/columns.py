"""Converts columns of data to arrays: numbers, images, classes, and names of owners."""

import functools
import io
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from fedjax_links.core import checks, errors
from fedjax_links.core.values import is_missing

_HOLD_NUMBERS = 'hold numbers, as np.unique(..., return_inverse=True)[1] makes of names'
_SMALLER = {
    'int64': np.int32,
    'uint64': np.int32,
    'float64': np.float32,
    'float128': np.float32,
    'longdouble': np.float32,
}
_DECODING = (OSError, SyntaxError, TypeError, ValueError, zlib.error)
"""What NumPy raises for rows that are not arrays, and Pillow for files that are not images."""


def as_array(argument: str, value: object) -> np.ndarray:
    """Converts to an array in the byte order of this machine, which JAX needs.

    Raises:
      ValueError: naming the argument, for rows of unequal length or masked entries.
    """
    checks.no_hidden_entries(argument, value)
    try:
        array = np.asarray(value)
    except ValueError:
        raise errors.invalid(
            argument, 'have one shape', errors.text_of(value)
        ) from None
    return array.astype(array.dtype.newbyteorder('='), copy=False)


def as_classes(array: np.ndarray) -> np.ndarray:
    """Converts flags, and floats that are all whole, to int32; leaves other arrays as they are."""
    if array.dtype == bool:
        return array.astype(np.int32)
    if array.dtype.kind != 'f' or not array.size:
        return array
    is_int32 = (np.abs(array) < 2**31) & (array == np.rint(array))  # False for NaN.
    return array.astype(np.int32) if is_int32.all() else array


def class_ids(argument: str, labels: ArrayLike) -> NDArray[np.int64]:
    """Returns a non-empty vector of classes, numbered from 0; see `as_classes`.

    Raises:
      ValueError: for another shape, or labels that are not whole numbers.
    """
    return checks.ids(argument, as_classes(checks.vector(argument, labels)))


def check_numbers(argument: str, array: np.ndarray) -> None:
    """Raises unless an array holds finite numbers or flags that JAX can hold.

    The error names the row. For texts, it says how to turn them into numbers.
    """
    if not (jnp.issubdtype(array.dtype, jnp.number) or array.dtype == bool):
        raise errors.invalid(argument, _HOLD_NUMBERS, array.dtype)
    finite = np.isfinite(array)
    if not finite.all():
        row = np.argwhere(np.atleast_1d(~finite))[0][0]
        raise errors.invalid(argument, 'be finite', f'not so in row {row}')
    check_fits(argument, array, jax.dtypes.canonicalize_dtype(array.dtype))


def check_rows(argument: str, array: np.ndarray, unit: str, count: int) -> None:
    """Raises unless there is one row of numbers for each unit, such as a label."""
    if not array.ndim or len(array) != count:
        requirement = f'have one row per {unit} ({count})'
        raise errors.invalid(argument, requirement, len(array) if array.ndim else array)
    check_numbers(argument, array)


def check_same_kind(
    argument: str, rows: np.ndarray, other: str, others: np.ndarray
) -> None:
    """Raises unless rows have the shape and the kind of the rows of another argument."""
    if rows.shape[1:] != others.shape[1:]:
        requirement = f'have examples of shape {list(others.shape[1:])}'
        raise errors.invalid(argument, requirement, list(rows.shape[1:]))
    if _kind_of_dtype(rows.dtype) != _kind_of_dtype(others.dtype):
        requirement = f'hold numbers of the kind of `{other}`, {others.dtype}'
        raise errors.invalid(argument, requirement, rows.dtype)


def _kind_of_dtype(dtype: Any) -> str:
    """Returns how a model reads numbers: as pixels in a byte, whole numbers, or real ones."""
    if dtype == np.uint8:
        return 'uint8'
    return 'real' if jnp.issubdtype(dtype, jnp.floating) else 'whole'


def check_fits(argument: str, array: np.ndarray, dtype: DTypeLike) -> None:
    """Raises for a number outside the range of the dtype that an array will have."""
    new_dtype = np.dtype(dtype)
    if not array.size or array.dtype.kind not in 'iuf':
        return
    if np.can_cast(array.dtype, new_dtype):
        return
    is_float = new_dtype.kind == 'f'
    limits: Any = np.finfo(new_dtype) if is_float else np.iinfo(new_dtype)
    is_outside = (array < limits.min) | (array > limits.max)  # False for NaN.
    if not is_outside.any():
        return
    index = tuple(np.argwhere(is_outside)[0])
    where = f' in row {index[0]}' if index else ''
    raise errors.invalid(
        argument, f'fit into {new_dtype.name}', f'{array[index]}{where}'
    )


def stack_rows(argument: str, rows: Iterable[object]) -> np.ndarray:
    """Stacks rows of numbers of one shape, or images of one size, into an array.

    Images are Pillow's, or mappings whose ``bytes`` Pillow decodes. One channel of 16 or 32 bits
    keeps its numbers, [height, width, 1]. 8 bits of grey (Pillow's mode ``L``) become uint8[height,
    width, 1]. All other images, such as black and white (mode ``1``), become uint8[height, width,
    3]. Numbers of 64 bits become 32, as is JAX's default.

    Args:
      argument: what to name in an error.
      rows: the rows: an array, a sequence, or a frame or series of ``pandas``. Columns of a frame
        hold numbers or flags.

    Raises:
      ValueError: if entries are not finite numbers, rows differ in shape, numbers do not fit into
        32 bits, or an image cannot be decoded without loss.
    """
    if hasattr(rows, 'columns') and hasattr(rows, 'iloc'):
        array = _stack_frame(argument, rows)
    else:
        rows = rows.to_numpy() if hasattr(rows, 'to_numpy') else rows
        is_stacked = isinstance(rows, np.ndarray) and rows.dtype != object
        array = as_array(argument, rows) if is_stacked else _stack(argument, rows)
    smaller = _SMALLER.get(array.dtype.name)
    if smaller is not None:
        check_fits(argument, array, smaller)
    check_numbers(argument, array)
    return array if smaller is None else array.astype(smaller)


stack_features = functools.partial(stack_rows, 'features')
stack_labels = functools.partial(stack_rows, 'labels')


def _stack(argument: str, rows: Iterable[object]) -> np.ndarray:
    """Stacks rows one by one; the error names the row."""
    arrays: list[np.ndarray] = []
    try:
        for row in rows:
            array = _row_of(argument, row)
            if array.dtype == object:
                raise errors.invalid(argument, _HOLD_NUMBERS, errors.text_of(row))
            arrays.append(array)
    except errors.InvalidError as error:
        got = f'{error.value} in row {len(arrays)}'
        raise errors.invalid(argument, error.requirement, got) from None
    except _DECODING as error:
        requirement = 'hold images, or numbers of one shape'
        got = f'{errors.describe(error)} in row {len(arrays)}'
        raise errors.invalid(argument, requirement, got) from None
    shapes = sorted({str(array.shape) for array in arrays})
    if len(shapes) > 1:
        raise errors.invalid(argument, 'have one shape', ' and '.join(shapes[:2]))
    return as_array(argument, np.stack(arrays)) if arrays else np.zeros(0)


def _row_of(argument: str, row: Any) -> np.ndarray:
    """Converts a row of numbers, an image or an encoded image to an array."""
    if isinstance(row, Mapping):
        row = _decode(argument, row)
    if hasattr(row, 'getbands'):
        return _pixels(argument, row)
    array = np.asarray(row)
    # An example is a row of flags and floats, which a frame holds as objects.
    return np.asarray(array.tolist()) if array.dtype == object else array


def _decode(argument: str, row: Mapping[str, Any]) -> Any:
    """Opens an image that is stored as ``bytes``."""
    from PIL import Image, UnidentifiedImageError  # slow to import, so only here

    if not row.get('bytes'):
        requirement = 'hold the `bytes` of every image'
        raise errors.invalid(argument, requirement, errors.text_of(dict(row)))
    try:
        return Image.open(io.BytesIO(row['bytes']))
    except UnidentifiedImageError:
        raise errors.invalid(
            argument, 'hold images that Pillow reads', 'other bytes'
        ) from None


def _pixels(argument: str, image: Any) -> np.ndarray:
    """Returns the numbers of an image [height, width, channels], none of which is clipped."""
    # Pillow reduces 16-bit colours to 8 bits when it decodes. Before that, `tile` names 16 bits.
    for tile in getattr(image, 'tile', ()):
        if not is_deep(image) and ';16' in str(tile[-1]):
            requirement = 'have 8 bits a channel where images are in colour'
            raise errors.invalid(argument, requirement, '16 bits')
    is_plain = image.mode in ('L', 'RGB') or is_deep(image)
    pixels = np.asarray(image if is_plain else image.convert('RGB'))
    return pixels if pixels.ndim == 3 else pixels[..., None]


def is_deep(image: Any) -> bool:
    """Returns whether an image of Pillow's has one channel of more than 8 bits."""
    mode: str = image.mode
    return mode in ('I', 'F') or mode.startswith('I;16')


def _stack_frame(argument: str, frame: Any) -> np.ndarray:
    """Stacks columns of numbers and flags as columns of a matrix; the error names the column."""
    columns = []
    for index, name in enumerate(frame.columns):
        column = frame.iloc[:, index].to_numpy()
        if column.dtype == object:
            column = np.asarray(column.tolist())
        where = f'column {errors.text_of(name)}'
        if column.ndim != 1 or column.dtype.kind not in 'biuf':
            requirement = 'hold numbers, as pandas.get_dummies makes of words'
            raise errors.invalid(argument, requirement, f'{column.dtype} in {where}')
        if column.dtype.kind == 'f' and not np.isfinite(column).all():
            row = int(np.argmax(~np.isfinite(column)))
            raise errors.invalid(
                argument, 'be finite', f'not so in row {row} of {where}'
            )
        columns.append(column)
    if not columns:
        raise errors.invalid(argument, 'have a column', 'none')
    return np.stack(columns, axis=1)


def number_owners(
    argument: str, owners: Any, names: Sequence[object] = ()
) -> tuple[NDArray[np.int32], tuple[object, ...]]:
    """Numbers owners by their names.

    Args:
      argument: what to name in an error.
      owners: [E], the name of each example's owner, all of one kind: texts, numbers, dates, ...
      names: names of the first clients, by number. All other owners get the numbers after these, in
        the sorted order of their names.

    Returns:
      The number of each example's owner, int32[E], and all names by number.

    Raises:
      ValueError: if an owner is missing, names are of several kinds, or ``names`` repeats a name.
    """
    if isinstance(names, str) or not isinstance(names, Iterable):
        got = errors.text_of(names)
        raise errors.invalid('names', 'be a list of names', got)
    first_names = _python_values(names)
    values = _as_list(argument, owners)
    rows = _first_rows(argument, values)
    _check_kinds(argument, rows, first_names)
    numbers = {name: number for number, name in enumerate(first_names)}
    if len(numbers) < len(first_names):
        raise errors.invalid(
            'names', 'hold each name once', errors.text_of(first_names)
        )
    for value in sorted(rows.keys() - numbers.keys()):
        numbers[value] = len(numbers)
    clients = np.fromiter((numbers[value] for value in values), np.int32, len(values))
    return clients, tuple(numbers)


def _first_rows(argument: str, owners: Sequence[Any]) -> dict[Any, int]:
    """Returns the first example of each owner; raises for an owner that is missing or no name."""
    rows: dict[Any, int] = {}
    for row, owner in enumerate(owners):
        try:
            rows.setdefault(owner, row)
        except TypeError:  # It cannot be hashed.
            got = errors.text_of(owner)
            requirement = 'name an owner by a text or a number'
            raise errors.invalid(argument, requirement, got) from None
    for owner, row in rows.items():
        if is_missing(owner):
            raise errors.invalid(argument, 'name an owner', f'none for example {row}')
    return rows


def _as_list(argument: str, owners: Any) -> list[Any]:
    """Lists owners as Python's own values."""
    requirement = 'have one entry per example'
    shape = getattr(owners, 'shape', None)
    if isinstance(owners, str | bytes) or (shape is not None and len(shape) != 1):
        raise errors.invalid(argument, requirement, f'shape {np.shape(owners)}')
    try:
        values = owners.tolist() if hasattr(owners, 'tolist') else list(owners)
    except TypeError:
        raise errors.invalid(argument, requirement, errors.text_of(owners)) from None
    if not values:
        raise errors.invalid(argument, requirement, 'shape (0,)')
    return _python_values(values)


def _python_values(values: Iterable[Any]) -> list[Any]:
    """Lists values, with NumPy's scalars as Python's own."""
    return [
        value.item() if isinstance(value, np.generic) else value for value in values
    ]


def _check_kinds(
    argument: str, rows: Mapping[object, int], names: Sequence[object]
) -> None:
    """Raises for names of several kinds, whose order and equality mean nothing."""
    first = next(iter(rows))
    for value, row in rows.items():
        if _kind(value) != _kind(first):
            got = f'{errors.text_of(first)} and, for example {row}, {errors.text_of(value)}'
            raise errors.invalid(
                argument, 'name owners by texts alone or numbers alone', got
            )
    for name in names:
        if _kind(name) != _kind(first):
            requirement = f'name owners as `names` does ({errors.text_of(name)}, ...)'
            raise errors.invalid(argument, requirement, errors.text_of(first))


def _kind(value: object) -> type[object]:
    """Returns the type that a value is compared as: float for all numbers."""
    return float if isinstance(value, int | float) else type(value)
