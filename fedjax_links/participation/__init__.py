"""Participation patterns: who can deliver in each round, as samplers driven by keys.

`PARTICIPATION` names them all; `schedules` holds the probabilities they move with;
`label_dependent_probs` gives clients the link qualities of their labels.
"""

import numpy as np

from fedjax_links.participation import schedules
from fedjax_links.participation.always import always
from fedjax_links.participation.bernoulli import bernoulli
from fedjax_links.participation.replay import replay
from fedjax_links.participation.schedules import constant, sine
from fedjax_links.participation.uniform_cohort import uniform_cohort
from fedjax_links.registry import ParticipationEntry


def _probs(num_clients: int) -> np.ndarray:
    return np.linspace(0.1, 0.9, num_clients)


PARTICIPATION = {
    'always': ParticipationEntry(always, always, cohort_size=lambda n: n),
    'bernoulli': ParticipationEntry(bernoulli, lambda n: bernoulli(constant(_probs(n)))),
    'replay': ParticipationEntry(
        replay, lambda n: replay(np.arange(7)[:, None] % 3 <= np.arange(n)[None] % 4)
    ),
    'uniform_cohort': ParticipationEntry(
        uniform_cohort,
        lambda n: uniform_cohort(n, max(1, n // 3)),
        cohort_size=lambda n: max(1, n // 3),
    ),
}

__all__ = [
    'PARTICIPATION',
    'always',
    'bernoulli',
    'constant',
    'replay',
    'schedules',
    'sine',
    'uniform_cohort',
]
