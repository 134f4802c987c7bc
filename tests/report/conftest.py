"""What tests of pictures share."""

import pytest
from matplotlib.figure import Figure


def _drawn(page):
    """Draws a page on a figure of its size."""
    figure = Figure(figsize=page.size, layout='constrained')
    page.draw(figure)
    return figure


def _laid_out(page):
    """Draws a page and puts everything where it will be."""
    figure = _drawn(page)
    figure.draw_without_rendering()
    return figure


@pytest.fixture
def draw_page():
    """Draws a page; returns the figure, which knows its lines and texts but not their places."""
    return _drawn


@pytest.fixture
def lay_out_page():
    """Draws a page as it will be seen, which takes longest; returns the figure."""
    return _laid_out
