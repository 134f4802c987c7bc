"""What a module of the package may import, read from its source."""

import ast
import sys
from collections.abc import Iterator

PACKAGE = 'fedjax_links'
_LEAVES = {'errors', 'kinds', 'memory', 'checks', 'registry', 'references', 'describing', 'meshes'}
_CORE = _LEAVES | {'base', 'prng', 'tree'}
_ENGINE = _CORE | {
    'learning_rates',
    'cohorts',
    'mixing',
    'participation',
    'problems',
    'client_data',
    'client_programs',
    'local_training',
    'algorithms',
}
_DRIVERS = {'simulation', 'evaluation', 'connections', 'devices', 'processes', 'sweeps'}
_RUNS = {
    'archives',
    'results',
    'grids',
    'packing',
    'memory',
    'checkpoints',
    'environment',
    'runs',
    'stores',
}
_UPPER = _RUNS | {'recordings', 'choices', 'sections', 'experiment'}

MAY_SEE = {
    '': _ENGINE | _DRIVERS | _UPPER | {'analysis', 'plot', 'testing', 'report'},
    'errors': set(),
    'kinds': {'errors'},
    'checks': {'errors', 'kinds', 'memory'},
    'registry': {'errors', 'base', 'references'},
    'references': set(),
    'describing': set(),
    'link_samples': set(),  # `base` offers its names
    'base': {'errors', 'checks', 'describing', 'link_samples'},
    'results': {'errors', 'checks', 'grids'},
    'simulation_results': {'errors', 'base', 'describing', 'results'},
    'meshes': set(),
    'prng': {'errors', 'checks', 'base', 'meshes'},
    'tree': {'errors', 'checks', 'base', 'meshes'},
    'learning_rates': _CORE,
    'cohorts': _CORE,
    'mixing': _CORE,
    'participation': _CORE | {'analysis'},
    'problems': _CORE | {'analysis'},
    'client_data': _CORE,
    'client_programs': _CORE | {'learning_rates', 'client_data'},
    'local_training': _CORE | {'cohorts', 'mixing', 'client_programs'},
    'algorithms': _CORE | {'cohorts', 'mixing', 'client_programs', 'local_training'},
    'simulation': _CORE - {'registry'} | {'simulation_results'},
    'evaluation': _CORE - {'registry'},
    'devices': _CORE - {'registry'} | {'environment'},
    'connections': {'errors'},
    'processes': {'errors', 'checks', 'connections'},
    'sweeps': _CORE | {'simulation', 'evaluation', 'devices'},
    'analysis': {'errors'},
    'testing': _ENGINE | _DRIVERS,
    'memory': {'errors'},
    'packing': {'errors'},
    'checkpoints': {'errors', 'base', 'packing'},
    'archives': {'errors', 'packing'},
    'environment': set(),
    'runs': _CORE | {'archives', 'checkpoints', 'describing', 'packing', 'results'},
    'stores': _CORE | {'archives', 'checkpoints', 'environment', 'runs', 'packing'},
    'grids': {'errors', 'checks'},
    'pricing': {'errors', 'checks', 'registry', 'algorithms'},
    'recordings': _CORE | {'participation', 'runs'},
    'choices': _ENGINE | _DRIVERS | {'recordings'},
    'named_imports': {'errors', 'recordings'},  # `sections` offers its names
    'sections': _ENGINE | {'recordings', 'choices', 'named_imports'},
    'experiment': _ENGINE | _DRIVERS | _UPPER - {'experiment'},
    'sizes': {'errors'},
    'overrides': {'errors'},
    'plot': {'errors', 'checks', 'base', 'simulation', 'evaluation', 'analysis', 'results', 'runs'},
    'shipped': {'errors'},
    'report': _ENGINE | _DRIVERS | _UPPER | {'analysis', 'plot', 'pricing'},
    '__main__': {
        'errors',
        'algorithms',
        'choices',
        'experiment',
        'participation',
        'pricing',
        'problems',
        'report',
        'shipped',
    },
    'cli': _ENGINE
    | _DRIVERS
    | _UPPER
    | {'analysis', 'overrides', 'report', 'shipped', 'sizes', 'testing'},
}
MAY_SEE['papers'] = MAY_SEE.keys() - {'', 'cli'}  # seen by configs alone
"""By part of the package: the other parts that it may import."""

