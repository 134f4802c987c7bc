"""Sources of methods: keys beside the code that uses them, entries in ``references.bib``."""

import functools
import pathlib
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

_Factory = TypeVar('_Factory', bound=Callable[..., Any])
_ATTRIBUTE = 'references'
_PLACES = {'article': 'journal', 'inproceedings': 'booktitle'}
_AS_THEY_ARE = ('volume', 'pages', 'doi', 'eprint')


class Reference(NamedTuple):
    """A publication.

    Attributes:
      key: the entry's key.
      kind: the entry's type, such as ``'inproceedings'``.
      title: the title as printed.
      authors: ``Given Family`` each, in order.
      year: of publication.
      venue: conference or journal; None where the text is a preprint.
      volume: of the journal or of the proceedings.
      pages: ``'first--last'``.
      doi: digital object identifier.
      eprint: arXiv identifier.
    """

    key: str
    kind: str
    title: str
    authors: tuple[str, ...]
    year: int
    venue: str | None = None
    volume: str | None = None
    pages: str | None = None
    doi: str | None = None
    eprint: str | None = None

    @property
    def bibtex(self) -> str:
        """The BibTeX entry; capitals of the title are kept."""
        fields = {
            'title': f'{{{self.title}}}',
            'author': ' and '.join(self.authors),
            'year': self.year,
            _PLACES.get(self.kind, 'note'): self.venue,
            **{name: getattr(self, name) for name in _AS_THEY_ARE},
            'archiveprefix': self.eprint and 'arXiv',
        }
        lines = [f'  {name} = {{{value}}},\n' for name, value in fields.items() if value]
        return f'@{self.kind}{{{self.key},\n{"".join(lines)}}}'

    @property
    def short(self) -> str:
        """Families and year, as in ``'Wang and Ji 2022'``."""
        families = [author.split()[-1] for author in self.authors]
        named = ' and '.join(families) if len(families) < 3 else f'{families[0]} et al.'
        return f'{named} {self.year}'


def cite(*references: Reference | str) -> Callable[[_Factory], _Factory]:
    """Marks a factory with what it comes from: ``@cite('mcmahan2017communication')``.

    Args:
      *references: the source of the method first, then what else the code follows: keys of the
        package's own bibliography, or references.

    Returns:
      A decorator that gives back the very factory.

    Example:
      >>> from fedjax_links.core.references import Reference, cite, references_of
      >>> paper = Reference('doe2020title', 'misc', 'A Title', ('Jane Doe', 'John Roe'), 2020)
      >>> @cite(paper, 'gu2021fast')
      ... def method(): ...
      ...
      >>> print([reference.short for reference in references_of(method)])
      ['Doe and Roe 2020', 'Gu et al. 2021']
      >>> print(paper.bibtex)
      @misc{doe2020title,
        title = {{A Title}},
        author = {Jane Doe and John Roe},
        year = {2020},
      }
    """

    def mark(factory: _Factory) -> _Factory:
        setattr(factory, _ATTRIBUTE, references)
        return factory

    return mark


def references_of(factory: Callable[..., Any]) -> tuple[Reference, ...]:
    """What a factory was marked with by `cite`; empty where it was not.

    Raises:
      KeyError: for a key that the bibliography does not have.
    """
    marked = getattr(factory, _ATTRIBUTE, ())
    return tuple(_bibliography()[r] if isinstance(r, str) else r for r in marked)


@functools.cache
def _bibliography() -> Mapping[str, Reference]:
    """The entries of ``references.bib``, which are written as `Reference.bibtex` writes them."""
    text = pathlib.Path(__file__).with_suffix('.bib').read_text(encoding='utf-8')
    found = {}
    for entry in text.split('\n\n'):
        kind, key = re.findall(r'\w+', entry)[:2]
        fields = dict(re.findall(r'^  (\w+) = \{(.*)\},$', entry, re.MULTILINE))
        found[key] = Reference(
            key,
            kind,
            title=fields['title'][1:-1],
            authors=tuple(fields['author'].split(' and ')),
            year=int(fields['year']),
            venue=fields.get(_PLACES.get(kind, 'note')),
            **{name: fields.get(name) for name in _AS_THEY_ARE},
        )
    return found
