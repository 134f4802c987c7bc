"""Reproduces how the repository of Wang and Ji 2022 selects clients, unlike its paper.

Use it only to reproduce published numbers.
"""

from fedjax_links.base import Participation
from fedjax_links.core import checks, contracts
from fedjax_links.participation.caps import cap_in_order


def permutation_consumer(pattern: Participation, cohort_size: int) -> Participation:
    """Selects S available clients as the released code does: it may pick a client twice in a round.

    Rounds take clients from a permutation of all clients, and throw unavailable clients away. When
    the permutation is used up, even within a round, a new permutation is drawn. It may begin with
    clients that this round already has. The paper's setting has 250 clients in 5 groups that take
    turns of 100 rounds, and S = 10. There 5.3 % of rounds pick a client twice, in 12 simulations of
    1300 rounds.

    For that setting pass ``periodic_groups(groups, active_rounds=100, cohort_size=50)``, which
    makes all clients of the group active.

    **Deviation**: the released code trains a client that is picked twice two times, and both
    results count in the mean over S. A mask cannot hold duplicates. Here the second pick counts
    towards S and is dropped, so such rounds have S - 1 clients. The intended form is
    ``cap(pattern, S, rule='permutation')`` or `periodic_groups`, which draws uniformly among the
    available clients, as the paper states.

    Args:
      pattern: who is available. With fewer than S clients available, the released code never ends
        the round. Here all available clients participate.
      cohort_size: S, from 1 to N.

    Returns:
      The pattern; ``prob`` is NaN.

    Raises:
      ValueError: if ``pattern`` is not a pattern, or for a cohort larger than the federation.

    References:
      Wang & Ji 2022; github.com/IBM/fl-arbitrary-participation, util/util.py:7-27.
    """
    contracts.check_pattern(pattern, 'pattern')
    checks.static_int('cohort_size', cohort_size, maximum=pattern.num_clients)
    return cap_in_order(pattern, cohort_size, distinct=False)
