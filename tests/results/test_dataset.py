"""Results as tables and data sets, against the arrays that they come from."""

import json
import subprocess
import sys

import jax
import numpy as np
import pytest
from matplotlib.figure import Figure

import fedjax_links as fl
from fedjax_links import experiment, local_training, participation, problems, runs
from fedjax_links.results import dataset
from fedjax_links.simulation import SimulationResult
from tests import refusals

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
        point = int(row['point'])
        seed = SEEDS.index(row['seed'])
        position = row['round'] // 3 - 1
        assert row['server/loss'] == loss[point, seed, position]
        assert row['algorithm.rate'] == GRID['algorithm']['rate'][point]
        assert row['participation.p'] == tuple(PROBS[point].tolist())
    assert table['finite'].all()
    assert table.groupby('participation.p').size().tolist() == [6, 6]


def test_lists_of_a_runs_grid_are_tuples():
    lines = [
        '{"round": 1, "p": [0.5, [1, 2]], "q": 1, "m": null}',
        '{"round": 1, "p": [], "q": 2, "m": "a"}',
    ] * 2
    table = runs.Results(runs.as_columns(lines), {}).to_pandas()
    assert table['p'].tolist() == [(0.5, (1, 2)), ()] * 2
    assert table.groupby('p')['q'].sum().to_dict() == {(0.5, (1, 2)): 2, (): 4}
    assert table['q'].tolist() == [1, 2, 1, 2]
    assert table['m'].tolist()[1] == 'a'


def test_every_round_has_a_row_where_asked_for(swept):
    table = swept.to_pandas(per_round=True)
    active = np.asarray(swept.rounds.num_active)
    np.testing.assert_array_equal(table['rounds/num_active'], active.ravel())
    np.testing.assert_array_equal(table['round'][:6], [1, 2, 3, 4, 5, 6])


def test_one_lane_has_no_columns_of_lanes_and_goes_on_counting():
    problem = problems.quadratic(np.arange(8.0).reshape(4, 2))
    args = jax.random.key(0), fedavg(0.1), participation.always(4), problem
    first = fl.simulate(*args, num_rounds=4, eval_every=2)
    more = fl.simulate(*args, num_rounds=2, eval_every=1, initial_state=first.state)
    assert list(first.to_pandas().columns[:2]) == ['round', 'finite']
    assert first.to_pandas()['round'].tolist() == [2, 4]
    assert more.to_pandas()['round'].tolist() == [5, 6]
    without_evaluations = jax.eval_shape(
        lambda key: fl.simulate(key, *args[1:], num_rounds=2), args[0]
    )
    with pytest.raises(
        ValueError, match=r'^`result` must have evaluations \(`eval_every`\)'
    ):
        without_evaluations.to_pandas()


def test_evaluations_that_are_all_vectors_have_no_labelled_form(swept):
    result = swept._replace(evals={'server': np.zeros((2, 3, 2, 4))})
    with pytest.raises(
        ValueError, match=r'^`data` must have evaluations that are single numbers'
    ):
        result.to_dataset()


def test_rounds_after_a_failure_are_not_finite(swept):
    bad = swept.state.first_bad_round.at[1, 2].set(3)
    table = swept._replace(state=swept.state._replace(first_bad_round=bad)).to_pandas()
    lost = table[~table['finite']]
    assert lost[['point', 'seed', 'round']].to_numpy().tolist() == [[1, 2, 6]]


def test_named_axes(swept):
    result = swept.to_dataset(seeds=SEEDS, grid=GRID)
    loss = np.asarray(swept.evals['server']['loss'])
    assert result['loss'].dims == ('series', 'model', 'pattern', 'seed', 'round')
    np.testing.assert_array_equal(result['loss'].sel(model='server', pattern=''), loss)
    assert result['round'].values.tolist() == [3, 6]
    assert result['seed'].values.tolist() == SEEDS
    assert result['algorithm.rate'].dims == ('series',)
    assert result['participation.p'].dims == ('series',)
    vectors = [json.loads(text) for text in result['participation.p'].values.tolist()]
    assert vectors == PROBS.tolist()
    one = result['loss'].sel(seed=6, round=6, model='server', pattern='')
    np.testing.assert_array_equal(one, loss[:, 1, 1])


def test_metrics_of_several_entries_are_left_out(swept):
    shares = np.arange(2 * 3 * 2 * 4.0).reshape(2, 3, 2, 4)
    wide = swept._replace(evals={'server': {**swept.evals['server'], 'shares': shares}})
    assert set(wide.to_dataset()) == set(swept.to_dataset()) == {'distance', 'loss'}


