"""What every registered pattern has beyond the conformance suite, and the package's names."""

import jax
import numpy as np
import pytest

from fedjax_links import participation, simulation
from fedjax_links.base import LinkSample
from fedjax_links.participation import PARTICIPATION


@pytest.mark.parametrize('name', PARTICIPATION)
def test_double_precision_throughout(name, x64):
    pattern = PARTICIPATION[name].example(8)

    def realised(key):
        links = simulation.realised_links(key, pattern, num_rounds=3)
        return LinkSample(links.mask, links.prob)

    links = jax.eval_shape(realised, jax.random.key(0))
    assert links.prob.dtype == np.float64
    assert links.mask.dtype == bool


@pytest.mark.parametrize('name', PARTICIPATION)
@pytest.mark.parametrize('num_clients', [3, 4, 20])
def test_examples_exist_at_any_size(name, num_clients):
    assert PARTICIPATION[name].example(num_clients).num_clients == num_clients


def test_names_are_sorted_and_exported():
    assert list(PARTICIPATION) == sorted(PARTICIPATION)
    for name, entry in PARTICIPATION.items():
        assert getattr(participation, name) is entry.factory
        assert name in participation.__all__
