"""The values of an experiment, its config, its copies and its description."""

import dataclasses
import shutil
import subprocess
import sys

import jax
import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import experiment, participation, problems, report
from fedjax_links.core import errors
from tests import ROOT, refusals
from tests.experiment.configs import tuned, values
from tests.runner import running
from tests.runner.made_in_python import in_python

KINDS = {
    'patterns': [3, [participation.always(2)], {}, None],
    'algorithms': ['fedavg', {}, None],
    'seeds': [3, None, []],
    'redraw': [3, None, 'sometimes'],
    'grid': [3, None, [1], 'learning_rate'],
    'tuning': [3, {'grid': {'learning_rate': [0.1]}}, []],
    'eval_fn': [3, 'accuracy'],
    'lane_shard': [3, (0, 2)],
    'config': [3, 'quickstart'],
    'title': [3, None],
    'num_rounds': ['4', None],
    'evaluate_start': ['no', 1],
    'names': [3],
    'reports': [3],
    'log': [3],
}


@pytest.mark.parametrize('field', KINDS)
def test_a_field_of_another_kind_costs_a_line(field):
    for value in KINDS[field]:
        with refusals.names(field):
            in_python(**{field: value})


@pytest.mark.parametrize('flag', ['allow_mixed', 'allow_changed', 'progress'])
def test_what_a_run_permits_is_true_or_false(flag, tmp_path):
    with refusals.names(flag, 'True'):
        in_python().run(tmp_path / 'run', **{flag: 'no'})
    assert not (tmp_path / 'run').exists()


@pytest.mark.parametrize('value', [None, 3, {'title': 'a config'}])
def test_a_report_is_that_of_an_experiment(value):
    with refusals.names('experiment', 'experiment.build'):
        report.check(value)


def test_objects_are_no_values_of_a_grid():
    """A value stands in every line of metrics; two objects could not be told apart."""
    masks = [np.zeros((2, 3), bool), np.ones((2, 3), bool)]
    for column in ([object()], [lambda: None, 1.0], [masks, {1}]):
        with pytest.raises(
            ValueError, match=r'^`grid\.learning_rate` must hold numbers, names or l'
        ):
            in_python(grid={'learning_rate': column})

    def replayed(mask):
        return participation.replay(np.array(mask))

    planned = in_python(
        problem=problems.quadratic(np.zeros((3, 1))),
        patterns={'some': replayed},
        algorithms={'fedavg': in_python().algorithms['fedavg']},
        grid={'mask': masks},
        num_rounds=4,
        seeds=(0,),
    )
    assert [point['mask'] for point in planned.plan.points] == [
        mask.tolist() for mask in masks
    ]
    results = planned.run()
    assert results['mask'].tolist() == [mask.tolist() for mask in masks]
    assert results['rounds/num_active'].tolist() == [0, 12]


def test_experiments_are_equal_if_all_their_values_are():
    planned = in_python()
    same = dataclasses.replace(planned)
    other = dataclasses.replace(planned, seeds=(4, 5))
    assert planned == same
    assert planned != other
    assert planned != in_python()  # of other functions
    assert planned != 'Made in Python'
    assert len({planned, same, other}) == 2


def test_experiments_of_one_config_are_equal():
    inputs = values(links={'name': 'bernoulli', 'probs': np.full(8, 0.5)})
    copied = {**inputs, 'links': {'name': 'bernoulli', 'probs': np.full(8, 0.5)}}
    first = experiment.build(inputs)
    again = experiment.build(copied)
    assert first == again
    assert hash(first) == hash(again)
    assert first != experiment.build({**inputs, 'first_seed': 1})
    assert first != dataclasses.replace(first, title='other')
    assert first != in_python()
    with_object = {'title': 'One', 'problem': object()}  # as a script may set a config
    assert dataclasses.replace(first, config=with_object) == dataclasses.replace(
        again, config=with_object
    )


@pytest.mark.slow
def test_what_the_command_does_before_a_run_an_experiment_does(tmp_path):
    planned = experiment.build(values())
    planned.check()
    planned.run(tmp_path / 'run')
    meshed = planned.run(tmp_path / 'meshed', mesh=1, devices=1)
    assert meshed.facts[fl.runs.ON_A_MESH]
    forked = planned.fork(tmp_path / 'run', 2, devices=1)
    last = forked['round'] == 4
    assert last.all()
    full = fl.runs.read(tmp_path / 'run')
    name = 'server/eval_loss'
    np.testing.assert_array_equal(forked[name], full[name][full['round'] == 4])
    most = len(jax.local_devices())
    with pytest.raises(
        ValueError, match=rf'^`mesh` must have at most {most} devices, all there'
    ):
        planned.run(mesh=most + 1)


def test_a_folder_has_the_config_of_what_ran_in_it_or_none(tmp_path):
    planned = experiment.build(values(num_rounds=8, eval_every=4))
    assert dataclasses.replace(planned).config is planned.config
    longer = dataclasses.replace(planned, num_rounds=12, title='Longer')
    assert longer.config == {**planned.config, 'num_rounds': 12, 'title': 'Longer'}
    assert experiment.build(longer.config).plan.facts() == longer.plan.facts()
    assert dataclasses.replace(longer, eval_every=2).config['num_rounds'] == 12
    rate = in_python().algorithms['fedavg']
    other = dataclasses.replace(planned, algorithms={'fedavg': rate}, num_rounds=4)
    assert other.config is None
    assert dataclasses.replace(other, num_rounds=8).config is None
    stated = {'title': 'stated'}
    changed = dataclasses.replace(planned, algorithms={'fedavg': rate}, config=stated)
    assert changed.config == stated
    running.start(other, tmp_path)
    assert not (tmp_path / fl.runs.CONFIG).exists()
    assert fl.runs.read(tmp_path).facts['algorithms'] == ['fedavg']
    with_config = dataclasses.replace(other, config=longer.config)
    with pytest.raises(
        ValueError, match=r'must be new or hold a run of an experiment that a config'
    ):
        with_config.run(tmp_path)


