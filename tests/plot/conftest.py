"""Axes that belong to no figure of pyplot."""

import pytest
from matplotlib.figure import Figure


@pytest.fixture
def ax():
    """Axes of a figure whose layout keeps everything on the page."""
    return Figure(layout='constrained').add_subplot()
