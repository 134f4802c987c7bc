"""Makes link chains: Markov chains with finitely many modes, which say which uplinks are up.

`linear_curve` and `linear_limit` compute what an algorithm does under a link chain.
"""

from fedjax_links.analysis.link_chains.chains import (
    ClientLinks,
    LinkChain,
    LinkModes,
    from_modes,
)
from fedjax_links.analysis.link_chains.joint_patterns import (
    minimum_separation,
    periodic_groups,
    shared_shocks,
)
from fedjax_links.analysis.link_chains.patterns import (
    b_min_sep,
    cyclic,
    independent,
    markov,
    semi_markov,
)

__all__ = [
    'ClientLinks',
    'LinkChain',
    'LinkModes',
    'b_min_sep',
    'cyclic',
    'from_modes',
    'independent',
    'markov',
    'minimum_separation',
    'periodic_groups',
    'semi_markov',
    'shared_shocks',
]
