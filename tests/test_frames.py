"""Results as tables and data sets, against the arrays that they come from."""

import sys

import jax
import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import experiment, local_training, participation, problems, runs
from fedjax_links.simulation import SimulationResult

SEEDS = [5, 6, 7]
PROBS = np.array([[0.5] * 4, [0.25, 0.5, 0.75, 1.0]])
GRID = {'algorithm': {'rate': [0.1, 0.2]}, 'participation': {'p': PROBS}}


def fedavg(rate):
    return fl.algorithms.fedavg(local_training.local_sgd(rate, local_steps=1))


@pytest.fixture(scope='module')
def swept():
    return fl.sweep(
        fedavg,
        lambda p: participation.bernoulli(p),
        problems.quadratic(np.arange(8.0).reshape(4, 2)),
        seeds=SEEDS,
        grid=GRID,
        num_rounds=6,
        eval_every=3,
    )


@pytest.fixture(scope='module')
def run(tmp_path_factory):
    config = {
        'title': 'frames',
        'problem': {'name': 'counterexample', 'num_clients': 4, 'dimension': 2},
        'links': {'name': 'bernoulli', 'probs': {'name': 'equal', 'value': 0.5}},
        'client': {'learning_rate': 0.1, 'local_steps': 1},
        'algorithms': {'fedavg': {}, 'fedpbc': {}},
        'grid': {'client.learning_rate': [0.1, 0.2]},
        'num_rounds': 4,
        'eval_every': 2,
        'num_seeds': 2,
    }
    folder = tmp_path_factory.mktemp('run')
    experiment.build(config).run(folder)
    return runs.read(folder)


def test_a_table_has_one_row_per_lane_and_evaluation(swept):
    pytest.importorskip('pandas')
    table = swept.to_pandas(seeds=SEEDS, grid=GRID)
    assert list(table.columns) == [
        'point',
        'seed',
        'algorithm.rate',
        'participation.p',
        'round',
        'finite',
        'server/distance',
        'server/loss',
    ]
    loss = np.asarray(swept.evals['server']['loss'])
    assert len(table) == loss.size
    for _, row in table.iterrows():
        point, seed, place = int(row['point']), SEEDS.index(row['seed']), row['round'] // 3 - 1
        assert row['server/loss'] == loss[point, seed, place]
        assert row['algorithm.rate'] == GRID['algorithm']['rate'][point]
        assert row['participation.p'] == tuple(PROBS[point].tolist())
    assert table['finite'].all()
    assert table.groupby('participation.p').size().tolist() == [6, 6]


def test_lists_of_a_runs_grid_are_tuples():
    pytest.importorskip('pandas')
    lines = ['{"p": [0.5, [1, 2]], "q": 1, "m": null}', '{"p": [], "q": 2, "m": "a"}'] * 2
    table = runs.Results(runs.as_columns(lines), {}).to_pandas()
    assert table['p'].tolist() == [(0.5, (1, 2)), ()] * 2
    assert table.groupby('p')['q'].sum().to_dict() == {(0.5, (1, 2)): 2, (): 4}
    assert table['q'].tolist() == [1, 2, 1, 2]
    assert table['m'].tolist()[1] == 'a'


def test_every_round_has_a_row_where_asked_for(swept):
    pytest.importorskip('pandas')
    table = swept.to_pandas(per_round=True)
    active = np.asarray(swept.rounds.num_active)
    np.testing.assert_array_equal(table['rounds/num_active'], active.ravel())
    np.testing.assert_array_equal(table['round'][:6], [1, 2, 3, 4, 5, 6])


def test_one_lane_has_no_columns_of_lanes_and_goes_on_counting(swept):
    pytest.importorskip('pandas')
    problem = problems.quadratic(np.arange(8.0).reshape(4, 2))
    args = jax.random.key(0), fedavg(0.1), participation.always(4), problem
    first = fl.simulate(*args, num_rounds=4, eval_every=2)
    more = fl.simulate(*args, num_rounds=2, eval_every=1, initial_state=first.state)
    assert list(first.to_pandas().columns[:2]) == ['round', 'finite']
    assert first.to_pandas()['round'].tolist() == [2, 4]
    assert more.to_pandas()['round'].tolist() == [5, 6]
    silent = fl.simulate(*args, num_rounds=2)
    with pytest.raises(ValueError, match=r'^`result` must have evaluations \(`eval_every`\)'):
        silent.to_pandas()


