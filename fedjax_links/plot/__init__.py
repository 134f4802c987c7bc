"""Pictures in memory: functions of results that draw on matplotlib axes and return them.

Each function takes ``ax``, the axes to draw on. Without axes it makes a new figure of pyplot, whose
layout keeps everything on the page. No function shows or writes a picture, or changes a setting of
matplotlib. Matplotlib is loaded by the first picture. Reports are made of these pictures too. A
label names what is drawn: an algorithm, or an algorithm at a point of a grid.
"""

from fedjax_links.plot.bars import metric_bars
from fedjax_links.plot.clients import (
    classes_held,
    label_distances,
    participation_loss,
    partition,
    pooled_classes,
    volumes,
)
from fedjax_links.plot.curves import learning_curves
from fedjax_links.plot.differences import paired_differences
from fedjax_links.plot.heat import heat_map, mixing_matrix
from fedjax_links.plot.links import (
    gap_law,
    link_map,
    link_memory,
    participants,
    participation_rates,
    peer_graph,
)
from fedjax_links.plot.styles import COLOURS, EXACT, LabelStyle, assign_styles

__all__ = [
    name for name, value in globals().items() if callable(value) or name.isupper()
]
# Names of version 0.1.0.
level_bars = metric_bars
looks = assign_styles
