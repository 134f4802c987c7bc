"""Building a pattern compiles nothing: its numbers stay in NumPy until a round is traced."""

import jax
import numpy as np
import pytest

from fedjax_links import participation
from fedjax_links.participation import PARTICIPATION, rejection_sampling

N = 53  # No other test compiles for so many clients.
P = np.linspace(0.1, 0.9, N)
MANY = rejection_sampling.FEWEST_CLIENTS + N

MAKERS = {
    **{
        name: lambda entry=entry: entry.example(N)
        for name, entry in PARTICIPATION.items()
    },
    'sine': lambda: participation.markov(participation.sine(P, gamma=0.4, period=40)),
    'jitter': lambda: participation.bernoulli(participation.jitter(P, width=0.05)),
    'diurnal': lambda: participation.bernoulli(participation.diurnal(P, phase=10 * P)),
    'correlated': lambda: participation.markov(P, correlation_time=3 * P),
    'resetting': lambda: participation.cyclic(P, reset=True),
    'waiting': lambda: participation.minimum_separation(P, separation=np.arange(N) % 3),
    'many': lambda: participation.minimum_separation(
        np.linspace(1, 2, MANY), separation=3, cohort_size=5
    ),
    'many in groups': lambda: participation.periodic_groups(
        np.arange(MANY) % 3, active_rounds=2, cohort_size=5
    ),
}


@pytest.fixture
def compilations():
    """The events of compilations during a test."""
    results = []

    def listen(event, duration, **kwargs):
        if 'backend_compile' in event:
            results.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield results
    jax.monitoring.unregister_event_duration_listener(listen)


@pytest.mark.parametrize('name', MAKERS)
def test_nothing_is_compiled(name, compilations):
    MAKERS[name]()
    assert not compilations
    jax.jit(lambda x: x + 1)(np.float32(0))
    assert compilations  # the listener works


def test_a_function_of_the_users_own_is_tried_by_one_program(compilations):
    """Its values are looked at in a few rounds: one program for their keys, one for all of them."""
    participation.bernoulli(lambda key, round: np.cos(P) / (1 + round))
    assert len(compilations) <= 2
