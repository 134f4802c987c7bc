"""Draws links independently over clients and rounds."""

import numpy as np

from fedjax_links.base import Array, Key, LinkSample, Participation, PyTree
from fedjax_links.core import references
from fedjax_links.participation import link_laws, schedules


@references.cite('xiang2023towards')
def bernoulli(schedule: schedules.ScheduleLike) -> Participation:
    """Draws every link by an independent coin, ``mask_i^t ~ Bernoulli(p_i^t)``.

    Links are independent over clients and, given p, over rounds.

    Args:
      schedule: a `schedules.Schedule`, a vector float[N] of constant probabilities, or a function
        ``(key, round) -> float[N]``.

    Returns:
      The pattern; it has no carry. Its ``prob`` is the schedule's mean, NaN if the mean is not
      known (`schedules.as_schedule`).

    Raises:
      ValueError: for probabilities outside [0, 1].

    Example:
      >>> import jax
      >>> from fedjax_links import participation, simulation
      >>> pattern = participation.bernoulli([0.1, 0.5, 0.9])
      >>> links = simulation.realised_links(jax.random.key(0), pattern, num_rounds=4)
      >>> print(links.mask.astype(int))
      [[0 0 0]
       [0 0 1]
       [0 0 1]
       [0 1 1]]

    References:
      Xiang et al. 2023, section II.
    """
    schedule = schedules.as_schedule(schedule)

    def sample(carry: PyTree, key: Key, round: Array) -> tuple[PyTree, LinkSample]:
        probs, uniforms = schedule.draw(key, round)
        return carry, LinkSample(mask=uniforms < probs, prob=schedule.mean(round))

    return Participation(lambda key: (), sample, schedule.num_clients, schedule.cycle)


def bernoulli_law(inputs: link_laws.LawInputs) -> link_laws.LinkLaw:
    """Returns the exact law of `bernoulli`."""
    if inputs.schedule_name in ('constant', 'jitter'):
        return link_laws.independent(
            'independent over clients and rounds', inputs.probs
        )
    period = inputs.period
    if period is None:
        description = (
            f'probabilities follow a {inputs.schedule_name} schedule, without memory'
        )
        return link_laws.LinkLaw(description)
    schedule = inputs.options['schedule']
    by_round = np.array([schedule.mean(t) for t in range(period)], np.float64)
    if inputs.schedule_name not in schedules.SCHEDULES:
        # Random probabilities of a user's schedule may depend on each other.
        return link_laws.LinkLaw(
            f'probabilities follow {inputs.schedule_name}, without memory',
            rates=by_round.mean(axis=0),
            period=period,
        )
    return link_laws.LinkLaw(
        f'independent, probabilities follow a {inputs.schedule_name} schedule',
        rates=by_round.mean(axis=0),
        weights=_mean_weights(by_round),
        weights_source='by round of the period',
        period=period,
    )


def _mean_weights(probs: np.ndarray) -> np.ndarray | None:
    """Computes FedAvg's long-run weights under probabilities that repeat.

    Args:
      probs: float64[P, N], probabilities of the P rounds of a period.

    Returns:
      float64[N]; None if no client ever participates.
    """
    from fedjax_links import analysis  # SciPy takes long to import

    # P(A is not empty) by round, for the set A of active clients. All logarithms are finite.
    log_empty_probs = np.log1p(-np.minimum(probs, 1 - 1e-16)).sum(axis=1)
    nonempty_probs = -np.expm1(log_empty_probs)
    if not nonempty_probs.any():
        return None
    can_be_nonempty = nonempty_probs > 0
    weights = np.array([analysis.fedavg_weights(row) for row in probs[can_be_nonempty]])
    return nonempty_probs[can_be_nonempty] @ weights / nonempty_probs.sum()
