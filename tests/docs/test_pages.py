"""The code and the commands on the site's pages run and print what they show."""

import re
import shlex

import pytest

from fedjax_links.config import registries
from fedjax_links.runner import dry_runs
from tests.cli import command
from tests.docs import pages

REPORT = ('report', '--workdir=FOLDER')
LINES = [
    line
    for page in [*pages.PAGES, pages.DOCS / 'commands.md']
    for line in pages.commands(page)
]


def arguments(line):
    """Returns a command's words, its folder last; what would train is a dry run."""
    words = shlex.split(line)[3:]
    if 'simulate' in words and '--dry_run' not in words:
        words.append('--dry_run')
    others = [word for word in words if not word.startswith('--workdir=')]
    return (*others, '--workdir=FOLDER') if len(others) < len(words) else (*others,)


COMMANDS = sorted({arguments(line) for line in LINES} - {REPORT})
"""The commands to run, each once; a report needs a run, which they do not make."""


@pytest.mark.parametrize('page', pages.PAGES, ids=pages.name)
def test_code_runs_and_prints_what_is_shown(page):
    namespace = {'__name__': 'page'}
    for block in pages.blocks(page):
        text = pages.printed(block.source, namespace)
        assert text == (block.shown or '')


def test_comments_of_the_page_on_cost_say_what_it_prints(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {'__name__': '__main__'}
    sources = pages.code((pages.DOCS / 'cost.md').read_text(), 'python')
    assert sources
    for source in sources:
        expected = re.findall(r'^\s*print\(.*\)\s+# (.*)$', source, flags=re.MULTILINE)
        assert expected
        assert pages.printed(source, namespace).splitlines() == expected


def test_the_page_on_patterns_names_all_formats_of_logs():
    page = (pages.DOCS / 'howto' / 'add_a_pattern.md').read_text()
    names = ', '.join(f'`{name}`' for name in registries.TRACE_FORMATS)
    assert f'({names})' in page


@pytest.mark.parametrize('words', COMMANDS, ids=' '.join)
def test_commands_run(words, tmp_path, monkeypatch):
    """They write to another folder; a simulation ends where its programs would be compiled.

    By then it has read its config and its flags, and has said what it would run.
    """
    monkeypatch.setattr(dry_runs, 'dry_run', lambda *options: ())
    done = command.run(*(word.replace('FOLDER', str(tmp_path)) for word in words))
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 3
