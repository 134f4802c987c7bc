"""Comparisons with authors' code: what they refuse, and that the page shows what was recorded."""

import re

import pytest

from studies.authors_code import __main__ as command
from studies.authors_code.comparisons import COMPARISONS
from tests import ROOT

PAGE = (ROOT / 'studies' / 'authors_code.md').read_text()


def refused(capsys, *words):
    assert command.main([str(word) for word in words]) == 2
    out, err = capsys.readouterr()
    assert out == ''
    assert err.startswith('error: ')
    assert err.count('\n') == 1
    return err


@pytest.mark.parametrize('name', COMPARISONS)
def test_a_wrong_path_costs_one_line(capsys, tmp_path, name):
    for path in (tmp_path, tmp_path / 'nowhere'):
        assert (
            f'`PATH` must be a checkout that has {COMPARISONS[name][1][0]}'
            in refused(capsys, name, path)
        )


def test_nothing_runs_before_all_paths_are_there(capsys, tmp_path):
    good = tmp_path / 'good'
    for file in COMPARISONS['debias'][1]:
        (good / file).parent.mkdir(parents=True, exist_ok=True)
        (good / file).write_text('not run')
    refused(capsys, 'debias', good, 'fedpbc', tmp_path)


def test_wrong_words_cost_one_line(capsys, tmp_path):
    assert 'be pairs of NAME' in refused(capsys)
    assert 'be pairs of NAME' in refused(capsys, 'fedpbc')
    assert "did you mean 'fedpbc'?" in refused(capsys, 'fedpb', tmp_path)


@pytest.mark.parametrize('name', COMPARISONS)
def test_the_page_shows_the_record(name):
    rows = command.recorded()[name]
    assert command.table(rows) in PAGE
    assert f'python -m studies.authors_code {name} ' in PAGE


def test_no_table_of_the_page_is_of_anything_else():
    shown = re.findall(rf'{re.escape(command.TITLES)}\n(?:\|.*\n)+', PAGE)
    assert len(shown) == len(COMPARISONS)


def test_algorithms_agree_but_where_the_page_explains():
    """One row is an error of the authors' code; parameters move by far more than rounding."""
    explained = {('fedpbc', 'fedknown', 'FedAvg known')}
    for name, rows in command.recorded().items():
        for row in rows:
            if (name, row.theirs, row.ours) in explained:
                assert row.difference > 0.1
            else:
                assert row.difference < 1e-12
            assert row.moved > 0.1