_FRONT_END_PARTS = {'plot', 'report', 'cli'}
_FRONT_END_LIBRARIES = {'matplotlib', 'tqdm', 'absl', 'ml_collections'}
_LIBRARIES = {
    'errors': set(),
    'analysis': {'numpy', 'scipy'},
    'problems': {
        *('jax', 'numpy', 'scipy', 'flax', 'optax'),
        *('sklearn', 'tensorflow_datasets', 'PIL', 'pooch', 'requests'),  # of data sets
    },
    'papers': {'jax', 'numpy', 'scipy', 'optax', 'flax'},
    'testing': {'jax', 'numpy', 'scipy', 'chex'},
    'runs': {'jax', 'numpy', 'pandas'},
    'simulation_results': {'jax', 'numpy', 'pandas'},
    'results': {'jax', 'numpy', 'xarray'},
    'report': {'jax', 'numpy', 'scipy', 'safetensors', 'pandas'},
    'experiment': {'jax', 'numpy', 'scipy', 'optax', 'tensorboardX'},
    '': set(),
}
_COMMON_LIBRARIES = {'jax', 'numpy', 'scipy', 'optax'}


def part_of(module: str) -> str:
    """The part of the package that a module belongs to; empty for the package itself."""
    return [*module.split('.'), ''][1]


def violations(module: str, source: str, *, is_package: bool = False) -> list[str]:
    """Every import in ``source`` that the module must not have.

    Args:
      module: dotted name, such as ``fedjax_links.algorithms.fedavg``.
      source: its text.
      is_package: whether the text is a package's ``__init__``.

    Returns:
      One line per offence.
    """
    part = part_of(module)
    if part not in MAY_SEE:
        return [f'{module}: `{part}` has no place in the layering']
    tree = ast.parse(source)
    found = [f'{module}: {offence}' for offence in _forbidden_names(tree)]
    for name in sorted(set(_imported(tree, module, is_package))):
        offence = _offence(module, part, name, is_package)
        if offence:
            found.append(f'{module} imports {name}: {offence}')
    return found


def _offence(module: str, part: str, name: str, is_package: bool) -> str | None:
    top = name.split('.')[0]
    if top != PACKAGE:
        return _library_offence(part, top)
    target = name.split('.')
    if len(target) == 1 and part not in ('cli', 'testing'):
        return 'name the module, not the package'
    if len(target) == 1 or target[1] not in MAY_SEE or module == name:
        return None
    if target[1] != part:
        return None if target[1] in MAY_SEE[part] else f'`{part}` must not see `{target[1]}`'
    if part == 'algorithms' and not is_package and len(target) > 2:
        if target[2] != 'common':
            return 'algorithms must not import each other'
        if module.split('.')[2] == 'common':
            return 'what algorithms share stands alone'
    return None


def _library_offence(part: str, top: str) -> str | None:
    if top == 'pickle':
        return 'pickles run code when read'
    if top in sys.stdlib_module_names:
        return None
    if top in _FRONT_END_LIBRARIES:
        return None if part in _FRONT_END_PARTS else f'`{top}` stops at the front end'
    allowed = _LIBRARIES.get(part, _COMMON_LIBRARIES)
    return None if top in allowed else f'`{top}` is not used in `{part or PACKAGE}`'


def _imported(tree: ast.AST, module: str, is_package: bool) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ''
            if node.level:
                parents = module.split('.')[: len(module.split('.')) - node.level + is_package]
                base = '.'.join([*parents, *([node.module] if node.module else [])])
            if base.split('.')[0] == PACKAGE:
                yield from (f'{base}.{alias.name}' for alias in node.names)
            else:
                yield base


def _forbidden_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            if node.attr == '_src':
                yield 'reaches into `jax._src`'
            if node.attr == 'pmap':
                yield 'uses `pmap`'
        elif isinstance(node, ast.ImportFrom):
            names = [*(node.module or '').split('.'), *(alias.name for alias in node.names)]
            if '_src' in names:
                yield 'reaches into `jax._src`'
            if 'pmap' in names:
                yield 'uses `pmap`'
        elif isinstance(node, ast.Import) and any('_src' in a.name.split('.') for a in node.names):
            yield 'reaches into `jax._src`'
