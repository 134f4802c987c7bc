"""Write a page for each public module."""

import inspect
import pkgutil
from pathlib import Path
from typing import Any

import fedjax_links
from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.participation import PARTICIPATION
from generate import text

_MORE = (
    'clients.peers',
    'core.client_metrics',
    'core.errors',
    'core.references',
    'core.registry',
    'links.samples',
    'participation.durations',
    'participation.traces.trace_formats',
    'results.runs',
)
_THEOREMS = (
    'analysis.link_chains',
    'analysis.theorems.gradient_runs',
    'analysis.theorems.link_marginals',
    'analysis.theorems.local_drift',
    'analysis.theorems.mixing_rates',
    'analysis.theorems.mixing_times',
    'analysis.theorems.problem_constants',
    'analysis.theorems.regularity',
    'analysis.theorems.selection_counters',
    'analysis.theorems.sun2025',
    'analysis.theorems.wang2022',
    'analysis.theorems.xiang2023',
    'analysis.theorems.xiang2024',
)
_ELSEWHERE = {
    'algorithms': (
        'algorithms',
        {entry.factory.__name__ for entry in ALGORITHMS.values()},
    ),
    'participation': (
        'patterns',
        {entry.factory.__name__ for entry in PARTICIPATION.values()},
    ),
}
_PACKAGE = """\
These are the names of ``import fedjax_links as fl``. A module is loaded when it is first used.
"""


def public_modules() -> list[str]:
    """List the modules that `fedjax_links` offers, and the few beside them."""
    offered = [name for name in fedjax_links.__all__ if _is_module(name)]
    return sorted({*offered, *_MORE, *_THEOREMS})


def write(folder: Path) -> None:
    """Write an index, and a page for each public module."""
    modules = public_modules()
    for name in modules:
        _write_page(folder / f'{name}.rst', name)
    rows = [
        (f':doc:`fedjax_links.{name} <{name}>`', text.first_line(_module(name)))
        for name in modules
    ]
    text.write(
        folder / 'index.rst',
        text.heading('API'),
        _PACKAGE,
        text.table(('module', 'what'), rows, kind='names'),
        text.hidden_contents(f'{name} <{name}>' for name in modules),
    )


def public_name(thing: Any) -> str:
    """Return the full name under which a public module offers a thing; empty if none does."""
    short_name = getattr(thing, '__name__', '')
    if short_name.startswith('_'):
        return ''
    for name in public_modules():
        module = _module(name)
        offers = getattr(module, '__all__', None)
        is_offered = module.__name__ == thing.__module__
        if offers:
            is_offered = short_name in offers
        if is_offered and getattr(module, short_name, None) is thing:
            return f'{module.__name__}.{short_name}'
    return ''


def bare_data(name: str) -> dict[str, str]:
    """Describe what a module lists in ``__all__`` without a docstring, by name.

    Args:
      name: of a public module.
    """
    from sphinx.pycode import ModuleAnalyzer

    module = _module(name)
    documented = ModuleAnalyzer.for_module(module.__name__).find_attr_docs()
    descriptions = {}
    for offer in getattr(module, '__all__', ()):
        value = getattr(module, offer)
        if callable(value) or inspect.ismodule(value) or ('', offer) in documented:
            continue
        descriptions[offer] = f'``{value!r}``'
        if hasattr(value, 'keys'):
            keys = ', '.join(f'``{key}``' for key in value)
            descriptions[offer] = f'By name: {keys}.'
    return descriptions


def _module(name: str):
    return pkgutil.resolve_name(f'fedjax_links.{name}')


def _is_module(name: str) -> bool:
    return inspect.ismodule(getattr(fedjax_links, name))


def _classes_below(name: str) -> set[str]:
    """List the classes of a package that the page of a module below it has too.

    A class has one canonical name, so two pages may not describe it.
    """
    package = _module(name)
    classes = {
        offer: getattr(package, offer)
        for offer in getattr(package, '__all__', ())
        if inspect.isclass(getattr(package, offer))
    }
    below: set[str] = set()
    for other in public_modules():
        if other.startswith(f'{name}.'):
            module = _module(other)
            offers = set(getattr(module, '__all__', ())) & classes.keys()
            below |= {x for x in offers if getattr(module, x) is classes[x]}
    return below


def _write_page(path: Path, name: str) -> None:
    lines = [f'.. automodule:: {_module(name).__name__}']
    if hasattr(_module(name), '__all__') or not hasattr(_module(name), '__path__'):
        # `__call__` of a protocol says what its functions take.
        lines += ['   :members:', '   :special-members: __call__']
    before = ''
    elsewhere = _classes_below(name)
    if name in _ELSEWHERE:
        where, factories = _ELSEWHERE[name]
        elsewhere = elsewhere | factories
        before = (
            f'Each of the {where} has a page of its own: :doc:`../{where}/index`.\n'
        )
    if elsewhere:
        lines.append(f'   :exclude-members: {", ".join(sorted(elsewhere))}')
    data = [
        f'.. py:data:: {offer}\n   :module: {_module(name).__name__}\n\n   {description}\n'
        for offer, description in bare_data(name).items()
    ]
    title = text.heading(f'fedjax_links.{name}')
    text.write(path, title, before, '\n'.join(lines) + '\n', *data)
