"""The page on few silos prints what its script computes."""

from pathlib import Path

import pytest

from studies import stability

PAGE = Path(stability.__file__).with_name('stability.md').read_text()


@pytest.mark.slow
def test_the_page_has_the_map_of_the_script():
    for row in stability.map_rows(stability.stability_map()):
        assert row in PAGE


def test_rows_of_two_clients_are_those_of_the_script(monkeypatch):
    monkeypatch.setattr(stability, 'CLIENTS', (2,))
    for row in stability.map_rows(stability.stability_map()):
        assert row in PAGE
    for row in stability.silo_rows((2, 4)):
        assert row in PAGE


def test_fedvarp_and_scaffold_settle_on_the_map(monkeypatch):
    monkeypatch.setattr(stability, 'CLIENTS', (2, 3, 6))
    for algorithm in ('FedVARP', 'SCAFFOLD'):
        rate = stability.largest_second_rate(algorithm)
        assert rate < 0.99895  # "0.9989 or less"
        assert '0.9989 or less' in PAGE
