"""Axes that belong to no figure of pyplot, and figures of pyplot that are closed again."""

import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure


@pytest.fixture
def ax():
    """Axes of a figure whose layout keeps everything on the page."""
    return Figure(layout='constrained').add_subplot()


@pytest.fixture(autouse=True)
def _closed():
    yield
    pyplot.close('all')
