"""Independent links: every uplink is a coin of its own."""

import jax

from fedjax_links import prng
from fedjax_links.base import Array, Key, LinkSample, Participation, PyTree
from fedjax_links.participation import schedules
from fedjax_links.references import cite

_PROBS, _LINKS = 0, 1


@cite('xiang2023towards')
def bernoulli(schedule: schedules.ScheduleLike) -> Participation:
    """``mask_i^t ~ Bernoulli(p_i^t)``, independent over clients and, given p, over rounds.

    Args:
      schedule: a `schedules.Schedule`, a vector float[N] of constant probabilities, or a function
        ``(key, round) -> float[N]``.

    Returns:
      The pattern; it has no carry and reports the schedule's mean as ``prob``, NaN if that is not
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
        probs = schedule(jax.random.fold_in(key, _PROBS), round)
        uniforms = prng.uniform(jax.random.fold_in(key, _LINKS), probs.shape)
        return carry, LinkSample(mask=uniforms < probs, prob=schedule.mean(round))

    return Participation(
        init=lambda key: (),
        sample=sample,
        num_clients=schedule.num_clients,
        cycle=schedule.cycle,
    )
