"""Factories with all that they are called with, before they are called."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fedjax_links.core import checks, errors


class Hole(NamedTuple):
    """A number that comes when a program runs.

    Attributes:
      column: whose value it is.
      value: the first one, which errors show.
    """

    column: str
    value: Any

    def __repr__(self) -> str:
        """As the value."""
        return repr(self.value)


class Bound(NamedTuple):
    """A factory with all that it is called with: what a section stands for.

    Attributes:
      where: the section's place in the config, for errors.
      name: what the section names.
      factory: what that is.
      options: values, arrays, further bound parts, and holes.
      args: likewise, positional, which are no options.
      kind: of what the factory has to return.
      is_function: whether it is handed on as a function, of which ``args`` are an example.
    """

    where: str
    name: str
    factory: Callable[..., Any]
    options: Mapping[str, Any]
    args: tuple[Any, ...] = ()
    kind: type[Any] = object
    is_function: bool = False

    def build(self, columns: Mapping[str, Any] | None = None) -> Any:
        """Calls the factory, after those of its parts.

        Args:
          columns: the values of holes, which may be traced.

        Returns:
          What the factory returns.

        Raises:
          ValueError: naming the field, its value and the nearest valid name.
        """
        options, args = _filled(dict(self.options), columns), _filled(self.args, columns)
        checks.options(self.where, self.factory, options, *args)
        try:
            with errors.inside(self.where):
                built = self.factory(*args, **options)
        except errors.InvalidError:
            raise
        except Exception as error:  # of another's factory, which can check nothing: their mistake
            own = _own(self.factory)
            ours = f'{__package__.partition(".")[0]}.'
            if str(getattr(own, '__module__', None)).startswith(ours) or errors.users_place(error):
                raise
            requirement = f'suit {_name_of(self.factory)}'
            raise errors.invalid(self.where, requirement, errors.describe(error)) from error
        if not isinstance(built, self.kind):
            requirement = f'name what returns a {self.kind.__name__}'
            shown = f'{_name_of(self.factory)}, {errors.text_of(built)}'
            raise errors.invalid(self.where, requirement, shown)
        return functools.partial(self.factory, **options) if self.is_function else built


def _filled(value: Any, columns: Mapping[str, Any] | None) -> Any:
    """A value with its parts built and its holes filled."""
    if isinstance(value, Bound):
        return value.build(columns)
    if isinstance(value, Hole):
        return (columns or {})[value.column]
    if type(value) is dict:
        return {name: _filled(part, columns) for name, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_filled(part, columns) for part in value)
    return value


def _own(factory: Any) -> Any:
    """The function behind the entry of a registry, or with options bound."""
    return getattr(factory, 'factory', getattr(factory, 'func', factory))


def _name_of(factory: Any) -> str:
    return str(getattr(_own(factory), '__name__', factory))
