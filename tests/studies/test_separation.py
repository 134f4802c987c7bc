"""The page on separation prints what its script computes."""

from pathlib import Path

import numpy as np
import pytest

from studies import separation

PAGE = Path(separation.__file__).with_name('separation.md').read_text()


def test_the_page_has_the_ends_of_the_script():
    assert separation.limit_table() in PAGE


@pytest.mark.slow
@pytest.mark.release('test_the_last_rows_of_debiasing_are_those_of_the_script')
def test_the_page_has_the_rounds_of_the_script():
    assert separation.rounds_table() in PAGE
    for (name, rate), steps in separation.random_steps().items():
        assert f'| {name} | {rate} | {steps.number} | {steps.worse} |' in PAGE


def test_the_last_rows_of_debiasing_are_those_of_the_script():
    weights = separation.SELECTION['i^-1.5']
    needed = separation.rounds_needed('Debiasing FedAvg', weights, 1)
    rows = [line for line in PAGE.splitlines() if 'i^-1.5, Debiasing' in line]
    printed = [float(row.split('|')[4]) for row in rows]
    np.testing.assert_array_equal(needed, printed)


@pytest.mark.parametrize('swing, rounds', [(0, 3.0), (1, np.inf)])
def test_an_error_that_swings_about_a_tolerance_misses_it(monkeypatch, swing, rounds):
    """The curve is above all tolerances for three rounds, then below, but for one in a lap."""
    curve = np.zeros(separation.ROUNDS + 1)
    curve[:3] = 9.0
    curve[3 :: len(separation.TARGETS)] = 9.0 * swing
    assert curve[-1] == 0
    monkeypatch.setattr(separation, 'errors', lambda *setting: curve)
    weights = separation.SELECTION['equal']
    needed = separation.rounds_needed('FedAvg', weights, 0)
    np.testing.assert_array_equal(needed, rounds)
