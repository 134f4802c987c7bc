"""Wrong arguments of the partitioners: one line that names the argument and a valid choice."""

import numpy as np
import pytest

from fedjax_links import partition
from tests.refusals import refuses

LABELS = np.random.default_rng(1).integers(7, size=1003)

ERRORS = [
    (
        lambda: partition.iid([0] * 10, num_clients=11, seed=0),
        '`num_clients` must be at most 10, got 11.',
    ),
    (
        lambda: partition.iid([0] * 10, num_clients=2, seed=-1),
        '`seed` must be at least 0, got -1.',
    ),
    (
        lambda: partition.iid(10, num_clients=2, seed=0),
        '`labels` must be a non-empty vector, got shape ().',
    ),
    (
        lambda: partition.dirichlet(LABELS, num_clients=True, alpha=0.1, seed=0),
        '`num_clients` must be a Python integer, got True.',
    ),
    (
        lambda: partition.dirichlet(LABELS, num_clients=2, alpha=-1.0, seed=0),
        '`alpha` must be positive, got -1.0.',
    ),
    (
        lambda: partition.dirichlet_unequal(
            LABELS, num_clients=2, alpha=float('nan'), seed=0
        ),
        '`alpha` must be positive, got nan.',
    ),
    (
        lambda: partition.dirichlet_per_class(
            LABELS, num_clients=2, alpha=float('inf'), seed=0
        ),
        '`alpha` must be finite, got inf.',
    ),
    (
        lambda: partition.dirichlet_shares(2, 0, alpha=1.0, seed=0),
        '`num_classes` must be at least 1, got 0.',
    ),
    (
        lambda: partition.dirichlet_unequal(
            LABELS, num_clients=1004, alpha=1.0, seed=0
        ),
        '`num_clients` must be at most 1003, got 1004.',
    ),
    (
        lambda: partition.dirichlet_per_class(
            np.zeros(100, int), num_clients=10, alpha=1e-3, seed=0
        ),
        '`num_clients` must leave every client an example in one of 100 draws, got 10.',
    ),
    (
        lambda: partition.hierarchical_dirichlet(
            LABELS, num_clients=2, coarse=[0, 1], seed=0
        ),
        '`coarse` must have an entry for each class (7), got 2.',
    ),
    (
        lambda: partition.label_shards(
            LABELS, num_clients=100, shards_per_client=11, seed=0
        ),
        '`shards_per_client` must be at most 10, got 11.',
    ),
    (
        lambda: partition.pathological(
            LABELS, num_clients=5, classes_per_client=8, seed=0
        ),
        '`classes_per_client` must be at most 7, got 8.',
    ),
    (
        lambda: partition.pathological(
            LABELS, num_clients=3, classes_per_client=2, seed=0
        ),
        '`classes_per_client` must be at least 3, got 2.',
    ),
    (
        lambda: partition.pathological([0, 1, 1, 1], num_clients=2, seed=0),
        '`num_clients` must give class 0 no more owners than its 1 examples, got 2.',
    ),
    (
        lambda: partition.similarity(LABELS, num_clients=2, similarity=1.5, seed=0),
        '`similarity` must lie in [0, 1], got 1.5.',
    ),
    (
        lambda: partition.similarity(LABELS / 2, num_clients=2, seed=0),
        '`labels` must have an integer dtype, got float64.',
    ),
    (
        lambda: partition.similarity(LABELS[:, None], num_clients=2, seed=0),
        '`labels` must be a non-empty vector, got shape (1003, 1).',
    ),
    (
        lambda: partition.similarity([0, 1, -1], num_clients=2, seed=0),
        '`labels` must be at least 0, got -1 at 2.',
    ),
    (
        lambda: partition.contiguous_groups(4, num_groups=5),
        '`num_groups` must be at most 4, got 5.',
    ),
    (
        lambda: partition.class_mix([0, 1], [0, 1, 2]),
        '`clients` must have 3 entries, as labels do, got 2.',
    ),
]


@pytest.mark.parametrize(
    'call, message', ERRORS, ids=[message for _, message in ERRORS]
)
def test_errors_name_the_argument(call, message):
    with refuses(message):
        call()