def test_after_a_failure_there_are_no_numbers(swept):
    bad = swept.state.first_bad_round.at[1, 2].set(3)
    result = swept._replace(
        state=swept.state._replace(first_bad_round=bad)
    ).to_dataset()
    lost = np.argwhere(result['loss'].isnull().values).tolist()
    assert lost == [[1, 0, 0, 2, 1]]


def test_a_run_has_named_axes(run):
    result = run.dataset
    assert result['loss'].dims == ('series', 'model', 'pattern', 'seed', 'round')
    fedavg = result.sel(series=result['algorithm'] == 'fedavg')
    assert fedavg['loss'].sel(model='client_mean').isnull().all()
    table = run.to_pandas()
    assert len(table) == result['complete'].size * 2 * 2
    assert result['complete'].all()
    for _, row in table.iterrows():
        is_series = result['algorithm'] == row['algorithm']
        is_series &= result['client.learning_rate'] == row['client.learning_rate']
        at = {name: row[name] for name in ('pattern', 'seed', 'round')}
        for model in ('server', 'client_mean'):
            cell = result['loss'].sel(series=is_series, model=model, **at)
            np.testing.assert_equal(cell.item(), row[f'{model}/loss'])
        cell = result['rounds.num_active'].sel(series=is_series, **at)
        assert cell.item() == row['rounds/num_active']


ENGINES = {'scipy': 'scipy', 'netcdf4': 'netCDF4', 'h5netcdf': 'h5netcdf'}


@pytest.mark.parametrize('engine', ENGINES)
@pytest.mark.parametrize('kind', ['run', 'sweep'])
def test_results_go_to_netcdf_and_come_back(run, swept, tmp_path, engine, kind):
    """By every library that writes the format."""
    xarray = pytest.importorskip('xarray')
    pytest.importorskip(ENGINES[engine])
    result = run.dataset if kind == 'run' else swept.to_dataset(seeds=SEEDS, grid=GRID)
    result.to_netcdf(tmp_path / 'a.nc', engine=engine)
    with xarray.open_dataset(tmp_path / 'a.nc', engine=engine) as back:
        xarray.testing.assert_equal(back.load(), result)
        assert back.attrs == result.attrs
        assert dataset.points(back) == dataset.points(result)
        assert dataset.names(back) == dataset.names(result)
        assert dataset.read_attribute(back, 'directions') == dataset.read_attribute(
            result, 'directions'
        )
        ours = fl.plot.learning_curves(result, 'loss', ax=Figure().subplots())
        theirs = fl.plot.learning_curves(back, 'loss', ax=Figure().subplots())
        lines = [
            np.concatenate([line.get_xydata() for line in axes.lines])
            for axes in (ours, theirs)
        ]
        np.testing.assert_array_equal(*lines)


def test_netcdf_is_written_by_the_default_engine(run, tmp_path):
    xarray = pytest.importorskip('xarray')
    run.dataset.to_netcdf(tmp_path / 'a.nc')
    assert xarray.open_dataset(tmp_path / 'a.nc')['rounds.num_active'].sum() > 0


def test_coordinates_are_numbers_or_texts():
    nan = float('nan')
    numbers = dataset.as_coordinate([1, nan, 2])
    assert numbers.dtype == np.float64
    np.testing.assert_array_equal(numbers, [1, nan, 2])
    assert dataset.as_coordinate([True, False]).dtype == bool
    mixed = dataset.as_coordinate(
        ['a', nan, None, (0.1, 2), np.arange(2), {'b': np.float32(1)}]
    )
    assert mixed.tolist() == ['a', '', 'null', '[0.1, 2]', '[0, 1]', '{"b": 1.0}']


def test_what_a_run_lacks_is_not_a_number_and_lists_are_json(run):
    columns = {name: column[1:] for name, column in run.columns.items()}
    first = columns['client.learning_rate'] == 0.1
    vectors = np.empty(len(first), object)
    vectors[:] = [[0.1, 0.1] if is_first else [0.2, 0.3] for is_first in first]
    grid = {'client.learning_rate': [[0.1, 0.1], [0.2, 0.3]]}
    result = runs.Results(
        {**columns, 'client.learning_rate': vectors}, {**run.facts, 'grid': grid}
    ).dataset
    assert (
        result['client.learning_rate'].values.tolist()
        == ['[0.1, 0.1]', '[0.2, 0.3]'] * 2
    )
    assert result['loss'].sel(model='server').isnull().sum() == 1
    assert result['complete'].values.tolist() == [False, True, True, True]


