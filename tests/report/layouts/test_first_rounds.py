"""The first rounds at which a metric reaches its targets."""

import numpy as np
import pytest

from fedjax_links.report.layouts import first_rounds
from tests import refusals
from tests.report.made import results, rows_of

TABLES = 'fedjax_links.papers.xiang2024.tables'


def test_the_mean_over_seeds_reaches_a_target():
    seeds = [[[0.1, 0.5, 0.5, 0.9, 0.9, 0.9], [0.1, 0.1, 0.7, 0.7, 0.9, 0.9]]]
    result = results({'fedavg': seeds})
    (row,) = rows_of(first_rounds(result, targets=(0.55, 0.95, 0.8)).tables[0])
    assert row['55.0'] == '30 (30 to 40)'
    assert row['95.0'] == 'never (never)'
    assert row['80.0'] == '40 (40 to 50)'


def test_the_caption_names_models_that_are_not_the_servers():
    curves = np.full((1, 1, 2), 0.7)
    by_model = {model: {'eval_accuracy': curves} for model in ('server', 'client_mean')}
    of_servers = results({'fedavg': curves})
    mixed = results({'fedavg': curves, 'fedpbc': by_model}, names={'fedpbc': 'FedPBC'})
    (plain,) = first_rounds(of_servers, targets=(0.6,)).tables
    (table,) = first_rounds(mixed, targets=(0.6,)).tables
    assert plain.caption.endswith('range over seeds.')
    assert table.caption.endswith('range over seeds. FedPBC at its client mean.')


def test_a_seed_that_never_reaches_it_ends_the_range():
    result = results({'fedavg': [[[0.1, 0.9, 0.9], [0.1, 0.1, 0.3]]]})
    (row,) = rows_of(first_rounds(result, targets=(0.5,)).tables[0])
    assert row['50.0'] == '20 (20 to never)'
    alone = results({'fedavg': [[[0.1, 0.9]]]})
    assert rows_of(first_rounds(alone, targets=(0.5,)).tables[0])[0]['50.0'] == '20'


def test_no_target_is_lost_in_rounding():
    result = results({'fedavg': [[[0.1, 0.9]]]})
    with pytest.raises(
        ValueError, match='`targets` must differ where the table rounds'
    ):
        first_rounds(result, targets=(0.8001, 0.8004))
    (row,) = rows_of(first_rounds(result, targets=(0.8, 0.8)).tables[0])
    assert row['80.0'] == '20'
    with pytest.raises(ValueError, match='`shares` must differ where the table rounds'):
        first_rounds(result, shares=(0.5, 0.5 + 1e-9))
    for field in ('targets', 'shares'):
        with refusals.names(field, 'got nan at entry 1'):
            first_rounds(result, **{field: (0.5, np.nan)})


def test_losses_reach_targets_from_above():
    result = results(
        {'fedavg': {'server': {'loss': [[[2.0, 1.0, 0.5]]]}}}, metric='loss'
    )
    (row,) = rows_of(first_rounds(result, targets=(1.5, 0.7)).tables[0])
    assert (row['1.5'], row['0.7']) == ('20', '30')
    (row,) = rows_of(first_rounds(result, shares=(1.0, 2.0)).tables[0])
    assert (row['best'], row['100 % of it'], row['200 % of it']) == ('0.5', '30', '20')


def test_shares_are_of_the_best_under_each_pattern():
    by_pattern = [[[0.2, 0.4, 0.8]], [[0.1, 0.2, 0.4]]]
    result = results(
        {'fedavg': by_pattern, 'mifa': [[[0.4, 0.6, 0.6]], [[np.nan] * 3]]}
    )
    rows = rows_of(first_rounds(result, shares=(0.5,)).tables[0])
    assert [row['best'] for row in rows] == ['80.0', '80.0', '40.0', '40.0']
    assert [row['50 % of it'] for row in rows] == ['20', '10', '20', 'never']


def test_printed_first_rounds_stand_under_their_pattern_only():
    names = {'pattern0': 'Markov homogeneous', 'pattern1': 'Bernoulli time-varying'}
    result = results(
        {'fedpbc': np.full((2, 1, 2), 0.7)}, names={**names, 'fedpbc': 'FedPBC'}
    )
    printed = {'name': f'{TABLES}:table2', 'dataset': 'SVHN'}
    other, same = rows_of(
        first_rounds(result, targets=(0.6,), published=printed).tables[0]
    )
    assert (other['60.0'], same['60.0']) == ('10', '450 / 10')
