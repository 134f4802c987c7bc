"""Figures of Xiang et al. 2024, redone: one file each."""

from fedjax_links.papers.xiang2024.figures.class_weights import class_weights
from fedjax_links.papers.xiang2024.figures.link_traces import link_traces
from fedjax_links.papers.xiang2024.figures.markov_links import markov_links
from fedjax_links.papers.xiang2024.figures.two_client_limit import two_client_limit

__all__ = ['class_weights', 'link_traces', 'markov_links', 'two_client_limit']
