"""Conformance suites: check an algorithm or a participation pattern of your own in one call.

`check_algorithm` and `check_participation` run every check and raise the first failure as an
AssertionError.

To make each check a test of its own, take the checks from a suite, which maps names to checks. Call
checks of `ALGORITHM_CHECKS` with the `Runs` of an algorithm. Call checks of `PARTICIPATION_CHECKS`
with a pattern and its `Promises`. A check that has nothing to check raises `DoesNotApply` with the
reason: a skip, not a pass.

`algorithm_facts` runs an algorithm and reports what it needs, stores and sends.
"""

from fedjax_links.testing.algorithms import ALGORITHM_CHECKS, check_algorithm
from fedjax_links.testing.facts import AlgorithmFacts, algorithm_facts
from fedjax_links.testing.federation import Runs
from fedjax_links.testing.participation import (
    PARTICIPATION_CHECKS,
    Promises,
    check_participation,
)
from fedjax_links.testing.suites import DoesNotApply

__all__ = [
    'ALGORITHM_CHECKS',
    'PARTICIPATION_CHECKS',
    'AlgorithmFacts',
    'DoesNotApply',
    'Promises',
    'Runs',
    'algorithm_facts',
    'check_algorithm',
    'check_participation',
]
