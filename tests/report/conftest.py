"""What tests of pictures share."""

import pytest

from fedjax_links.report import style


@pytest.fixture
def drawn():
    """Draws a page at its size; returns the figure."""
    pyplot = style.pyplot()

    def draw(page):
        figure = pyplot.figure(figsize=page.size, layout='constrained')
        page.draw(figure)
        figure.canvas.draw()
        return figure

    yield draw
    pyplot.close('all')
