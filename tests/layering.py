"""What a module of the package may import, read from its source."""

import ast
import sys
from collections.abc import Iterator, Mapping

PACKAGE = 'fedjax_links'
_CORE = {'core', 'errors', 'values'}
_ENGINE = _CORE | {
    'algorithms',
    'clients',
    'datasets',
    'links',
    'local_training',
    'mixing',
    'participation',
    'partition',
    'problems',
}
_DRIVERS = {'evaluation', 'machines', 'simulation', 'statistics', 'sweeps'}
_RECORDS = {'trials', 'results', 'runs', 'storage'}
_BELOW_PLANS = _ENGINE | _DRIVERS | _RECORDS | {'config'}
_BELOW_REPORTS = _BELOW_PLANS | {'analysis', 'planning', 'runner', 'experiment'}

MAY_SEE = {
    'errors': set(),
    'values': set(),
    'core': {'errors', 'values'},
    'links': _CORE,
    'analysis': {'errors', 'values'},
    'clients': _CORE | {'mixing'},
    'mixing': _CORE,
    'local_training': _CORE | {'clients'},
    'participation': _CORE | {'analysis', 'links'},
    'datasets': _CORE,
    'partition': _CORE | {'datasets'},
    'problems': _CORE | {'analysis', 'datasets', 'partition'},
    'algorithms': _CORE | {'clients', 'local_training', 'mixing'},
    'results': _CORE,
    'simulation': _CORE | {'links', 'results'},
    'evaluation': _CORE | {'clients', 'statistics'},
    'statistics': _CORE,
    'machines': _CORE,
    'sweeps': _CORE | {'evaluation', 'machines', 'results', 'simulation'},
    'storage': _CORE,
    'trials': _CORE | {'evaluation', 'results'},
    'runs': _CORE | {'trials', 'results', 'storage'},
    'config': _ENGINE | _DRIVERS | _RECORDS,
    'planning': _BELOW_PLANS,
    'runner': _BELOW_PLANS | {'planning'},
    'experiment': _BELOW_PLANS | {'analysis', 'planning', 'runner'},
    'plot': _CORE | {'analysis', 'evaluation', 'results', 'runs', 'simulation'},
    'certify': _BELOW_REPORTS,
    'pages': _CORE | {'config', 'plot', 'storage'},
    'preview': _BELOW_REPORTS | {'pages', 'plot'},
    'report': _BELOW_REPORTS | {'pages', 'plot', 'preview'},
    'testing': _ENGINE | _DRIVERS,
    '__main__': _ENGINE | {'certify', 'config', 'experiment', 'report', 'runner'},
    'cli': _BELOW_REPORTS | {'certify', 'pages', 'preview', 'report', 'testing'},
    '': _BELOW_REPORTS | {'certify', 'plot', 'report', 'testing'},
}
# Only configs import papers.
MAY_SEE['papers'] = MAY_SEE.keys() - {'', '__main__', 'cli'}
"""By layer of the package: the other layers that it may import."""

_LAYERS = {
    'base': 'core',
    'core.errors': 'errors',
    'core.values': 'values',
    'links.samples': 'core',
    'planning.trials': 'trials',  # what tuning found, read from the metrics alone
    'planning.tuning': 'trials',
}
"""Modules whose layer is not that of their folder."""


def layers_of(name: str) -> set[str]:
    """Returns the layers of a folder or module as pages name it, such as `planning.trials`."""
    name = name.rstrip('/')
    if name == 'core':
        return set(_CORE)
    return {_LAYERS.get(name, name)}


_FRONT_END = {'plot', 'pages', 'preview', 'report', 'cli'}
_FRONT_END_LIBRARIES = {'matplotlib', 'absl', 'ml_collections'}
_COMMON_LIBRARIES = {'jax', 'numpy', 'scipy', 'optax'}
_LIBRARIES = {
    'errors': set(),
    'values': set(),
    'analysis': {'numpy', 'scipy'},
    'datasets': {
        'jax',
        'numpy',
        'scipy',
        'sklearn',
        'tensorflow_datasets',
        'PIL',
        'pooch',
        'pyarrow',
        'requests',
    },
    'problems': {'jax', 'numpy', 'scipy', 'flax', 'optax'},
    'papers': {'jax', 'numpy', 'scipy', 'optax', 'flax'},
    'testing': {'jax', 'numpy', 'scipy', 'chex'},
    'config': {*_COMMON_LIBRARIES, 'pandas'},
    'runs': {'jax', 'numpy', 'pandas'},
    'results': {'jax', 'numpy', 'pandas', 'xarray'},
    'pages': {'numpy', 'pandas'},
    'report': {'jax', 'numpy', 'scipy', 'pandas'},
    'runner': {*_COMMON_LIBRARIES, 'tqdm'},  # of a notebook's line
    '': set(),
}


