"""Declares the fields of frozen dataclasses: meaning, type, default, example and check.

Code that builds, documents or checks a field reads its `Declaration`.
"""

import dataclasses
import functools
import inspect
import operator
import textwrap
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from fedjax_links.core import checks, errors, type_hints

Class = TypeVar('Class', bound=type[Any])
Check = Callable[[str, Any], None]
"""``(argument, value) -> None``; raises for a value that the field cannot have."""

REQUIRED = dataclasses.MISSING
"""The default of a field that must be set."""

_METADATA = 'declared'
_LINE_WIDTH = 88


@dataclasses.dataclass(frozen=True)
class Declaration:
    """Declares a field of a config.

    Attributes:
      name: the field's name.
      meaning: what the field is, as a sentence for the documentation.
      kind: the type of the field's values: without the type of items, and without None.
      default: its value if it is not set; `REQUIRED` for none.
      example: a value as a config writes it.
      check: raises for a value that the field cannot have; None if a check of the type is enough.
    """

    name: str
    meaning: str
    kind: Any
    default: Any
    example: Any
    check: Check | None

    def accepts(self, value: object) -> bool:
        """Returns whether a value is of the field's type; True and False are no numbers."""
        if isinstance(value, bool):
            return self.kind is bool
        members = get_args(self.kind) or (self.kind,)
        return any(isinstance(value, _RUNTIME_TYPES.get(m, m)) for m in members)


_RUNTIME_TYPES: Mapping[Any, Any] = {Sequence: (list, tuple), float: (int, float)}
"""By declared type, the types that values have in a config, if these differ from it."""


def declare(
    meaning: str,
    *,
    example: object,
    default: Any = REQUIRED,
    check: Check | None = None,
) -> Any:
    """Declares a field of a dataclass, in place of its default.

    Args:
      meaning: what the field is, as a sentence for the documentation.
      example: a value as a config writes it.
      default: the value if the field is not set.
      check: called with the field's path and its value, except for a default of None.

    Returns:
      The field, for the dataclass.
    """
    metadata = {_METADATA: (meaning, example, check)}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def declared(settings: type[Any]) -> dict[str, Declaration]:
    """Lists the fields that a dataclass declares, by name and in order."""
    kinds = get_type_hints(settings)
    declarations = {}
    for field in dataclasses.fields(settings):
        if _METADATA not in field.metadata:
            continue
        meaning, example, check = field.metadata[_METADATA]
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        declarations[field.name] = Declaration(
            name=field.name,
            meaning=meaning,
            kind=_outer_kind(kinds[field.name]),
            default=default,
            example=example,
            check=check,
        )
    return declarations


def _outer_kind(kind: Any) -> Any:
    """Returns a type without the type of its items, and a union without None."""
    is_union = get_origin(kind) in (Union, types.UnionType)
    members = get_args(kind) if is_union else (kind,)
    outer = [get_origin(member) or member for member in members]
    return functools.reduce(
        operator.or_, (kind for kind in outer if kind is not types.NoneType)
    )


def check_values(settings: Any, prefix: str = '') -> None:
    """Checks the declared fields of an instance, and converts NumPy's numbers to Python's.

    Args:
      settings: the instance of a frozen dataclass, in its ``__post_init__``.
      prefix: the path of its fields for errors, ``'tuning.'``.

    Raises:
      ValueError: naming the field.
    """
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, np.generic):  # JSON files hold plain numbers.
            object.__setattr__(settings, field.name, value.item())
    for name, declaration in declared(type(settings)).items():
        value = getattr(settings, name)
        is_absent = value is None and declaration.default is None
        if declaration.check is not None and not is_absent:
            declaration.check(f'{prefix}{name}', value)
        if not is_absent and not declaration.accepts(value):
            requirement = f'be {type_hints.describe_annotation(declaration.kind)}'
            raise errors.invalid(f'{prefix}{name}', requirement, errors.text_of(value))


def one_of(*names: str) -> Check:
    """Makes the check of a field that is one of some names."""
    return functools.partial(checks.choice, valid=names)


def integer(minimum: int = 1, maximum: int = checks.LARGEST_INT) -> Check:
    """Makes the check of a whole number in a range."""
    return functools.partial(checks.static_int, minimum=minimum, maximum=maximum)


def number_within(low: float, high: float) -> Check:
    """Makes the check of a number in a range."""
    return functools.partial(checks.number_within, low=low, high=high)


def documented(settings: Class) -> Class:
    """Writes the meanings of declared fields into the docstring of a dataclass.

    Args:
      settings: a dataclass whose docstring may describe further fields in a last section
        ``Attributes:``.

    Returns:
      The same class.
    """
    text = inspect.getdoc(settings) or ''
    if 'Attributes:' not in text:
        text = f'{text}\n\nAttributes:'
    lines = [
        textwrap.fill(
            f'{declaration.name}: {declaration.meaning}',
            _LINE_WIDTH,
            initial_indent='  ',
            subsequent_indent='    ',
        )
        for declaration in declared(settings).values()
    ]
    settings.__doc__ = '\n'.join([text, *lines])
    return settings
