"""Flags that all commands share, absl's and JAX's own among them."""

import json
import os
import pty
import subprocess
import sys

import pytest

import fedjax_links
import fedjax_links.__main__ as front
from fedjax_links.cli import configs
from tests import ROOT
from tests.cli.command import in_a_process, refused, run


@pytest.mark.parametrize('command', ['simulate', 'status', 'compare'])
def test_a_command_prints_its_version(command):
    done = run(command, '--version')
    assert (done.returncode, done.stdout) == (
        0,
        f'fedjax_links {fedjax_links.__version__}\n',
    )


PRINT_HELP_AND_LOADED = """
import json, sys
import fedjax_links.__main__ as front
from tests.cli import command

ends = {}
for name in front.commands():
    done = command.run(name, '--help')
    ends[name] = [done.returncode, '--' in done.stdout, *{*sys.argv[1:]} & {*sys.modules}]
print(json.dumps(ends))
"""


def test_the_help_of_no_command_loads_jax():
    """One process prints that of each command, and what is loaded after it."""
    libraries = ('jax', 'numpy', 'matplotlib', 'pandas', 'tensorflow')
    done = subprocess.run(
        [sys.executable, '-c', PRINT_HELP_AND_LOADED, *libraries],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == {name: [1, True] for name in front.commands()}


@pytest.mark.parametrize(
    'flag, near',
    [
        ('--seeds=3', 'config.num_seeds'),
        ('--learning_rate=0.1', 'config.client.learning_rate'),
        ('--rounds=10', 'config.num_rounds'),
        ('--workdr=x', 'workdir'),
        ('--dryrun', 'dry_run'),
    ],
)
def test_an_unknown_flag_names_the_nearest_one(flag, near):
    line = refused('simulate', '--config=quickstart', flag)
    assert line.endswith(f'. Did you mean: {near} ?\n')


@pytest.mark.parametrize(
    'arguments, message',
    [
        (('simulate', '--devices=two'), '`devices` must be a whole number, got two.'),
        (('simulate', '--devices='), "`devices` must be a whole number, got ''."),
        (('theory', '--rounds=1e3'), '`rounds` must be a whole number, got 1e3.'),
        (('links', '--tick=a: b'), '`tick` must be a number, got a: b.'),
        (('figure', '--quick=maybe'), '`quick` must be true or false, got maybe.'),
        (('figure', '--workdir='), "`workdir` must name a file or folder, got ''."),
        (('export', '--to='), "`to` must name a file or folder, got ''."),
    ],
)
def test_a_value_that_is_none_for_its_flag_is_named(arguments, message):
    assert refused(*arguments) == f'error: {message}\n'


def test_quick_needs_a_config():
    assert '`config` must name a config' in refused('certify', '--quick')


def test_a_command_without_a_config_names_its_nearest_flag():
    line = refused('status', '--wach=3')
    assert line.endswith("flag 'wach'. Did you mean: watch ?\n")
    assert 'config.' not in refused('status', '--seeds=3')


def test_a_flag_that_is_near_none_meets_the_list_of_flags():
    line = refused('figure', '--config=sun2025_figure1', '--dry_run')
    assert line == (
        "error: Unknown command line flag 'dry_run'; flags of this command: --config, "
        '--quick, --workdir\n'
    )


@pytest.mark.parametrize(
    ('arguments', 'hint'),
    [
        (('simulate', 'quickstart'), 'did you mean --config=quickstart?'),
        (('simulate', 'num_rounds=3'), 'overrides look like --config.num_rounds=100.'),
        (('status', 'runs/mine'), 'did you mean --workdir=runs/mine?'),
        (('report', 'runs/mine'), 'did you mean --workdir=runs/mine?'),
        (('report', 300 * 'a'), f'did you mean --workdir={300 * "a"}?'),
    ],
)
def test_an_argument_that_is_no_flag_meets_its_flag(arguments, hint):
    line = refused(*arguments)
    assert line.endswith(f'unexpected argument {arguments[1]!r}; {hint}\n')


@pytest.mark.parametrize('command', ['figure', 'simulate'])
def test_the_nearest_config_is_one_that_the_command_takes(command):
    line = refused(command, '--config=xiang2024_figure1')
    near = line.rpartition('did you mean ')[2].strip("'?\n")
    text = (ROOT / 'configs' / f'{near}.py').read_text()
    assert near.startswith('xiang2024_figure')
    assert f'python -m fedjax_links {command} ' in text


@pytest.mark.parametrize(
    'field, near',
    [
        ('learning_rate=0.1', 'client.learning_rate'),
        ('local_step=2', 'client.local_steps'),
        ('num_client=5', 'problem.num_clients'),
        ('num_seed=5', 'num_seeds'),
        ('algorithms.fedavg.learning_rate=0.1', 'client.learning_rate'),
    ],
)
def test_an_option_at_the_top_names_its_section(field, near):
    line = refused('theory', '--config=quickstart', f'--config.{field}')
    assert line.endswith(f'; did you mean {near!r}?\n')


@pytest.mark.parametrize('command', ['simulate', 'status'])
@pytest.mark.parametrize('content', [None, b'\xff\xfe'])
def test_a_file_of_flags_that_cannot_be_read_costs_one_line(command, content, tmp_path):
    path = tmp_path / 'flags'
    if content is not None:
        path.write_bytes(content)
    line = refused(command, f'--flagfile={path}')
    assert line.startswith('error: `flagfile` must name a readable file of flags, got ')


@pytest.mark.slow
def test_flags_of_jax_are_those_of_jax(tmp_path):
    path = tmp_path / 'shown.py'
    path.write_text(
        'import jax\n'
        'def get_config():\n'
        '    print(jax.config.jax_debug_nans, jax.config.jax_default_matmul_precision)\n'
        '    return {}\n'
    )
    arguments = ['--jax_debug_nans', '--jax_default_matmul_precision=highest']
    done = in_a_process('theory', f'--config={path}', *arguments)
    assert done.stdout == 'True highest\n', done.stderr
    assert done.returncode == 2
    assert (
        'jax_no_such'
        in in_a_process('theory', '--config=quickstart', '--jax_no_such=1').stderr
    )


def test_a_debugger_starts_where_the_error_is(tmp_path):
    path = tmp_path / 'fails.py'
    path.write_text('def get_config():\n    here = 7\n    raise KeyError("lost")\n')
    ours, theirs = pty.openpty()
    command = [sys.executable, '-m', 'fedjax_links', 'theory', f'--config={path}']
    with subprocess.Popen(
        [*command, '--pdb_post_mortem'],
        cwd=ROOT,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        os.write(ours, b'p "here is", here\nq\n')
        shown = b''
        while True:
            try:
                shown += os.read(ours, 4096)
            except OSError:  # it has ended
                break
    os.close(ours)
    assert b'Entering post-mortem debugging' in shown
    assert b"('here is', 7)" in shown
    assert process.returncode == 1


def test_a_home_stands_in_paths_of_flags(tmp_path, monkeypatch):
    monkeypatch.setenv('HOME', str(tmp_path))
    (tmp_path / 'mine.py').write_text((ROOT / 'configs' / 'quickstart.py').read_text())
    assert configs.load('~/mine.py', {})['num_rounds'] == 1000
    line = refused('simulate', '--config=~/mine.py', '--workdir=~/mine.py', '--dry_run')
    assert f'got {tmp_path}/mine.py, where {tmp_path}/mine.py is a file' in line
    fork = '--fork_from=~/a', '--workdir=~/a', '--at_round=20'
    assert f'got {tmp_path}/a.' in refused('simulate', '--config=quickstart', *fork)
    assert f'{tmp_path}/b' in refused('report', '--workdir=~/b')
    assert f'{tmp_path}/c' in refused('export', '~/c', '--to=~/d')
    assert f'{tmp_path}/e' in refused('merge', '--workdir=~/d', '~/e')
    assert f'{tmp_path}/g' in refused('links', '--log=~/g')
    assert f'{tmp_path}/d\n' in run('data', 'list', '--data_dir=~/d').stdout
    figure = run(
        'figure', '--config=xiang2024_figure2', '--quick', '--workdir=~/figure'
    )
    assert figure.returncode == 0, figure.stderr
    assert (tmp_path / 'figure' / 'figure.csv').exists()
    assert not (tmp_path / '~').exists()


def test_a_name_that_resembles_nothing_lists_what_there_is():
    line = refused('theory', '--config=quickstart', '--config.links.period=3')
    assert line.endswith(
        "`config.links` has no 'period'; valid names: probs, schedule.\n"
    )


def test_a_number_of_seeds_meets_its_field():
    line = refused('theory', '--config=quickstart', '--config.seeds=3')
    assert line.endswith('a section, or else `config.num_seeds`, got 3.\n')
    line = refused('theory', '--config=quickstart', '--config.seeds=[0, 1]')
    assert line.endswith('a section, or else `config.num_seeds`, got [0, 1].\n')


def test_an_option_of_links_by_another_name_is_named():
    links = '--config.links={"name": "cyclic", "probs": 0.5, "period": 10}'
    assert "did you mean 'cycle_length'?" in refused(
        'theory', '--config=quickstart', links
    )
