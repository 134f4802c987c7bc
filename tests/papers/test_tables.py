"""Printed tables: counts, values checked by eye against the papers, and what is not printed."""

import fnmatch
import tomllib

import pytest

from fedjax_links.pages import printed_numbers
from fedjax_links.papers import printed
from fedjax_links.papers.sun2025 import tables as sun2025
from fedjax_links.papers.wang2022 import tables as wang2022
from fedjax_links.papers.xiang2024 import tables as xiang2024
from tests import ROOT


@pytest.mark.parametrize(
    'pattern, algorithm, dataset, split, mean, deviation',
    [
        ('Bernoulli time-invariant', 'FedPBC', 'SVHN', 'train', 84.4, 0.008),
        ('Bernoulli time-invariant', 'FedAvg all', 'SVHN', 'test', 56.4, 0.072),
        ('Bernoulli time-invariant', 'F3AST', 'CIFAR-10', 'test', 57.7, 0.052),
        ('Bernoulli time-varying', 'FedAvg all', 'SVHN', 'train', 37.0, 0.097),
        ('Bernoulli time-varying', 'FedAU', 'CINIC-10', 'test', 43.4, 0.018),
        ('Markov homogeneous', 'FedAU', 'CIFAR-10', 'train', 68.3, 0.019),
        ('Markov homogeneous', 'MIFA', 'SVHN', 'test', 81.1, 0.004),
        ('Markov non-homogeneous', 'FedAvg known', 'CINIC-10', 'train', 45.1, 0.032),
        ('Markov non-homogeneous', 'FedPBC', 'CIFAR-10', 'test', 64.9, 0.006),
        ('Cyclic no reset', 'MIFA', 'CIFAR-10', 'train', 59.1, 0.021),
        ('Cyclic no reset', 'FedAvg known', 'CINIC-10', 'test', 37.7, 0.041),
        ('Cyclic with reset', 'FedAvg', 'SVHN', 'train', 69.6, 0.054),
        ('Cyclic with reset', 'FedPBC', 'CINIC-10', 'test', 49.1, 0.004),
    ],
)
def test_accuracies_of_xiang_2024(pattern, algorithm, dataset, split, mean, deviation):
    level = xiang2024.table1(dataset=dataset, split=split)[pattern, algorithm]
    assert level.mean == pytest.approx(mean / 100)
    assert level.deviation == deviation


def test_every_cell_is_there_but_the_one_that_the_text_lost():
    assert len(printed.rows(xiang2024.__package__, 'table1')) == 6 * 7 * 3 * 2
    counts = {}
    for dataset in ('SVHN', 'CIFAR-10', 'CINIC-10'):
        for split in ('train', 'test'):
            result = xiang2024.table1(dataset=dataset, split=split)
            counts[dataset, split] = len(result)
            assert all(0.2 < level.mean < 0.9 for level in result.values())
            assert all(0 < level.deviation < 0.1 for level in result.values())
    incomplete = counts.pop(('CINIC-10', 'test'))
    assert incomplete == 41
    assert set(counts.values()) == {42}
    lost = xiang2024.table1(dataset='CINIC-10', split='test')
    assert ('Bernoulli time-invariant', 'MIFA') not in lost


def test_first_rounds_of_xiang_2024():
    tables = {
        dataset: xiang2024.table2(dataset=dataset)
        for dataset in ('SVHN', 'CIFAR-10', 'CINIC-10')
    }
    assert [len(table) for table in tables.values()] == [28, 28, 28]
    pattern = 'Bernoulli time-varying'
    assert tables['SVHN'][pattern, 'FedPBC', 0.8] == '1650'
    assert tables['SVHN'][pattern, 'FedAvg', 0.8] == 'never'
    assert tables['CIFAR-10'][pattern, 'FedAvg', 0.6] == '9450'
    assert tables['CIFAR-10'][pattern, 'FedAvg known', 0.15] == '0'
    assert tables['CINIC-10'][pattern, 'FedAvg known', 0.3] == '1050'
    lost = {key[1:] for key, value in tables['CINIC-10'].items() if value == 'lost'}
    assert lost == {('FedAvg all', 0.2), ('FedAU', 0.4), ('F3AST', 0.4), ('MIFA', 0.4)}
    for table in tables.values():
        assert {key[0] for key in table} == {pattern}
        assert all(
            int(v) % 150 == 0 for v in table.values() if v not in ('lost', 'never')
        )


def test_accuracies_of_sun_2025_and_rates_of_wang_2022():
    test = sun2025.table1(dataset='CIFAR-10', split='test')
    assert len(test) == 9
    assert test['R = 10', 'Debiasing FedAvg'] == (pytest.approx(0.749), None)
    train = sun2025.table1(dataset='CIFAR-10', split='train')
    assert train['R = 15', 'FedVARP'].mean == pytest.approx(0.795)
    rates = wang2022.table_d1(dataset='CIFAR-10')
    assert rates == {
        'wait-minibatch': 0.05,
        'wait-full': 0.05,
        'Algorithm 1 without amplification': 5e-5,
        'Algorithm 1 with amplification': 5e-6,
    }


def test_an_installation_has_the_tables():
    project = tomllib.loads((ROOT / 'pyproject.toml').read_text())
    patterns = project['tool']['setuptools']['package-data']['fedjax_links']
    files = list((ROOT / 'fedjax_links').glob('**/*.csv'))
    assert {f'{file.parent.name}_{file.stem}' for file in files} == {
        'datasets_files',
        'sun2025_table1',
        'wang2022_table_d1',
        'xiang2024_table1',
        'xiang2024_table2',
    }
    for file in files:
        name = str(file.relative_to(ROOT / 'fedjax_links'))
        assert any(fnmatch.fnmatch(name, pattern) for pattern in patterns), name


@pytest.mark.parametrize(
    'call, message',
    [
        (
            lambda: printed_numbers.load({'name': f'{xiang2024.__name__}:tabel1'}),
            "`published.name` has no 'tabel1'; did you mean 'table1'?",
        ),
        (
            lambda: printed_numbers.load(
                {'name': f'{xiang2024.__name__}:table2', 'split': 'test'}
            ),
            "`published` has no 'split'; valid names: dataset.",
        ),
        (
            lambda: printed_numbers.load({'name': 'table1', 'dataset': 'SVHN'}),
            '`published.name` must be module:factory, got table1.',
        ),
        (
            lambda: xiang2024.table1(dataset='CIFAR10', split='test'),
            "`dataset` has no 'CIFAR10'; did you mean 'CIFAR-10'?",
        ),
        (
            lambda: xiang2024.table1(dataset='SVHN', split='eval'),
            "`split` has no 'eval'; valid names: test, train.",
        ),
        (
            lambda: wang2022.table_d1(dataset='MNIST'),
            "`dataset` has no 'MNIST'; did you mean 'FashionMNIST'?",
        ),
    ],
)
def test_an_unknown_name_costs_one_line(call, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        call()
    assert str(caught.value) == message
