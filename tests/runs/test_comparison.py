"""Tests that a comparison of two runs finds the first round, lane, entry and float that differ."""

import json
import shutil

import ml_dtypes
import numpy as np
import pytest

from fedjax_links import participation, runs
from fedjax_links.experiment import Tuning
from fedjax_links.runner import save_clock
from fedjax_links.runs import comparison
from fedjax_links.storage import checkpoints
from tests.report.standing import experiment, second_entry, standing
from tests.runner import running
from tests.storage.flips import flip_bit
from tests.tiers import cases


@pytest.fixture(scope='module', autouse=True)
def _saved_after_every_period():
    """So a folder holds two states of each lane."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(save_clock.SaveClock, 'is_due', lambda clock: True)
        yield


@pytest.fixture
def first(standing_run):
    """The folder that others are compared with; no test changes it."""
    return standing_run


def odd_alone(**odd):
    """The same experiment with only the second algorithm, which has some options."""
    return experiment(algorithms={'odd': standing(**odd)}, baseline='odd')


def calm_alone(**changes):
    """The same experiment with only the first algorithm."""
    return experiment(algorithms={'calm': standing()}, **changes)


def test_order_and_words_make_no_difference(first, tmp_path):
    algorithms = dict(reversed(experiment().algorithms.items()))
    reordered = {
        'seeds': (3, 0),
        'grid': {'level': [2.0, 1.0]},
        'algorithms': algorithms,
    }
    experiment(title='Other words', caption='More of them.', **reordered).run(tmp_path)
    assert (tmp_path / runs.METRICS).read_bytes() != (first / runs.METRICS).read_bytes()
    result = comparison.compare(first, tmp_path)
    assert result.equal
    assert result.compared == '8 lanes in common, 32 lines of metrics, 16 states'
    assert [line.partition(':')[0] for line in result.sections['experiment.json']] == [
        'algorithms[0]',
        'caption',
        'grid.level[0]',
        'seeds[0]',
        'title',
    ]
    assert '  title: "Standing" | "Other words"  (changes no result)' in result.text()
    assert result.text().endswith(
        'equal (8 lanes in common, 32 lines of metrics, 16 states)'
    )


@pytest.mark.slow
@pytest.mark.parametrize('units', cases([3, -2], [3]))
def test_a_nudged_model_is_found_in_metrics_and_states(first, tmp_path, units):
    odd_alone(nudge=(6,), units=units).run(tmp_path)
    result = comparison.compare(first, tmp_path)
    moved = np.float32(1)
    for _ in range(abs(units)):
        moved = np.nextafter(moved, np.float32(np.sign(units) * np.inf))
    lane = 'algorithm odd, pattern some, seed 0, level 2.0'
    expected = comparison.Difference(8, lane, 'server/second', '1.0', str(float(moved)))
    assert result.metric == expected
    leaf = {'name': ".algorithm['server']", 'second': str(moved), 'entry': (1,)}
    assert result.leaf == expected._replace(**leaf)
    assert not result.equal
    line = f'round 8, {lane}: server/second: 1.0 | {float(moved)}'
    assert f'  {line}' in result.text().splitlines()


def test_the_first_entry_of_a_leaf_that_differs_is_named(first, tmp_path):
    odd_alone(nudge=(4, 7), leaf='memory', level=1.0, units=1).run(tmp_path)
    result = comparison.compare(first, tmp_path)
    assert result.metric is None
    lane = 'algorithm odd, pattern some, seed 0, level 1.0'
    moved = str(np.nextafter(np.float32(1), np.float32(2)))
    assert result.leaf == comparison.Difference(
        6, lane, ".algorithm['memory']", '1.0', moved, (1, 0)
    )
    assert "memory'][1, 0]: 1.0 | 1.0000001" in result.text()


def test_masks_and_counts_are_compared_too(first, tmp_path):
    never = participation.bernoulli(np.zeros(4))
    calm_alone(patterns={'some': never}).run(tmp_path)
    result = comparison.compare(first, tmp_path)
    assert result.metric is None
    assert (result.leaf.round, result.leaf.name) == (6, '.links.mask')
    assert (result.leaf.first, result.leaf.second) == ('True', 'False')
    path = first / runs.CHECKPOINTS / 'main-calm-0000-some-0@6.npz'
    mask = checkpoints.arrays(path)['.links.mask']
    assert (result.leaf.entry, result.leaf.num_entries) == (
        (mask.argmax(),),
        mask.sum(),
    )
    assert f'.links.mask[{mask.argmax()}]: True | False' in result.text()


@pytest.mark.slow
def test_lanes_that_ran_side_by_side_are_found(first, tmp_path):
    running.run(experiment(), tmp_path, side_by_side=True)
    result = comparison.compare(first, tmp_path)
    assert result.equal
    assert result.compared.endswith(', 16 states')


def test_a_difference_in_tuning_comes_first(tmp_path):
    """Lanes of tuning and of the experiment differ from the same round on."""
    for name, nudge in (('one', ()), ('two', (1,))):
        algorithms = {'calm': standing(nudge=nudge, level=1.0)}
        tuning = Tuning(grid={'level': [1.0]}, num_rounds=4)
        experiment(grid={}, tuning=tuning, algorithms=algorithms).run(tmp_path / name)
    result = comparison.compare(tmp_path / 'one', tmp_path / 'two')
    assert (
        result.metric.lane
        == 'tuning, algorithm calm, pattern some, seed 10000, level 1.0'
    )
    assert (result.metric.round, result.metric.name) == (2, 'server/second')
    assert (result.leaf.lane, result.leaf.round) == (result.metric.lane, 2)


def test_a_shorter_run_and_missing_lanes_are_reported(first, tmp_path):
    calm_alone(num_rounds=4, seeds=(0,)).run(tmp_path)
    result = comparison.compare(first, tmp_path)
    assert len(result.sections[comparison.ONLY_FIRST]) == 6
    assert len(result.sections[comparison.ONLY_SECOND]) == 0
    lane = 'algorithm calm, pattern some, seed 0, level 1.0'
    assert result.metric == comparison.Difference(6, lane, 'line', 'present', 'absent')
    assert result.compared.endswith(', 0 states')
    text = result.text()
    assert 'algorithms[1]: "odd" | absent' in text
    assert (
        'lanes of the first run alone\n  algorithm calm, pattern some, seed 3, level 1.0'
        in text
    )
    assert '  and 3 more' in text
    assert text.endswith('different (2 lanes in common, 8 lines of metrics, 0 states)')
    assert comparison.compare(tmp_path, first).compared == result.compared


def test_a_metric_that_is_not_finite_differs(first, tmp_path):
    def not_finite(params, key, problem):
        values = second_entry(params, key, problem)
        return {**values, 'first': np.nan * values['first']}

    calm_alone(eval_fn=not_finite).run(tmp_path)
    result = comparison.compare(first, tmp_path).metric
    assert (result.round, result.name) == (2, 'server/first')
    assert (result.first, result.second) == ('1.0', 'not finite')


def test_versions_are_apart_from_the_config(first, tmp_path):
    other = tmp_path / 'other'
    shutil.copytree(first, other)
    path = other / runs.ENVIRONMENT
    environment = json.loads(path.read_text())
    environment['versions']['jax'] = '0.1'
    environment['flags'] = ['--quick']
    path.write_text(json.dumps(environment))
    result = comparison.compare(first, other)
    assert result.equal
    assert result.sections['experiment.json'] == []
    (version,) = result.sections['environment']
    assert version.startswith('versions.jax: ')
    assert version.endswith(' | "0.1"')


def test_damage_is_no_difference(first, tmp_path):
    other = tmp_path / 'other'
    shutil.copytree(first, other)
    flip_bit(next((other / runs.CHECKPOINTS).glob('main-odd*.npz')))
    with pytest.raises(
        ValueError, match=r'`checkpoint` must be as it was written, got .*main-odd'
    ):
        comparison.compare(first, other)


@pytest.mark.parametrize(
    'dtype', [np.int32, np.float64, np.complex128, np.bool_, ml_dtypes.bfloat16]
)
def test_entries_of_any_dtype_are_compared_by_their_bits(dtype):
    one = {'.x': np.array([0, 1, 1], dtype)}
    assert comparison._leaf_difference(2, 'a', one, {'.x': one['.x'].copy()}) is None
    other = {'.x': np.array([0, 0, 1], dtype)}
    result = comparison._leaf_difference(2, 'a', one, other)
    shown = [str(side['.x'][1]) for side in (one, other)]
    assert result == comparison.Difference(2, 'a', '.x', *shown, (1,))


def test_zeros_of_both_signs_differ_and_nan_equals_itself():
    one = {'.x': np.array([0.0, np.nan])}
    assert (
        comparison._leaf_difference(2, 'a', one, {'.x': np.array([0.0, np.nan])})
        is None
    )
    result = comparison._leaf_difference(2, 'a', one, {'.x': np.array([-0.0, np.nan])})
    assert (result.first, result.second, result.entry) == ('0.0', '-0.0', (0,))
    scalar = comparison._leaf_difference(
        2, 'a', {'.x': np.array(1)}, {'.x': np.array(2)}
    )
    assert (scalar.first, scalar.second, scalar.entry) == ('1', '2', ())


def test_fields_are_named_by_dotted_path():
    one = {'a': {'b': 1, 'c': [1, 2]}, 'd': [1], 'e': 1, 'f': 0.0, 'g': 'x' * 99}
    two = {'a': {'b': 2, 'c': [1, 3]}, 'd': [1, 2], 'f': -0.0, 'g': 'y' * 99}
    assert comparison.field_differences(one, two) == [
        'a.b: 1 | 2',
        'a.c[1]: 2 | 3',
        'd[1]: absent | 2',
        'e: 1 | absent',
        'f: 0.0 | -0.0',
        'g: "' + 'x' * 56 + '... | "' + 'y' * 56 + '...',
    ]


def test_a_value_in_place_of_a_section_or_a_list_is_not_absent():
    one = {'a': None, 'b': [], 'c': {}, 'd': {'e': 1}, 'f': [1], 'g': {}, 'h': 0}
    two = {'a': {'e': 1}, 'b': [1], 'c': {'e': 1}, 'd': [1], 'f': 1, 'h': {}}
    assert comparison.field_differences(one, two) == [
        'a: null | {"e": 1}',
        'b[0]: absent | 1',
        'c.e: absent | 1',
        'd: {"e": 1} | [1]',
        'f: [1] | 1',
        'g: {} | absent',
        'h: 0 | {}',
    ]
