"""The package stands alone and keeps its public names."""

import ast
import pathlib
import sys

from fedjax_links import analysis

FOLDER = pathlib.Path(analysis.__file__).parent
ROOT = FOLDER.parent
CONTRACT = {
    'poisson_binomial_pmf',
    'fedavg_weights',
    'fedavg_fixed_point',
    'mixing_matrix',
    'expected_mixing_matrix',
    'mixing_rate',
    'mixing_rate_bound',
    'minimum_separation_stationary',
    'minimum_separation_chain',
    'fedpbc_fixed_point',
    'markov_stationary',
    'markov_autocorrelation',
    'gap_distribution',
    'truncated_interval_mean',
    'effective_weights',
    'participation_report',
}


def imported_modules(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f'{node.module}.{alias.name}' for alias in node.names)


def file_of(module):
    """Returns the file of a module of the project, or of the module that a name is from."""
    parts = module.split('.')[1:]
    while parts:
        path = ROOT.joinpath(*parts)
        if path.with_suffix('.py').is_file():
            return path.with_suffix('.py')
        if (path / '__init__.py').is_file():
            return path / '__init__.py'
        parts.pop()
    raise AssertionError(module)


def test_numpy_scipy_and_the_standard_library_suffice():
    waiting = sorted(FOLDER.rglob('*.py'))
    visited = set()
    while waiting:
        path = waiting.pop()
        visited.add(path)
        for module in imported_modules(path):
            top = module.split('.')[0]
            if top == 'fedjax_links':
                waiting += {file_of(module)} - visited
            else:
                known = top in ('numpy', 'scipy') or top in sys.stdlib_module_names
                assert known, (path.name, module)
    outside = {
        str(path.relative_to(ROOT)) for path in visited if FOLDER not in path.parents
    }
    assert outside == {'core/errors.py', 'core/values.py'}


def test_the_contract_is_exported():
    assert set(analysis.__all__) >= CONTRACT
    assert all(hasattr(analysis, name) for name in analysis.__all__)


def test_public_names_document_their_formula_or_fields():
    for name in analysis.__all__:
        text = getattr(analysis, name).__doc__
        assert 'Returns:' in text or 'Attributes:' in text, name


def test_checks_make_the_text_of_a_value_only_in_errors():
    """`_checks.require_value` does; an argument of `_checks.require` is made in each call."""
    for path in FOLDER.rglob('*.py'):
        for call in calls_of('require', ast.parse(path.read_text())):
            eager = [*calls_of('text_of', call), *calls_of('repr', call)]
            assert not eager, f'{path}:{call.lineno}'


def calls_of(name, tree):
    """Yields the calls of functions of a name within a piece of code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(name):
            yield node
