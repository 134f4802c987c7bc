"""Each workload proves its programs equal, and notices when they are not."""

import json
import subprocess
import sys

import jax
import numpy as np
import pytest

from benchmarks import bernoulli, micro, million, quadratic, summary
from fedjax_links import participation

TINY = micro.Settings(
    num_clients=7,
    num_samples=4,
    num_features=3,
    num_classes=2,
    cohort_size=3,
    local_steps=2,
    batch_size=2,
    num_rounds=6,
)
FEW = TINY._replace(num_clients=80, cohort_size=2, num_rounds=4)
TINY_QUADRATIC = quadratic.Settings(
    num_clients=4,
    dimension=3,
    local_steps=5,
    learning_rate=0.1,
    num_rounds=8,
    num_seeds=2,
)


def assert_record(record):
    rows = summary.rows({'benchmark': 'tiny', **json.loads(json.dumps(record))})
    assert any(row.met is not None for row in rows)


def test_micro():
    record = micro.compare(TINY, repeats=1)
    assert_record(record)
    assert record['largest_difference'] <= 1e-5
    assert record['rows'][0]['measured'] > 0
    assert set(record['programs']) == {'engine', 'by_hand'}


def test_micro_notices_another_program(monkeypatch):
    by_hand = micro.by_hand
    monkeypatch.setattr(
        micro,
        'by_hand',
        lambda key, data, settings: by_hand(
            key, data, settings._replace(learning_rate=0.11)
        ),
    )
    with pytest.raises(ValueError, match='micro: results differ'):
        micro.compare(TINY, repeats=1)


def test_bernoulli(monkeypatch):
    monkeypatch.setattr(bernoulli, 'CHUNK_SIZES', (2, 4))
    monkeypatch.setattr(bernoulli, 'SEVERAL', (3, 5))
    record = bernoulli.compare(TINY, proof_rounds=5, repeats=1)
    assert_record(record)
    assert record['largest_difference'] <= record['tolerance'] == 1e-6
    assert record['rows'][0]['measured'] > 0


def test_a_full_cohort_by_hand_is_the_engine_with_all_active():
    """Links that are always up, and a cohort of all clients drawn by hand."""
    everyone = participation.always(TINY.num_clients)
    key = jax.random.key(1)
    data = micro.problem(TINY)
    model, losses = jax.jit(lambda k, d: micro.engine(k, d, TINY, everyone))(key, data)
    full = TINY._replace(cohort_size=TINY.num_clients)
    plain, plain_losses = jax.jit(lambda k, d: micro.by_hand(k, d, full))(key, data)
    np.testing.assert_allclose(losses, plain_losses, rtol=1e-5)
    np.testing.assert_allclose(model['weights'], plain['weights'], atol=1e-5)


def test_quadratic():
    record = quadratic.compare(TINY_QUADRATIC, repeats=1)
    assert_record(record)
    assert all(row['measured'] > 0 for row in record['rows'])
    for name in ('fedavg', 'fedpbc'):
        assert record[name]['largest_difference'] <= 1e-5


def test_quadratic_notices_the_other_algorithm(monkeypatch):
    by_hand = quadratic.by_hand
    monkeypatch.setattr(
        quadratic,
        'by_hand',
        lambda keys, data, settings, name, **options: by_hand(
            keys, data, settings, 'fedpbc', **options
        ),
    )
    with pytest.raises(ValueError, match='fedavg: results differ'):
        quadratic.compare(TINY_QUADRATIC, repeats=1)


@pytest.mark.slow
@pytest.mark.release('test_a_million_clients_fit_into_two_gibibytes')
def test_million():
    sizes = [FEW._replace(num_clients=n) for n in (200, 300)]
    record = million.compare(FEW, *sizes, repeats=1)
    assert_record(record)
    assert record['largest_difference'] <= record['tolerance']
    names = [row['what'].split(', 2 of')[0] for row in record['rows']]
    assert names == [*million.patterns(FEW), 'examples made']
    for row in record['rows']:
        assert row['at_most']
        assert row['measured'] > 0


@pytest.mark.parametrize('name', list(million.patterns(FEW)))
def test_million_s_cohorts_are_those_of_the_links(name):
    key = jax.random.key(0)
    pattern = million.patterns(FEW)[name]
    cohorts = million.realised_cohorts(key, pattern, FEW.num_rounds)
    assert cohorts.shape == (4, FEW.cohort_size)
    state = pattern.init(jax.random.fold_in(jax.random.fold_in(key, 0), 1))
    sample_round = jax.jit(pattern.sample)
    for t, cohort in enumerate(cohorts):
        round_key = jax.random.fold_in(jax.random.fold_in(key, 1), t)
        state, sample = sample_round(state, round_key, t)
        np.testing.assert_array_equal(np.sort(cohort), np.flatnonzero(sample.mask))


def test_no_client_returns_before_the_separation_is_over():
    patterns = million.patterns(FEW)
    for design in ('product', 'successive', 'sum'):
        pattern = patterns[f'minimum_separation, {design}']
        cohorts = million.realised_cohorts(jax.random.key(0), pattern, FEW.num_rounds)
        assert len(set(cohorts.ravel().tolist())) == cohorts.size


@pytest.mark.slow
@pytest.mark.release('test_the_devices_change_nothing_that_is_kept')
def test_seeds_have_equal_bits_on_one_device_and_two():
    """In a process of its own, as devices are made before JAX is used."""
    command = [sys.executable, '-m', 'benchmarks.seeds', '--quick']
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    record = json.loads(done.stdout)
    assert_record(record)
    assert record['rows'][0]['measured'] > 0
