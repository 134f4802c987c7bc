"""How a folder says which shard runs which lane."""

import dataclasses

import pytest

from fedjax_links import runs
from fedjax_links.core import errors
from fedjax_links.storage import atomic_files

DIVISION = runs.RunDivision(
    2, 'program', {'main-a': 0, 'tie-a': 1}, optional=['tie-a'], requested=['tie-a']
)


def write(folder, values):
    atomic_files.write(folder / runs.LANES, runs.as_json(values))


def test_requested_lanes_are_read_as_older_versions_named_them(tmp_path):
    values = dataclasses.asdict(DIVISION)
    values['asked'] = values.pop('requested')
    write(tmp_path, values)
    assert runs.read_division(tmp_path) == DIVISION


@pytest.mark.parametrize(
    ('field', 'value', 'words'),
    [
        ('count', 0, 'hold a valid count, got .*lanes.json: 0'),
        ('by', 'day', "hold a valid by, got .*lanes.json: 'day'"),
        ('lanes', {'main-a': 2}, 'hold shards from 0 to 1, got .*lanes.json'),
        ('further', 1, 'hold a valid further, got'),
    ],
)
def test_what_no_run_writes_is_named(tmp_path, field, value, words):
    write(tmp_path, {**dataclasses.asdict(DIVISION), field: value})
    with pytest.raises(errors.InvalidError, match=f'`folder` must {words}'):
        runs.read_division(tmp_path)
