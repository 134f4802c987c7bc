"""Shards on machines of several kinds, whose bits may differ."""

import json

from fedjax_links import experiment, runs
from fedjax_links.machines import environment
from fedjax_links.storage import checkpoints
from tests.experiment.configs import quadratic_values
from tests.refusals import names


def elsewhere(monkeypatch, **changes):
    """From now on this is a machine of another kind."""
    fingerprint = environment.fingerprint()
    monkeypatch.setattr(environment, 'fingerprint', lambda: {**fingerprint, **changes})


def test_another_kind_of_machine_is_refused(tmp_path, monkeypatch):
    planned = experiment.build(quadratic_values())
    planned.shard(0, 2).run(tmp_path)
    cpu = environment.fingerprint()['cpu']
    elsewhere(monkeypatch, cpu='another CPU')
    with names(
        'environment.cpu', 'be the same for all lanes', f"{cpu!r} and 'another CPU'"
    ):
        planned.shard(1, 2).run(tmp_path)
    # Nor can such a machine extend the run.
    longer = experiment.build(quadratic_values(num_rounds=8))
    with names('environment.cpu'):
        longer.shard(0, 2).run(tmp_path)


def test_folders_of_different_machines_are_not_merged(tmp_path, monkeypatch):
    planned = experiment.build(quadratic_values())
    planned.shard(0, 2).run(tmp_path / 'a')
    elsewhere(monkeypatch, cpu='another CPU')
    planned.shard(1, 2).run(tmp_path / 'b')
    folders = [tmp_path / 'a', tmp_path / 'b']
    with names('environment.cpu', '--allow_mixed'):
        runs.merge(folders, tmp_path / 'all')
    merged = runs.merge(folders, tmp_path / 'all', allow_mixed=True)
    assert set(merged.columns['seed']) == {0, 1}


def test_even_mixed_all_lanes_of_a_seed_are_of_one_kind(tmp_path, monkeypatch):
    planned = experiment.build(
        quadratic_values(algorithms={'fedavg': {}, 'fedpbc': {}}, num_seeds=1)
    )
    planned.shard(0, 2).run(tmp_path / 'a')
    elsewhere(monkeypatch, cpu='another CPU')
    planned.shard(1, 2).run(tmp_path / 'b')
    # The whole hint, which does not recommend the flag again.
    hint = 'lanes of seed 0 (if it differs, so may the bits), got'
    with names('environment.cpu', hint):
        runs.merge([tmp_path / 'a', tmp_path / 'b'], tmp_path / 'all', allow_mixed=True)


def test_what_a_lane_keeps_says_where_it_ran(tmp_path):
    experiment.build(quadratic_values()).run(tmp_path)
    for files in runs.saves(tmp_path).values():
        about, _ = checkpoints.read(files[max(files)])
        assert about[runs.FINGERPRINT] == json.loads(
            json.dumps(environment.fingerprint())
        )
