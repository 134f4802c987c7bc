"""Scaling by processes: what is compared, and what is proven before."""

import pytest

from benchmarks import processes, run


def test_speed_is_counted_by_the_work_done():
    """Two seeds in the seconds of one are twice as fast; one seed in half of them, too."""
    steady = {('weak', 1): [3.0], ('weak', 2): [3.0]}
    steady |= {('strong', 1): [3.0], ('strong', 2): [1.5]}
    for kind in ('weak', 'strong'):
        (row,) = processes._rows(kind, (1, 2), steady)
        assert row['measured'] == 2.0


def test_other_metrics_than_those_of_one_process_are_noticed():
    processes._prove('weak', {1: ['a'], 2: ['a']})
    with pytest.raises(ValueError, match='strong: 2 processes have other metrics'):
        processes._prove('strong', {1: ['a'], 2: ['b']})


def test_shards_have_a_seed_each_and_a_mesh_has_all_processes():
    assert processes.shard_flags(2) == [
        ['--shard=0/2', '--devices=1'],
        ['--shard=1/2', '--devices=1'],
    ]
    flags = processes.mesh_flags(2)
    assert [one[-1] for one in flags] == ['--process_id=0', '--process_id=1']
    assert {one[0] for one in flags} == {'--mesh=clients:2'}


def test_it_runs_only_where_it_is_named():
    assert 'processes' not in run.named([])
    assert run.named(['processes']) == ['processes']
