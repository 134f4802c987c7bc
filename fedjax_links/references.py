"""Sources of methods: a reference beside the code that it stands behind, as BibTeX."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

_Factory = TypeVar('_Factory', bound=Callable[..., Any])
_ATTRIBUTE = 'references'


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
        place = {'article': 'journal', 'inproceedings': 'booktitle'}.get(self.kind, 'note')
        fields = {
            'title': f'{{{self.title}}}',
            'author': ' and '.join(self.authors),
            'year': str(self.year),
            place: self.venue,
            'volume': self.volume,
            'pages': self.pages,
            'doi': self.doi,
            'eprint': self.eprint,
            'archiveprefix': 'arXiv' if self.eprint else None,
        }
        lines = [f'  {name} = {{{value}}},' for name, value in fields.items() if value]
        return '\n'.join([f'@{self.kind}{{{self.key},', *lines, '}'])

    @property
    def short(self) -> str:
        """Families and year, as in ``'Wang and Ji 2022'``."""
        families = [author.split()[-1] for author in self.authors]
        named = ' and '.join(families) if len(families) < 3 else f'{families[0]} et al.'
        return f'{named} {self.year}'


def cite(*references: Reference) -> Callable[[_Factory], _Factory]:
    """Marks a factory with what it comes from: ``@cite(Reference(...))``.

    Args:
      *references: the source of the method first, then what else the code follows.

    Returns:
      A decorator that gives back the very factory.

    Example:
      >>> from fedjax_links.references import Reference, cite, references_of
      >>> paper = Reference('doe2020title', 'misc', 'A Title', ('Jane Doe', 'John Roe'), 2020)
      >>> @cite(paper)
      ... def method(): ...
      ...
      >>> print(references_of(method)[0].short)
      Doe and Roe 2020
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
    """What a factory was marked with by `cite`; empty where it was not."""
    found: tuple[Reference, ...] = getattr(factory, _ATTRIBUTE, ())
    return found


XIANG_2023 = Reference(
    key='xiang2023towards',
    kind='inproceedings',
    title='Towards Bias Correction of FedAvg over Nonuniform and Time-Varying Communications',
    authors=('Ming Xiang', 'Stratis Ioannidis', 'Edmund Yeh', 'Carlee Joe-Wong', 'Lili Su'),
    year=2023,
    venue='2023 62nd IEEE Conference on Decision and Control (CDC)',
    pages='6719--6724',
    doi='10.1109/CDC49753.2023.10383258',
    eprint='2306.00280',
)

XIANG_2024 = Reference(
    key='xiang2024empowering',
    kind='misc',
    title='Empowering Federated Learning with Implicit Gossiping: Mitigating Connection '
    'Unreliability Amidst Unknown and Arbitrary Dynamics',
    authors=('Ming Xiang', 'Stratis Ioannidis', 'Edmund Yeh', 'Carlee Joe-Wong', 'Lili Su'),
    year=2024,
)

WANG_2022 = Reference(
    key='wang2022unified',
    kind='inproceedings',
    title='A Unified Analysis of Federated Learning with Arbitrary Client Participation',
    authors=('Shiqiang Wang', 'Mingyue Ji'),
    year=2022,
    venue='Advances in Neural Information Processing Systems',
)

SUN_2025 = Reference(
    key='sun2025debiasing',
    kind='inproceedings',
    title='Debiasing Federated Learning with Correlated Client Participation',
    authors=(
        'Zhenyu Sun',
        'Ziyang Zhang',
        'Zheng Xu',
        'Gauri Joshi',
        'Pranay Sharma',
        'Ermin Wei',
    ),
    year=2025,
    venue='International Conference on Learning Representations',
    eprint='2410.01209',
)
