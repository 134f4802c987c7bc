"""Experiments over links that name their cohorts: periods of ids instead of masks."""

import jax
import numpy as np
import pytest

from fedjax_links import base, experiment, runs, simulation
from fedjax_links.participation import rejection_sampling
from tests.experiment.configs import values
from tests.runner.plain_lanes import assert_lanes_are_plain_simulations

PATTERNS = {
    'three': {'name': 'uniform_cohort', 'cohort_size': 3},
    'four': {'name': 'uniform_cohort', 'cohort_size': 4},
    'waiting': {
        'name': 'minimum_separation',
        'weights': {'name': 'equal', 'value': 1.0},
        'separation': 2,
        'cohort_size': 2,
    },
}


@pytest.mark.slow
@pytest.mark.parametrize('side_by_side', [False, True])
def test_lanes_and_kept_links_are_those_of_plain_simulations(
    monkeypatch, tmp_path, side_by_side
):
    monkeypatch.setattr(rejection_sampling, 'FEWEST_CLIENTS', 1)
    monkeypatch.setattr(rejection_sampling, 'LARGEST_SHARE', 1.0)
    if side_by_side:
        monkeypatch.setattr(jax, 'default_backend', lambda: 'gpu')
    squares = {'name': 'quadratic', 'targets': [[float(i)] for i in range(8)]}
    planned = experiment.build(values(problem=squares, links=None, patterns=PATTERNS))
    results = planned.run(tmp_path / 'run')
    saved = runs.read_links(tmp_path / 'run')
    for pattern in PATTERNS:
        if not side_by_side:  # lanes of one program round differently
            assert_lanes_are_plain_simulations(
                planned, results, 'fedavg', {pattern: {}}
            )
        links = simulation.realised_links(
            jax.random.key(planned.seeds[0]),
            planned.pattern_at(pattern, {}),
            num_rounds=4,
        )
        assert isinstance(links, base.CohortLinkSample)
        mask = np.unpackbits(saved[f'mask/{pattern}'], axis=-1, count=8)
        np.testing.assert_array_equal(mask, links.mask)
        mean = np.asarray(links.prob).mean(axis=0)
        np.testing.assert_allclose(saved[f'mean_prob/{pattern}'], mean, rtol=1e-6)
