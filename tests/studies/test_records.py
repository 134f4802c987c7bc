"""No archive rests on a rate at an edge of what was tried."""

import numpy as np
import pytest

from fedjax_links import experiment, runs
from fedjax_links.experiment.plan import choosing
from fedjax_links.report import layouts, source
from fedjax_links.report.layouts.rates import edges
from tests import ROOT
from tests.experiment.configs import values

RECORDS = ROOT / 'studies' / 'records'
FOLDERS = sorted(path.parent for path in RECORDS.rglob('experiment.json'))
AT_EDGES = {  # of grids that papers print, and that do not grow; each is marked by an arrow
    'table1_tuned',  # of FedAvg-all alone, whose grid grew three times, as its page says
    'papers/wang2022_table_d1_gaussians',
    'papers/xiang2023_figure3',
    'papers/xiang2024_figure9_alpha_gaussians',
    'papers/xiang2024_figure9_delta_gaussians',
    'papers/xiang2024_figure9_gamma_gaussians',
    'papers/xiang2024_figure9_sigma_gaussians',
    'papers/xiang2024_table2_gaussians',
}


def at_edges(run):
    """Where tuning chose the largest or smallest of what it tried."""
    tries = [
        tried
        for label in run.facts['algorithms']
        for tried in choosing.read_tries(run.columns, run.facts, label)
    ]
    assert all(tried.best is not None for tried in tries)
    return [tried.chosen for tried in tries if any(edges(tried).values())]


@pytest.mark.parametrize('folder', FOLDERS, ids=lambda path: str(path.relative_to(RECORDS)))
def test_an_archive_has_no_rate_at_an_edge(folder):
    run = runs.read(folder)
    name = str(folder.relative_to(RECORDS))
    assert bool(at_edges(run)) == (name in AT_EDGES)
    if name in AT_EDGES:
        assert {'↑', '↓'} & set((folder / 'report.md').read_text())
        assert run.facts['tuning'].get('grow', 0) == 0 or len(at_edges(run)) == 1


def test_a_planted_edge_is_seen():
    tuning = {'learning_rates': (1e-5, 1e-4), 'num_seeds': 1, 'grow': 0}
    client = {'local_steps': 2, 'batch_size': 4}
    run = experiment.build(
        values(client=client, tuning=tuning, num_seeds=1, metric='eval_loss')
    ).run()
    assert at_edges(run) == [{'client.learning_rate': 1e-4}]
    (table,) = layouts.rates(source.of_run(run)).tables
    assert '↑' in np.ravel(table.rows)[1]
