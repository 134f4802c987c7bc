"""The code on the site's pages runs and prints what they show."""

import shlex

import pytest

from tests.cli import command
from tests.docs import pages

QUICK = {'theory', 'figure'}
COMMANDS = sorted({line for page in pages.PAGES for line in pages.commands(page)})


@pytest.mark.parametrize('page', pages.PAGES, ids=pages.name)
def test_code_runs_and_prints_what_is_shown(page):
    namespace = {'__name__': 'page'}
    for block in pages.blocks(page):
        text = pages.printed(block.source, namespace)
        if block.shown is not None:
            assert text == block.shown
        else:
            assert text == ''


@pytest.mark.parametrize(
    'line',
    [pytest.param(line, marks=pytest.mark.slow if 'simulate' in line else ()) for line in COMMANDS],
)
def test_commands_run(line, tmp_path):
    """As shown, but in another folder, and without training."""
    words = shlex.split(line)[3:]
    if words and 'simulate' in words:
        words = [w for w in words if w != '--dry_run' and not w.startswith('--workdir')]
        words += [f'--workdir={tmp_path}', '--dry_run']
    words = [f'--workdir={tmp_path}' if w.startswith('--workdir') else w for w in words]
    done = command.run(*words)
    assert done.returncode == 0, done.stderr
    assert done.stdout
