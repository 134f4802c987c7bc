"""The values of a config before anything is made of them."""

import re
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from fedjax_links.config import trees
from fedjax_links.core import errors

_MAY_BE_UNKNOWN = 'prob'  # of `replay`, where NaN says that a probability is not known
_ABSENT = object()
_NOT_PLAIN = (bytes, bytearray, complex, set, frozenset)


def check(where: str, value: Any) -> None:
    """Raises unless fields have names and every number is one that the engine can hold.

    Args:
      where: the value's place, for errors.
      value: plain, or nested dictionaries and lists. Objects, such as a flax module that a script
        puts in, are not looked at.

    Raises:
      ValueError: naming the field and its value.
    """
    if isinstance(value, Mapping):
        for name, part in value.items():
            if not isinstance(name, str) or not name.strip():
                requirement = 'have texts as names of its fields'
                raise errors.invalid(where, requirement, errors.text_of(name))
            check(f'{where}.{name}', part)
    elif isinstance(value, list | tuple):
        for place, part in enumerate(value):
            check(where if isinstance(part, int | float) else f'{where}[{place}]', part)
    elif isinstance(value, _NOT_PLAIN):
        raise errors.invalid(where, 'be a number, text, list or section', errors.text_of(value))
    elif isinstance(value, int) and abs(value) >= 2**63:
        raise errors.invalid(where, 'be within 64 bits', errors.text_of(value))
    elif isinstance(value, float | np.ndarray | np.generic) and np.asarray(value).dtype.kind == 'f':
        known = np.asarray(value)
        if where.partition('[')[0].endswith(f'.{_MAY_BE_UNKNOWN}'):
            known = known[~np.isnan(known)]
        if not np.isfinite(known).all():
            raise errors.invalid(where, 'be finite', errors.text_of(value))
        largest = float(np.finfo(jnp.result_type(float)).max)
        if (abs(known) > largest).any():
            raise errors.invalid(where, f'be at most {largest:.2g}, to be finite here', value)


def fill_in(text: str, config: Mapping[str, Any]) -> str:
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
    value = trees.value_at(config, path.split('.'), _ABSENT)
    if value is _ABSENT:
        raise errors.invalid('config.caption', 'name fields of the config', f'config.{path}')
    if isinstance(value, list | tuple):
        return ', '.join(map(str, value))
    return f'{value:,}' if isinstance(value, int) else str(value)
