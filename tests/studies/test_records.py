"""Tests that no archive rests on a rate at an edge, and that captions tell of their configs."""

import json
import re

import numpy as np
import pytest

from fedjax_links import experiment, runs
from fedjax_links.config import captions
from fedjax_links.pages import tables
from fedjax_links.planning import trials
from fedjax_links.report import cells, layouts, provenance, run_view
from fedjax_links.report.layouts.rates import edges
from tests import ROOT
from tests.experiment.configs import values

RECORDS = ROOT / 'studies' / 'records'
FOLDERS = sorted(path.parent for path in RECORDS.rglob('experiment.json'))

# Cells of FedPBC in which all large rates reach the same accuracy (studies/map.md).
NUM_PLATEAUS = {'maps/rounds': 2}


def name_of(folder):
    return str(folder.relative_to(RECORDS))


@pytest.fixture(scope='module', params=FOLDERS, ids=name_of)
def folder(request):
    """An archive."""
    return request.param


@pytest.fixture(scope='module')
def run(folder):
    """The results of an archive, which tests share."""
    return runs.read(folder)


def choices_at_edges(run):
    """Returns what tuning chose, where it is the largest or smallest value of its grid."""
    chosen = []
    for label in run.facts['algorithms']:
        for tuned in trials.read_trials(run.columns, run.facts, label):
            assert tuned.best is not None
            if any(edges(tuned).values()):
                chosen.append(tuned.chosen)
    return chosen


def num_cells_at_edges(run):
    """Counts the cells of maps whose best rate is the largest or smallest of the grid."""
    pages = [
        dict(page) for page in run.facts['reports'].values() if page.get('best_over')
    ]
    total = 0
    for page in pages:
        layout = page.pop('name')
        assert layout == 'heat_map'
        view = run_view.from_run(run)
        total += cells.map_cells(view, metric=None, **page).num_at_boundary
    return total


def test_an_archive_has_no_rate_at_an_edge(folder, run):
    assert not choices_at_edges(run)
    assert num_cells_at_edges(run) == NUM_PLATEAUS.get(name_of(folder), 0)


def config_of(folder):
    """Returns the config of an archive."""
    return json.loads((folder / 'config.json').read_text())


CAPTIONED = [folder for folder in FOLDERS if config_of(folder).get('caption')]


@pytest.mark.parametrize('folder', CAPTIONED, indirect=True, ids=name_of)
def test_a_caption_is_that_of_the_config(folder, run):
    config = config_of(folder)
    caption = run.facts['caption']
    assert caption == captions.fill_in(config['caption'], config)
    assert tables.as_markdown(caption) in (folder / 'report.md').read_text()
    schedules = [links.get('schedule', {}) for links in config['patterns'].values()]
    gammas = {schedule['gamma'] for schedule in schedules if 'gamma' in schedule}
    if re.search(r'gamma (is )?0\.4', caption):
        assert gammas == {0.4}


def test_a_report_ends_with_the_seeds_that_ran(folder, run):
    line = provenance.lines(run)[0]
    assert f'\n{line}\n' in (folder / 'report.md').read_text()
    listed = set()
    for span in line.removeprefix('Seeds: ').removesuffix('.').split(', '):
        first, _, last = span.partition(' to ')
        listed.update(range(int(first), int(last or first) + 1))
    assert listed == set(run.columns['seed'][run.columns['stage'] == 'main'])


def test_a_planted_edge_is_detected():
    config = values(
        problem={'name': 'quadratic', 'targets': [[1.0], [3.0]]},
        links='always',
        client={'local_steps': 2},
        tuning={'learning_rates': (1e-5, 1e-4), 'num_seeds': 1, 'grow': 0},
        num_seeds=1,
        metric='distance',
    )
    run = experiment.build(config).run()
    assert choices_at_edges(run) == [{'client.learning_rate': 1e-4}]
    (table,) = layouts.rates(run_view.from_run(run)).tables
    assert '↑' in np.ravel(table.rows)[1]
