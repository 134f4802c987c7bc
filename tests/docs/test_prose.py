"""Pages keep to the rules of CONTRIBUTING.md: short lines and short sentences."""

import re

import pytest

from tests import ROOT
from tests.docs import pages

MOST_CHARACTERS = 120
MOST_WORDS = 25
LISTS_OF_NAMES = {ROOT / 'CHANGELOG.md'}
"""Pages whose entries may name more things than a sentence has words."""


def prose(page):
    """The text of a page without code, formulas and what `benchmarks.run` writes."""
    text = page.read_text()
    text = re.sub(r'^```.*?^```$', '', text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r'\$\$.*?\$\$', '', text, flags=re.DOTALL)
    return re.sub(r'<!-- benchmarks -->.*?<!-- end', '', text, flags=re.DOTALL)


def sentences(text):
    """The sentences of a page; a span of code or a formula is one word."""
    text = re.sub(r'\[([^]]*)\]\([^)]*\)', r'\1', text)
    text = re.sub(r'`[^`]*`|\$[^$]*\$', 'code', text)
    for block in re.split(r'\n\s*\n|\n(?=\s*[*-] |\s*\d+\. |\|)', text):
        if not re.match(r'\s*[|#]', block):
            yield from re.split(r'(?<=[.!?])[)*"]*\s+', ' '.join(block.split()))


@pytest.mark.parametrize('page', pages.WRITTEN, ids=pages.path)
def test_lines_and_sentences_are_short(page):
    text = prose(page)
    lines = [line for line in text.splitlines() if not line.startswith('|')]
    assert [line for line in lines if len(line) > MOST_CHARACTERS] == []
    if page in LISTS_OF_NAMES:
        return
    long_sentences = [
        sentence
        for sentence in sentences(text)
        if len(re.findall(r"[A-Za-z][\w'-]*", sentence)) > MOST_WORDS
    ]
    assert long_sentences == []


def test_long_sentences_are_found():
    words = ' '.join(['word'] * (MOST_WORDS + 1))
    assert words in sentences(f'A short one. {words}\n\n| {words} |')
    assert list(sentences('Two. `a b c`\n* Items')) == ['Two.', 'code', '* Items']
