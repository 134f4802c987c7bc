"""Every method says where it comes from, in BibTeX that a reader can paste."""

import inspect
import pathlib
import re

import pytest

import fedjax_links as fl
from fedjax_links.core import references
from fedjax_links.core.references import Reference, cite, references_of

CITED = {**fl.ALGORITHMS, **fl.PARTICIPATION}
OUTSIDE_REGISTRIES = references_of(fl.algorithms.richardson)


@pytest.mark.parametrize('name', fl.ALGORITHMS)
def test_every_algorithm_has_a_source(name):
    entry = fl.ALGORITHMS[name]
    assert entry.references
    assert entry.citation.count('@') == len(entry.references)


@pytest.mark.parametrize('name', CITED)
def test_citations_agree_with_docstrings_and_are_bibtex(name):
    """The docstring of the factory or of its module names the first source, by author and year."""
    entry = CITED[name]
    for reference in entry.references:
        lines = reference.bibtex.splitlines()
        assert re.fullmatch(
            r'@(article|inproceedings|misc)\{[a-z]+\d{4}[a-z]+,', lines[0]
        )
        assert all(re.fullmatch(r'  [a-z]+ = \{.+\},', line) for line in lines[1:-1])
        assert lines[-1] == '}'
        assert reference.bibtex.count('{') == reference.bibtex.count('}')
        assert reference.field('year') in reference.key
    if entry.references and not getattr(entry, 'client_program', None):
        factory = entry.factory
        text = inspect.getdoc(factory) + inspect.getmodule(factory).__doc__
        first = entry.references[0]
        family = first.authors[0].split()[-1]
        assert family in text
        assert first.field('year') in text


def test_the_bibliography_is_sorted_and_cited():
    """Each entry once, in the order of keys, each cited by something."""
    path = pathlib.Path(references.__file__).with_suffix('.bib')
    by_key = {r.key: r for entry in CITED.values() for r in entry.references}
    by_key |= {r.key: r for r in OUTSIDE_REGISTRIES}
    entries = [by_key[key].bibtex for key in sorted(by_key)]
    assert path.read_text(encoding='utf-8') == '\n\n'.join(entries) + '\n'


def test_an_unknown_key_is_no_source():
    with pytest.raises(KeyError, match='doe2020title'):
        references_of(cite('doe2020title')(lambda: None))


PAPER = """@misc{doe2020title,
  title = {{A {TITLE}}},
  author = {Jane Doe and John Roe},
  year = {2020},
}"""


def test_a_reference_says_what_stands_in_its_fields():
    paper = Reference(PAPER)
    assert (paper.key, paper.authors) == ('doe2020title', ['Jane Doe', 'John Roe'])
    assert (paper.field('title'), paper.field('year')) == ('A {TITLE}', '2020')
    assert paper.field('booktitle') is None
    assert paper.short == 'Doe and Roe 2020'
    assert Reference(PAPER.replace('John', 'C D and')).short == 'Doe et al. 2020'
    assert Reference(PAPER.replace('doe2020title', 'doe:2020-title')).key == (
        'doe:2020-title'
    )
    manual = Reference('@manual{tool-2,\n  year = {2020},\n}')
    assert (manual.authors, manual.short) == ([], 'tool-2 2020')
    assert Reference('@misc{tool-2,\n}').short == 'tool-2'


def test_cite_gives_back_the_factory():
    def factory():
        return 3

    marked = cite(PAPER)(factory)
    assert marked is factory
    assert references_of(marked) == (Reference(PAPER),)
    assert references_of(lambda: None) == ()


def test_fedpbc_cites_both_papers():
    text = fl.ALGORITHMS['fedpbc'].citation
    assert 'Towards Bias Correction of FedAvg' in text
    assert 'Implicit Gossiping' in text
    assert fl.PARTICIPATION['outage'].citation == ''


@pytest.mark.parametrize(
    'entries, name, meant',
    [
        (fl.ALGORITHMS, 'fedpcb', 'fedpbc'),
        (fl.PARTICIPATION, 'markow', 'markov'),
        (fl.PROBLEMS, 'gausians', 'gaussians'),
    ],
)
def test_an_unknown_name_is_reported_with_the_nearest(entries, name, meant):
    with pytest.raises(KeyError, match=f"has no '{name}'; did you mean '{meant}'"):
        entries[name]
    assert entries.get(name) is None
