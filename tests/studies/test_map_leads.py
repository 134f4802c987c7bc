"""Mean accuracy differences over recorded maps agree with the records and with studies/map.md."""

import re

import numpy as np
import pytest
from scipy import stats

from studies import map_leads
from tests import ROOT

NUM_SEEDS = 5


def at_best_rates(columns, label):
    """Accuracies [points, seeds] of the map over rounds, at each point's best learning rate."""
    model = 'client_mean' if label == 'fedpbc' else 'server'
    rows = {
        name: column[columns['algorithm'] == label] for name, column in columns.items()
    }
    results = []
    for zero in (False, True):
        for bayes in (0.6, 0.9):
            for num_rounds in (20, 40, 80, 160, 320, 640):
                at_point = rows['problem.model.zero'] == zero
                at_point &= rows['problem.bayes_accuracy'] == bayes
                at_point &= rows['round'] == num_rounds
                rates = rows['client.learning_rate'][at_point]
                order = np.lexsort((rows['seed'][at_point], rates))
                accuracies = rows[f'{model}/eval_accuracy'][at_point][order]
                by_rate = accuracies.reshape(-1, NUM_SEEDS)
                results.append(by_rate[by_rate.mean(axis=1).argmax()])
    return np.array(results)


@pytest.mark.parametrize('other', ['scaffold', 'focus'])
def test_a_lead_is_the_mean_difference_over_all_points(other):
    view, map_cells = map_leads.read('rounds')
    columns = view.run.columns
    of_fedpbc = at_best_rates(columns, 'fedpbc').mean(axis=0)
    of_other = at_best_rates(columns, other).mean(axis=0)
    expected_lead = 100 * (of_fedpbc - of_other).mean()
    interval = stats.ttest_rel(of_fedpbc, of_other).confidence_interval(0.95)
    expected_half_width = 100 * (interval.high - interval.low) / 2
    text = map_leads.lead_over_all_cells(map_cells, 'fedpbc', other)
    lead, half_width = map(float, re.findall(r'[+-]?\d+\.\d+', text))
    # The text has one decimal.
    np.testing.assert_allclose(
        [lead, half_width], [expected_lead, expected_half_width], atol=0.051
    )


@pytest.mark.parametrize('which', map_leads.MAPS)
def test_the_page_has_the_rows_of_the_records(which):
    page = (ROOT / 'studies' / 'map.md').read_text().splitlines()
    assert f'| {" | ".join(map_leads.TITLES)} |' in page
    recorded = [line for line in page if line.startswith(f'| {which} |')]
    assert recorded == list(map_leads.rows(which))
