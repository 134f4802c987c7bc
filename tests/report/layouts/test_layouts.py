"""Tables from results with known answers."""

import dataclasses
import re

import numpy as np
import pytest

from fedjax_links import runs
from fedjax_links.report import layouts
from fedjax_links.report.first_seed_links import FirstSeedLinks
from fedjax_links.report.layouts import bars, comparison, link_maps
from tests.report.made import changed, ends, results, rows_of

TABLES = 'fedjax_links.papers.xiang2024.tables'
SVHN = {'name': f'{TABLES}:table1', 'dataset': 'SVHN', 'split': 'test'}
NAMES = {
    'pattern0': 'Bernoulli time-invariant',
    'fedavg': 'FedAvg',
    'fedpbc': 'FedPBC',
    'fedau': 'FedAU',
    'mine': 'Mine',
}


def own_layout(results):
    """A layout that is not the package's."""
    return layouts.Page(results.title, [])


def test_noise_that_runs_share_cancels_in_their_difference():
    noise = np.array([-0.1, 0.0, 0.1])
    difference = np.array([1e-4, -1e-4, 0.0])
    result = results(
        {'fedavg': ends(*(0.5 + noise)), 'mifa': ends(*(0.6 + noise + difference))}
    )
    base, mifa = rows_of(comparison(result).tables[0])
    # Student's t with two degrees of freedom: 4.30265 * 0.1 / sqrt(3) = 0.248.
    assert base['eval accuracy'] == '50.0 ± 24.8'
    assert mifa['eval accuracy'] == '60.0 ± 24.8'
    assert base['minus fedavg'] == ''
    assert mifa['minus fedavg'] == '+10.00 ± 0.02 *'
    assert len(comparison(result).tables) == 1


@pytest.mark.parametrize(
    'num_seeds, shown', [(2, '+1.0'), (5, '+1.0'), (6, '+1.0 ± 0.0 *')]
)
def test_equal_differences_of_few_seeds_decide_nothing(num_seeds, shown):
    """In single precision 0.84 - 0.83 is not 0.75 - 0.74."""
    base = np.array([0.83, 0.74, 0.71, 0.77, 0.8, 0.79])[:num_seeds]
    curves = {
        'fedavg': ends(*np.float32(base)),
        'mifa': ends(*np.float32(base + 0.01)),
    }
    table = comparison(results(curves)).tables[0]
    row = rows_of(table)[1]
    assert row['minus fedavg'] == shown
    assert row['verdict'] == ('ahead' if '*' in shown else 'not decided')
    assert ('fewer than six' in table.caption) == (num_seeds < 6)


def test_undecided_pairs_say_what_seeds_redraw_beside_training():
    base = np.array([0.5, 0.6, 0.4])
    undecided = results({'fedavg': ends(*base), 'mifa': ends(*base[::-1])})
    decided = results({'fedavg': ends(*base), 'mifa': ends(0.6, 0.71, 0.5)})
    redraw = {'data': 'by_seed', 'partition': 'fixed', 'links_quality': 'by_seed'}
    run = runs.Results({}, {'redraw': redraw})
    text = '. Each seed also redraws data, link probabilities: `seed` in their sections'

    def caption_of(view, run):
        return comparison(dataclasses.replace(view, run=run)).tables[0].caption

    assert text in caption_of(undecided, run)
    assert text not in caption_of(decided, run)
    assert 'redraws' not in caption_of(undecided, runs.Results({}, {}))


def test_a_lead_before_correction_alone_is_named():
    """Of 20 comparisons one has a small p-value, which does not survive that there are 20."""
    noise = np.array([-0.1, 0.0, 0.12])
    scales = [(-1) ** k * (1 + k / 100) for k in range(19)]  # no two rows are the same
    others = {f'r{k}': ends(*(0.5 + noise * scale)) for k, scale in enumerate(scales)}
    difference = np.array([0.09, 0.11, 0.1])
    table = comparison(
        results(
            {'fedavg': ends(0.5, 0.5, 0.5), **others, 'mine': ends(*(0.5 + difference))}
        )
    )
    row = rows_of(table.tables[0])[-1]
    assert row['verdict'] == 'ahead, by itself'
    assert row['minus fedavg'].endswith(' *')
    assert 'by itself: not corrected' in table.tables[0].caption


def test_a_difference_within_its_interval_has_no_star():
    result = results({'fedavg': ends(0.5, 0.5, 0.5), 'mifa': ends(0.4, 0.5, 0.55)})
    assert rows_of(comparison(result).tables[0])[1]['minus fedavg'] == '-1.7 ± 19.0'


def test_one_seed_has_no_interval():
    result = results({'fedavg': ends(0.5), 'mifa': ends(0.6)})
    table = comparison(result).tables[0]
    assert [row['eval accuracy'] for row in rows_of(table)] == ['50.0', '60.0']
    assert rows_of(table)[1]['minus fedavg'] == '+10.0'
    assert 'over 1 seed;' in table.caption


