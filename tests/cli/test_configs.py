"""Config files and the flags that replace their fields."""

import pytest

from fedjax_links.cli import configs
from tests.cli.command import refused, run

FILE = """
def get_config():
    return {
        'title': 'mine',
        'links': 'bernoulli',
        'client': {'learning_rate': 0.5, 'local_steps': 2},
        'tuning': {'num_rounds': 10},
        'num_rounds': 20,
        'quick': {'num_rounds': 4},
    }
"""


@pytest.fixture
def path(tmp_path):
    """The file."""
    path = tmp_path / 'mine.py'
    path.write_text(FILE)
    return path


@pytest.mark.parametrize(
    'field, text, new, old',
    [
        ('num_rounds', '7', 7, 20),
        ('num_rounds', '7.0', 7.0, 20),
        # Fields that the file does not have.
        ('baseline', 'mifa', 'mifa', 'not given'),
        ('first_seed', '2', 2, 'not given'),
        ('evaluate_start', 'True', True, 'not given'),
        # Texts and floats keep their type.
        ('title', '2024', '2024', 'mine'),
        ('title', "'2024'", '2024', 'mine'),
        ('client.learning_rate', '1', 1.0, 0.5),
        ('client.decay', 'inverse_sqrt', 'inverse_sqrt', 'not given'),
        ('links', "{'name': 'always'}", {'name': 'always'}, 'bernoulli'),
    ],
)
def test_a_flag_gives_a_field_its_value(path, field, text, new, old):
    file = configs.load(str(path), {})
    values = configs.load(str(path), {field: text})
    first, *rest = field.split('.')
    result = values.pop(first)
    for name in rest:
        result = result[name]
    assert result == new
    assert type(result) is type(new)
    if first == 'title':
        # It changes no result, so no caption is added.
        assert 'caption' not in values
    else:
        caption = f'Changed from the config: {field} = {new} ({old}).'
        assert values.pop('caption') == caption
    file.pop(first, None)
    assert values == file


def test_an_option_of_a_section_that_is_a_name_leaves_the_name(path):
    values = configs.load(str(path), {'links.probs': '[0.1, 0.2]'})
    assert values['links'] == {'name': 'bernoulli', 'probs': [0.1, 0.2]}


def test_none_removes_a_field_and_is_the_value_of_a_new_one(path):
    values = configs.load(
        str(path), dict.fromkeys(['tuning', 'client.local_steps', 'grid'], 'None')
    )
    assert values['client'] == {'learning_rate': 0.5}
    assert 'tuning' not in values
    assert values['grid'] is None
    assert 'client.local_steps = not given (2)' in values['caption']
    assert "tuning = not given ({'num_rounds': 10})" in values['caption']


@pytest.mark.parametrize(
    'text, quick, change',
    [
        ('4', False, 'Changed from the config: num_rounds = 4 (20).'),
        ('4', True, 'Quick version of the config: num_rounds = 4 (20).'),
        ('8', True, 'Quick version of the config: num_rounds = 8 (20).'),
    ],
)
def test_a_flag_holds_at_both_sizes(path, text, quick, change):
    values = configs.load(str(path), {'num_rounds': text}, quick=quick)
    assert values['num_rounds'] == int(text)
    assert values['caption'] == change


def test_a_file_runs_once_and_shared_sections_change_alone(tmp_path):
    path = tmp_path / 'shared.py'
    path.write_text(
        'from pathlib import Path\n'
        'ran = Path(__file__).with_suffix(".txt")\n'
        'ran.write_text((ran.read_text() if ran.exists() else "") + "x")\n'
        'def get_config():\n'
        '    probs = {"value": 0.5}\n'
        '    return {"patterns": {"a": {"probs": probs}, "b": {"probs": probs}}}\n'
    )
    values = configs.load(
        str(path), {'patterns.a.probs.value': '0.1', 'patterns.c': 'always'}
    )
    patterns = {
        'a': {'probs': {'value': 0.1}},
        'b': {'probs': {'value': 0.5}},
        'c': 'always',
    }
    assert values['patterns'] == patterns
    assert (tmp_path / 'shared.txt').read_text() == 'x'