def test_rounds_after_a_failure_are_not_finite(swept):
    pytest.importorskip('pandas')
    bad = swept.state.first_bad_round.at[1, 2].set(3)
    table = swept._replace(state=swept.state._replace(first_bad_round=bad)).to_pandas()
    lost = table[~table['finite']]
    assert lost[['point', 'seed', 'round']].to_numpy().tolist() == [[1, 2, 6]]


def test_named_axes(swept):
    pytest.importorskip('xarray')
    found = swept.to_xarray(seeds=SEEDS, grid=GRID)
    np.testing.assert_array_equal(found['server/loss'], swept.evals['server']['loss'])
    assert found['server/loss'].dims == ('point', 'seed', 'round')
    assert found['round'].values.tolist() == [3, 6]
    assert found['seed'].values.tolist() == SEEDS
    assert found['algorithm.rate'].dims == ('point',)
    np.testing.assert_array_equal(found['participation.p'], PROBS)
    assert found['participation.p'].dims == ('point', 'participation.p_axis0')
    np.testing.assert_array_equal(found['rounds/num_active'], swept.rounds.num_active)
    assert found['rounds/num_active'].dims == ('point', 'seed', 'each_round')
    one = found['server/loss'].sel(seed=6, round=6)
    np.testing.assert_array_equal(one, np.asarray(swept.evals['server']['loss'])[:, 1, 1])


def test_a_run_has_named_axes(run):
    pytest.importorskip('xarray')
    found = run.to_xarray()
    values = found['client_mean/loss']
    assert values.dims == ('algorithm', 'pattern', 'point', 'seed', 'round')
    assert values.sel(algorithm='fedavg').isnull().all()
    rates = found['client.learning_rate'].values.tolist()
    table = run.to_pandas()
    assert len(table) == values.sizes['point'] * 2 * 2 * 2
    for _, row in table.iterrows():
        at = {'algorithm': row['algorithm'], 'pattern': row['pattern'], 'seed': row['seed']}
        at |= {'round': row['round']}
        for name in ('server/loss', 'client_mean/loss'):
            cell = found[name].sel(**at).isel(point=rates.index(row['client.learning_rate']))
            np.testing.assert_equal(float(cell), row[name])
    assert found['finite'].all()


def test_what_a_run_lacks_is_not_finite_and_lists_are_tuples(run):
    pytest.importorskip('xarray')
    columns = {name: column[1:] for name, column in run.columns.items()}
    first = columns['client.learning_rate'] == 0.1
    vectors = np.empty(len(first), object)
    vectors[:] = [[0.1, 0.1] if is_first else [0.2, 0.3] for is_first in first]
    found = run._replace(columns={**columns, 'client.learning_rate': vectors}).to_xarray()
    assert found['client.learning_rate'].values.tolist() == [(0.1, 0.1), (0.2, 0.3)]
    absent = ~found['finite'].values
    assert absent.sum() == 1
    assert found['server/loss'].isnull().values[absent].all()


@pytest.mark.parametrize(
    'arguments, message',
    [
        ({'seeds': [1, 2]}, '`seeds` must have 3 entries, got 2.'),
        ({'grid': {'algorithm': {'rate': [1.0]}}}, "`grid` must have 2 points, got 1 of 'rate'."),
    ],
)
def test_errors(swept, arguments, message):
    with pytest.raises(ValueError, match='`') as caught:
        swept.to_xarray(**arguments)
    assert str(caught.value) == message


def test_what_to_install(swept, monkeypatch):
    for name in ('pandas', 'xarray'):
        monkeypatch.setitem(sys.modules, name, None)
        call = getattr(swept, f'to_{name}')
        with pytest.raises(ImportError, match=f'^to_{name} needs {name}: `pip install {name}`.$'):
            call()
    nested = jax.tree.map(lambda a: np.asarray(a)[None], swept)
    with pytest.raises(ValueError, match='no leading axes beside points and seeds'):
        SimulationResult(*nested).to_pandas()