def test_a_copy_with_other_rounds_tunes_as_its_config_says():
    changes = {
        name: value for name, value in tuned()['tuning'].items() if name != 'num_rounds'
    }
    planned = experiment.build(tuned(tuning=changes))
    longer = dataclasses.replace(planned, num_rounds=1000)
    assert longer.plan.facts()['tuning']['num_rounds'] == 1000
    assert experiment.build(longer.config).plan.facts() == longer.plan.facts()
    # An equal number that is another object.
    same = dataclasses.replace(longer, num_rounds=int('1000'))
    assert same.config is longer.config


@pytest.mark.slow
def test_a_start_that_ends_between_its_files_can_resume(tmp_path):
    planned = experiment.build(values())
    planned.run(tmp_path / 'whole')
    config = tmp_path / 'whole' / fl.runs.CONFIG
    facts = tmp_path / 'whole' / fl.runs.EXPERIMENT
    # A kill leaves the first alone.
    assert config.stat().st_mtime_ns < facts.stat().st_mtime_ns
    killed = tmp_path / 'killed'
    killed.mkdir()
    shutil.copy(config, killed)
    with pytest.raises(
        ValueError, match=r'must be new or hold a run of an experiment made in'
    ):
        dataclasses.replace(planned, config=None).run(killed)
    planned.run(killed)
    for name in (fl.runs.CONFIG, fl.runs.EXPERIMENT, fl.runs.METRICS):
        assert (killed / name).read_bytes() == (tmp_path / 'whole' / name).read_bytes()


@pytest.mark.slow
def test_what_reads_results_is_not_loaded_by_a_run():
    """Nor by a config with reports, whose pages are written later."""
    code = """
import sys
from fedjax_links import experiment
from tests import ROOT
from tests.experiment.configs import tuned_on_one_pattern
reports = {'comparison': {'name': 'comparison'}}
changes = {'num_seeds': 1, 'algorithms': {'fedavg': {}}}
experiment.build(tuned_on_one_pattern(reports=reports, **changes)).run()
print(sorted({'xarray', 'matplotlib'} & sys.modules.keys()))
"""
    done = subprocess.run(
        [sys.executable, '-c', code],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert done.stdout == '[]\n'


def test_tuning_is_no_longer_than_the_run():
    with pytest.raises(
        ValueError, match=r'^`tuning\.num_rounds` must be at most `num_rounds` = 40'
    ):
        in_python(
            tuning=experiment.Tuning(grid={'learning_rate': [0.1]}, num_rounds=44),
            grid={},
        )


RESERVED_NAMES = ('stage', 'finite', 'first_bad_round', 'round', 'series', 'distance')


@pytest.mark.parametrize('name', RESERVED_NAMES)
@pytest.mark.parametrize('is_tuned', [False, True])
def test_a_column_has_a_name_of_its_own(name, is_tuned):
    """Lines of metrics and results have these already, among them the problem's metric."""
    code = f'lambda {name}: fedavg(local_sgd({name}, local_steps=1))'
    parts = {
        'fedavg': fl.ALGORITHMS['fedavg'],
        'local_sgd': fl.local_training.local_sgd,
    }
    grid = {name: [0.1, 0.2]}
    options = {'grid': grid}
    if is_tuned:
        options = {'grid': {}, 'tuning': experiment.Tuning(grid=grid)}
    with pytest.raises(
        errors.InvalidError, match=f'grid` must be none of .* got {name}'
    ):
        in_python(algorithms={'mine': eval(code, parts)}, **options)


def test_an_experiment_says_what_it_is_in_a_few_lines():
    planned = in_python()
    assert repr(planned).splitlines() == [
        'Experiment',
        '  title: Made in Python',
        '  algorithms: fedavg, fedpbc',
        '  patterns: some',
        '  grid: 2 points of learning_rate',
        '  seeds: 2',
        '  rounds: 40, evaluated every 4',
    ]


def test_the_caption_of_a_copy_says_what_the_copy_runs():
    caption = 'Over {config.num_rounds} rounds, {config.num_seeds} seeds.'
    planned = experiment.build(values(caption=caption))
    assert planned.caption == 'Over 4 rounds, 2 seeds.'
    longer = dataclasses.replace(planned, num_rounds=2000, eval_every=1000)
    assert longer.caption == 'Over 2,000 rounds, 2 seeds.'
    assert longer.config['caption'] == caption
    assert dataclasses.replace(longer, title='Longer').caption == longer.caption
    assert dataclasses.replace(longer, caption='Mine.').caption == 'Mine.'
    assert dataclasses.replace(longer, caption='Mine.').config['caption'] == 'Mine.'


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        ({'seeds': 3}, r'`seeds` must be a list of seeds, such as range\(3\), got 3'),
        ({'seeds': ()}, r'`seeds` must have at least one entry, got \(\)'),
        ({'algorithms': []}, '`algorithms` must be by label, .* got a list'),
        (
            {'patterns': participation.always(3)},
            '`patterns` must be by label, .* got a Participation',
        ),
        (
            {'algorithms': {'mine': fl.ALGORITHMS['fedavg']}},
            r"`algorithms.mine` must be made by its entry, as fl.ALGORITHMS\['fedavg'",
        ),
    ],
)
def test_parts_without_labels_cost_one_line(changes, message):
    with pytest.raises(ValueError, match=f'^{message}'):
        in_python(**changes)
