"""What objects say of themselves: a few honest lines, for consoles and notebooks.

Arrays and tracers are shown by dtype and shape alone, so that nothing is read from a device. A
description never fails: what cannot be said is left out.
"""

import functools
import html
import inspect
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import jax
import numpy as np

_Class = TypeVar('_Class', bound=type)

_MOST_LETTERS = 160


def described(text_of: Callable[[Any], str]) -> Callable[[_Class], _Class]:
    """Gives a class a ``repr``, and the same text in notebooks.

    Args:
      text_of: what is said of an object; where it fails, the class is named.
    """

    def give(kind: _Class) -> _Class:
        def text(thing: Any) -> str:
            try:
                return text_of(thing)
            except Exception:  # leaves may be anything under JAX
                return kind.__name__

        def in_notebook(thing: Any) -> str:
            return f'<pre>{html.escape(text(thing))}</pre>'

        for name, method in (('__repr__', text), ('_repr_html_', in_notebook)):
            setattr(kind, name, method)
        return kind

    return give


def described_by(field: str) -> Callable[[_Class], _Class]:
    """Describes objects that are a few functions by the factory that made one of these.

    Args:
      field: of a function that the factory defines anew for every object.
    """
    return described(
        lambda thing: f'<{type(thing).__name__} {_factory_of(getattr(thing, field))}>'
    )


def pattern_text(pattern: Any) -> str:
    """The factory of a `base.Participation`, its clients, and after how many rounds it repeats."""
    kind = f'{type(pattern).__name__} {_factory_of(pattern.sample)}'
    cycle = f', repeats after {pattern.cycle:,} rounds' if pattern.cycle else ''
    return f'<{kind}: {pattern.num_clients:,} clients{cycle}>'


def call_text(entry: Any) -> str:
    """How the factory of a registry's entry is called, without the kinds of its arguments."""
    signature = inspect.signature(entry.factory)
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    called = signature.replace(parameters=plain, return_annotation=signature.empty)
    return f'<{type(entry).__name__} {entry.factory.__name__}{called}>'


def registry_text(registry: Any) -> str:
    """The names of a registry."""
    names = textwrap.fill(
        ', '.join(registry), 80, initial_indent='  ', subsequent_indent='  '
    )
    return f'{len(registry)} names\n{names}'


def block(title: str, rows: Mapping[str, str]) -> str:
    """A title, and below it one line for each row that says something."""
    return '\n'.join(
        [title, *(f'  {name}: {text}' for name, text in rows.items() if text)]
    )


def problem_text(problem: Any) -> str:
    """Clients, examples, parameters, metrics and data of a `base.Problem`."""
    params = jax.eval_shape(problem.init_params, jax.random.key(0))
    leaves = [
        f'{jax.tree_util.keystr(path, simple=True, separator=".")} {_kind_of(leaf)}'.strip()
        for path, leaf in jax.tree_util.tree_leaves_with_path(problem.data)
    ]
    rows = {
        'clients': f'{problem.num_clients:,}',
        'examples per client': span(
            f'{problem.min_examples:,}', f'{problem.max_examples:,}'
        ),
        'tests': tests_text(problem),
        'parameters': f'{sum(leaf.size for leaf in jax.tree.leaves(params)):,}',
        'metrics': ', '.join(
            jax.eval_shape(problem.metrics, params, problem.eval_data)
        ),
        'data': textwrap.shorten(', '.join(leaves), _MOST_LETTERS, placeholder=' ...'),
    }
    return block('Problem', rows)


def tests_text(problem: Any) -> str:
    """How many examples of how many clients a problem is evaluated on; '' where nobody's."""
    if problem.eval_owned is None:
        return ''
    counts = np.asarray(problem.eval_owned.counts)
    others = int((counts[problem.num_clients :] > 0).sum())
    said = f', {others:,} of whom do not train' if others else ''
    return f'{counts.sum():,} examples of {(counts > 0).sum():,} clients{said}'


def span(least: str, most: str) -> str:
    """``3 to 5``, or one of them where they are the same."""
    return least if least == most else f'{least} to {most}'


def duration(seconds: float) -> str:
    """``40 s``, ``12.0 min``, ``3.5 h`` or ``2.1 days``."""
    for unit, length in (('days', 86_400), ('h', 3_600), ('min', 60)):
        if seconds >= 2 * length:
            return f'{seconds / length:.1f} {unit}'
    return f'{seconds:.0f} s'


def numbers(values: Any) -> str:
    """A number, or mean and range of several; dtype and shape of what cannot be read now."""
    if (
        isinstance(values, jax.core.Tracer)
        or np.asarray(values).dtype.kind not in 'fiub'
    ):
        return _kind_of(values)
    array = np.asarray(values)
    if array.size == 1:
        return f'{array.item():.4g}'
    return f'{array.mean():.4g} ({array.min():.4g} to {array.max():.4g})'


def _factory_of(function: Any) -> str:
    """The name of the function that defined a function, or of its module where that is private."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, '__qualname__', type(function).__name__).split(
        '.<locals>'
    )[0]
    is_private = name.startswith('_') or name == '<lambda>'
    return str(function.__module__).rpartition('.')[2] if is_private else name


def _kind_of(array: Any) -> str:
    """Dtype and shape of an array; the type of anything else."""
    if hasattr(array, 'shape') and hasattr(array, 'dtype'):
        return f'{array.dtype}[{",".join(map(str, array.shape))}]'
    return type(array).__name__