def layer_of(module: str) -> str:
    """Returns the layer that a module belongs to; empty for the package itself."""
    inside = module.partition('.')[2]
    for name, layer in _LAYERS.items():
        if f'{inside}.'.startswith(f'{name}.'):
            return layer
    return inside.partition('.')[0]


def imports_of(module: str, source: str, *, is_package: bool = False) -> set[str]:
    """Returns all names of the package that a module imports, wherever it does so.

    Args:
      module: dotted name, such as ``fedjax_links.algorithms.fedavg``.
      source: its text.
      is_package: whether the text is a package's ``__init__``.
    """
    names = _imported(ast.parse(source), module, is_package)
    return {name for name in names if name.startswith(f'{PACKAGE}.')}


def circles(imports: Mapping[str, set[str]]) -> list[set[str]]:
    """Returns the sets of modules that reach each other by imports.

    Args:
      imports: by module, those that it imports.
    """
    reached: dict[str, set[str]] = {}
    for module in imports:
        reached[module] = set()
        waiting = set(imports[module])
        while waiting:
            name = waiting.pop()
            if name not in reached[module]:
                reached[module].add(name)
                waiting |= imports.get(name, set())
    results: list[set[str]] = []
    for module, names in reached.items():
        if module in names and not any(module in circle for circle in results):
            results.append({name for name in names if module in reached.get(name, ())})
    return results


def violations(module: str, source: str, *, is_package: bool = False) -> list[str]:
    """Returns the imports in ``source`` that the module must not have.

    Args:
      module: dotted name, such as ``fedjax_links.algorithms.fedavg``.
      source: its text.
      is_package: whether the text is a package's ``__init__``.

    Returns:
      One line per offence.
    """
    layer = layer_of(module)
    if layer not in MAY_SEE:
        return [f'{module}: `{layer}` is not in the layering']
    tree = ast.parse(source)
    results = [f'{module}: {offence}' for offence in _forbidden_names(tree)]
    for name in sorted(set(_imported(tree, module, is_package))):
        offence = _offence(module, layer, name, is_package)
        if offence:
            results.append(f'{module} imports {name}: {offence}')
    return results


def _offence(module: str, layer: str, name: str, is_package: bool) -> str | None:
    """Says why a module must not import a name; None if it may."""
    top = name.split('.')[0]
    if top != PACKAGE:
        return _library_offence(layer, top)
    target = name.split('.')
    other = layer_of(name)
    if len(target) == 1 and layer not in ('cli', 'testing'):
        return 'name the module, not the package'
    if len(target) == 1 or other not in MAY_SEE or module == name:
        return None
    if other != layer:
        return None if other in MAY_SEE[layer] else f'`{layer}` must not see `{other}`'
    if layer == 'algorithms' and not is_package and len(target) > 2:
        if target[2] != 'common':
            return 'algorithms must not import each other'
        if module.split('.')[2] == 'common':
            return 'what algorithms share stands alone'
    return None


def _library_offence(layer: str, top: str) -> str | None:
    """Says why a layer must not import a library; None if it may."""
    if top == 'pickle':
        return 'pickles run code when read'
    if top in sys.stdlib_module_names:
        return None
    if top in _FRONT_END_LIBRARIES:
        is_in_config = layer == 'config' and top == 'ml_collections'
        if layer in _FRONT_END or is_in_config:
            return None
        return f'`{top}` stops at the front end'
    allowed = _LIBRARIES.get(layer, _COMMON_LIBRARIES)
    return None if top in allowed else f'`{top}` is not used in `{layer or PACKAGE}`'


def _imported(tree: ast.AST, module: str, is_package: bool) -> Iterator[str]:
    """Yields all names that a module imports, relative ones in full."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ''
            if node.level:
                base = _parent(module, node.level - is_package)
                if node.module:
                    base = f'{base}.{node.module}'
            if base.split('.')[0] == PACKAGE:
                yield from (f'{base}.{alias.name}' for alias in node.names)
            else:
                yield base


def _parent(module: str, num_levels: int) -> str:
    """Returns the package so many levels above a module."""
    parts = module.split('.')
    return '.'.join(parts[: len(parts) - num_levels])


def _forbidden_names(tree: ast.AST) -> Iterator[str]:
    """Yields what a module uses of JAX that no module may use."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            if node.attr == '_src':
                yield 'reaches into `jax._src`'
            if node.attr == 'pmap':
                yield 'uses `pmap`'
        elif isinstance(node, ast.ImportFrom):
            names = [
                *(node.module or '').split('.'),
                *(alias.name for alias in node.names),
            ]
            if '_src' in names:
                yield 'reaches into `jax._src`'
            if 'pmap' in names:
                yield 'uses `pmap`'
        elif isinstance(node, ast.Import) and any(
            '_src' in a.name.split('.') for a in node.names
        ):
            yield 'reaches into `jax._src`'
