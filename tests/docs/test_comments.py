"""The code of pages in docs/ does what they say."""

import contextlib
import io
import re

import pytest

from tests import ROOT


def blocks(page, language='python'):
    text = (ROOT / 'docs' / page).read_text()
    return re.findall(rf'```{language}\n(.*?)```', text, flags=re.DOTALL)


def expected_output(source):
    """What the comments behind ``print`` say that it prints."""
    return re.findall(r'^\s*print\(.*\)\s+# (.*)$', source, flags=re.MULTILINE)


@pytest.mark.parametrize('page', ['pricing.md'])
def test_what_a_page_prints_is_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {'__name__': '__main__'}
    for source in blocks(page):
        screen = io.StringIO()
        with contextlib.redirect_stdout(screen):
            exec(compile(source, page, 'exec'), names)
        assert expected_output(source)
        assert screen.getvalue().splitlines() == expected_output(source)
