"""Figures of Xiang et al. 2024, redone."""

from fedjax_links.papers.xiang2024.figures.links import class_weights, link_traces, markov_links
from fedjax_links.papers.xiang2024.figures.two_client_limit import two_client_limit

__all__ = ['class_weights', 'link_traces', 'markov_links', 'two_client_limit']
