"""Figures of Sun et al. 2025, redone."""

from fedjax_links.papers.sun2025.figures.distances import group_distances, separation_distance
from fedjax_links.papers.sun2025.figures.selection_mixing import selection_mixing

__all__ = ['group_distances', 'selection_mixing', 'separation_distance']
