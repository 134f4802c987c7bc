"""Shipped configs by name, from any folder."""

import pytest

from fedjax_links.config import shipped
from tests.cli.command import refused, run
from tests.configs.shipped import FOLDER, PATHS

OWN = """from ml_collections import ConfigDict


def get_config():
    return ConfigDict({'title': 'mine', 'figure': {'name': 'm:f'}, 'caption': 'c'})
"""


def test_every_shipped_config_has_its_name():
    assert list(shipped.configs().values()) == PATHS
    assert shipped.locate('quickstart') == str(FOLDER / 'quickstart.py')
    assert shipped.locate('map:space,rounds') == f'{FOLDER / "map.py"}:space,rounds'


@pytest.mark.parametrize(
    'name', ['', ':space', 'configs/quickstart.py', 'own.py', './map']
)
def test_what_cannot_be_a_name_stays_as_it_is(name):
    assert shipped.locate(name) == name


def test_a_file_wins_over_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'quickstart').mkdir()  # a folder is no config
    assert shipped.locate('quickstart') == str(FOLDER / 'quickstart.py')
    (tmp_path / 'map').write_text(OWN)
    assert shipped.locate('map:space') == 'map:space'


def test_an_installation_has_its_configs_inside_the_package(tmp_path, monkeypatch):
    inside = tmp_path / 'inside'
    outside = tmp_path / 'beside'
    monkeypatch.setattr(shipped, '_FOLDERS', (inside, outside))
    assert shipped.configs() == {}
    for folder in (outside, inside):
        folder.mkdir()
        (folder / 'quickstart.py').write_text(OWN)
        assert shipped.configs() == {'quickstart': folder / 'quickstart.py'}


@pytest.mark.parametrize(
    'command, config, printed',
    [
        (
            'theory',
            ['--config', 'quickstart', '--config.title=Mine', '--rounds=100'],
            'Mine',
        ),
        pytest.param(
            'links',
            ['--config=quickstart', '--rounds=100'],
            'Digits over label-dependent uplinks',
            marks=pytest.mark.slow,
        ),
        pytest.param(
            'partition', ['--config=quickstart'], 'digits', marks=pytest.mark.slow
        ),
        pytest.param(
            'theory',
            ['--config=exactness:cyclic', '--rounds=100'],
            'cyclic',
            marks=pytest.mark.slow,
        ),
    ],
)
def test_commands_take_a_name_in_an_empty_folder(command, config, printed, tmp_path):
    done = run(command, *config, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert printed.lower() in done.stdout.lower()


@pytest.mark.parametrize(
    'config, message',
    [
        ('quikstart', "`configs` has no 'quikstart'; did you mean 'quickstart'?"),
        ('exactnes:cyclic', "`configs` has no 'exactnes'; did you mean 'exactness'?"),
        ('exactness:cyclik', "`config` has no 'cyclik'; did you mean 'cyclic'?"),
        (
            'configs/quickstart.py',
            'got configs/quickstart.py; did you mean quickstart?',
        ),
        ('base', '`config` must name a file, as base.py does, got base.'),
        ('base:x', '`config` must name a file, as base.py:x does, got base.'),
        ('picture', '`config` must name a file of Python, got picture.'),
        (
            'folder',
            '`config` must name a readable config file, got folder: Is a directory.',
        ),
        (
            './folder',
            '`config` must name a readable config file, got ./folder: Is a directory.',
        ),
        (
            'zzz',
            '`config` must name a file, or a config that `python -m fedjax_links` lists, got zzz',
        ),
    ],
)
def test_a_mistake_costs_one_line(config, message, tmp_path):
    (tmp_path / 'folder').mkdir()
    (tmp_path / 'base.py').write_text(OWN)
    (tmp_path / 'picture').write_bytes(b'\x89PNG\x00')
    assert message in refused(
        'simulate', f'--config={config}', '--dry_run', cwd=tmp_path
    )