def test_an_algorithm_without_a_column_has_no_number_there():
    start = '{"algorithm": "mine", "pattern": "links", "seed": 0, "round": 1, '
    lines = [f'{start}"a": {value}, "server/loss": {value}}}' for value in (1, 2)]
    lines.append(f'{start}"server/loss": 3}}'.replace('mine', 'other'))
    facts = {
        'algorithms': ['mine', 'other'],
        'patterns': ['links'],
        'seeds': [0],
        'names': [],
        'grid': {'a': [1, 2]},
        'grid_mode': 'cross',
        'metric': 'loss',
        'baseline': 'other',
        'models': {'mine': ['server'], 'other': ['server']},
        'directions': {'loss': 'min'},
    }
    result = runs.Results(runs.as_columns(lines), facts).dataset
    assert result['series'].values.tolist() == ['mine (a 1)', 'mine (a 2)', 'other']
    np.testing.assert_array_equal(result['a'].values.astype(float), [1, 2, np.nan])
    np.testing.assert_array_equal(result['loss'].values.ravel(), [1, 2, 3])


def test_tuning_trials_are_a_data_set_of_their_own(tmp_path):
    config = {
        'title': 'tuned',
        'problem': {'name': 'counterexample', 'num_clients': 4, 'dimension': 2},
        'links': {'name': 'bernoulli', 'probs': {'name': 'equal', 'value': 0.5}},
        'client': {'local_steps': 1},
        'algorithms': {'fedavg': {}},
        'tuning': {
            'learning_rates': (0.1, 0.2),
            'pattern': 'links',
            'num_rounds': 2,
            'num_seeds': 2,
        },
        'num_rounds': 4,
        'eval_every': 2,
        'num_seeds': 1,
    }
    run = experiment.build(config).run(tmp_path)
    result = run.dataset
    tuned = run['stage'] == 'tuning'
    rates = run.tuning['client.learning_rate'].values.tolist()
    assert rates == sorted(set(run['client.learning_rate'][tuned].tolist()))
    assert set(rates) > {0.1, 0.2}  # the best lay at an end
    np.testing.assert_array_equal(
        run.tuning['loss'].sel(round=2).values.ravel(),
        run['server/loss'][tuned & (run['round'] == 2)],
    )
    assert result['client.learning_rate'].dims == ('series', 'pattern')
    assert result['client.learning_rate'].item() in rates[1:-1]


@pytest.mark.slow
def test_a_run_starts_without_what_reads_results(tmp_path):
    argv = [
        'fedjax_links',
        'simulate',
        '--config=quickstart',
        '--dry_run',
        f'--workdir={tmp_path}',
    ]
    code = f"""
import runpy, sys
from fedjax_links.runner import dry_runs
dry_runs.dry_run = lambda *arguments: ()  # it also times the report
sys.argv = {argv}
try:
    runpy.run_module('fedjax_links', run_name='__main__')
except SystemExit as end:
    assert not end.code
print(sorted({{'xarray', 'matplotlib'}} & sys.modules.keys()))
"""
    done = subprocess.run(
        [sys.executable, '-c', code], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == '[]'


@pytest.mark.parametrize(
    'arguments, message',
    [
        ({'seeds': [1, 2]}, '`seeds` must have 3 entries, got 2.'),
        (
            {'grid': {'algorithm': {'rate': [1.0]}}},
            "`grid` must have 2 points, got 1 of 'rate'.",
        ),
    ],
)
def test_seeds_and_grids_must_fit_the_result(swept, arguments, message):
    with refusals.refuses(message):
        swept.to_dataset(**arguments)


def test_more_axes_than_points_and_seeds_are_refused(swept):
    nested = jax.tree.map(lambda a: np.asarray(a)[None], swept)
    with pytest.raises(ValueError, match='no leading axes but points and seeds'):
        SimulationResult(*nested).to_pandas()


def test_series_with_near_values_have_different_labels():
    def algorithm(rate):
        return fl.ALGORITHMS['fedavg'](local_training.local_sgd(rate, local_steps=1))

    results = fl.Experiment(
        title='near',
        problem=problems.quadratic(np.eye(2)),
        patterns={'all': participation.always(2)},
        algorithms={'mine': algorithm},
        num_rounds=1,
        eval_every=1,
        grid={'rate': [0.1, 0.10000001, 0.2]},
        names=[('mine', 'M')],
    ).run()
    exact = ['rate 0.1', 'rate 0.10000001', 'rate 0.2']
    labels = [f'mine ({text})' for text in exact]
    assert results.dataset['series'].values.tolist() == labels
    shown = dataset.names(results.dataset)
    assert [shown[label] for label in labels] == [f'M ({text})' for text in exact]
    assert all(f'  {label}: ' in repr(results) for label in labels)
    rows = fl.report.table(results, 'comparison')
    assert len(rows) == 3
