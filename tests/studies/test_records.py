"""No archive rests on a rate at an edge of what was tried."""

import numpy as np
import pytest

from fedjax_links import experiment, runs
from fedjax_links.planning import trials
from fedjax_links.report import cells, layouts, run_view
from fedjax_links.report.layouts.rates import edges
from studies import depth
from tests import ROOT
from tests.experiment.configs import values

RECORDS = ROOT / 'studies' / 'records'
FOLDERS = sorted(path.parent for path in RECORDS.rglob('experiment.json'))


PLATEAUS = {
    'maps/rounds': 2
}  # cells of FedPBC in which all large rates do alike, as map.md says


RATE_PLATEAUS = {
    'fashion_mnist_rules': 1
}  # of FedAvg under Markov links, which all large rates do alike, as real_images.md says


def at_edges(run):
    """Where tuning chose the largest or smallest of what it tried."""
    tries = [
        tried
        for label in run.facts['algorithms']
        for tried in trials.read_trials(run.columns, run.facts, label)
    ]
    assert all(tried.best is not None for tried in tries)
    return [tried.chosen for tried in tries if any(edges(tried).values())]


def cells_at_edges(run):
    """How many cells of a map have the largest or smallest of the rates in its grid."""
    pages = [
        dict(page) for page in run.facts['reports'].values() if page.get('best_over')
    ]
    assert all(page.pop('name') == 'heat_map' for page in pages)
    return sum(
        cells.map_cells(run_view.of_run(run), metric=None, **page).num_at_boundary
        for page in pages
    )


@pytest.mark.parametrize(
    'folder', FOLDERS, ids=lambda path: str(path.relative_to(RECORDS))
)
def test_an_archive_has_no_rate_at_an_edge(folder):
    run = runs.read(folder)
    name = str(folder.relative_to(RECORDS))
    assert len(at_edges(run)) == RATE_PLATEAUS.get(name, 0)
    assert cells_at_edges(run) == PLATEAUS.get(name, 0)


@pytest.mark.parametrize('data', depth.DATA)
def test_no_best_rate_of_depth_is_an_edge(data):
    results = {
        (point.model, round(point.examples), name)
        for point in depth.points(data)
        for name, level in point.levels.items()
        if {'↑', '↓'} & set(level.rate)
    }
    # Softmax regression on images hardly overlaps: past some rate all rates do alike.
    assert results == ({('softmax', 200, 'server')} if data == 'images' else set())


def test_a_planted_edge_is_seen():
    tuning = {'learning_rates': (1e-5, 1e-4), 'num_seeds': 1, 'grow': 0}
    client = {'local_steps': 2, 'batch_size': 4}
    run = experiment.build(
        values(client=client, tuning=tuning, num_seeds=1, metric='eval_loss')
    ).run()
    assert at_edges(run) == [{'client.learning_rate': 1e-4}]
    (table,) = layouts.rates(run_view.of_run(run)).tables
    assert '↑' in np.ravel(table.rows)[1]
