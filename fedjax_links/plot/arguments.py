"""Checks what pictures are drawn of; an error names the argument and its value."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links.core import checks, errors

_ROUNDING = 1e-6  # By which computed shares may leave [0, 1].


def by_label(argument: str, values: Any) -> dict[str, Any]:
    """Returns what is given by label as a dictionary, one entry at least, with texts as labels.

    Args:
      argument: the name of the argument.
      values: a mapping, or a data frame with a column per label.

    Raises:
      ValueError: for anything else.
    """
    is_by_label = hasattr(values, 'keys') and hasattr(values, '__getitem__')
    if not is_by_label or not len(values):
        raise errors.invalid(argument, 'be values by label', errors.text_of(values))
    return {str(label): values[label] for label in values}


def check_by_label(
    argument: str,
    by_label: object,
    shape: tuple[int, ...],
    labels: Collection[str],
    models: Collection[str] | None = None,
) -> Mapping[str, Any]:
    """Checks a mapping from labels to arrays, and returns it; an empty one for None.

    Args:
      argument: the name of the argument.
      by_label: numbers of one shape by label.
      shape: the shape of each label's numbers.
      labels: the labels that there are.
      models: the candidate models that there are, if each label has a mapping from models to
        numbers. None if each label has numbers.

    Raises:
      ValueError: for what is no mapping, an unknown label or model, another shape, or entries that
        are no numbers.
    """
    if by_label is None:
        return {}
    if not isinstance(by_label, Mapping):
        raise errors.invalid(argument, 'be values by label', errors.text_of(by_label))
    for label, values in by_label.items():
        checks.choice(argument, label, labels)
        if models is None:
            _check_shape(argument, label, values, shape)
            continue
        if not isinstance(values, Mapping):
            got = f'{errors.text_of(values)} for {label!r}'
            raise errors.invalid(argument, 'be values by label and model', got)
        for model, entry in values.items():
            checks.choice(argument, model, models)
            _check_shape(argument, label, entry, shape)
    return by_label


def _check_shape(
    argument: str, label: str, values: object, shape: tuple[int, ...]
) -> None:
    """Raises unless the values of a label are numbers of some shape."""
    array = checks.numbers(argument, values)
    if array.shape != shape:
        requirement = f'have shape {list(shape)} for each label'
        got = f'shape {list(array.shape)} for {label!r}'
        raise errors.invalid(argument, requirement, got)


def titles(**values: object) -> None:
    """Raises unless every argument, by name, is a text to show, or None for no text."""
    for argument, value in values.items():
        if value is not None:
            checks.text(argument, value)


def ordered_names(argument: str, names: Sequence[str]) -> tuple[str, ...]:
    """Converts names in order to a tuple; raises for a text or a set, and for other entries."""
    if isinstance(names, set | frozenset):
        raise errors.invalid(argument, 'have an order', errors.text_of(names))
    return checks.names(argument, names)


def finite_number(argument: str, value: object) -> None:
    """Raises unless ``value`` is one finite number."""
    checks.number(argument, checks.on_host(value))
    checks.finite(argument, checks.on_host(value))


def numbers(argument: str, values: object, shape: str) -> np.ndarray:
    """Returns numbers as float64, one at least, with as many axes as a shape such as ``[N, C]``.

    Args:
      argument: the name of the argument.
      values: a list or an array.
      shape: in letters; what an error says.

    Raises:
      ValueError: for anything else.
    """
    try:
        array = checks.numbers(argument, values).astype(np.float64)
    except errors.InvalidError as error:
        requirement = f'be numbers of shape {shape}'
        raise errors.invalid(argument, requirement, error.value) from None
    if array.ndim != len(shape.split(',')) or not array.size:
        value = f'shape {list(array.shape)}'
        raise errors.invalid(argument, f'be of shape {shape}', value)
    return array


def at_least_zero(argument: str, values: object, shape: str) -> np.ndarray:
    """Returns finite numbers of at least 0 as float64; ``shape`` as in `numbers`."""
    array = numbers(argument, values, shape)
    is_valid = np.isfinite(array) & (array >= 0)
    _check_entries(argument, array, is_valid, 'be finite and at least 0')
    return array


def shares(
    argument: str, values: object, shape: str, *, may_miss: bool = False
) -> np.ndarray:
    """Returns shares as float64, in [0, 1] up to rounding.

    Args:
      argument: the name of the argument.
      values: a list or an array.
      shape: as in `numbers`.
      may_miss: whether entries may be NaN, which stands for no share.

    Raises:
      ValueError: for another shape, or the first entry out of range.
    """
    array = numbers(argument, values, shape)
    is_valid = (array >= -_ROUNDING) & (array <= 1 + _ROUNDING)
    if may_miss:
        is_valid |= np.isnan(array)
    _check_entries(argument, array, is_valid, 'lie in [0, 1]')
    clipped: np.ndarray = np.clip(array, 0.0, 1.0)
    return clipped


def _check_entries(
    argument: str, array: np.ndarray, is_valid: np.ndarray, requirement: str
) -> None:
    """Raises for the first entry that is not valid."""
    if not is_valid.all():
        index = np.argwhere(~is_valid)[0]
        value = f'{array[tuple(index)]} at entry {", ".join(map(str, index))}'
        raise errors.invalid(argument, requirement, value)


def clients(argument: str, values: Any, num_clients: int) -> np.ndarray:
    """Returns the ids of clients, int64[K], such as a picture's clients in their order.

    Args:
      argument: the name of the argument.
      values: the ids.
      num_clients: N.

    Raises:
      ValueError: for what is no vector of integers in [0, N).
    """
    ids = checks.ids(argument, values)
    if ids.max() >= num_clients:
        position = int(np.argmax(ids))
        value = f'{ids[position]} at {position}'
        raise errors.invalid(argument, f'lie below {num_clients}', value)
    return ids


def truth_values(argument: str, values: object) -> np.ndarray:
    """Returns truth values, or numbers 0 and 1, as booleans; raises for other values."""
    try:
        array = np.asarray(values)
    except ValueError:  # Rows of unequal length.
        array = np.array(None)
    if array.dtype != bool and not np.isin(array, (0, 1)).all():
        raise errors.invalid(argument, 'hold truth values', errors.text_of(values))
    return array.astype(bool)


def mask(data: object, argument: str = 'mask') -> np.ndarray:
    """Returns bool[T, N] of truth values, or of numbers 0 and 1.

    Raises:
      ValueError: for another shape, or other values.
    """
    sizes = checks.shape(argument, data)
    if len(sizes) != 2 or 0 in sizes:
        got = f'shape {list(sizes)}'
        raise errors.invalid(argument, 'be a mask of shape [T, N]', got)
    return truth_values(argument, data)


def cells(argument: str, values: object, shape: tuple[int, ...]) -> np.ndarray:
    """Returns truth values of the cells of a map, bool[Y, X]; raises for another shape."""
    array = truth_values(argument, values)
    if array.shape != shape:
        requirement = f'be of shape {list(shape)}'
        raise errors.invalid(argument, requirement, list(array.shape))
    return array


def transitions(mask: np.ndarray, rates: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns both transition probabilities of clients, float64[N] each; None without rates.

    Args:
      mask: bool[T, N].
      rates: P(down -> up) and P(up -> down), numbers or vectors.

    Raises:
      ValueError: for rates of another shape, or out of range.
    """
    if rates is None:
        return None
    try:
        up_rate, down_rate = rates
    except (TypeError, ValueError):
        requirement = 'be two, P(down -> up) and P(up -> down)'
        raise errors.invalid('rates', requirement, errors.text_of(rates)) from None
    num_clients = mask.shape[1]
    for rate in (up_rate, down_rate):
        checks.within('rates', rate, 0, 1)
        if np.shape(rate) not in ((), (num_clients,)):
            value = f'shape {list(np.shape(rate))}'
            raise errors.invalid('rates', f'have {num_clients} entries each', value)
    up_rates = np.broadcast_to(np.float64(up_rate), num_clients)
    down_rates = np.broadcast_to(np.float64(down_rate), num_clients)
    return up_rates, down_rates
