"""The frame of a figure: its config, its files, and one-line errors."""

import csv
import re
import subprocess
import sys

import numpy as np
import pytest
from matplotlib import image

from fedjax_links.pages import figure
from fedjax_links.pages.figure import FigureResult
from fedjax_links.pages.tables import Table
from tests import refusals
from tests.cli.command import run

RAMP = {'name': f'{__name__}:ramp', 'length': 30}


def ramp(*, length: int) -> FigureResult:
    """A figure of a user's own."""
    columns = {
        'label': np.repeat(['low', 'high'], length),
        'value': np.arange(2 * length) / 7,
    }

    def draw(page):
        page.add_subplot().plot(columns['value'])

    return FigureResult(columns, Table(['length'], [[str(length)]], 'A ramp.'), draw)


def test_files_hold_the_columns(tmp_path):
    config = {'title': 'A ramp', 'figure': RAMP, 'caption': 'Up it goes.'}
    result = figure.build(config)
    figure.write(tmp_path, config, result)
    assert (tmp_path / figure.PICTURE).read_bytes()[:4] == b'\x89PNG'
    rows = list(csv.DictReader((tmp_path / figure.NUMBERS).open()))
    assert len(rows) == len(result.columns['value']) == 60
    assert [row['label'] for row in rows] == result.columns['label'].tolist()
    np.testing.assert_allclose(
        [float(row['value']) for row in rows],
        result.columns['value'],
        rtol=1e-9,
        atol=1e-30,
    )
    text = (tmp_path / figure.TEXT).read_text()
    assert text.startswith('# A ramp\n')
    assert text.endswith('Up it goes.\n')
    assert '| 30 |' in text


def test_blocks_are_stacked_by_name():
    blocks = [{'label': 'a', 'value': [1, 2]}, {'value': 3, 'label': 'b'}]
    columns = figure.stack(blocks)
    assert columns['label'].tolist() == ['a', 'a', 'b']
    assert columns['value'].tolist() == [1, 2, 3]


@pytest.mark.parametrize('words', [4, 12, 30])
def test_a_title_stays_on_its_page(tmp_path, words):
    def draw(page):
        page.add_subplot().set_axis_off()

    title = ' '.join(['Gaussian'] * words)
    figure.save_page(tmp_path / 'x.png', draw, title=title, caption='', size=(5, 3))
    picture = image.imread(tmp_path / 'x.png')[..., :3]
    inked = np.flatnonzero((picture < 1).any(axis=(0, 2)))
    assert 5 < inked[0] < inked[-1] < picture.shape[1] - 6


@pytest.mark.parametrize('name', ['$x_$', 'a $ b', '_', r'$\frac$', r'$\alpha$'])
def test_titles_and_captions_need_not_be_formulas(tmp_path, name):
    def draw(page):
        page.add_subplot().set_axis_off()

    figure.save_page(tmp_path / 'x.png', draw, title=name, caption=name, size=(5, 3))
    assert (image.imread(tmp_path / 'x.png')[..., :3] < 1).any()


@pytest.mark.parametrize(
    'changes, message',
    [
        ({'titel': 'x'}, "`config` has no 'titel'; did you mean 'title'?"),
        ({'caption': 3}, '`config.caption` must be text, got 3.'),
        ({'width': 0}, '`config.width` must be at least 1, got 0.'),
        ({'figure': {}}, '`config.figure.name` must be module:factory, got None.'),
        ({'figure': 'ramp'}, '`config.figure` must be a section, got'),
        (
            {'figure': {'name': 'ramp'}},
            '`config.figure.name` must be module:factory, got ramp.',
        ),
        (
            {'figure': {**RAMP, 'name': f'{__name__}:rampe'}},
            "`config.figure.name` has no 'rampe'; did you mean 'ramp'?",
        ),
        (
            {'figure': {**RAMP, 'name': 'fedjax_links.papers.sun2024:ramp'}},
            '`config.figure.name` must name a module that can be imported, got '
            'fedjax_links.papers.sun2024:ramp.',
        ),
        (
            {'figure': {**RAMP, 'lenght': 1}},
            "`config.figure` has no 'lenght'; did you mean",
        ),
        (
            {'figure': {'name': RAMP['name']}},
            '`config.figure.length` must be given, got None.',
        ),
    ],
)
def test_a_mistake_costs_one_line_that_names_it(changes, message):
    config = {'title': 't', 'figure': {}, 'caption': 'c', **changes}
    with refusals.one_line(f'^{re.escape(message)}'):
        figure.build(config)


CONFIG = """
from ml_collections import ConfigDict

def get_config():
    figure = {'name': 'tests.pages.test_figure:ramp', 'length': 3}
    caption = 'Up to 5 / 7.\\n\\nFrom zero.'
    quick = {'figure': {'length': 2}}
    return ConfigDict({'title': 'A', 'figure': figure, 'caption': caption, 'quick': quick})
"""


@pytest.mark.parametrize(
    'arguments, change',
    [
        ([], ''),
        (
            ['--config.figure.length=5'],
            'Changed from the config: figure.length = 5 (3)',
        ),
        (
            ['--quick', '--config.figure.length=5'],
            'Quick version of the config: figure.length = 5 (3)',
        ),
    ],
)
def test_a_caption_begins_with_what_flags_changed(tmp_path, arguments, change):
    (tmp_path / 'ramp.py').write_text(CONFIG)
    done = run(
        'figure',
        f'--config={tmp_path / "ramp.py"}',
        *arguments,
        f'--workdir={tmp_path}',
    )
    assert done.returncode == 0, done.stderr
    text = 'Up to 5 / 7.\n\nFrom zero.\n'
    if change:
        follows = 'What follows is about the config without changes.'
        text = f'{change}. {follows}\n\n{text}'
    assert (tmp_path / figure.TEXT).read_text().endswith(f'A ramp.\n\n{text}')
    printed = done.stdout.split('A ramp.\n\n')[1].split('\n\nWrote')[0]
    assert printed.split() == text.split()


@pytest.mark.slow
def test_the_command_draws_a_figure_of_the_configs_own_folder(tmp_path):
    (tmp_path / 'ramp.py').write_text(CONFIG.replace('tests.pages.test_figure', 'mine'))
    (tmp_path / 'mine.py').write_text(
        'from tests.pages.test_figure import ramp as ramp\n'
    )
    command = [sys.executable, '-m', 'fedjax_links.cli.figure']
    done = subprocess.run(
        [*command, f'--config={tmp_path / "ramp.py"}', f'--workdir={tmp_path / "out"}'],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / 'out' / figure.NUMBERS).read_text().splitlines()) == 7
