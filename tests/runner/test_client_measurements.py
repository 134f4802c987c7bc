"""Measures clients at final models that were saved, against NumPy on the rows of each name."""

import dataclasses
import pickle
import shutil

import jax
import numpy as np
import pytest

from fedjax_links import datasets, experiment, problems, report, runs
from fedjax_links.core import errors
from fedjax_links.report import client_stats
from fedjax_links.results import clients
from fedjax_links.storage import checksummed_npz
from tests import refusals

NAMES = [f'dev-{letter}' for letter in 'gcafbed']


def named_data():
    """A data set of seven named owners, of whom one has test examples alone, and two none."""
    rng = np.random.default_rng(3)
    owners = np.repeat(NAMES[:6], [9, 4, 12, 5, 8, 6])
    test_owners = np.repeat([*NAMES[1:5], NAMES[6]], 5)
    labels = rng.integers(0, 3, owners.size)
    test_labels = rng.integers(0, 3, test_owners.size)

    def features(classes):
        means = np.eye(4)[classes]
        return np.float32(means + rng.normal(size=(len(classes), 4)))

    return datasets.Dataset(
        features(labels),
        labels,
        owners,
        test_features=features(test_labels),
        test_labels=test_labels,
        test_clients=test_owners,
    )


def named(partition_seed=0, **options):
    return problems.images(
        dataset=named_data(),
        partition='natural',
        model='softmax',
        partition_seed=partition_seed,
        **options,
    )


def config(**changes):
    return {
        'title': 'names',
        'problem': {'name': f'{__name__}:named'},
        'links': {'name': 'bernoulli', 'probs': 0.5},
        'client': {'learning_rate': 0.1, 'local_steps': 1},
        'algorithms': {'fedpbc': {}, 'fedavg': {}},
        'num_rounds': 3,
        'eval_every': 3,
        'num_seeds': 2,
        **changes,
    }


def accuracy_by_name(folder, label, seed):
    """The accuracy of a saved model on the test rows of each owner, in NumPy."""
    name = 'client_mean' if label == 'fedpbc' else 'server'
    lane = {'algorithm': label, 'seed': seed}
    model = runs.model(folder, lane, name=name)
    # A matrix of weights and a vector of biases, under whatever names.
    by_rank = {np.ndim(leaf): np.asarray(leaf) for leaf in jax.tree.leaves(model)}
    data = named_data()
    scores = np.asarray(data.test_features) @ by_rank[2] + by_rank[1]
    is_right = scores.argmax(axis=1) == data.test_labels
    owners = np.array(data.client_names)[data.test_clients]
    return {owner: is_right[owners == owner].mean() for owner in np.unique(owners)}


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp('runs') / 'names'
    return experiment.build(config()).run(folder)


@pytest.fixture(scope='module')
def reported(finished, tmp_path_factory):
    """A copy of the run, in which its clients are recorded as a report does."""
    folder = tmp_path_factory.mktemp('reported') / 'names'
    shutil.copytree(finished.folder, folder)
    client_stats.save(experiment.build(config()), runs.read(folder))
    return folder


def test_a_run_measures_each_client_by_name(finished):
    clients = finished.clients
    assert clients['accuracy'].dims == ('algorithm', 'pattern', 'seed', 'client')
    assert clients['algorithm'].values.tolist() == ['fedpbc', 'fedavg']
    assert set(clients['client'].values) == set(NAMES)
    for label in ('fedavg', 'fedpbc'):
        for seed in (0, 1):
            lane = clients.sel(algorithm=label, pattern='links', seed=seed)
            expected = accuracy_by_name(finished.folder, label, seed)
            for name in NAMES:
                measured = float(lane['accuracy'].sel(client=name))
                np.testing.assert_allclose(measured, expected.get(name, np.nan))
    counts = clients['participations'].sel(algorithm='fedavg', pattern='links')
    masks = runs.links(finished.folder).masks['links']
    problem = named()
    for index, name in enumerate(problem.client_names):
        assert int(counts.sel(client=name, seed=0)) == masks[0][:, index].sum()
    assert np.isnan(counts.sel(client=NAMES[6])).all()


def test_measuring_clients_writes_nothing(finished):
    before = {
        path: path.read_bytes() for path in finished.folder.rglob('*') if path.is_file()
    }
    _ = finished.clients
    after = {
        path: path.read_bytes() for path in finished.folder.rglob('*') if path.is_file()
    }
    assert after == before


def test_clients_can_be_written_and_read_again(finished, tmp_path):
    import xarray

    finished.clients.to_netcdf(tmp_path / 'clients.nc')
    with xarray.open_dataset(tmp_path / 'clients.nc') as again:
        xarray.testing.assert_identical(again.load(), finished.clients)


