"""The examples in docstrings print what they show."""

import doctest
import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import pytest

import fedjax_links

MANY = 60


class _Finder(doctest.DocTestFinder):
    """Looks through decorators, which have the globals of another module."""

    def _from_module(self, module, object):
        return super()._from_module(module, inspect.unwrap(object))


def examples() -> Iterator[doctest.DocTest]:
    """Every example of the package; modules without one are not imported."""
    finder = _Finder(exclude_empty=True)
    for module in pkgutil.walk_packages(fedjax_links.__path__, 'fedjax_links.'):
        spec = module.module_finder.find_spec(module.name)
        with open(spec.origin) as source:
            if '>>> ' not in source.read():
                continue
        found = finder.find(importlib.import_module(module.name))
        yield from (test for test in found if test.examples)


EXAMPLES = {test.name.removeprefix('fedjax_links.'): test for test in examples()}


@pytest.mark.parametrize('name', EXAMPLES)
def test_example(name):
    told = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    result = runner.run(EXAMPLES[name], out=told.append)
    assert result.failed == 0, ''.join(told)


def test_examples_are_found():
    assert len(EXAMPLES) >= MANY
    assert 'analysis.independent_links.fedavg_weights' in EXAMPLES
