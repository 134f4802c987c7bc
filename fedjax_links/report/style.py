"""What all pictures share: a colour-blind safe palette, and matplotlib loaded on first use."""

from typing import Any

COLOURS = ('#0072B2', '#E69F00', '#009E73', '#CC79A7', '#D55E00', '#56B4E9', '#7F7F7F')
EXACT = '#1a1a1a'


def pyplot() -> Any:
    """`matplotlib.pyplot` without a display."""
    import matplotlib

    matplotlib.use('Agg')
    from matplotlib import pyplot

    return pyplot
