"""Reproduces what the repository of Wang and Ji 2022 draws where it differs from the paper.

For chasing published numbers only.
"""

from fedjax_links.base import Participation
from fedjax_links.core import checks, contracts
from fedjax_links.participation.caps import cap_in_order


def permutation_consumer(pattern: Participation, cohort_size: int) -> Participation:
    """Selects S available clients as released, where a client can be picked twice in a round.

    A permutation of all clients is used up over the rounds, and unavailable clients are thrown
    away. When it runs out, also within a round, a fresh one is drawn, whomever this round already
    has. The paper's setting has 250 clients in 5 groups that take turns of 100 rounds, and S = 10.
    There 5.3 % of rounds have such a double pick, in 12 simulations of 1300 rounds.

    For that setting pass ``periodic_groups(groups, active_rounds=100, cohort_size=50)``, which
    makes all clients of the group active.

    **Deviation**: the code trains a client that is picked twice two times, and both count in the
    mean over S. A mask cannot hold duplicates. Here the second pick counts towards S and is
    dropped, so those rounds have S - 1 clients. The intended form is
    ``cap(pattern, S, rule='permutation')`` or `periodic_groups`, which draws uniformly among the
    available as the paper states.

    Args:
      pattern: who is available. With fewer than S available, the code never ends the round; here
        all who are available participate.
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
