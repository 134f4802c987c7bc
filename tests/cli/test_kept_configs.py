"""The config in the folder of a run or an archive is a config of every command."""

import json

import pytest

from fedjax_links import experiment
from fedjax_links.cli import configs
from fedjax_links.storage import documents
from tests.cli.command import refused


@pytest.fixture
def recorded(tmp_path):
    """The file of a run, and the config in it."""
    values = configs.load('quickstart', {})
    values['algorithms'] = {'fedpbc': {}, 'fedavg': {}}
    path = tmp_path / 'config.json'
    path.write_bytes(documents.as_json(values))
    return path, values


def test_a_recorded_config_is_the_experiment_that_ran(recorded):
    path, values = recorded
    result = configs.load(str(path), {})
    assert result == values
    assert list(result['algorithms']) == ['fedpbc', 'fedavg']  # as the run had them
    assert experiment.build(result) == experiment.build(values)
    changed = configs.load(str(path), {'num_rounds': '40'})
    assert changed['num_rounds'] == 40
    assert changed['caption'] == 'Changed from the config: num_rounds = 40 (1000).'


@pytest.mark.parametrize(
    'text, word, message',
    [
        ('{', '', '`config` must name a readable file of JSON, got '),
        pytest.param(
            '[' * 10**5,
            '',
            '`config` must name a readable file of JSON, got ',
            id='nested lists',
        ),
        ('[1]', '', '`config` must name a file with a section, got '),
        (
            json.dumps({'title': 'x'}),
            ':word',
            '`config` must have no word after a colon, as a',
        ),
        (
            json.dumps({'titel': 'x'}),
            '',
            "`config` has no 'titel'; did you mean 'title'?",
        ),
    ],
)
def test_a_file_that_is_no_recorded_config_costs_one_line(
    text, word, message, tmp_path
):
    path = tmp_path / 'config.json'
    path.write_text(text)
    assert message in refused('theory', f'--config={path}{word}')
