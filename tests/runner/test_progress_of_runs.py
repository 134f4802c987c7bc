"""Where a run from Python shows how far it is: in notebooks, or where it is asked to."""

import sys
import types

import pytest

from fedjax_links import experiment
from tests import refusals
from tests.experiment.configs import quadratic_values

CONFIG = quadratic_values()


@pytest.fixture
def notebook(monkeypatch):
    """This process looks like the kernel of a notebook."""
    shell = types.SimpleNamespace(get_ipython=lambda: object())
    monkeypatch.setitem(sys.modules, 'IPython', shell)


def test_a_script_shows_what_is_asked_for(capsys):
    planned = experiment.build(CONFIG)
    planned.run()
    assert capsys.readouterr() == ('', '')
    planned.run(progress=True)
    assert 'fedavg 1/1: 8 of 8 rounds' in capsys.readouterr().out


def test_ipython_without_a_shell_is_a_script(capsys, monkeypatch):
    shell = types.SimpleNamespace(get_ipython=lambda: None)
    monkeypatch.setitem(sys.modules, 'IPython', shell)
    experiment.build(CONFIG).run()
    assert capsys.readouterr() == ('', '')


def test_a_notebook_shows_one_live_line(capsys, notebook):
    experiment.build(CONFIG).run()
    output = capsys.readouterr().out
    assert '\rfedavg 1/1' in output
    assert '8/8 rounds' in output.rsplit('\r', 1)[-1]


def test_a_notebook_shows_nothing_where_that_is_asked_for(capsys, notebook, tmp_path):
    planned = experiment.build(CONFIG)
    planned.run(tmp_path, progress=False)
    planned.fork(tmp_path, 2, progress=False)
    assert capsys.readouterr() == ('', '')
    with refusals.names('progress'):
        planned.run(progress='yes')


def test_one_line_is_enough(capsys, notebook):
    experiment.build(CONFIG).run(callbacks=[experiment.Progress()])
    assert capsys.readouterr().out.count('8/8 rounds') == 1
