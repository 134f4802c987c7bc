"""``python -m fedjax_links``: what it lists, and how it passes a command on."""

import os
import subprocess
import sys
import time
import tomllib

import pytest

import fedjax_links.__main__ as front
from fedjax_links.core import errors
from tests import ROOT
from tests.cli import command


def test_commands_are_the_modules_with_a_main(tmp_path, monkeypatch):
    (tmp_path / 'wave.py').write_text(
        '"""Waves.\n\nMore."""\n\n\ndef main():\n    pass\n'
    )
    (tmp_path / 'helper.py').write_text('"""Helps."""\n\n\ndef run():\n    pass\n')
    (tmp_path / 'broken.py').write_text(
        'raise RuntimeError\n\n\ndef main():\n    pass\n'
    )
    monkeypatch.setattr(front, '_COMMANDS', tmp_path)
    assert front.commands() == {'broken': '', 'wave': 'Waves.'}


def test_the_shipped_commands_are_found_with_what_they_do():
    result = front.commands()
    assert {
        'figure',
        'links',
        'partition',
        'report',
        'simulate',
        'theory',
    } <= result.keys()
    assert not {'app', '__init__'} & result.keys()
    assert all(line.endswith('.') for line in result.values())


@pytest.mark.parametrize('arguments', [[], ['help']])
def test_commands_and_registries_are_listed(arguments, capsys):
    assert front.main(arguments) == 0
    listed = capsys.readouterr()
    assert listed.err == ''
    sections = dict(
        part.split('\n', 1) for part in listed.out.strip().split('\n\n')[1:]
    )
    configs = {f'configs of {name}': names for name, names in front.configs().items()}
    expected = {'commands': front.commands(), **configs, **front.tables()}
    assert sections.keys() == expected.keys()
    for title, names in expected.items():
        lines = [line.split(maxsplit=1) for line in sections[title].splitlines()]
        assert [name for name, _ in lines] == sorted(names)
    assert '  fedpbc ' in sections['algorithms']
    assert 'Runs FedPBC: clients train their own models' in sections['algorithms']
    entries = {
        'reports': 'heat_map',
        'log': 'links',
        'device speeds': 'lognormal',
        'links': 'recorded',
    }
    for title, name in entries.items():
        assert f'  {name} ' in sections[title]
    assert '  quickstart ' in sections['configs of simulate']
    assert '  xiang2024_figure2 ' in sections['configs of figure']


def test_help_lists_commands_and_configs_without_jax():
    """JAX, and all that needs it, costs most of the start."""
    code = (
        'import sys; import fedjax_links.__main__ as front; status = front.main(sys.argv[1:]); '
        "assert not {'jax', 'numpy', 'absl'} & sys.modules.keys(); sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, '-c', code, '--help'],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for name in front.commands():
        assert f'\n  {name} ' in done.stdout
    assert '\n  quickstart ' in done.stdout
    assert 'Without arguments' in done.stdout
    assert command.run('-h').stdout == done.stdout


def test_an_entry_with_a_client_program_is_described_by_it():
    assert "FedProx's local steps" in front.tables()['algorithms']['fedprox']


def test_help_of_a_name_is_that_of_the_command():
    printed = command.run('status', '--help').stdout
    assert '--watch' in printed
    assert command.run('help', 'status').stdout == printed


@pytest.mark.parametrize(
    'arguments', [['simulat', '--config=configs/quickstart.py'], ['help', 'simulat']]
)
def test_an_unknown_command_costs_one_line(arguments):
    expected = errors.unknown_name('command', 'simulat', ['simulate'])
    assert command.refused(*arguments) == f'error: {expected}\n'


@pytest.mark.parametrize(
    'arguments',
    [
        pytest.param(
            ['--config=configs/quickstart.py', '--dry_run', '--config.num_seed=2'],
            marks=pytest.mark.slow,
        ),
        ['--config=configs/quickstart.py', 'extra'],
    ],
)
def test_a_command_runs_as_by_its_own_module(arguments):
    result = command.in_a_process('simulate', *arguments)
    module = [sys.executable, '-m', 'fedjax_links.cli.simulate']
    expected = command.in_a_process(*arguments, program=module)
    assert result.returncode == 2
    assert (result.stdout, result.stderr) == (expected.stdout, expected.stderr)
    assert result.stderr.count('\n') == 1


def test_the_help_of_a_command_needs_no_second():
    """On a busy machine, one of three."""
    for _ in range(3):
        began = time.perf_counter()
        done = command.in_a_process('simulate', '--help')
        seconds = time.perf_counter() - began
        assert 'workdir' in done.stdout
        if seconds < 1:
            break
    assert seconds < 1


def test_the_console_command_is_the_same(tmp_path):
    """As an installer writes it, whose folder is first on the path instead of that of the user."""
    project = tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']
    assert project['scripts'] == {'fedjax-links': 'fedjax_links.__main__:main'}
    script = tmp_path / 'bin' / 'fedjax-links'
    script.parent.mkdir()
    script.write_text(
        'import sys\nfrom fedjax_links.__main__ import main\nsys.exit(main())\n'
    )
    config = 'import own\n\n\ndef get_config():\n    return {}\n'
    (tmp_path / 'own.py').write_text('raise SystemExit("seen")\n')
    (tmp_path / 'configs').mkdir()
    (tmp_path / 'configs' / 'mine.py').write_text(config)
    of_user = {'cwd': tmp_path, 'env': {**os.environ, 'PYTHONPATH': str(ROOT)}}
    program = [sys.executable, str(script)]
    for words in (['simulat'], ['simulate', '--config=configs/mine.py']):
        by_module = command.in_a_process(*words, **of_user)
        by_script = command.in_a_process(*words, program=program, **of_user)
        assert by_module.returncode == by_script.returncode != 0
        assert by_module.stdout == by_script.stdout
        assert by_module.stderr == by_script.stderr
    assert by_script.stderr == 'seen\n'


@pytest.mark.slow
def test_a_reader_who_leaves_early_costs_no_traceback():
    listing = subprocess.Popen(
        command.COMMAND,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    listing.stdout.close()
    assert listing.stderr.read() == ''
    assert listing.wait(timeout=60) == 1
    listing.stderr.close()
