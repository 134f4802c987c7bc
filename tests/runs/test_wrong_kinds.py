"""What reads a run refuses arguments of another kind in one line."""

import pytest

import fedjax_links as fl
from fedjax_links import plot, runs
from tests import refusals
from tests.runner.test_identities import quadratic


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """A small finished run."""
    path = tmp_path_factory.mktemp('run')
    quadratic().run(path, devices=1)
    return path


CALLS = {
    'folders': lambda folder: runs.merge(3),
    'lane': lambda folder: runs.model(folder, 3),
    'number': lambda folder: fl.report.table(folder, number='first'),
    'run': lambda folder: fl.report.write(str(folder)),
    'above': lambda folder: plot.learning_curves(runs.read(folder), above='a'),
    'levels': lambda folder: plot.learning_curves(runs.read(folder), levels='a'),
    'exact': lambda folder: plot.learning_curves(runs.read(folder), exact=[1]),
    'against': lambda folder: plot.learning_curves(runs.read(folder), against=[1]),
    'names': lambda folder: plot.learning_curves(runs.read(folder), names=['a']),
}


@pytest.mark.parametrize('argument', CALLS)
def test_another_kind_of_argument_costs_one_line(argument, folder):
    with refusals.names(argument):
        CALLS[argument](folder)
