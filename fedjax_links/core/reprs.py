"""Describes objects in a few lines, for consoles and notebooks.

Data and tracers are shown by dtype and shape alone: only metrics and counts are read from a device.
A description never fails: if it cannot be made, the name of the class takes its place.
"""

import functools
import html
import inspect
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import jax
import numpy as np
from numpy.typing import ArrayLike

_Class = TypeVar('_Class', bound=type)

_MAX_LETTERS = 160  # For the leaves of a problem's data: two lines.


def described(text_of: Callable[[Any], str]) -> Callable[[_Class], _Class]:
    """Gives a class a ``repr``, and the same text in notebooks.

    Args:
      text_of: describes an object. Where it fails, the description is the name of the class.
    """

    def decorate(kind: _Class) -> _Class:
        def text(instance: object) -> str:
            try:
                return text_of(instance)
            except Exception:  # Under JAX, leaves may be anything.
                return kind.__name__

        def notebook_text(instance: object) -> str:
            return f'<pre>{html.escape(text(instance))}</pre>'

        setattr(kind, '__repr__', text)  # noqa: B010
        setattr(kind, '_repr_html_', notebook_text)  # noqa: B010
        return kind

    return decorate


def described_by(field: str) -> Callable[[_Class], _Class]:
    """Gives a tuple of functions a ``repr``: the factory that defined one of the functions.

    Args:
      field: the name of this function, which the factory defines anew for each object.
    """

    def text_of(instance: object) -> str:
        return f'<{type(instance).__name__} {_factory_of(getattr(instance, field))}>'

    return described(text_of)


def pattern_text(pattern: Any) -> str:
    """Describes a `base.Participation`: its factory, clients, and rounds until it repeats."""
    kind = f'{type(pattern).__name__} {_factory_of(pattern.sample)}'
    cycle = f', repeats after {pattern.cycle:,} rounds' if pattern.cycle else ''
    return f'<{kind}: {pattern.num_clients:,} clients{cycle}>'


def call_text(entry: Any) -> str:
    """Shows how to call the factory of a registry's entry, without annotations."""
    signature = inspect.signature(entry.factory)
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    called = signature.replace(parameters=plain, return_annotation=signature.empty)
    return f'<{type(entry).__name__} {entry.factory.__name__}{called}>'


def registry_text(registry: Mapping[str, Callable[..., Any]]) -> str:
    """Lists a registry: each name, and in a few words what it stands for."""
    width = max(map(len, registry), default=0)
    return '\n'.join(
        f'{name:<{width}}  {summary(factory)}'.rstrip()
        for name, factory in registry.items()
    )


def summary(factory: Callable[..., Any]) -> str:
    """Returns the first line of a factory's docstring.

    An entry of a registry is described by its client program if it is defined with one, else
    by its factory. A `functools.partial` is described by the function in it.
    """
    function = getattr(factory, 'client_program', None)
    if function is None:
        function = getattr(factory, 'factory', factory)
    docstring: str | None = getattr(function, 'func', function).__doc__
    return (docstring or '').strip().partition('\n')[0]


def block(title: str, rows: Mapping[str, str]) -> str:
    """Formats a title and, below it, a line for each row whose text is not empty."""
    return '\n'.join(
        [title, *(f'  {name}: {text}' for name, text in rows.items() if text)]
    )


def problem_text(problem: Any) -> str:
    """Describes clients, examples, parameters, metrics and data of a `base.Problem`."""
    params = jax.eval_shape(problem.init_params, jax.random.key(0))
    leaves: list[str] = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(problem.data):
        name = jax.tree_util.keystr(path, simple=True, separator='.')
        leaves.append(f'{name} {_kind_of(leaf)}'.strip())
    num_parameters = sum(leaf.size for leaf in jax.tree.leaves(params))
    metrics = jax.eval_shape(problem.metrics, params, problem.eval_data)
    rows = {
        'clients': f'{problem.num_clients:,}',
        'examples per client': span(
            f'{problem.min_examples:,}', f'{problem.max_examples:,}'
        ),
        'tests': tests_text(problem),
        'parameters': f'{num_parameters:,}',
        'metrics': ', '.join(metrics),
        'data': textwrap.shorten(', '.join(leaves), _MAX_LETTERS, placeholder=' ...'),
    }
    return block('Problem', rows)


def tests_text(problem: Any) -> str:
    """Counts the evaluation examples and their clients; '' if the examples have no owners."""
    if problem.eval_owned is None:
        return ''
    counts = np.asarray(problem.eval_owned.counts)
    num_others = int((counts[problem.num_clients :] > 0).sum())
    others = f', {num_others:,} of whom do not train' if num_others else ''
    return f'{counts.sum():,} examples of {(counts > 0).sum():,} clients{others}'


def span(least: str, most: str) -> str:
    """Formats a range: ``3 to 5``, or a single number where both are equal."""
    return least if least == most else f'{least} to {most}'


def duration(seconds: float) -> str:
    """Formats a duration: ``40 s``, ``12.0 min``, ``3.5 h`` or ``2.1 days``."""
    for unit, length in (('days', 86_400), ('h', 3_600), ('min', 60)):
        if seconds >= 2 * length:
            return f'{seconds / length:.1f} {unit}'
    return f'{seconds:.0f} s'


def numbers(values: ArrayLike) -> str:
    """Formats a number, or mean and range of several; dtype and shape of all else."""
    if (
        isinstance(values, jax.core.Tracer)
        or np.asarray(values).dtype.kind not in 'fiub'
    ):
        return _kind_of(values)
    array = np.asarray(values)
    if array.size == 1:
        return f'{array.item():.4g}'
    return f'{array.mean():.4g} ({array.min():.4g} to {array.max():.4g})'


def _factory_of(function: Callable[..., object]) -> str:
    """Names the factory that defined a function, or the function's module if it is private."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, '__qualname__', type(function).__name__).split(
        '.<locals>'
    )[0]
    is_private = name.startswith('_') or name == '<lambda>'
    return str(function.__module__).rpartition('.')[2] if is_private else name


def _kind_of(array: object) -> str:
    """Returns dtype and shape of an array, else the type."""
    if hasattr(array, 'shape') and hasattr(array, 'dtype'):
        return f'{array.dtype}[{",".join(map(str, array.shape))}]'
    return type(array).__name__
