"""What objects say of themselves: a few honest lines, for consoles and notebooks.

What a factory marked with `by_call` makes reads like the call that made it, without what was left
to defaults; of others the factory's name is told. Numbers are shown, arrays and tracers by dtype
and shape alone, so that nothing is read from a device. A description never fails: what cannot be
told is left out.
"""

import functools
import html
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar, cast

import jax
import numpy as np

_Class = TypeVar('_Class', bound=type)
_Factory = TypeVar('_Factory', bound=Callable[..., Any])

_MOST_LETTERS = 160
_MOST_ENTRIES = 4
_MADE_BY = '_made_by'
_TELLING: dict[type, str] = {}  # by class, the field whose function remembers the call


class Facts(NamedTuple):
    """What is known of an object.

    Attributes:
      title: what it is.
      rows: names and texts.
    """

    title: str
    rows: Mapping[str, str]

    def block(self) -> str:
        """One line per row."""
        return '\n'.join([self.title, *(f'  {name}: {text}' for name, text in self.rows.items())])

    def html(self) -> str:
        """As a table of a notebook."""
        cell = '<td style="text-align:left">'
        rows = [(html.escape(name), html.escape(text)) for name, text in self.rows.items()]
        lines = ''.join(f'<tr>{cell}{name}</td>{cell}{text}</td></tr>' for name, text in rows)
        return f'<table><caption>{html.escape(self.title)}</caption>{lines}</table>'


def described(
    find: Callable[[Any], Facts], text: Callable[[Facts], str] = Facts.block
) -> Callable[[_Class], _Class]:
    """Gives a class a ``repr``, and a ``_repr_html_`` for notebooks.

    Args:
      find: what is known of an object.
      text: of that, on a console.
    """

    def give(kind: _Class) -> _Class:
        def facts(thing: Any) -> Facts:
            try:
                return find(thing)
            except Exception:  # leaves may be anything under JAX
                return Facts(kind.__name__, {})

        for name, method in (('__repr__', text), ('_repr_html_', Facts.html)):
            setattr(kind, name, lambda thing, method=method: method(facts(thing)))
        return kind

    return give


def described_by(field: str, *further: str) -> Callable[[_Class], _Class]:
    """Describes objects that are a few functions by the call that made them, or by its factory.

    Args:
      field: of the function that is made anew with every object, and remembers the call.
      *further: fields that a notebook shows, too, where they are not None.
    """

    def give(kind: _Class) -> _Class:
        def find(thing: Any) -> Facts:
            function = getattr(thing, field)
            call = getattr(function, _MADE_BY, None)
            values = {name: getattr(thing, name) for name in further}
            rows = {name: str(value) for name, value in values.items() if value is not None}
            return Facts(call or f'<{kind.__name__} {_maker(function)}>', rows)

        _TELLING[kind] = field
        return described(find, lambda facts: facts.title)(kind)

    return give


def by_call(factory: _Factory) -> _Factory:
    """Marks a factory whose objects are to read like the call: ``@by_call``.

    The text is kept as an attribute of a function of the object, of the field that its class is
    `described_by`, or of the function that is made. Nothing else changes, and rounds cost the same.

    Args:
      factory: makes functions, or objects of a class that is `described_by` a field.

    Returns:
      The factory, with the same signature.
    """

    @functools.wraps(factory)
    def remembering(*args: Any, **kwargs: Any) -> Any:
        made = factory(*args, **kwargs)
        function, given = _telling(made), map(_telling, (*args, *kwargs.values()))
        is_new = all(other is not function for other in given)
        if is_new and '<locals>' in getattr(function, '__qualname__', ''):
            said = [*map(_shown, args), *(f'{key}={_shown(kwargs[key])}' for key in kwargs)]
            setattr(function, _MADE_BY, f'{factory.__name__}({", ".join(said)})')
        return made

    return cast(_Factory, remembering)


def remember_calls(namespace: dict[str, Any]) -> None:
    """Puts `by_call` on a module's functions that say that they return a `described_by` object.

    Args:
      namespace: the module's ``globals()``.
    """
    for name, value in namespace.items():
        if inspect.isfunction(value) and value.__annotations__.get('return') in _TELLING:
            namespace[name] = by_call(value)


def of_problem(problem: Any) -> Facts:
    """Clients, examples, parameters, metrics and data of a `base.Problem`."""
    each = span(f'{problem.min_examples:,}', f'{problem.max_examples:,}')
    params = jax.eval_shape(problem.init_params, jax.random.key(0))
    measured = jax.eval_shape(problem.metrics, params, problem.eval_data)
    leaves = [
        f'{jax.tree_util.keystr(path, simple=True, separator=".")} {_shown(leaf)}'.strip()
        for path, leaf in jax.tree_util.tree_leaves_with_path(problem.data)
    ]
    rows = {
        'clients': f'{problem.num_clients:,}',
        'examples per client': each,
        'parameters': f'{sum(leaf.size for leaf in jax.tree.leaves(params)):,}',
        'metrics': ', '.join(measured),
        'data': ', '.join(leaves),
    }
    return Facts('Problem', {name: _cut(text) for name, text in rows.items() if text})


def span(least: str, most: str) -> str:
    """``3 to 5``, or one of them where they are the same."""
    return least if least == most else f'{least} to {most}'


def numbers(values: Any) -> str:
    """A number, or mean and range of several; dtype and shape of what cannot be read now."""
    if isinstance(values, jax.core.Tracer) or np.asarray(values).dtype.kind not in 'fiub':
        return _shown(values)
    array = np.asarray(values)
    if array.size == 1:
        return f'{array.item():.4g}'
    return f'{array.mean():.4g} ({array.min():.4g} to {array.max():.4g})'


def _telling(made: Any) -> Any:
    """The function that remembers, or would, the call that made an object."""
    field = _TELLING.get(type(made))
    return getattr(made, field) if field else made


def _maker(function: Any) -> str:
    """What to call the factory of a function."""
    while isinstance(function, functools.partial):
        function = function.func
    root = getattr(function, '__qualname__', type(function).__name__).split('.<locals>')[0]
    module = str(getattr(function, '__module__', '')).rsplit('.', 1)[-1]
    public = not root.startswith('_') and root != '<lambda>'
    return root if public else f'{module}.{root}'


def _shown(value: Any) -> str:
    """A value in a few letters."""
    call = getattr(_telling(value), _MADE_BY, None)
    if isinstance(call, str):
        return _cut(call)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int | float | np.dtype):
        return _cut(repr(str(value) if isinstance(value, np.dtype) else value))
    if hasattr(value, 'shape') and hasattr(value, 'dtype'):
        return f'{value.dtype}[{",".join(map(str, value.shape))}]'
    if isinstance(value, list | tuple) and not hasattr(value, '_fields'):
        said = [_shown(part) for part in value[:_MOST_ENTRIES]]
        return _cut(f'[{", ".join(said + ["..."] * (len(value) > len(said)))}]')
    return _cut(_maker(value)) if callable(value) else type(value).__name__


def _cut(text: str) -> str:
    text = ' '.join(text.split())
    return text if len(text) <= _MOST_LETTERS else f'{text[:_MOST_LETTERS]}...'
