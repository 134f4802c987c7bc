"""Where two runs part is found to the round, lane, entry and float."""

import json
import shutil

import ml_dtypes
import numpy as np
import pytest

from fedjax_links import participation, runs, stores
from fedjax_links.experiment import Tuning, running
from fedjax_links.report import comparing
from tests.report.standing import experiment, second_entry, standing
from tests.tiers import cases


class EveryPeriod(stores.SaveClock):
    """Saves after every period, so that two states of each lane are kept."""

    def is_due(self):
        """At any time."""
        return True


@pytest.fixture(autouse=True)
def _saved_often(monkeypatch):
    monkeypatch.setattr(stores, 'SaveClock', EveryPeriod)


@pytest.fixture(scope='module')
def first(tmp_path_factory):
    folder = tmp_path_factory.mktemp('runs') / 'first'
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stores, 'SaveClock', EveryPeriod)
        experiment().run(folder)
    return folder


def test_order_and_words_make_no_difference(first, tmp_path):
    algorithms = dict(reversed(experiment().algorithms.items()))
    turned = {'seeds': (3, 0), 'grid': {'level': [2.0, 1.0]}, 'algorithms': algorithms}
    experiment(title='Other words', caption='More of them.', **turned).run(tmp_path)
    assert (tmp_path / runs.METRICS).read_bytes() != (first / runs.METRICS).read_bytes()
    found = comparing.compare(first, tmp_path)
    assert found.equal
    assert (found.num_lanes, found.num_lines, found.num_states) == (8, 32, 16)
    assert [entry.field for entry in found.config] == [
        'algorithms[0]',
        'caption',
        'grid.level[0]',
        'seeds[0]',
        'title',
    ]
    assert '  title: "Standing" | "Other words"  (changes no result)' in found.text()
    assert found.text().endswith('equal (8 lanes in common, 32 lines of metrics, 16 states)')


@pytest.mark.slow
@pytest.mark.parametrize('units', cases([3, -2], [3]))
def test_a_nudged_model_is_found_in_metrics_and_states(first, tmp_path, units):
    experiment(odd={'nudge': (6,), 'units': units}).run(tmp_path)
    found = comparing.compare(first, tmp_path)
    moved = np.float32(1)
    for _ in range(abs(units)):
        moved = np.nextafter(moved, np.float32(np.sign(units) * np.inf))
    lane = 'algorithm odd, pattern some, seed 0, level 2.0'
    expected = comparing.Difference(
        8, lane, 'server/second', '1.0', str(moved), 'float32', abs(units)
    )
    assert found.metric == expected
    assert found.leaf == expected._replace(name=".algorithm['server']", place=(1,))
    assert not found.equal
    line = f'round 8, {lane}: server/second: 1.0 | {moved!s}, {abs(units)} units in the last place'
    assert f'  {line} (float32)' in found.text().splitlines()


def test_of_a_leaf_the_entry_furthest_apart_is_told(first, tmp_path):
    odd = {'nudge': (4, 7), 'leaf': 'memory', 'level': 1.0, 'units': 1}
    experiment(odd=odd).run(tmp_path)
    found = comparing.compare(first, tmp_path)
    assert found.metric is None
    lane = 'algorithm odd, pattern some, seed 0, level 1.0'
    assert found.leaf == comparing.Difference(
        6,
        lane,
        ".algorithm['memory']",
        '1.0',
        str(np.nextafter(np.float32(1), np.float32(2))),
        'float32',
        1,
        (1, 0),
    )
    assert "memory'][1, 0]: 1.0 | 1.0000001, 1 unit in the last place (float32)" in found.text()


def test_masks_and_counts_are_compared_too(first, tmp_path):
    experiment(patterns={'some': participation.bernoulli(np.zeros(4))}).run(tmp_path)
    found = comparing.compare(first, tmp_path)
    assert found.metric is None
    assert (found.leaf.round, found.leaf.name) == (6, '.links.mask')
    assert (found.leaf.first, found.leaf.second) == ('True', 'False')
    assert (found.leaf.dtype, found.leaf.units) == ('bool', 1)
    assert 'True | False, 1 unit (bool)' in found.text()


@pytest.mark.slow
@pytest.mark.slow
def test_lanes_that_ran_side_by_side_are_found(first, tmp_path):
    running.run(experiment(), tmp_path, side_by_side=True)
    found = comparing.compare(first, tmp_path)
    assert found.equal
    assert found.num_states == 16


