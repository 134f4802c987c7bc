"""Reproduces what the repository of Wang and Ji 2022 draws where it differs from the paper.

For chasing published numbers only.
"""

from fedjax_links.base import Participation
from fedjax_links.core import checks, contracts
from fedjax_links.participation.caps import cap_in_order


def permutation_consumer(pattern: Participation, cohort_size: int) -> Participation:
    """Selects S available clients as released, where a client can be picked twice in a round.

    A permutation of all clients is used up over the rounds, unavailable clients are thrown away,
    and when it runs out, also within a round, a fresh one is drawn without regard to whom this
    round already has. In the paper's setting (250 clients in 5 groups taking turns of 100 rounds, S
    = 10, 1300 rounds) 5.3 % of rounds have such a double pick.

    For that setting pass ``periodic_groups(groups, active_rounds=100, cohort_size=50)``, which
    makes all clients of the group active.

    **Deviation**: the code trains a client picked twice two times, each counting in the mean over
    S. A mask cannot hold duplicates; here the second pick takes up a place and is dropped, so that
    those rounds have S - 1 clients. The intended form is ``cap(pattern, S, rule='permutation')`` or
    `periodic_groups`, which draws uniformly among the available as the paper states.

    Args:
      pattern: who is available. The code never ends a round with fewer than S available; here all
        of them participate.
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
