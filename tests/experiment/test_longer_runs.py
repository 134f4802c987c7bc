"""Longer runs: with more rounds, every lane continues to the bit."""

import shutil

import jax
import pytest

from fedjax_links import experiment, runs
from fedjax_links.runner.program_cache import Programs
from tests.experiment.configs import tuned_on_one_pattern
from tests.experiment.futures import assert_same_future, build, report_of
from tests.runner import running
from tests.runner.running import run_and_cut


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
    """The folder of an unbroken run of sixteen rounds, with tuning."""
    folder = tmp_path_factory.mktemp('whole') / 'run'
    experiment.build(tuned_on_one_pattern(num_rounds=16)).run(folder)
    return folder


@pytest.mark.slow
@pytest.mark.usefixtures('unrendered')
@pytest.mark.parametrize('finished', [True, False])
def test_more_rounds_extend_to_the_bit_without_tuning_again(tmp_path, whole, finished):
    short = experiment.build(tuned_on_one_pattern(num_rounds=8))
    if finished:
        short.run(tmp_path / 'run')
    else:
        run_and_cut(short, tmp_path / 'run', algorithm='fedpbc', stage='main', round=4)
    advanced_stages = set()

    class Watch(experiment.Callback):
        def on_period(self, lane, record):
            if len(record) > 1:  # a finished lane reports its last round alone
                advanced_stages.add(lane.stage)

    experiment.build(tuned_on_one_pattern(num_rounds=16)).run(
        tmp_path / 'run', [Watch()]
    )
    assert 'main' in advanced_stages
    assert 'tuning' not in advanced_stages
    assert_same_future(tmp_path / 'run', whole, 16)
    assert report_of(tmp_path / 'run') == report_of(whole)
    for name in (runs.METRICS, runs.CONFIG, runs.EXPERIMENT, runs.LINKS):
        assert (tmp_path / 'run' / name).read_bytes() == (whole / name).read_bytes()


def test_fewer_rounds_and_other_changes_are_refused(tmp_path, past):
    folder = shutil.copytree(past, tmp_path / 'run')
    before = (folder / runs.EXPERIMENT).read_bytes()
    with pytest.raises(
        ValueError, match=r'^`num_rounds` must be at least 8, .*, got 6\.$'
    ):
        build(num_rounds=6, log=('links',)).run(folder)
    with pytest.raises(
        ValueError, match=r'where config\.first_seed is None and not 3\.$'
    ):
        build(num_rounds=10, log=('links',), first_seed=3).run(folder)
    assert (folder / runs.EXPERIMENT).read_bytes() == before


def test_a_state_is_computed_again_only_as_the_run_would_have(past):
    with jax.default_matmul_precision('highest'):
        assert running.fork(build(num_rounds=12), past, 6).round == 6  # it was saved
        with pytest.raises(
            ValueError, match=r'^`fork_from` must .* round 2.*matmul_precision is'
        ):
            running.fork(build(num_rounds=12), past, 2)


def test_a_longer_run_mends_a_damaged_last_checkpoint(tmp_path, past, capsys):
    """The lane goes back to its save before, and what later lanes saved stays."""
    folder = shutil.copytree(past, tmp_path / 'run')
    first = folder / 'checkpoints' / 'main-fedavg-0000-links-0@8.npz'
    first.write_bytes(first.read_bytes()[:-1])
    longer = build(num_rounds=10, log=('links',))
    programs = Programs(longer.plan)
    running.run(longer, folder, programs=programs)
    assert 'is damaged' in capsys.readouterr().err
    running.run(longer, tmp_path / 'whole', programs=programs)
    assert_same_future(folder, tmp_path / 'whole', 10)
