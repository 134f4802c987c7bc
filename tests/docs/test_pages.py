"""The code on the site's pages runs and prints what they show."""

import shlex

import pytest

from tests.cli import command
from tests.docs import pages


def arguments(line):
    """A command without its folder; what would train is only prepared."""
    words = [word for word in shlex.split(line)[3:] if not word.startswith('--workdir')]
    if 'simulate' in words and '--dry_run' not in words:
        words.append('--dry_run')
    return tuple(words)


COMMANDS = {arguments(line) for line in pages.commands(pages.DOCS / 'commands.md')}
"""These `tests/docs/test_readme.py` runs."""
ARGUMENTS = sorted(
    {arguments(line) for page in pages.PAGES for line in pages.commands(page)}
)


@pytest.mark.parametrize('page', pages.PAGES, ids=pages.name)
def test_code_runs_and_prints_what_is_shown(page):
    namespace = {'__name__': 'page'}
    for block in pages.blocks(page):
        text = pages.printed(block.source, namespace)
        assert text == (block.shown or '')


@pytest.mark.parametrize(
    'words',
    [
        pytest.param(
            words, id=' '.join(words), marks=[pytest.mark.slow] * ('simulate' in words)
        )
        for words in ARGUMENTS
        if {words, tuple(word for word in words if word != '--quick')}.isdisjoint(
            COMMANDS
        )
    ],
)
def test_commands_run(words, tmp_path):
    """In another folder, and without training."""
    done = command.run(*words, f'--workdir={tmp_path}')
    assert done.returncode == 0, done.stderr
    assert done.stdout
