"""Whether a plain value suits the annotation of the parameter that it is given for.

A config holds plain values: numbers, text, lists, sections, None. The signature of a factory says
which of them it takes. Everything that is not plain (arrays, functions, parts of experiments) is
the factory's own concern, and so are ranges.
"""

import collections.abc
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.core import errors

_PLAIN = (bool, int, float, complex, str, bytes, list, tuple, Mapping, types.NoneType)
_NUMBERS = {int, float, complex}
_WORDS = {
    types.NoneType: 'None',
    bool: 'True or False',
    int: 'a whole number',
    float: 'a number',
    str: 'text',
}
_ITEMS = {int: 'whole numbers', float: 'numbers', str: 'names'}
_LISTS = (tuple, list, collections.abc.Sequence)


def check(where: str, factory: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Raises for an option of the wrong kind.

    Args:
      where: where the options stand, such as their place in a config; may be empty.
      factory: what takes the options.
      given: the options; those that the factory does not have are passed over.

    Raises:
      ValueError: naming the option and what it has to be.
    """
    for option, kind in annotations(factory).items():
        if option in given and not suits(given[option], kind):
            path = f'{where}.{option}' if where else option
            raise errors.invalid(path, f'be {words(kind)}', errors.text_of(given[option]))


def annotations(factory: Callable[..., Any]) -> dict[str, Any]:
    """The kinds of a factory's parameters by their names."""
    try:
        parameters = inspect.signature(factory, eval_str=True).parameters.values()
    except Exception:  # annotations that name what is not there: nothing is known
        return {}
    return {
        p.name: p.annotation for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    }


def suits(value: Any, kind: Any) -> bool:
    """Whether a value may be given for a parameter; True where nothing is known.

    Args:
      value: anything; what is not plain suits.
      kind: an annotation.
    """
    is_plain = isinstance(value, _PLAIN) and not hasattr(value, '_fields')  # as parts have
    if kind is Any or kind is inspect.Parameter.empty or not is_plain:
        return True
    members, is_list = {*_members(kind)}, isinstance(value, list | tuple)
    if is_list and members >= _ARRAY:
        return _is_array(value)
    if isinstance(value, bool) and members & _NUMBERS:
        return False  # a flag is no number
    near = [member for member in members if isinstance(value, _read(member)[1])]
    return any(not is_list or all(suits(part, _item(one)) for part in value) for one in near)


def words(kind: Any) -> str:
    """What a value of a kind is called."""
    members = _members(kind)
    if {*members} >= _ARRAY:
        return 'a number or a list of numbers, or of lists of one length'
    if {float, complex} & {*members}:
        members = [member for member in members if member not in (int, bool, complex)]
    found = dict.fromkeys(word for member in members if (word := _read(member)[0]))
    return ' or '.join(found) or 'of another kind'


def _read(kind: Any) -> tuple[str, Any]:
    """What a value of a kind that is no union is called, and its types."""
    origin = typing.get_origin(kind) or kind
    if origin in _WORDS:
        return _WORDS[origin], (int, float) if origin is float else origin
    if origin is collections.abc.Callable:
        return 'a Callable', ()
    if not isinstance(origin, type) or getattr(origin, '_is_protocol', False):
        return '', object
    if issubclass(origin, Mapping):
        return 'a section', Mapping
    if issubclass(origin, collections.abc.Collection) and not hasattr(origin, '_fields'):
        items = 'lists' if typing.get_origin(_item(kind)) in _LISTS else 'values'
        return f'a list of {_ITEMS.get(_item(kind), items)}', (list, tuple)
    known = issubclass(origin, np.generic) or origin.__module__.startswith(('jax', 'numpy'))
    return '' if known else f'a {origin.__name__}', origin


def _item(kind: Any) -> Any:
    """The kind of the items of a list."""
    is_array = typing.get_origin(kind) is np.ndarray  # whose first argument is its shape
    return Any if is_array else next(iter(typing.get_args(kind)), Any)


def _is_array(value: Any) -> bool:
    """Whether a list, of lists perhaps, holds numbers in rows of one length."""
    try:
        return np.asarray(value).dtype.kind in 'biuf'
    except (TypeError, ValueError, OverflowError):
        return False


def _members(kind: Any) -> list[Any]:
    """The kinds of a union, or of an alias of one; of any other kind, itself."""
    alias, given = typing.get_origin(kind) or kind, typing.get_args(kind)
    if hasattr(alias, '__value__'):  # made by `type`, as NumPy's are from 2.5 on
        return _members(alias.__value__[given] if given else alias.__value__)
    if alias in (typing.Union, types.UnionType):
        return [member for part in given for member in _members(part)]
    return [types.NoneType if kind is None else kind]


_ARRAY = {*_members(ArrayLike)}