def test_a_part_of_a_run_has_the_clients_of_that_part(finished):
    part = finished.select(algorithms='fedavg', seeds=[1]).clients
    assert part['algorithm'].values.tolist() == ['fedavg']
    assert part['seed'].values.tolist() == [1]


def test_a_part_without_measured_clients_is_refused(finished):
    measured = {'links': {'fedavg': {'loss': np.zeros((1, 1)), 'seed': np.zeros(1)}}}
    part = dataclasses.replace(
        finished.select(algorithms='fedpbc'), measure_clients=lambda: measured
    )
    with pytest.raises(
        errors.InvalidError, match=r'\(fedavg on links\), got one of fed'
    ):
        _ = part.clients


def test_results_in_a_folder_can_be_pickled(finished):
    again = pickle.loads(pickle.dumps(finished))
    assert again.facts == finished.facts


def test_results_without_models_name_the_call_that_measures(finished):
    in_memory = runs.Results(finished.columns, finished.facts)
    with pytest.raises(ValueError, match=r'`folder` must be given to `Experiment.run`'):
        _ = in_memory.clients
    with pytest.raises(
        ValueError, match=r'`experiment.run\(folder\).clients` measures'
    ):
        _ = runs.read(finished.folder).clients


@pytest.mark.usefixtures('unrendered')
def test_clients_of_a_lane_that_diverged_have_no_accuracy(tmp_path):
    """A model of NaN has an accuracy, too: that of the first class."""
    client = {'learning_rate': 1e38, 'local_steps': 5}
    built = experiment.build(
        config(client=client, algorithms={'fedpbc': {}}, num_seeds=1)
    )
    run = built.run(tmp_path)
    assert not run['finite'].any()
    measured = run.clients
    for name in ('accuracy', 'loss', 'personal_accuracy'):
        assert np.isnan(measured[name]).all()
    assert (measured['participations'].sel(client=NAMES[0]) >= 0).all()
    report.write(run, built)
    table = report.table(run, 'clients')
    assert set(table['mean']) == {'diverged'}
    assert set(table['took part least']) == {'diverged'}
    stored = client_stats.read(tmp_path)
    assert set(stored['links'].missing.values()) == {'diverged'}


@pytest.mark.parametrize(
    'name, values',
    [
        ('participations', None),
        ('participations', np.zeros((2, 3))),
        ('accuracy', np.zeros((1, 7))),
        ('seed', np.arange(5)),
        ('client', np.arange(3)),
    ],
)
def test_recorded_arrays_of_unequal_shapes_are_refused(
    name, values, reported, tmp_path
):
    folder = shutil.copytree(reported, tmp_path / 'run')
    with np.load(folder / clients.CLIENTS) as stored:
        arrays = dict(stored)
    path = f'measured/links/fedavg/{name}'
    del arrays[path]
    if values is not None:
        arrays[path] = values
    (folder / clients.CLIENTS).write_bytes(checksummed_npz.npz(arrays))
    for read in (lambda: client_stats.read(folder), lambda: runs.read(folder).clients):
        with refusals.names('folder', clients.CLIENTS):
            read()


@pytest.mark.slow
def test_held_out_clients_may_differ_by_seed(tmp_path):
    """Each seed numbers the owners differently, so only their names identify them."""
    changes = {
        'problem': {'name': f'{__name__}:named', 'holdout_clients': 2},
        'redraw': {'partition': 'by_seed'},
        'algorithms': {'fedavg': {}},
    }
    built = experiment.build(config(**changes))
    clients = built.run(tmp_path).clients
    held_out = []
    for seed in (0, 1):
        problem = built.problem_at('links', {}, seed)
        lane = clients.sel(algorithm='fedavg', pattern='links', seed=seed)
        trains = ~np.isnan(lane['participations'])
        names = lane['client'].values[trains.values]
        assert set(names) == set(problem.client_names)
        held_out.append(set(NAMES) - set(names))
    assert held_out[0] != held_out[1]


@pytest.mark.slow
def test_an_extended_run_has_no_clients_of_fewer_rounds(tmp_path):
    built = experiment.build(config(algorithms={'fedavg': {}}, num_seeds=1))
    run = built.run(tmp_path)
    report.write(run, built)
    recorded = runs.read(tmp_path).clients
    np.testing.assert_array_equal(recorded['client'], run.clients['client'])
    np.testing.assert_allclose(recorded['loss'], run.clients['loss'])
    longer = experiment.build(
        config(algorithms={'fedavg': {}}, num_seeds=1, num_rounds=6)
    )
    extended = longer.run(tmp_path).clients
    assert float(abs(extended['loss'] - recorded['loss']).max()) > 0
    with pytest.raises(
        ValueError, match=r'`experiment.run\(folder\).clients` measures'
    ):
        _ = runs.read(tmp_path).clients
