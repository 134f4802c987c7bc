"""Runs of the registered algorithms that several tests read, each compiled once."""

import functools

from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.testing import Runs


@functools.cache
def fedavg_runs():
    """The runs of FedAvg, with which those of an algorithm on plain SGD are compared."""
    return Runs(ALGORITHMS['fedavg'])


@functools.cache
def rounds(name):
    """A few rounds of an algorithm on quadratics, for its facts and its checks."""
    return Runs(ALGORITHMS[name]).rounds
