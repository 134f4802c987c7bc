"""The code of a page prints what its comments say."""

import re

import pytest

from tests.docs import pages


def expected_output(source):
    """Returns what the comments behind ``print`` say that it prints."""
    return re.findall(r'^\s*print\(.*\)\s+# (.*)$', source, flags=re.MULTILINE)


@pytest.mark.parametrize('page', ['cost.md'])
def test_what_a_page_prints_is_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {'__name__': '__main__'}
    sources = pages.code((pages.DOCS / page).read_text(), 'python')
    assert sources
    for source in sources:
        expected = expected_output(source)
        assert expected
        assert pages.printed(source, namespace).splitlines() == expected
