"""The page on separation prints what its script computes."""

from pathlib import Path

import numpy as np
import pytest

from studies import separation

PAGE = Path(separation.__file__).with_name('separation.md').read_text()


def test_the_page_has_the_ends_of_the_script():
    assert separation.limit_table() in PAGE


@pytest.mark.slow
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
