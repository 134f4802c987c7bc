"""What tests of pictures share."""

import pytest
from matplotlib.figure import Figure


@pytest.fixture
def draw_page():
    """Draws a page at its size; returns the figure."""

    def draw(page):
        figure = Figure(figsize=page.size, layout='constrained')
        page.draw(figure)
        figure.draw_without_rendering()
        return figure

    return draw
