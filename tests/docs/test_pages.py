"""The code on the site's pages runs and prints what they show."""

import shlex

import pytest

from fedjax_links.config import registries
from tests.cli import command
from tests.docs import pages


def arguments(line):
    """Returns a command's words without its folder; what would train is a dry run."""
    words = [word for word in shlex.split(line)[3:] if not word.startswith('--workdir')]
    if 'simulate' in words and '--dry_run' not in words:
        words.append('--dry_run')
    return tuple(words)


COMMANDS = {arguments(line) for line in pages.commands(pages.DOCS / 'commands.md')}
"""`tests/docs/test_readme.py` runs these."""


def runs_elsewhere(words):
    """Returns whether `COMMANDS` has these words, also without `--quick`."""
    at_full_size = tuple(word for word in words if word != '--quick')
    return words in COMMANDS or at_full_size in COMMANDS


def cases():
    """Yields the commands to run, each once; those that build an experiment are slow."""
    lines = [line for page in pages.PAGES for line in pages.commands(page)]
    for words in sorted({arguments(line) for line in lines}):
        if not runs_elsewhere(words):
            marks = pytest.mark.slow if 'simulate' in words else ()
            yield pytest.param(words, id=' '.join(words), marks=marks)


@pytest.mark.parametrize('page', pages.PAGES, ids=pages.name)
def test_code_runs_and_prints_what_is_shown(page):
    namespace = {'__name__': 'page'}
    for block in pages.blocks(page):
        text = pages.printed(block.source, namespace)
        assert text == (block.shown or '')


def test_the_page_on_patterns_names_all_formats_of_logs():
    page = (pages.DOCS / 'howto' / 'add_a_pattern.md').read_text()
    names = ', '.join(f'`{name}`' for name in registries.TRACE_FORMATS)
    assert f'({names})' in page


@pytest.mark.parametrize('words', list(cases()))
def test_commands_run(words, tmp_path):
    """They write to another folder and train nothing."""
    done = command.run(*words, f'--workdir={tmp_path}')
    assert done.returncode == 0, done.stderr
    assert done.stdout