def test_a_diverged_algorithm_has_no_metric_or_difference():
    result = results({'fedavg': ends(0.5, 0.6), 'mifa': ends(0.6, np.nan)})
    mifa = rows_of(comparison(result).tables[0])[1]
    assert (mifa['eval accuracy'], mifa['minus fedavg']) == ('diverged', '')


def test_levels_are_means_over_the_last_share_of_the_evaluations():
    result = results({'fedavg': [[[0.1, 0.2, 0.4, 0.8]]]})
    for tail, mean, last in (
        (0.25, '80.0', 'last evaluation'),
        (0.5, '60.0', 'last 2 evaluations'),
        (1.0, '37.5', 'last 4 evaluations'),
    ):
        table = comparison(result, tail=tail).tables[0]
        assert rows_of(table)[0]['eval accuracy'] == mean
        assert last in table.caption


def test_the_paper_stands_beside_the_model_that_it_evaluates():
    both = {
        'server': {'eval_accuracy': ends(0.6, 0.62)},
        'client_mean': {'eval_accuracy': ends(0.8, 0.82)},
    }
    result = results(
        {'fedavg': ends(0.5, 0.52), 'fedpbc': both, 'mine': ends(0.9, 0.9)}
    )
    result = changed(result, names=NAMES)
    base, at_server, at_clients, mine = rows_of(
        comparison(result, published=SVHN).tables[0]
    )
    assert (base['paper'], base['paper, minus FedAvg']) == ('75.2 (sd 2.4)', '')
    assert (at_server['paper'], at_server['paper, minus FedAvg']) == ('', '')
    assert (at_clients['paper'], at_clients['paper, minus FedAvg']) == (
        '84.3 (sd 0.8)',
        '+9.1',
    )
    assert (mine['paper'], mine['paper, minus FedAvg']) == ('', '')
    assert [at_server['model'], at_clients['model']] == ['server', 'client mean']


def test_a_baseline_with_client_models_is_compared_at_their_mean():
    both = {
        'server': {'eval_accuracy': ends(*[0.6, 0.62] * 3)},
        'client_mean': {'eval_accuracy': ends(*[0.8, 0.82] * 3)},
    }
    result = results(
        {'fedpbc': both, 'mine': ends(*[0.9, 0.92] * 3)}, baseline='fedpbc'
    )
    at_server, at_clients, mine = rows_of(comparison(result).tables[0])
    assert at_server['minus fedpbc'] == '-20.0 ± 0.0 **'
    assert at_clients['minus fedpbc'] == ''
    assert mine['minus fedpbc'] == '+10.0 ± 0.0 **'
    assert [at_server['verdict'], at_clients['verdict'], mine['verdict']] == [
        'behind',
        '',
        'ahead',
    ]


def test_without_its_baseline_a_table_has_no_differences():
    result = results({'mifa': ends(0.6)}, missing=('fedavg',))
    assert comparison(result).tables[0].header[-1] == 'eval accuracy'


def test_orderings_agree_as_far_as_kendalls_tau_says():
    # The paper has FedPBC 84.3, FedAU 83.0, FedAvg 75.2: one of three pairs is reversed here.
    ours = {
        'fedavg': ends(0.5),
        'fedau': ends(0.9),
        'fedpbc': ends(0.8),
        'mine': ends(1.0),
    }
    result = results(ours, names=NAMES)
    (row,) = rows_of(comparison(result, published=SVHN).tables[1])
    assert row == {
        'pattern': 'Bernoulli time-invariant',
        'order in the paper': 'FedPBC, FedAU, FedAvg',
        'order here': 'FedAU, FedPBC, FedAvg',
        'tau': '+0.33',
    }
    worst = results({**ours, 'fedau': ends(np.nan)}, names=NAMES)
    (row,) = rows_of(comparison(worst, published=SVHN).tables[1])
    assert (row['order here'], row['tau']) == ('FedPBC, FedAvg, FedAU', '+0.33')


def test_bars_are_the_main_models_means():
    both = {
        'server': {'eval_accuracy': np.full((2, 2, 1), 0.1)},
        'client_mean': {'eval_accuracy': [[[0.4], [0.6]], [[0.9], [0.9]]]},
    }
    result = results({'fedavg': np.full((2, 2, 1), 0.25), 'fedpbc': both})
    assert rows_of(bars(result).tables[0]) == [
        {'algorithm': 'fedavg', 'pattern0': '25.0', 'pattern1': '25.0'},
        {'algorithm': 'fedpbc', 'pattern0': '50.0 ± 127.1', 'pattern1': '90.0'},
    ]


