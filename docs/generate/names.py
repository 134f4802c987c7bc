"""Names in docstrings, which are written as in code: of a package, or of the module at hand."""

import pkgutil
from typing import Any

import fedjax_links

_PACKAGES = [
    fedjax_links.__name__,
    *(
        f'fedjax_links.{module.name}'
        for module in pkgutil.iter_modules(fedjax_links.__path__)
        if module.ispkg
    ),
    'fedjax_links.participation.traces',
]


def full_names(target: str, *places: str) -> list[str]:
    """Under which names the site may know what a docstring refers to.

    Args:
      target: as it is written, such as ``simulation.simulate``.
      *places: modules and classes of the docstring: whose page it is on, where it is written.

    Returns:
      The name that can be imported, and that of the definition behind it; none where nothing has
      this name.
    """
    elsewhere = [target] if '.' in target else []  # numpy.dtype
    for name in (
        *(f'{place}.{target}' for place in (*_PACKAGES, *places)),
        *elsewhere,
    ):
        try:
            thing = pkgutil.resolve_name(name)
        except (AttributeError, ImportError, ValueError):
            continue
        full_name = (
            getattr(thing, '__module__', None),
            getattr(thing, '__qualname__', None),
        )
        return [name, '.'.join(full_name)] if all(full_name) else [name]
    return []


def scopes(definition: str) -> list[str]:
    """List a definition and what it lies in, from its class to the package.

    Args:
      definition: its full name, such as ``fedjax_links.results.runs.Results.select``.
    """
    parts = definition.split('.')
    return ['.'.join(parts[:end]) for end in range(len(parts), 0, -1)]


def _resolved(app: Any, env: Any, node: Any, shown: Any) -> Any:
    """Return a link, or bare text for what has no page; None where nothing has this name."""
    from docutils import utils
    from sphinx.util import nodes

    if node.get('refdomain') != 'py':
        return None
    described = (utils.get_source_line(node)[0] or '').rpartition('docstring of ')[2]
    places = node.get('py:module'), *scopes(described)
    names = full_names(node['reftarget'], *filter(None, places))
    pages = env.domains.python_domain.objects
    for page in (pages[name] for name in names if name in pages):
        return nodes.make_refnode(
            app.builder, node['refdoc'], page.docname, page.node_id, shown
        )
    return shown if names else None


def setup(app: Any) -> dict[str, bool]:
    """Registers the look-up."""
    app.connect('missing-reference', _resolved)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
