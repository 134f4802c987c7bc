"""Draws the pictures of a report for a paper: one file each, with its caption apart."""

from collections.abc import Iterator, Mapping

from fedjax_links.pages import figure, tables
from fedjax_links.plot import panels, scripts
from fedjax_links.report.layouts.page import PAPER_FONT, PAPER_SCALE, Page
from fedjax_links.report.run_view import RunView

FORMS = ('pdf', 'svg', 'png')
_FLATTEST = 0.6
"""Least height of a picture with one arrangement, relative to its scaled height in a report."""


def files(
    view: RunView, pages: Mapping[str, Page], *, form: str, width: float | None
) -> Iterator[tuple[str, bytes]]:
    """Yields names and contents of files: a picture and its caption for each page with one.

    Args:
      view: the run that the pages are made of.
      pages: pages by file name, from `layouts.build`.
      form: one of `FORMS`.
      width: the width of each picture in inches; None for its width in the report.
    """
    font = panels.FONT if width is None else PAPER_FONT
    for name, page in pages.items():
        resized = page if width is None else _resize(page, width)
        if resized.draw is None:
            continue
        stand_ins: dict[str, str] = {}
        picture = figure.render_alone(
            resized.draw, size=resized.size, font=font, form=form, stand_ins=stand_ins
        )
        captions = [page.caption, '' if page.of_links else view.caption]
        captions.append(scripts.explanation(stand_ins))
        # An empty line would end the argument of `caption`.
        caption = ' '.join(' '.join(captions).split())
        yield f'{name}.{form}', picture
        yield f'{name}_caption.tex', f'{tables.as_latex(caption)}\n'.encode()


def _resize(page: Page, width: float) -> Page:
    """Returns the page with a picture of another width, in inches."""
    if page.resize is not None:
        return page.resize(width)
    old_width, old_height = page.size
    height = old_height * PAPER_SCALE * max(_FLATTEST, width / old_width)
    return page._replace(size=(width, height))
