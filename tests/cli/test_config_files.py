"""Config files that users write: dictionaries, other kinds, and mistakes in them."""

import numpy as np
import pytest

from fedjax_links import runs
from tests.cli.command import refused, run


@pytest.mark.parametrize(
    'text, message',
    [
        ('def get_config():\n    return ConfigDict({})\n', 'NameError: name '),
        ('def get_config(:\n    pass\n', 'SyntaxError: invalid syntax on line 1 of '),
        ("def get_config():\n    return {}['k']\n", "KeyError: 'k' on line 2 of "),
        ('def get_config():\n    assert False\n', 'AssertionError on line 2 of '),
        (
            'def get_config():\n    raise RuntimeError("x")\n',
            'RuntimeError: x on line 2 of ',
        ),
        ('def get_config():\n    return 1 .y\n', "no attribute 'y' on line 2 of "),
        ('import nowhere\n', "No module named 'nowhere' on line 1 of "),
        ('def get_config():\n    open("/no/data")\n', 'No such file or directory: '),
    ],
)
def test_a_file_that_python_does_not_run_costs_one_line(text, message, tmp_path):
    (tmp_path / 'mistaken.py').write_text(text)
    error = refused('simulate', f'--config={tmp_path / "mistaken.py"}', '--dry_run')
    assert error.startswith('error: `mistaken.py` must run, got ')
    assert message in error


@pytest.mark.usefixtures('unrendered')
def test_a_config_may_be_a_plain_dictionary(tmp_path):
    values = {
        'title': 'plain',
        'problem': {'name': 'quadratic', 'targets': [[0.0], [1.0]]},
        'links': {'name': 'always'},
        'client': {'learning_rate': 0.5, 'local_steps': 1},
        'algorithms': {'fedavg': {}},
        'num_rounds': 2,
        'eval_every': 1,
    }
    (tmp_path / 'plain.py').write_text(f'def get_config():\n    return {values!r}\n')
    config = f'--config={tmp_path / "plain.py"}'
    done = run('simulate', config, '--config.client.learning_rat=1.0', '--dry_run')
    assert done.stderr == (
        "error: `config.algorithms.fedavg.client` has no 'learning_rat'; "
        "did you mean 'learning_rate'?\n"
    )
    overrides = '--config.client.learning_rate=1.0', '--config.num_rounds=3'
    done = run('simulate', config, *overrides, f'--workdir={tmp_path / "run"}')
    assert done.returncode == 0, done.stderr
    result = runs.read(tmp_path / 'run')
    assert result['round'][-1] == 3
    # At rate 1 each client lands on its target, and the server between them, at 0.5.
    np.testing.assert_allclose(result['server/loss'][-1], 0.5 * 0.5**2)


@pytest.mark.parametrize('returned, kind', [('[1]', 'list'), ('None', 'NoneType')])
def test_a_config_of_another_kind_costs_one_line(returned, kind, tmp_path):
    (tmp_path / 'wrong.py').write_text(f'def get_config():\n    return {returned}\n')
    text = refused('simulate', f'--config={tmp_path / "wrong.py"}', '--dry_run')
    message = '`config` must name a file whose get_config returns a dictionary'
    assert text.startswith(f'error: {message}, got {kind} from ')


@pytest.mark.parametrize(
    'word, message',
    [
        (
            ':other',
            '`words.py` must run, got ValueError: `words` must be known, got other on ',
        ),
        (':key', "`words.py` must run, got KeyError: 'key' on line 7 of "),
        (':number', '`words.py` must run, got ValueError: invalid literal'),
        (':dict', "`config` must have 'problem', got only []."),
        ('', '`config` must have a word after a colon, as its get_config says, got '),
    ],
)
def test_a_word_that_a_config_cannot_use_costs_one_line(word, message, tmp_path):
    path = tmp_path / 'words.py'
    path.write_text(
        'def get_config(word):\n'
        "    if word == 'other':\n"
        "        raise ValueError('`words` must be known, got other.')\n"
        "    if word == 'number':\n"
        '        return int(word)\n'
        '    if word != "dict":\n'
        '        return {}[word]\n'
        '    return {}\n'
    )
    text = refused('simulate', f'--config={path}{word}', '--dry_run')
    assert text.startswith(f'error: {message}')


def test_a_config_without_words_or_function_says_so(tmp_path):
    two = tmp_path / 'two.py'
    empty = tmp_path / 'empty.py'
    two.write_text('def get_config(a, b):\n    return {}\n')
    empty.write_text('')
    for config, message in (
        (
            'quickstart:word',
            '`config` must have no word after a colon, as its get_config ',
        ),
        (f'{two}:word', '`config` must have a get_config of one word, got missing'),
        (str(empty), '`config` must name a file with a function get_config, got'),
    ):
        text = refused('simulate', f'--config={config}', '--dry_run')
        assert text.startswith(f'error: {message}')
