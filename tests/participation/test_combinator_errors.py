"""Mistakes in what combines patterns cost one line that names the argument."""

import pytest

from fedjax_links.base import Participation
from fedjax_links.core import errors
from fedjax_links.participation import (
    always,
    both,
    by_group,
    cap,
    either,
    mixture,
    outage,
    peers,
    replay,
    switch,
    uniform_cohort,
)
from tests import refusals
from tests.participation.sampling import refuses

UP = replay([[True] * 3], [[1.0] * 3])
DOWN = replay([[False] * 3], [[0.0] * 3])


@pytest.mark.parametrize('other', [3, 'ring', None, always(3)])
def test_what_is_no_graph_is_named(other):
    with pytest.raises(errors.InvalidError, match='`graph` must be a graph, as'):
        peers(always(3), other, prob=0.5)


def test_errors():
    two: Participation = always(2)
    refuses(
        lambda: both(UP, two),
        '`second` must have the 3 clients of `first`, got 2.',
    )
    refuses(
        lambda: mixture([UP, two], [0.5, 0.5]),
        '`patterns` must have the same number of clients, got [3, 2].',
    )
    with refusals.names('first', 'be a pattern'):
        either(3, UP)
    with refusals.names('patterns[1]', 'be a pattern'):
        switch([UP, 3], 2)
    for empty in (
        lambda: mixture([], []),
        lambda: switch([], []),
        lambda: by_group([0], []),
    ):
        refuses(empty, '`patterns` must name at least one pattern, got [].')
    refuses(lambda: mixture([UP, DOWN], [1.0]), '`probs` must have 2 entries, got 1.')
    with refusals.names('probs', 'with one entry per pattern', 'shape (1, 2)'):
        mixture([UP, DOWN], [[0.5, 0.5]])
    with refusals.names('probs', 'lie in [0, 1]', '1.5 at pattern 1'):
        mixture([UP, DOWN], [-0.0, 1.5])
    refuses(
        lambda: mixture([UP, DOWN], [0.5, 0.6]), '`probs` must sum to one, got 1.1.'
    )
    refuses(
        lambda: switch([UP, DOWN], [1, 2]),
        '`at_rounds` must name 1 rounds for 2 patterns, got 2.',
    )
    refuses(
        lambda: switch([UP, UP, UP], [4, 4]), '`at_rounds` must increase, got [4, 4].'
    )
    refuses(
        lambda: switch([UP, DOWN], 2.7),
        '`at_rounds` must be whole numbers of rounds, got 2.7.',
    )
    refuses(
        lambda: outage(UP, start=5, stop=5),
        '`start` must lie in [0, `stop` = 5), got 5.',
    )
    refuses(
        lambda: outage(UP, start=0, stop=5, clients=[1, 7]),
        '`clients` must lie in [0, 2], got 7.',
    )
    # No mask, and nothing to be cut off.
    for other, dtype in (
        (0.5, 'float64'),
        (True, 'bool'),
    ):
        refuses(
            lambda other=other: outage(UP, start=0, stop=5, clients=[other]),
            f'`clients` must have an integer dtype, got {dtype}.',
        )
    refuses(
        lambda: by_group([0, 0, 1], [two, two]),
        '`patterns` must have as many clients as their groups, [2, 1], got [2, 2].',
    )
    refuses(lambda: cap(UP, 9), '`size` must be at most 3, got 9.')
    refuses(
        lambda: cap(UP, 1, rule='unifrom'),
        "`rule` has no 'unifrom'; did you mean 'uniform'?",
    )
    refuses(
        lambda: uniform_cohort(3.0, 1),
        '`num_clients` must be a Python integer, got 3.0.',
    )
