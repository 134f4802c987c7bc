"""The package stands alone and keeps its public names."""

import ast
import pathlib
import sys

from fedjax_links import analysis

FOLDER = pathlib.Path(analysis.__file__).parent
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


def test_only_numpy_scipy_and_the_one_error_are_imported():
    for path in FOLDER.rglob('*.py'):
        for module in imported_modules(path):
            top = module.split('.')[0]
            assert (
                top in ('numpy', 'scipy')
                or top in sys.stdlib_module_names
                or module.startswith(
                    ('fedjax_links.analysis', 'fedjax_links.core.errors')
                )
            ), (path.name, module)


def test_the_contract_is_exported():
    assert set(analysis.__all__) >= CONTRACT
    assert all(hasattr(analysis, name) for name in analysis.__all__)


def test_public_names_document_their_formula_or_fields():
    for name in analysis.__all__:
        text = getattr(analysis, name).__doc__
        assert 'Returns:' in text or 'Attributes:' in text, name


def test_files_stay_short():
    for path in FOLDER.rglob('*.py'):
        assert len(path.read_text().splitlines()) < 400, path.name
