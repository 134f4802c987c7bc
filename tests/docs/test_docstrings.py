"""The examples in docstrings print what they show."""

import doctest
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fedjax_links
from fedjax_links import algorithms, participation, partition, problems


class _Finder(doctest.DocTestFinder):
    """Finds functions of a module also where a decorator of another module wraps them."""

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
        result = finder.find(importlib.import_module(module.name))
        yield from (test for test in result if test.examples)


EXAMPLES = {test.name.removeprefix('fedjax_links.'): test for test in examples()}


@pytest.mark.parametrize('name', EXAMPLES)
def test_example(name):
    text = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    result = runner.run(EXAMPLES[name], out=text.append)
    assert result.failed == 0, ''.join(text)


def test_examples_are_found():
    assert 'analysis.independent_links.fedavg_weights' in EXAMPLES


def registered() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The names and factories of all registries that a config chooses from."""
    for name, entry in algorithms.ALGORITHMS.items():
        yield name, entry.client_program or entry.factory
    for name, entry in participation.PARTICIPATION.items():
        yield name, entry.factory
    yield from problems.PROBLEMS.items()
    yield from partition.PARTITIONS.items()


@pytest.mark.parametrize(('name', 'factory'), list(registered()))
def test_each_registered_factory_has_an_example(name, factory):
    home = inspect.unwrap(factory)
    documented = f'{home.__module__}.{home.__qualname__}'
    assert documented.removeprefix('fedjax_links.') in EXAMPLES
    assert 'Example:' in inspect.getdoc(home)
