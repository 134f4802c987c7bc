"""Draws pages (a picture with title and caption) and computes figures (numbers and a picture).

A figure is a function of plain options that returns a `FigureResult`. Its config names the function
as ``module:factory``. The section ``quick`` of the config changes options so that the figure takes
less computation.
"""

import dataclasses
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedjax_links.config import resolver, schema
from fedjax_links.core import factory_options, fields
from fedjax_links.core.fields import declare
from fedjax_links.core.records import Section
from fedjax_links.pages import tables
from fedjax_links.plot import panels, scripts
from fedjax_links.plot.panels import Figure
from fedjax_links.storage import outputs

PICTURE = 'figure.png'
NUMBERS = 'figure.csv'
TEXT = 'figure.md'

# Captions have letters of 8.5 points, and titles have matplotlib's size.
_LETTERS_PER_INCH = 14
_LINE_INCHES = 0.17
_TITLE_LETTERS_PER_INCH = 10
_TITLE_LINE_INCHES = 0.2


@dataclasses.dataclass(frozen=True, kw_only=True)
class FigureConfig:
    """Holds the fields of a figure's config."""

    title: str = declare('One line above the picture.', example='Predicted bias')
    figure: Mapping[str, Any] = declare(
        'A section whose name is a ``module:factory`` that returns a ``FigureResult``.',
        example={'name': 'mine:make_figure', 'num_clients': 10},
    )
    caption: str = declare(
        'What was reported elsewhere, and every deviation from it.',
        example='As Figure 3 of the paper, with ten clients.',
    )
    width: int = declare(
        'Width of the picture in tenths of an inch.',
        example=80,
        default=100,
        check=fields.integer(),
    )
    height: int = declare(
        'Height of the picture in tenths of an inch.',
        example=40,
        default=50,
        check=fields.integer(),
    )

    def __post_init__(self) -> None:
        """Checks the fields."""
        fields.check_values(self, 'config.')


def save_page(
    path: Path,
    draw: Callable[[Figure], None],
    *,
    title: str,
    caption: str,
    size: tuple[float, float],
    stand_ins: dict[str, str] | None = None,
) -> None:
    """Writes a picture as a file, see `render`. Never overwrites a file that no command wrote."""
    picture = render(draw, title=title, caption=caption, size=size, stand_ins=stand_ins)
    outputs.write('workdir', path.parent, [(path.name, picture)])


def render(
    draw: Callable[[Figure], None],
    *,
    title: str,
    caption: str,
    size: tuple[float, float],
    stand_ins: dict[str, str] | None = None,
) -> bytes:
    """Draws a picture under its title and over its caption.

    Args:
      draw: draws on an empty matplotlib figure.
      title: wrapped above.
      caption: wrapped below; may be empty.
      size: inches of the picture, to which the lines of caption and title are added.
      stand_ins: by name, the text that replaces a name which no installed font can write. New
        entries are added, see `plot.scripts`.

    Returns:
      A PNG.
    """
    from matplotlib import figure

    width, height = size
    title = tables.wrap(title, int(width * _TITLE_LETTERS_PER_INCH))
    height += _TITLE_LINE_INCHES * title.count('\n')
    wrapped = tables.wrap(caption, int(width * _LETTERS_PER_INCH))
    # A subfigure without a caption needs some height.
    below = _LINE_INCHES * (wrapped.count('\n') + 2) if wrapped else 0.01
    page = figure.Figure(figsize=(width, height + below), layout='constrained')
    subfigures: Any = page.subfigures(2, 1, height_ratios=[height, below])
    top, bottom = subfigures
    draw(top)
    top.suptitle(panels.literal(title))
    bottom.text(0.02, 0.95, panels.literal(wrapped), va='top', fontsize=8.5)
    scripts.make_legible(page, {} if stand_ins is None else stand_ins)
    buffer = io.BytesIO()
    page.savefig(buffer, dpi=110, format='png')
    return buffer.getvalue()


