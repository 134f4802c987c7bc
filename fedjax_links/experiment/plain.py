"""The values of a config before anything is made of them."""

import math
import re
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from fedjax_links import errors

_MAY_BE_UNKNOWN = 'prob'  # of `replay`, where NaN says that a probability is not known
_NOT_PLAIN = (bytes, bytearray, complex, set, frozenset)


def check(config: Mapping[str, Any], where: str = 'config') -> None:
    """Raises unless fields have names and every number is one that the engine can hold.

    Args:
      config: nested dictionaries and lists. Objects, such as a flax module that a script puts in,
        are not looked at.
      where: their place, for errors.

    Raises:
      ValueError: naming the field and its value.
    """
    for name, value in config.items():
        if not isinstance(name, str) or not name.strip():
            raise errors.invalid(where, 'have texts as names of its fields', errors.shown(name))
        _check_value(f'{where}.{name}', value)


def filled(text: str, config: Mapping[str, Any]) -> str:
    """A text with ``{config.problem.num_clients}`` and the like replaced by the value.

    So a caption tells what runs, whatever flags or a section ``quick`` made of it.

    Args:
      text: the text; other braces stay.
      config: what runs.

    Raises:
      ValueError: if there is no such field.
    """
    return re.sub(r'\{config\.([\w.]+)\}', lambda found: _shown(found[1], config), text)


def _shown(path: str, config: Mapping[str, Any]) -> str:
    value: Any = config
    for name in path.split('.'):
        if not isinstance(value, Mapping) or name not in value:
            raise errors.invalid('config.caption', 'name fields of the config', f'config.{path}')
        value = value[name]
    if isinstance(value, list | tuple):
        return ', '.join(map(str, value))
    return f'{value:,}' if isinstance(value, int) else str(value)


def _check_value(where: str, value: Any) -> None:
    if isinstance(value, Mapping):
        check(value, where)
    elif isinstance(value, list | tuple):
        for place, part in enumerate(value):
            _check_value(where if _is_number(part) else f'{where}[{place}]', part)
    elif isinstance(value, _NOT_PLAIN):
        raise errors.invalid(where, 'be a number, text, list or section', errors.shown(value))
    elif isinstance(value, np.ndarray | np.generic) and value.dtype.kind == 'f':
        if not _may_be_unknown(where) and not np.isfinite(value).all():
            raise errors.invalid(where, 'be finite', errors.shown(value))
    elif _is_number(value):
        _check_number(where, value)


def _may_be_unknown(where: str) -> bool:
    return where.partition('[')[0].endswith(f'.{_MAY_BE_UNKNOWN}')


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_number(where: str, value: float) -> None:
    if isinstance(value, int) and abs(value) >= 2**63:
        raise errors.invalid(where, 'be within 64 bits', errors.shown(value))
    if math.isnan(value) and _may_be_unknown(where):
        return
    if not math.isfinite(value):
        raise errors.invalid(where, 'be finite', value)
    largest = float(np.finfo(jnp.result_type(float)).max)
    if abs(value) > largest:
        raise errors.invalid(where, f'be at most {largest:.2g}, to be finite here', value)
