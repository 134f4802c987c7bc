"""The exact paths behind the pictures of algorithms are those that the theory gives now."""

import sys

import numpy as np
import pytest

from fedjax_links import analysis
from tests.docs.pages import DOCS

sys.path.append(str(DOCS))
from generate import exact_paths


@pytest.mark.parametrize('names', [['fedavg', 'fedavg_known'], ['fedpbc', 'mifa']])
def test_the_first_rounds_are_computed_again(names):
    stored = exact_paths.read()
    last = 2  # lines of the file
    rounds = stored['round'][: last + 1].astype(int)
    computed = exact_paths.compute(names, num_rounds=int(rounds[-1]))
    assert {path.partition('/')[0] for path in computed} == set(names)
    for path, means in computed.items():
        np.testing.assert_allclose(stored[path][: last + 1], means[rounds], atol=1e-6)


def test_the_last_round_is_near_the_limits_of_theory():
    stored = exact_paths.read()
    limit = analysis.fedavg_fixed_point(exact_paths.PROBS, exact_paths.TARGETS)[0]
    np.testing.assert_allclose(stored['fedavg/server'][-1], limit, atol=1e-4)
    for path in ('fedavg_known/server', 'mifa/server', 'fedpbc/client_mean'):
        np.testing.assert_allclose(stored[path][-1], 0.0, atol=1e-4)