def test_tuning_is_told_first(tmp_path):
    """The lanes of the experiment part in the same round."""
    for name, nudge in (('one', ()), ('two', (1,))):
        algorithms = {'calm': standing(nudge=nudge, level=1.0), 'odd': standing()}
        tuning = Tuning(grid={'level': [1.0]}, num_rounds=4)
        experiment(grid={}, tuning=tuning, algorithms=algorithms).run(tmp_path / name)
    found = comparing.compare(tmp_path / 'one', tmp_path / 'two')
    assert found.metric.lane == 'tuning, algorithm calm, pattern some, seed 10000, level 1.0'
    assert (found.metric.round, found.metric.name, found.metric.units) == (2, 'server/second', 3)
    assert (found.leaf.lane, found.leaf.round) == (found.metric.lane, 2)


def test_a_shorter_run_and_missing_lanes_are_told(first, tmp_path):
    experiment(num_rounds=4, seeds=(0,), algorithms={'calm': experiment().algorithms['calm']}).run(
        tmp_path
    )
    found = comparing.compare(first, tmp_path)
    assert len(found.only_first) == 6
    assert found.only_second == []
    lane = 'algorithm calm, pattern some, seed 0, level 1.0'
    assert found.metric == comparing.Difference(6, lane, 'line', 'present', 'absent')
    assert found.num_states == 0
    text = found.text()
    assert 'algorithms: 2 entries | 1 entries' in text
    assert 'lanes of the first run alone\n  algorithm calm, pattern some, seed 3, level 1.0' in text
    assert '  and 3 more' in text
    assert text.endswith('different (2 lanes in common, 8 lines of metrics, 0 states)')


def test_what_is_not_finite_and_what_is_counted(first, tmp_path):
    def not_finite(params, key, problem):
        values = second_entry(params, key, problem)
        return {**values, 'first': np.nan * values['first']}

    experiment(eval_fn=not_finite).run(tmp_path)
    found = comparing.compare(first, tmp_path).metric
    assert (found.round, found.name) == (2, 'server/first')
    assert (found.first, found.second, found.units) == ('1.0', 'not finite', None)


def test_versions_are_apart_from_the_config(first, tmp_path):
    other = tmp_path / 'other'
    shutil.copytree(first, other)
    path = other / runs.ENVIRONMENT
    environment = json.loads(path.read_text())
    environment['versions']['jax'] = '0.1'
    environment['flags'] = ['--quick']
    path.write_text(json.dumps(environment))
    found = comparing.compare(first, other)
    assert found.equal
    assert found.config == []
    (version,) = found.environment
    assert (version.field, version.second) == ('versions.jax', '"0.1"')


def test_damage_is_no_difference(first, tmp_path):
    other = tmp_path / 'other'
    shutil.copytree(first, other)
    path = next((other / runs.CHECKPOINTS).glob('main-odd*.npz'))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r'`checkpoint` must be as it was written, got .*main-odd'):
        comparing.compare(first, other)


@pytest.mark.parametrize('dtype', [np.float16, ml_dtypes.bfloat16])
def test_units_are_places_in_the_sorted_list_of_all_floats(dtype, rng):
    """Every finite number of 16 bits, the negative zero before the positive one."""
    floats = np.arange(2**16, dtype=np.uint16).view(dtype)
    with np.errstate(invalid='ignore'):
        wide = floats.astype(np.float64)
    order = np.lexsort((~np.signbit(wide), wide))
    floats = floats[order[np.isfinite(wide[order])]]
    one, other = rng.integers(0, len(floats), (2, 1000))
    np.testing.assert_array_equal(comparing.ulps(floats[one], floats[other]), np.abs(one - other))


def test_units_of_wide_floats():
    for dtype in (np.float32, np.float64):
        ends = np.array([-np.inf, np.inf], dtype)
        inner = np.nextafter(ends, dtype(0))
        assert comparing.ulps(ends, inner).tolist() == [1, 1]
        most = comparing.ulps(ends[:1], ends[1:])
        assert int(most[0]) == 2 * int(ends[1].view(f'u{ends.itemsize}')) + 1


def test_fields_are_named_by_dotted_path():
    one = {'a': {'b': 1, 'c': [1, 2]}, 'd': [1], 'e': 1, 'f': 0.0, 'g': 'x' * 99}
    two = {'a': {'b': 2, 'c': [1, 3]}, 'd': [1, 2], 'f': -0.0, 'g': 'y' * 99}
    found = [tuple(entry) for entry in comparing.field_differences(one, two)]
    assert found == [
        ('a.b', '1', '2'),
        ('a.c[1]', '2', '3'),
        ('d', '1 entries', '2 entries'),
        ('e', '1', 'absent'),
        ('f', '0.0', '-0.0'),
        ('g', '"' + 'x' * 56 + '...', '"' + 'y' * 56 + '...'),
    ]