def test_link_maps_have_the_statistics_of_the_links():
    always = np.ones((4, 2), bool)
    never = np.zeros((4, 2), bool)
    half = np.array([[1, 0], [1, 0], [1, 0], [0, 0]], bool)
    masks = {'pattern0': always, 'pattern1': half, 'pattern2': never}
    links = {
        label: FirstSeedLinks(mask, np.full(2, np.nan)) for label, mask in masks.items()
    }
    result = results({'fedavg': np.zeros((3, 1, 1))}, links=links)
    table = link_maps(result).tables[0]
    assert table.rows[0][:5] == ['pattern0', '2.0 of 2', '0.0 %', '0.0 %', '0.000']
    assert table.rows[1][:5] == ['pattern1', '0.8 of 2', '25.0 %', '50.0 %', '1.000']
    assert table.rows[2][:5] == ['pattern2', '0.0 of 2', '100.0 %', '100.0 %', '-']


def no_page(view):
    """Stands for a layout that forgets to return its page."""


@pytest.mark.parametrize(
    'section, message',
    [
        (
            {'name': 'comparisons'},
            "`config.reports.x.name` has no 'comparisons'; did you mean 'comparison'?",
        ),
        (3, '`config.reports.x` must be a section, got 3.'),
        (
            {'name': 'bars', 'tale': 1},
            "`config.reports.x` has no 'tale'; did you mean 'tail'?",
        ),
        (
            {'name': 'bars', 'tail': 2},
            '`config.reports.x.tail` must lie in [0, 1], got 2.',
        ),
        (
            {'name': 'comparison', 'metric': 'eval_acuracy'},
            "`config.reports.x.metric` has no 'eval_acuracy'; did you mean 'eval_accuracy'?",
        ),
        (
            {'name': 'curves', 'metrics': ('eval_acuracy',)},
            "`config.reports.x.metrics` has no 'eval_acuracy'; did you mean 'eval_accuracy'?",
        ),
        (
            {'name': 'comparison', 'published': {**SVHN, 'name': f'{TABLES}:tabel1'}},
            "`config.reports.x.published.name` has no 'tabel1'; did you mean 'table1'?",
        ),
        (
            {'name': 'comparison', 'published': {**SVHN, 'splt': 'test'}},
            "`config.reports.x.published` has no 'splt'; did you mean 'split'?",
        ),
        (
            {'name': 'comparison', 'published': {**SVHN, 'name': 'table1'}},
            '`config.reports.x.published.name` must be module:factory, got table1.',
        ),
        (
            {'name': 'first_rounds'},
            '`config.reports.x.targets` must be given, or `shares`, not both, got neither.',
        ),
        (
            {'name': 'curves', 'lines': 'pattern'},
            "`config.reports.x.lines` has no 'pattern'; did you mean",
        ),
        (
            {'name': 'curves', 'band': 'sd'},
            "`config.reports.x.band` has no 'sd'; valid names: deviation, interval.",
        ),
        (
            {'name': 'curves', 'columns': 0},
            '`config.reports.x.columns` must be at least 1, got 0.',
        ),
        (
            {'name': f'{__name__}:no_page'},
            '`config.reports.x` must name what returns a Page, got no_page, None.',
        ),
    ],
)
def test_a_mistake_in_a_report_costs_one_line(section, message):
    result = results({'fedavg': [[[0.1, 0.2]]]})
    with pytest.raises(ValueError, match=f'^{re.escape(message)}'):
        layouts.build(result, {'x': section})


def test_a_report_orders_its_pages_and_says_what_is_missing(tmp_path):
    links = {'pattern0': FirstSeedLinks(np.ones((3, 2), bool), np.full(2, np.nan))}
    result = results(
        {'fedavg': ends(0.5, 0.6)},
        missing=('mifa', 'fedau'),
        caption='As printed.',
        links=links,
    )
    sections = {
        'a': {'name': 'curves'},
        'c': {'name': 'comparison'},
        'b': {'name': 'comparison'},
    }
    pages = layouts.build(result, sections)
    assert list(pages) == ['b', 'c', 'a', 'links', 'participation']
    assert layouts.write(tmp_path, result, pages) == ['report.md', 'a.png', 'links.png']
    text = (tmp_path / 'report.md').read_text()
    assert text.startswith('# Made by hand\n\nNot finished yet: mifa, fedau.\n')
    assert text.endswith('As printed.\n')
    headings = [line for line in text.splitlines() if line.startswith('## ')]
    assert headings == [
        '## Final eval accuracy',
        '## Final eval accuracy',
        '## Learning curves of algorithms',
        '## Realised links',
        '## Participation',
    ]
    assert '![Realised links](links.png)' in text
    assert list(layouts.build(result, {})) == [
        'overview',
        'metrics',
        'comparison',
        'links',
        'participation',
    ]
    result = changed(result, links={})
    reports = {
        'a': {'name': f'{__name__}:own_layout'},
        'b': 'comparison',
        'c': 'curves',
    }
    assert list(layouts.build(result, reports)) == ['b', 'c', 'a']


def test_losses_are_written_with_four_digits():
    result = results({'fedavg': {'server': {'loss': ends(0.123456)}}}, metric='loss')
    assert rows_of(comparison(result).tables[0])[0]['loss'] == '0.1235'