def test_what_has_a_to_dict_is_a_config(tmp_path):
    path = tmp_path / 'other.py'
    path.write_text(
        'class Other:\n    def to_dict(self):\n        return {"title": "other"}\n'
        'def get_config():\n    return Other()\n'
    )
    assert configs.load(str(path), {}) == {'title': 'other'}


@pytest.mark.parametrize(
    'command, arguments, message',
    [
        (
            'simulate',
            ['--config.baseline=fedpcb'],
            "`config.baseline` has no 'fedpcb'; did you mean",
        ),
        ('simulate', ['--config.links.schedul=sine'], "did you mean 'schedule'?"),
        (
            'simulate',
            ['--config.links.probs=[0.1, 0.2'],
            '`config.links.probs` has no ',
        ),
        ('simulate', ['--config.num_rounds=abc'], "must be a whole number, got 'abc'."),
        (
            'simulate',
            ['--config.num_rounds.x=1'],
            "`config.num_rounds` must be a section, to have 'x'",
        ),
        (
            'partition',
            ['--config.num_ronds', '5'],
            "`config` has no 'num_ronds'; did you mean 'num_rounds'?",
        ),
        ('figure', [], 'which `python -m fedjax_links simulate` runs.'),
        ('report', ['--config.num_rounds=5'], 'Unknown command line flag'),
    ],
)
def test_a_mistaken_flag_costs_one_line(command, arguments, message):
    config = [] if command == 'report' else ['--config=quickstart']
    workdir = ['--workdir=x'] if command == 'simulate' else []
    assert message in refused(command, *config, *workdir, *arguments)


@pytest.mark.parametrize('command', ['simulate', 'links', 'theory', 'partition'])
def test_the_config_of_a_figure_names_its_command(command):
    line = refused(command, '--config=xiang2024_figure2')
    assert line.startswith('error: `config` must be of an experiment, got ')
    assert 'which `python -m fedjax_links figure` draws.' in line


@pytest.mark.parametrize(
    'config, quick, folder',
    [
        ('quickstart', False, 'runs/quickstart'),
        ('configs/quickstart.py', False, 'runs/quickstart'),
        ('quickstart', True, 'runs/quickstart-quick'),
        (
            'xiang2024_table1:svhn,as_released',
            False,
            'runs/xiang2024_table1-svhn-as_released',
        ),
    ],
)
def test_a_command_without_a_folder_has_one_of_its_configs_name(config, quick, folder):
    assert configs.workdir(config, quick=quick) == folder


@pytest.mark.slow
@pytest.mark.usefixtures('unrendered')
def test_the_default_folder_is_printed_and_holds_one_experiment(plain, tmp_path):
    first = run(*plain, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert 'folder   runs/plain\n' in first.stdout
    assert (tmp_path / 'runs' / 'plain' / 'report.md').exists()
    other = run(*plain, '--config.client.local_steps=2', cwd=tmp_path)
    assert other.returncode == 2
    assert other.stderr.count('\n') == 1
    assert 'runs/plain, where config.client.local_steps is 3 and not 2' in other.stderr


@pytest.mark.usefixtures('unrendered')
def test_a_figure_without_a_folder_has_one_too(tmp_path):
    done = run('figure', '--config=xiang2024_figure2', '--quick', cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert 'figure.md to runs/xiang2024_figure2-quick' in done.stdout
    assert (tmp_path / 'runs' / 'xiang2024_figure2-quick' / 'figure.csv').exists()


def test_the_help_of_a_command_names_its_flags():
    for command in ('simulate', 'figure'):
        listed = run(command, '--help').stdout
        assert all(f'--{name}' in listed for name in ('config', '[no]quick', 'workdir'))
