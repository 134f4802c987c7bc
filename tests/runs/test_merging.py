"""Merging names the folder, the file or the lanes because of which it is refused."""

import shutil

import pytest

from fedjax_links import experiment, runs
from fedjax_links.core import errors
from fedjax_links.runner.program_cache import Programs
from tests import refusals, tiers
from tests.experiment.configs import last_files_of
from tests.runner import running
from tests.runner.test_same_bytes import CASES
from tests.storage.flips import flip_bit

CHEAP = ['near ties', 'until decided']


def without_one_lane(folder, target):
    """Yields copies of a run, each without one of its lanes, and the lane's record."""
    for record in runs.lanes(folder):
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(folder, target)
        for path in record.files.values():
            (target / runs.CHECKPOINTS / path.name).unlink()
        yield record


def may_be_the_last(record, folder):
    """Returns whether a run until decided could have ended without a lane."""
    facts, _ = runs.read_description(folder)
    if 'until' not in facts or record.labels['stage'] == 'tuning':
        return False
    series = record.labels['stage'], record.labels['algorithm'], record.position[0]
    seeds = [
        lane.labels['seed']
        for lane in runs.lanes(folder)
        if series == (lane.labels['stage'], lane.labels['algorithm'], lane.position[0])
    ]
    seed = record.labels['seed']
    return seed == max(seeds) and seed >= facts['until']['least']


@pytest.mark.parametrize('case', tiers.cases(CASES, CHEAP))
def test_a_run_in_one_piece_is_merged_only_with_all_lanes(case, tmp_path):
    """Of any kind of run: without one lane it is refused, and nothing is written."""
    folder = tmp_path / 'run'
    part = tmp_path / 'part'
    experiment.build(CASES[case]).run(folder)
    full = last_files_of(folder)
    runs.merge(folder, tmp_path / 'merged')
    assert last_files_of(tmp_path / 'merged') == full
    refused = 0
    for record in without_one_lane(folder, part):
        if may_be_the_last(record, folder):
            continue
        labels = record.labels
        words = rf'without .*{labels["algorithm"]}'
        with pytest.raises(errors.InvalidError, match=words):
            runs.merge(part, tmp_path / 'other')
        assert not (tmp_path / 'other' / runs.EXPERIMENT).exists()
        refused += 1
    assert refused > 2


@pytest.fixture(scope='module')
def parts(tmp_path_factory):
    """The folders of two shards, which shared none."""
    folders = [tmp_path_factory.mktemp(name) / 'run' for name in ('first', 'second')]
    planned = experiment.build(CASES['plain'])
    programs = Programs(planned.plan)
    for index, folder in enumerate(folders):
        running.run(planned.shard(index, 2), folder, programs=programs)
    return folders


def test_an_algorithm_that_has_not_begun_is_named(parts, tmp_path):
    folder = tmp_path / 'run'
    runs.merge(parts, folder)
    for path in (folder / runs.CHECKPOINTS).glob('main-fedpbc-*'):
        path.unlink()
    before = (folder / runs.METRICS).read_bytes()
    with pytest.raises(errors.InvalidError, match=r'without fedpbc on links\.$'):
        runs.merge(folder)
    assert (folder / runs.METRICS).read_bytes() == before


def test_a_link_to_a_part_is_that_part(parts, tmp_path):
    link = tmp_path / 'link'
    link.symlink_to(parts[1])
    runs.merge([*parts, link], tmp_path / 'run')
    assert len(runs.lanes(tmp_path / 'run')) == 4


def test_a_damaged_file_of_a_part_is_named(parts, tmp_path):
    damaged = tmp_path / 'damaged'
    shutil.copytree(parts[1], damaged)
    lane, files = next(iter(runs.saves(damaged).items()))
    flip_bit(files[max(files)])
    words = f'1 of 4: {lane} .*; .*damaged.*{files[max(files)].name} is damaged'
    with pytest.raises(errors.InvalidError, match=words):
        runs.merge([parts[0], damaged], tmp_path / 'run')


def test_the_folder_of_another_run_is_named_by_its_argument(parts, tmp_path):
    changed = {**CASES['plain'], 'client': {'learning_rate': 0.1, 'local_steps': 2}}
    other = tmp_path / 'other'
    running.start(experiment.build(changed).shard(1, 2), other)
    words = 'config.client.learning_rate is 0.1 and not 0.05'
    with refusals.names('folders', words):
        runs.merge([parts[0], other], tmp_path / 'run')
    with refusals.names('workdir', words):
        runs.merge(parts, other)
