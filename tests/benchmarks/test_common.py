"""Timing in turns, proofs that can fail, one JSON record."""

import json
import sys

import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import common


def test_programs_are_timed_in_turns_and_return_results():
    timings, results = common.alternate(
        {'double': lambda x: 2 * x, 'square': lambda x: x**2},
        (jnp.arange(4.0),),
        repeats=3,
    )
    np.testing.assert_array_equal(results['double'], [0, 2, 4, 6])
    np.testing.assert_array_equal(results['square'], [0, 1, 4, 9])
    for timing in timings.values():
        assert len(timing.seconds) == 3
        assert timing.compile_seconds > 0
        assert min(timing.seconds) <= timing.median <= max(timing.seconds)


def test_rates_are_those_of_the_median_turn():
    assert common.rates({'ours': common.Timing(1.0, [2.0, 20.0, 4.0])}, 8)['ours'] == {
        'compile_seconds': 1.0,
        'rounds_per_second': 2.0,
        'fastest_rounds_per_second': 4.0,
    }


def test_a_proof_measures_the_largest_difference():
    pair = {'a': np.array([1.0, 200.0]), 'b': np.array(0.5)}
    near = {'a': np.array([1.0, 200.1]), 'b': np.array(0.4997)}
    gap = common.require_close(near, pair, tolerance=1e-3, what='pair')
    np.testing.assert_allclose(gap, 0.1 / 200)


@pytest.mark.parametrize('wrong', [1.01, np.nan, np.inf])
@pytest.mark.parametrize('leaf', ['a', 'b'])
def test_a_proof_can_fail(leaf, wrong):
    expected = {'a': np.ones(2), 'b': np.ones(2)}
    actual = {**expected, leaf: np.array([1, wrong])}
    with pytest.raises(
        ValueError, match=r'^pair: results differ by .*, more than 0\.001\.$'
    ):
        common.require_close(actual, expected, tolerance=1e-3, what='pair')


def test_the_record_names_the_device_and_is_json(monkeypatch, tmp_path, capsys):
    out = tmp_path / 'record.json'
    monkeypatch.setattr(sys, 'argv', ['benchmark', '--quick', '--out', str(out)])
    common.main('nothing', 'Does nothing.', lambda quick: {'was_quick': quick})
    record = json.loads(capsys.readouterr().out)
    assert record == json.loads(out.read_text())
    assert record['benchmark'] == 'nothing'
    assert record['was_quick'] is record['quick'] is True
    assert record['device']['platform']
    assert record['device']['kind'] not in ('', 'cpu')
    assert record['device']['cores'] >= 1
