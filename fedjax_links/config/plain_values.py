"""Checks that a tree of plain values holds what a config may hold."""

import math
import re
from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np

from fedjax_links.core import errors


def check(path: str, value: object) -> None:
    """Raises unless all fields have names and the engine can hold every number.

    Other objects, such as a flax module that a script passes, are not checked.
    """
    match value:
        case Mapping():
            _check_section(path, value)
        case list() | tuple():
            for index, part in enumerate(value):
                # Errors name a long list of numbers as a whole, not the index of a number.
                is_number = isinstance(part, int | float)
                check(path if is_number else f'{path}[{index}]', part)
        case bytes() | bytearray() | complex() | set() | frozenset():
            requirement = 'be a number, text, list or section'
            raise errors.invalid(path, requirement, errors.text_of(value))
        case int():
            if abs(value) >= 2**63:
                raise errors.invalid(path, 'be within 64 bits', errors.text_of(value))
        case float():
            _check_float(path, value)


def _check_section(path: str, section: Mapping[object, object]) -> None:
    """Checks the names and the values of a section."""
    for name, part in section.items():
        if not isinstance(name, str) or not name.strip():
            requirement = 'have texts as names of its fields'
            raise errors.invalid(path, requirement, errors.text_of(name))
        check(f'{path}.{name}', part)


def _check_float(path: str, value: float) -> None:
    """Raises unless the engine can hold a number."""
    # The pattern `replay` takes probabilities, where NaN stands for an unknown probability.
    is_prob = re.sub(r'(\[\d+\])+$', '', path).endswith('.prob')
    if is_prob and math.isnan(value):
        return
    if not math.isfinite(value):
        raise errors.invalid(path, 'be finite', errors.text_of(value))
    largest = float(np.finfo(jnp.result_type(float)).max)
    if abs(value) > largest:
        limit = f'at most {largest:.2g}' if value > 0 else f'at least {-largest:.2g}'
        raise errors.invalid(path, f'be {limit}, to be finite here', value)
