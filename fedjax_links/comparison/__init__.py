"""Many algorithms over many link patterns: the same links for all, one program per algorithm.

`build` checks a config, `run` tunes and runs one algorithm over all patterns and seeds. The links
of a pattern and seed are realised first and replayed to the algorithm, so one program serves all
patterns, and each lane equals the plain simulation of its pattern bit for bit.
"""

from fedjax_links.comparison.config import Comparison, ComparisonConfig, build, in_order, set_of
from fedjax_links.comparison.outcome import Outcome, load, save
from fedjax_links.comparison.running import Memory, blank, memory, rounds_of, run

__all__ = [
    'Comparison',
    'ComparisonConfig',
    'Memory',
    'Outcome',
    'blank',
    'build',
    'in_order',
    'load',
    'memory',
    'rounds_of',
    'run',
    'save',
    'set_of',
]
