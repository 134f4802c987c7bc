"""What tells one run from another."""

import dataclasses

import numpy as np

from fedjax_links.storage.identity import (
    LaneIdentity,
    RunIdentity,
    lane_differences,
    run_differences,
)


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


def test_a_digest_of_a_run_leaves_out_its_rows():
    assert of_rows(p={'data': [1]}).digest() == of_rows(p={'data': [2]}).digest()


def test_runs_of_two_versions_differ():
    lane = LaneIdentity('1', 'here', {}, {}, {})
    there = RunIdentity({'fedavg on links': lane}, {}, {})
    here = RunIdentity(
        {'fedavg on links': dataclasses.replace(lane, version='2')}, {}, {}
    )
    assert run_differences(there, here) == ['fedjax_links is 1 and not 2']


def test_numbers_that_differ_are_written_differently():
    first, second, third = (
        LaneIdentity('1', 'here', {}, {'rate': rate}, {})
        for rate in (0.1, 0.100000001, 0.25)
    )
    assert list(lane_differences(first, second)) == [
        ('rate', 'rate is 0.1 and not 0.100000001')
    ]
    assert list(lane_differences(third, first)) == [
        ('rate', 'rate is 0.25 and not 0.1')
    ]
