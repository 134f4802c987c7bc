"""What objects say of themselves: a few honest lines, for consoles and notebooks.

What a factory marked with `by_call` makes reads like the call that made it; of others the factory's
name is told. Numbers are shown, arrays and tracers by dtype and shape alone, so that nothing is
read from a device. A description never fails: what cannot be told is left out.
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

_DEEPEST = 2
_MOST_LETTERS = 160
_MOST_ENTRIES = 4
_MADE_BY = '_made_by'
_TELLING: dict[type, str] = {}  # by class, the field whose function remembers the call


class Call(NamedTuple):
    """A call of a factory, as text: what it was given may be large, or tracers.

    Attributes:
      name: of the factory.
      rows: arguments by name, those that are None left out.
      line: the call as it is written.
    """

    name: str
    rows: Mapping[str, str]
    line: str


class Facts(NamedTuple):
    """What is known of an object.

    Attributes:
      title: what it is.
      rows: names and texts.
      call: what made it, which then says it all on one line.
    """

    title: str
    rows: Mapping[str, str]
    call: Call | None = None

    def line(self) -> str:
        """On one line."""
        if self.call:
            return self.call.line
        said = ', '.join(f'{name}={text}' for name, text in self.rows.items())
        return f'<{self.title}: {said}>' if said else f'<{self.title}>'

    def block(self) -> str:
        """One line per row."""
        return '\n'.join([self.title, *(f'  {name}: {text}' for name, text in self.rows.items())])

    def html(self) -> str:
        """As a table of a notebook."""
        cell = '<td style="text-align:left">'
        rows = ''.join(
            f'<tr>{cell}{html.escape(name)}</td>{cell}{html.escape(text)}</td></tr>'
            for name, text in self.rows.items()
        )
        return f'<table><caption>{html.escape(self.title)}</caption>{rows}</table>'


def described(
    find: Callable[[Any], Facts], *, line: bool = False, by: str | None = None
) -> Callable[[_Class], _Class]:
    """Gives a class a ``repr``, and a ``_repr_html_`` for notebooks.

    Args:
      find: what is known of an object.
      line: whether it fits on one line.
      by: the field whose function, made anew with every object, remembers the call for `by_call`.
    """

    def give(kind: _Class) -> _Class:
        def facts(thing: Any) -> Facts:
            try:
                return find(thing)
            except Exception:  # leaves may be anything under JAX
                return Facts(kind.__name__, {})

        def text(thing: Any) -> str:
            return facts(thing).line() if line else facts(thing).block()

        for name, method in (('__repr__', text), ('_repr_html_', lambda it: facts(it).html())):
            setattr(kind, name, method)
        if by:
            _TELLING[kind] = by
        return kind

    return give


def by_call(factory: _Factory) -> _Factory:
    """Marks a factory whose objects are to read like the call: ``@by_call``.

    The text is kept as an attribute of a function of the object, of the field that its class is
    `described` by, or of the function that is made. Nothing else changes, and rounds cost the same.

    Args:
      factory: makes functions, or objects of a class that is `described` by a field.

    Returns:
      The factory, with the same signature.
    """
    signature = inspect.signature(factory)

    @functools.wraps(factory)
    def remembering(*args: Any, **kwargs: Any) -> Any:
        made = factory(*args, **kwargs)
        try:
            function, given = _telling(made), (*args, *kwargs.values())
            own = '<locals>' in function.__qualname__
            if own and all(_telling(value) is not function for value in given):
                bound = signature.bind(*args, **kwargs)
                bound.apply_defaults()
                setattr(function, _MADE_BY, _call_with(factory.__name__, bound))
        except Exception:  # a description never fails
            pass
        return made

    return cast(_Factory, remembering)


def remember_calls(namespace: dict[str, Any]) -> None:
    """Puts `by_call` on a module's functions that say that they return a `described` object.

    Args:
      namespace: the module's ``globals()``.
    """
    for name, value in namespace.items():
        if inspect.isfunction(value) and value.__annotations__.get('return') in _TELLING:
            namespace[name] = by_call(value)


def of_functions(kind: str, function: Any, **more: Any) -> Facts:
    """An object that is a few functions: the call that made it, or its factory's name.

    Args:
      kind: what it is, such as ``'Algorithm'``.
      function: of the object, the one that remembers the call.
      **more: further facts; None for none.
    """
    further = {name: str(value) for name, value in more.items() if value is not None}
    call = getattr(function, _MADE_BY, None)
    if call:
        return Facts(f'{kind} {call.name}', {**further, **call.rows}, call)
    return Facts(f'{kind} {_maker(function)}', further)


def of_problem(problem: Any) -> Facts:
    """Clients, examples, parameters, metrics and data of a `base.Problem`."""
    each = span(f'{problem.min_examples:,}', f'{problem.max_examples:,}')
    rows = {'clients': f'{problem.num_clients:,}', 'examples per client': each}
    params = _shapes(lambda: problem.init_params(jax.random.key(0)))
    if params is not None:
        sizes = [int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(params)]
        rows['parameters'] = f'{sum(sizes):,}'
        measured = _shapes(problem.metrics, params, problem.eval_data)
        rows['metrics'] = ', '.join(measured or ())
    leaves = jax.tree_util.tree_leaves_with_path(problem.data)
    rows['data'] = ', '.join(f'{_path(path)} {_shown(leaf, 0)}'.strip() for path, leaf in leaves)
    return Facts('Problem', {name: _cut(text) for name, text in rows.items() if text})


def span(least: str, most: str) -> str:
    """``3 to 5``, or one of them where they are the same."""
    return least if least == most else f'{least} to {most}'


def numbers(values: Any) -> str:
    """A number, or mean and range of several; dtype and shape of what cannot be read now."""
    if isinstance(values, jax.core.Tracer):
        return _shown(values, 0)
    array = np.asarray(values)
    if array.dtype.kind not in 'fiub':
        return _shown(values, 0)
    if array.size == 1:
        return f'{array.item():.4g}'
    return f'{array.mean():.4g} ({array.min():.4g} to {array.max():.4g})'


def _telling(made: Any) -> Any:
    """The function that remembers, or would, the call that made an object."""
    field = _TELLING.get(type(made))
    return getattr(made, field) if field else made


def _call_with(name: str, bound: inspect.BoundArguments) -> Call:
    """A call; objects and arrays that come first need no names."""
    rows: dict[str, str] = {}
    said: list[str] = []
    all_so_far = True
    for argument, value in bound.arguments.items():
        kind = bound.signature.parameters[argument].kind
        named = kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD or _is_number(value)
        all_so_far = all_so_far and not named
        values = value if kind is inspect.Parameter.VAR_KEYWORD else {argument: value}
        new = {key: _shown(given, _DEEPEST) for key, given in values.items() if given is not None}
        said += [text if all_so_far else f'{key}={text}' for key, text in new.items()]
        rows |= new
    return Call(name, rows, f'{name}({", ".join(said)})')


def _is_number(value: Any) -> bool:
    """Whether a value needs a name beside it: numbers do, texts, and None."""
    if hasattr(value, 'shape'):
        return not value.shape
    return value is None or isinstance(value, str | bool | int | float)


def _maker(function: Any) -> str:
    """What to call the factory of a function."""
    while isinstance(function, functools.partial):
        function = function.func
    root = getattr(function, '__qualname__', type(function).__name__).split('.<locals>')[0]
    module = str(getattr(function, '__module__', '')).rsplit('.', 1)[-1]
    public = not root.startswith('_') and root != '<lambda>'
    return root if public else f'{module}.{root}'


def _shown(value: Any, depth: int) -> str:
    """A value in a few letters."""
    call = getattr(_telling(value), _MADE_BY, None)
    if isinstance(call, Call):
        return _cut(call.line)
    if isinstance(value, str | bool | int | float | np.generic):
        return _cut(repr(value.item() if isinstance(value, np.generic) else value))
    if isinstance(value, np.dtype):
        return repr(str(value))
    if hasattr(value, 'shape') and hasattr(value, 'dtype'):
        return f'{value.dtype}[{",".join(map(str, value.shape))}]'
    if isinstance(value, tuple) and hasattr(value, '_fields'):
        return type(value).__name__
    if isinstance(value, list | tuple) and depth:
        said = [_shown(part, depth - 1) for part in value[:_MOST_ENTRIES]]
        return _cut(f'[{", ".join([*said, *(["..."] if len(value) > len(said) else [])])}]')
    return _cut(_maker(value)) if callable(value) else type(value).__name__


def _shapes(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return jax.eval_shape(function, *args)
    except Exception:
        return None


def _path(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator='.')


def _cut(text: str) -> str:
    text = ' '.join(text.split())
    return text if len(text) <= _MOST_LETTERS else f'{text[:_MOST_LETTERS]}...'
