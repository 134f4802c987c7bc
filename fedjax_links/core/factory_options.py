"""Checks options against the parameters of the factory that takes them."""

import functools
import inspect
from collections.abc import Callable, Collection
from typing import Any

from fedjax_links.core import errors, type_hints
from fedjax_links.core.records import Section

_COLLECTING = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def check(
    argument: str, factory: Callable[..., Any], values: Section, *args: object
) -> None:
    """Raises unless ``factory(*args, **values)`` has all that it needs and nothing unknown.

    Args:
      argument: where the options stand, such as their path in a config.
      factory: a factory, or its entry in a registry. Options that a ``functools.partial`` has bound
        are checked, too. Keywords that the factory collects by ``**`` are not: the factory checks
        them.
      values: the options.
      *args: positional arguments, which are no options.

    Raises:
      ValueError: naming the option and the nearest valid one.
    """
    if isinstance(factory, functools.partial):
        args = (*factory.args, *args)
        values = {**factory.keywords, **values}
        factory = factory.func
    function = getattr(factory, 'factory', factory)
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # Some built-in functions have no signature.
        return
    _check_known(argument, parameters, values, len(args))
    _check_complete(argument, parameters, values, len(args))
    check_types(argument, function, values)


def _named(parameters: Collection[inspect.Parameter]) -> list[inspect.Parameter]:
    """Returns the parameters without ``*args`` and ``**kwargs``."""
    return [p for p in parameters if p.kind not in _COLLECTING]


def _positional(parameters: Collection[inspect.Parameter]) -> list[inspect.Parameter]:
    """Returns the named parameters that positional arguments set, in their order."""
    return [p for p in _named(parameters) if p.kind is not p.KEYWORD_ONLY]


def _check_known(
    argument: str,
    parameters: Collection[inspect.Parameter],
    values: Section,
    num_positional: int,
) -> None:
    """Raises for an option that the parameters behind the positional arguments do not have."""
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return
    positional = _positional(parameters)[:num_positional]
    names = [
        p.name
        for p in _named(parameters)
        if p not in positional and p.kind is not p.POSITIONAL_ONLY
    ]
    for option in values:
        if option not in names:
            raise errors.unknown_name(argument, option, names)


def _check_complete(
    argument: str,
    parameters: Collection[inspect.Parameter],
    values: Section,
    num_positional: int,
) -> None:
    """Raises if the positional arguments are not taken, or a required option is missing."""
    positional = _positional(parameters)[:num_positional]
    collects_positional = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if len(positional) < num_positional and not collects_positional:
        requirement = f'take arguments by position ({num_positional})'
        raise errors.invalid(argument, requirement, f'a function of {len(positional)}')
    for p in _named(parameters):
        is_set = p in positional or p.name in values
        if p.default is p.empty and not is_set:
            raise errors.invalid(f'{argument}.{p.name}', 'be given', None)


def check_types(where: str, factory: Callable[..., Any], values: Section) -> None:
    """Raises for an option of the wrong type.

    Args:
      where: where the options stand, such as their path in a config; may be empty.
      factory: takes the options.
      values: the options; an option that the factory does not have is skipped.

    Raises:
      ValueError: naming the option and what it has to be.
    """
    for option, annotation in annotations(factory).items():
        if option in values and not type_hints.matches_annotation(
            values[option], annotation
        ):
            path = f'{where}.{option}' if where else option
            requirement = f'be {type_hints.describe_annotation(annotation)}'
            raise errors.invalid(path, requirement, errors.text_of(values[option]))


def annotations(factory: Callable[..., Any]) -> dict[str, Any]:
    """Returns the annotations of a factory's parameters by their names."""
    try:
        parameters = inspect.signature(factory, eval_str=True).parameters.values()
    except Exception:  # An annotation may name something that does not exist.
        return {}
    return {p.name: p.annotation for p in _named(parameters)}
