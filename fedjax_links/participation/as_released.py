"""What released code draws where it differs from its paper. For chasing published numbers only."""

from typing import Any

import jax

from fedjax_links import checks, prng
from fedjax_links.base import LinkSample, Participation
from fedjax_links.participation import schedules
from fedjax_links.participation.algebra import cap_in_order
from fedjax_links.participation.cyclic import cyclic
from fedjax_links.participation.markov import as_up_rate, move

_PROBS, _STATE, _LINKS = 0, 1, 2


def memoryless_markov(schedule: Any, up_rate: Any = 0.05) -> Participation:
    """The released "non-homogeneous Markov" links, which have no memory.

    The code rebuilds every chain in every round: the state is drawn from Bernoulli(p_i^t) and makes
    one transition, which leaves that law as it is. Rounds are therefore independent, and the
    pattern is in law `bernoulli` of the same schedule; the paper's is `markov`.

    Args:
      schedule: as in `markov`.
      up_rate: as in `markov`; without effect on the law.

    Returns:
      The pattern; it has no carry and reports the schedule's mean as ``prob``.

    Raises:
      ValueError: for a value out of range.

    References:
      Xiang et al. 2024, appendix B; github.com/mingxiang12/FedPBC, varying_main.py:91-94.
    """
    schedule = schedules.as_schedule(schedule)
    up_rate = as_up_rate(up_rate, schedule.num_clients)

    def sample(carry, key, round):
        probs = schedule(jax.random.fold_in(key, _PROBS), round)
        state, uniforms = (
            prng.uniform(jax.random.fold_in(key, index), probs.shape) for index in (_STATE, _LINKS)
        )
        mask = move(state < probs, uniforms, probs, up_rate)
        return carry, LinkSample(mask=mask, prob=schedule.mean(round))

    return Participation(init=lambda key: (), sample=sample, num_clients=schedule.num_clients)


def reduced_cyclic(probs: Any, *, gamma: Any = 0.4, cycle_length: int = 100) -> Participation:
    """The released "cyclic with periodic reset" links, with ``(1 - gamma) p`` in place of p.

    The code resets at rounds 0, 100, 200, ... and uses the time-varying ``p_i^t`` of those rounds,
    where the sine of period 40 vanishes. With the default gamma participation is 40 % below that of
    the pattern without reset, to which the published tables compare it; the paper does not mention
    the factor. The intended form is ``cyclic(probs, reset=True)``.

    Args:
      probs: float[N] in [0, 1], before modulation.
      gamma: amplitude of the sine, in [0, 0.5].
      cycle_length: rounds between resets.

    Returns:
      The pattern, as `cyclic`.

    Raises:
      ValueError: for a value out of range.

    References:
      Xiang et al. 2024, appendix B; github.com/mingxiang12/FedPBC, varying_main.py:91-94 and
      util/util.py:16-38, 121-135.
    """
    probs = schedules.as_probs(probs, 'probs')
    checks.within('gamma', gamma, 0, 0.5)
    return cyclic((1 - gamma) * probs, cycle_length=cycle_length, reset=True)


def permutation_consumer(pattern: Participation, cohort_size: int) -> Participation:
    """The released selector of S available clients, which can pick a client twice in a round.

    A permutation of all clients is used up over the rounds, unavailable clients are thrown away,
    and when it runs out, also within a round, a fresh one is drawn without regard to whom this
    round already has. In the paper's setting (250 clients in 5 groups taking turns of 100 rounds, S
    = 10, 1300 rounds) 5.3 % of rounds have such a double pick.

    For that setting pass ``periodic_groups(groups, active_rounds=100, cohort_size=50)``, which
    makes everybody in the group active.

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
      ValueError: for a cohort larger than the federation.

    References:
      Wang & Ji 2022; github.com/IBM/fl-arbitrary-participation, util/util.py:7-27.
    """
    checks.static_int('cohort_size', cohort_size, maximum=pattern.num_clients)
    return cap_in_order(pattern, cohort_size, distinct=False)
