"""What tells one run from another."""

import numpy as np

from fedjax_links.storage.identity import RunIdentity, run_differences


def of_rows(**rows):
    hashes = {
        label: {part: np.array(values, np.uint64) for part, values in parts.items()}
        for label, parts in rows.items()
    }
    return RunIdentity({}, {}, {}, hashes)


def test_data_of_every_pattern_are_compared_in_order():
    parts = {'data': [1, 2, 3], 'evaluation data': [4, 5]}
    there = of_rows(first=parts, second=parts)
    here = of_rows(
        first={'data': [1, 2, 9], 'evaluation data': [8, 9]},
        second={'data': [7, 8, 9], 'evaluation data': [4, 5]},
    )
    assert run_differences(there, here) == [
        'data: 1 of 3 examples differ',
        'data: 3 of 3 examples differ',
        'evaluation data: 2 of 2 examples differ',
    ]
    assert run_differences(there, there) == []
