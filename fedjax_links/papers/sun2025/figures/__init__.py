"""Figures of Sun et al. 2025, redone: one file each."""

from fedjax_links.papers.sun2025.figures.group_distances import group_distances
from fedjax_links.papers.sun2025.figures.selection_mixing import selection_mixing
from fedjax_links.papers.sun2025.figures.separation_distance import separation_distance

__all__ = ['group_distances', 'selection_mixing', 'separation_distance']
