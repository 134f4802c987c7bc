"""Tests that modules beside a config are importable while it is used, and not afterwards."""

import importlib
import sys

import pytest

from fedjax_links.config import resolver
from fedjax_links.core import errors


def write(folder, **modules):
    """Writes modules of one constant each."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in modules.items():
        (folder / f'{name}.py').write_text(f'VALUE = {value}\n')
    return folder


def value_of(name):
    return importlib.import_module(name).VALUE


def test_another_folder_may_use_the_same_names(tmp_path):
    for value in range(2):
        folder = write(tmp_path / str(value), beside_a_config=value)
        write(folder / 'package_beside', __init__=value, part=value + 10)
        with resolver.importable(folder):
            assert value_of('beside_a_config') == value_of('package_beside') == value
            assert value_of('package_beside.part') == value + 10
    assert not {'beside_a_config', 'package_beside', 'package_beside.part'} & set(
        sys.modules
    )


def test_a_virtual_environment_in_the_folder_keeps_its_modules(tmp_path, monkeypatch):
    site = write(tmp_path / '.venv' / 'site-packages', installed_there=1)
    write(site / 'package_there', __init__=2, early=3, later=4)
    monkeypatch.syspath_prepend(str(site))
    try:
        value_of('package_there.early')
        with resolver.importable(tmp_path):
            assert value_of('installed_there') == 1
            assert value_of('package_there.later') == 4
        assert {'installed_there', 'package_there.early', 'package_there.later'} <= set(
            sys.modules
        )
    finally:
        for name in [
            n for n in sys.modules if n.endswith('_there') or n.startswith('package_th')
        ]:
            del sys.modules[name]


@pytest.mark.parametrize(
    'name', [':', ':factory', '.beside:f', '../beside:f', 'a..b:f']
)
def test_a_name_without_a_module_is_a_mistake(name):
    with pytest.raises(errors.InvalidError) as refused:
        resolver.build_named('config.links', {'name': name}, {})
    assert str(refused.value) == (
        '`config.links.name` must be module:factory, such as mine:my_algorithm, got '
        f'{name}.'
    )
