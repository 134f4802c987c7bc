"""Cites the sources of methods: the code holds keys, ``references.bib`` the entries."""

import functools
import re
from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any, NamedTuple, TypeVar

_Factory = TypeVar('_Factory', bound=Callable[..., Any])
_ATTRIBUTE = 'references'


class Reference(NamedTuple):
    """Describes a publication.

    Attributes:
      bibtex: its BibTeX entry, a line for each field, in which authors are ``Given Family``.
    """

    bibtex: str

    @property
    def key(self) -> str:
        """Returns the entry's key."""
        start = self.bibtex.partition(',')[0]
        return start.partition('{')[2].strip()

    def field(self, name: str) -> str | None:
        """Returns a field, such as ``'title'`` or ``'eprint'``; None if it is absent."""
        # Titles stand in two pairs of braces, which keep their capitals.
        pattern = rf'^ *{name} = {{(?:{{(.*)}}|(.*))}},?$'
        match = re.search(pattern, self.bibtex, re.MULTILINE)
        if match is None:
            return None
        return match[1] or match[2]

    @property
    def authors(self) -> list[str]:
        """Returns the authors, ``Given Family`` each, in order; empty without any."""
        names = self.field('author')
        return [] if names is None else names.split(' and ')

    @property
    def short(self) -> str:
        """Returns families and year, as in ``'Wang and Ji 2022'``; the key without authors."""
        families = [author.split()[-1] for author in self.authors]
        names = ' and '.join(families) or self.key
        if len(families) > 2:
            names = f'{families[0]} et al.'
        year = self.field('year')
        return names if year is None else f'{names} {year}'


def cite(*references: str) -> Callable[[_Factory], _Factory]:
    r"""Marks a factory with its sources: ``@cite('mcmahan2017communication')``.

    Args:
      *references: the source of the method first, then what else the code follows. Each is a key of
        this package's bibliography, or a BibTeX entry in the form of `Reference`.

    Returns:
      A decorator that returns the same factory.

    Example:
      >>> from fedjax_links.core.references import cite, references_of
      >>> paper = '@misc{doe2020title,\n  author = {Jane Doe and John Roe},\n  year = {2020},\n}'
      >>> @cite(paper, 'gu2021fast')
      ... def method(): ...
      ...
      >>> print([reference.short for reference in references_of(method)])
      ['Doe and Roe 2020', 'Gu et al. 2021']
    """

    def mark(factory: _Factory) -> _Factory:
        setattr(factory, _ATTRIBUTE, references)
        return factory

    return mark


def references_of(factory: Callable[..., object]) -> tuple[Reference, ...]:
    """Returns the sources that `cite` marked a factory with; empty without any.

    Raises:
      KeyError: for a key that the bibliography does not have.
    """
    references = []
    for key_or_entry in getattr(factory, _ATTRIBUTE, ()):
        if key_or_entry.startswith('@'):
            references.append(Reference(key_or_entry))
        else:
            references.append(_bibliography()[key_or_entry])
    return tuple(references)


@functools.cache
def _bibliography() -> Mapping[str, Reference]:
    """Reads the entries of ``references.bib`` by their keys."""
    file = resources.files(__package__) / 'references.bib'
    text = file.read_text(encoding='utf-8')
    return {entry.key: entry for entry in map(Reference, text.strip().split('\n\n'))}
