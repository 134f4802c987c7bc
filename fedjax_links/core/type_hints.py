"""Matches plain values of configs with annotations of parameters, and describes annotations.

A config holds plain values: numbers, text, lists, sections, None. The signature of a factory says
which of these values the factory takes. The factory itself checks ranges, and all that is not
plain: arrays, functions, parts of experiments.
"""

import inspect
import itertools
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Union, get_args, get_origin

import numpy as np
from numpy.typing import ArrayLike

_PLAIN = (bool, int, float, complex, str, bytes, list, tuple, Mapping, types.NoneType)
_NUMBERS = {int, float, complex}
_WORDS = {
    types.NoneType: 'None',
    bool: 'True or False',
    int: 'a whole number',
    float: 'a number',
    complex: 'a number',
    str: 'text',
}
_ITEMS = {int: 'whole numbers', float: 'numbers', str: 'names'}


def matches_annotation(value: object, annotation: Any) -> bool:
    """Returns whether a parameter takes a value; True where nothing is known.

    Args:
      value: anything; a value that is not plain always matches.
      annotation: the parameter's annotation.
    """
    # Parts of experiments are named tuples and have fields.
    is_plain = isinstance(value, _PLAIN) and not hasattr(value, '_fields')
    if not is_plain:
        return True
    members = set(_members(annotation))
    if Any in members or inspect.Parameter.empty in members:
        return True
    if isinstance(value, list | tuple):
        return _matches_list(value, members)
    if isinstance(value, bool) and members & _NUMBERS:
        # A flag is no number, although `ArrayLike` lists both.
        return bool in members and complex not in members
    return any(isinstance(value, _types(member)) for member in members)


def _matches_list(values: Sequence[object], members: Collection[Any]) -> bool:
    """Returns whether some member of a union takes a list, and every item of it."""
    if _is_array_like(members):
        return _is_array(values)
    list_types = [member for member in members if isinstance(values, _types(member))]
    return any(_matches_items(values, annotation) for annotation in list_types)


def _matches_items(values: Sequence[object], annotation: Any) -> bool:
    """Returns whether the items of a list match the annotation of the list."""
    if _is_fixed_tuple(annotation):
        # The factory checks the length.
        pairs = zip(values, get_args(annotation), strict=False)
        return all(matches_annotation(value, item) for value, item in pairs)
    item = _item(annotation)
    return all(matches_annotation(value, item) for value in values)


def describe_annotation(annotation: Any) -> str:
    """Says what a value of an annotation is: ``'a number or None'``."""
    members = _members(annotation)
    if Any in members:
        return 'anything'
    if _is_array_like(members):
        return 'a number or a list of numbers, or of lists of one length'
    covered: tuple[type, ...] = ()  # by "a number"
    if float in members:
        covered = (int,)
    if complex in members:  # As in `jax.typing.ArrayLike`, where flags are no numbers.
        covered = (int, bool)
    members = [member for member in members if member not in covered]
    descriptions = dict.fromkeys(map(_describe, members))
    return ' or '.join(filter(None, descriptions)) or 'of another kind'


def _describe(annotation: Any) -> str:
    """Says what a value of an annotation that is no union is; '' where users have no word."""
    origin = get_origin(annotation) or annotation
    if origin in _WORDS:
        return _WORDS[origin]
    if origin is Callable:
        return 'a function'
    if not _is_class(origin):
        return ''
    if issubclass(origin, Mapping):
        return 'a section'
    if _is_list_type(origin):
        item = _item(annotation)
        is_nested = get_origin(item) in (tuple, list, Sequence)
        return f'a list of {_ITEMS.get(item, "lists" if is_nested else "values")}'
    is_numeric = issubclass(origin, np.generic)
    if is_numeric or origin.__module__.startswith(('jax', 'numpy')):
        return ''
    return f'a {origin.__name__}'


def _types(annotation: Any) -> Any:
    """Returns the types of plain values of an annotation that is no union, for ``isinstance``."""
    origin = get_origin(annotation) or annotation
    if origin is float:
        return int, float
    if origin is complex:
        return int, float, complex
    if origin is Callable:
        return ()
    if not _is_class(origin):
        return object
    if issubclass(origin, Mapping):
        return Mapping
    return (list, tuple) if _is_list_type(origin) else origin


def _is_class(origin: object) -> bool:
    """Returns whether an annotation is a class that ``isinstance`` can test."""
    return isinstance(origin, type) and not getattr(origin, '_is_protocol', False)


def _is_list_type(origin: type) -> bool:
    """Returns whether values of a type stand as lists in a config."""
    if origin in _WORDS or hasattr(origin, '_fields'):
        return False
    return issubclass(origin, Collection)


def _item(annotation: Any) -> Any:
    """Returns the annotation that all items of a list have; Any if they differ."""
    if get_origin(annotation) is np.ndarray:
        return Any  # The first argument of an array's annotation is its shape.
    arguments = get_args(annotation)
    if _is_fixed_tuple(annotation) and len(set(arguments)) > 1:
        return Any
    return next(iter(arguments), Any)


def _is_fixed_tuple(annotation: Any) -> bool:
    """Returns whether an annotation is a tuple of fixed length, such as ``tuple[int, str]``."""
    return get_origin(annotation) is tuple and Ellipsis not in get_args(annotation)


def _is_array_like(members: Collection[Any]) -> bool:
    """Returns whether a union has all members of NumPy's ``ArrayLike``."""
    return set(members) >= set(_members(ArrayLike))


def _is_array(value: object) -> bool:
    """Returns whether a list, perhaps of lists, holds numbers in rows of one length."""
    try:
        return np.asarray(value).dtype.kind in 'biuf'
    except (TypeError, ValueError, OverflowError):
        return False


def _members(annotation: Any) -> list[Any]:
    """Returns the members of a union, or of an alias of one; the annotation itself otherwise."""
    alias = get_origin(annotation) or annotation
    arguments = get_args(annotation)
    if hasattr(alias, '__value__'):  # Made by `type`, as NumPy's are from 2.5 on.
        return _members(alias.__value__[arguments] if arguments else alias.__value__)
    if alias in (Union, types.UnionType):
        return list(itertools.chain.from_iterable(map(_members, arguments)))
    return [types.NoneType if annotation is None else annotation]