def render_alone(
    draw: Callable[[Figure], None],
    *,
    size: tuple[float, float],
    font: float,
    form: str,
    stand_ins: dict[str, str] | None = None,
) -> bytes:
    """Draws a picture without title and caption, for a paper.

    Args:
      draw: draws on an empty matplotlib figure.
      size: inches of the picture.
      font: size of its letters, in points.
      form: a format of matplotlib, such as ``pdf``.
      stand_ins: as in `render`.

    Returns:
      The file. It has no date, so equal pictures have equal bytes.
    """
    import matplotlib
    from matplotlib import figure

    # Fonts of type 42 stay text, which publishers ask for.
    settings: dict[Any, Any] = {
        'font.size': font,
        'pdf.fonttype': 42,
        'svg.fonttype': 'none',
        'svg.hashsalt': form,
    }
    metadata: dict[str, Any] = {'pdf': {'CreationDate': None}, 'svg': {'Date': None}}
    buffer = io.BytesIO()
    with matplotlib.rc_context(settings):
        page = figure.Figure(figsize=size, layout='constrained')
        draw(page)
        scripts.make_legible(page, {} if stand_ins is None else stand_ins)
        page.savefig(buffer, dpi=300, format=form, metadata=metadata.get(form))
    return buffer.getvalue()


class FigureResult(NamedTuple):
    """Holds the numbers of a figure, and how to draw them.

    Attributes:
      columns: by name, all of the same length, as in figure.csv.
      table: the few numbers to read.
      draw: draws on an empty matplotlib figure.
    """

    columns: Mapping[str, np.ndarray]
    table: tables.Table
    draw: Callable[[Figure], None]


def stack(parts: Sequence[Section]) -> dict[str, np.ndarray]:
    """Joins blocks of rows into one column per name; single values fill their block.

    Args:
      parts: blocks with the same names in any order, whose entries are vectors of one length or
        single values.

    Returns:
      The columns.
    """
    blocks: dict[str, list[np.ndarray]] = {name: [] for name in parts[0]}
    for part in parts:
        vectors = np.broadcast_arrays(*map(np.atleast_1d, part.values()))
        for name, vector in zip(part, vectors, strict=True):
            blocks[name].append(vector)
    return {name: np.concatenate(vectors) for name, vectors in blocks.items()}


def build(config: Section) -> FigureResult:
    """Computes the numbers of a figure from its config, whose fields `FigureConfig` describes.

    Args:
      config: nested dictionaries, as a config file's ``to_dict()`` gives them.

    Returns:
      The numbers, and how to draw them.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    settings = check(config)
    result: FigureResult = resolver.build_named('config.figure', settings.figure, {})
    return result


def check(config: Section) -> FigureConfig:
    """Returns the fields of a figure's config, without computing the figure.

    Raises:
      ValueError: naming a field that no figure's config has, or a wrong value.
    """
    declared = fields.declared(FigureConfig)
    schema.check(config, declared)
    schema.check_required(config, declared)
    settings = FigureConfig(**config)
    factory, options = resolver.lookup('config.figure', settings.figure, {})
    factory_options.check('config.figure', factory, options)
    return settings


def write(folder: Path, config: Section, result: FigureResult) -> None:
    """Writes picture, numbers and text.

    Args:
      folder: created if missing; files in it that no command wrote are not overwritten.
      config: the config.
      result: what `build` returned for the config.
    """
    import pandas

    settings = FigureConfig(**config)
    stand_ins: dict[str, str] = {}
    picture = render(
        result.draw,
        title=settings.title,
        caption=settings.caption,
        size=(settings.width / 10, settings.height / 10),
        stand_ins=stand_ins,
    )
    numbers = pandas.DataFrame(result.columns).to_csv(
        index=False, float_format='%.10g', na_rep='nan', lineterminator='\n'
    )
    table = result.table.markdown()
    text = f'# {settings.title}\n\n{table}\n{settings.caption}\n'
    if stand_ins:
        text += f'\n{scripts.explanation(stand_ins)}\n'
    files = {PICTURE: picture, NUMBERS: numbers.encode(), TEXT: text.encode()}
    outputs.write('workdir', folder, files.items())
