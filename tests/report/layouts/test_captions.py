"""Captions claim what is shown: numbers of seeds, intervals, lanes and links."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from fedjax_links import plot
from fedjax_links.planning.tuning_uncertainty import Choice
from fedjax_links.report.first_seed_links import FirstSeedLinks
from fedjax_links.report.layouts import (
    bars,
    best,
    comparison,
    curves,
    final,
    heat_map,
    link_maps,
    metrics,
    overview,
    participation,
)
from fedjax_links.report.run_view import RunView
from tests.report.made import results, rows_of

UNTIL = {'least': 3, 'margin': 0.0, 'level': 0.95, 'tail': 0.1}
GRID = {
    f'{name} {value}': (name, {'links.probs': value, 'links.up_rate': 0.1})
    for name in ('fedavg', 'mifa')
    for value in (0.1, 0.5)
}
MASK = np.ones((5, 2), bool)


def until_decided(rng, num_seeds):
    """A view whose second algorithm has fewer seeds under the second of two patterns."""
    curves = {name: rng.uniform(size=(2, 6, 3)) for name in ('fedavg', 'mifa')}
    view = results(curves)
    started = view.data['started'].copy()
    started[1, :, 1, num_seeds:] = False
    data = view.data.assign_coords(started=started).assign_attrs(until=UNTIL)
    return RunView('Until decided', '', data), curves


def captions(page):
    return ' '.join([page.caption, *(table.caption for table in page.tables)])


@pytest.mark.parametrize('layout', [bars, best, comparison, curves, final, metrics])
@pytest.mark.parametrize(
    ('num_seeds', 'words'), [(4, ' 4 to 6 seeds'), (6, ' 6 seeds')]
)
def test_captions_count_the_seeds_that_ran(layout, num_seeds, words, rng):
    view, _ = until_decided(rng, num_seeds)
    shown = captions(layout(view))
    assert f'over{words}' in shown
    assert '3 to' not in shown


@pytest.mark.parametrize('num_seeds', [2, 4, 6])
def test_bars_are_means_over_the_seeds_that_ran(num_seeds, draw_page, rng):
    view, values = until_decided(rng, num_seeds)
    page = bars(view)
    axes = draw_page(page).axes[0]
    ends = values['mifa'][:, :, -1]
    expected = [*values['fedavg'][:, :, -1].mean(axis=1)]
    expected += [ends[0].mean(), ends[1, :num_seeds].mean()]
    np.testing.assert_allclose([p.get_height() for p in axes.patches], expected)
    assert ('Dots' in page.caption) == (num_seeds == 2)
    dots = [line for line in axes.lines if line.get_marker() == '.']
    drawn = np.concatenate([line.get_ydata() for line in dots]) if dots else []
    np.testing.assert_allclose(drawn, ends[1, :2] if num_seeds == 2 else [])


def test_best_says_that_intervals_hold_at_any_number_of_seeds(rng):
    view, _ = until_decided(rng, 4)
    assert 'confidence sequence' in captions(best(view))
    fixed = results({name: rng.uniform(size=(1, 4, 2)) for name in ('fedavg', 'mifa')})
    assert 'confidence sequence' not in captions(best(fixed))


@pytest.mark.parametrize('layout', [bars, best, comparison, final, metrics])
def test_numbers_in_brackets_are_explained(layout, monkeypatch, rng):
    def tuned(view, metric, key, tail):
        return Choice(rng.uniform(size=(2, 4)), np.array([0, 1]))

    monkeypatch.setattr(RunView, '_final_choice', tuned)
    view = results({name: rng.uniform(size=(1, 4, 2)) for name in ('fedavg', 'mifa')})
    for table in layout(view).tables:
        assert any('[' in cell for row in table.rows for cell in row)
        assert 'The number in brackets' in table.caption


def test_a_map_explains_no_word_that_it_does_not_show(rng):
    ends = {label: rng.normal(size=(1, 4, 1)) for label in GRID}
    # Student's t is 3.7, the p-value 0.034 of two.
    spread = np.array([-3, -1, 1, 3]) / np.sqrt(20 / 3)
    ends['mifa 0.1'] = ends['fedavg 0.1'] + np.reshape(1 + 0.54 * spread, (1, 4, 1))
    view = results(ends, members=GRID)
    _, differences, _ = heat_map(view, x='links.probs', y='links.up_rate').tables
    assert ' * ' in rows_of(differences)[0]['probs 0.1']
    assert 'by itself' not in differences.caption


@pytest.mark.parametrize(
    ('column', 'words'),
    [
        ('links.probs', 'first seed, first point of the grid'),
        ('problem.alpha', 'first seed, first point of the grid'),
        ('redraw', 'first seed, first point of the grid'),
        ('of_python', 'first seed, first point of the grid'),
        ('client.learning_rate', 'first seed'),
        ('algorithms.fedavg.server_lr', 'first seed'),
        ('server_lr', 'first seed'),
    ],
)
def test_pages_of_links_say_which_point_has_them(column, words, rng):
    members = {f'fedavg {value}': ('fedavg', {column: value}) for value in (0.1, 0.5)}
    view = results(
        {label: rng.uniform(size=(1, 2, 3)) for label in members},
        members=members,
        links={'pattern0': FirstSeedLinks(MASK, np.full(2, np.nan))},
    )
    for layout in (link_maps, participation, overview):
        shown = captions(layout(view)).lower()
        assert words in shown
        assert ('first point of the grid' in shown) == ('point' in words)


@pytest.mark.parametrize('layout', [bars, best, comparison, final, metrics])
def test_captions_of_one_seed_explain_no_interval(layout, rng):
    view = results({name: rng.uniform(size=(1, 1, 2)) for name in ('fedavg', 'mifa')})
    for table in layout(view).tables:
        assert 'one seed has no interval' in table.caption
        assert '±' not in table.caption


def test_maps_of_one_seed_explain_no_interval(rng):
    ends = {label: rng.normal(size=(1, 1, 1)) for label in GRID}
    view = results(ends, members=GRID)
    for table in heat_map(view, x='links.probs', y='links.up_rate').tables:
        assert not any('±' in cell for row in table.rows for cell in row)
        assert '±' not in table.caption


def test_an_overview_of_several_patterns_names_its_own(rng):
    patterns = ['rare', 'often']
    view = results({'fedavg': rng.uniform(size=(2, 2, 3))}, patterns=patterns)
    assert overview(view).caption.startswith('Links: rare.')
    assert overview(view, pattern='often').caption.startswith('Links: often.')


@pytest.mark.parametrize('height', [1.5, 2.5, 6.0])
def test_the_legend_of_rates_is_below_the_name_of_their_axis(height):
    figure = Figure(figsize=(3, height), layout='constrained')
    axes = figure.add_subplot()
    plot.participation_rates(MASK, np.full(2, 0.9), ax=axes)
    figure.draw_without_rendering()
    name = axes.xaxis.label.get_window_extent()
    legend = axes.get_legend().get_window_extent()
    assert not name.overlaps(legend)
    assert legend.y1 <= name.y0


def diverged(rng):
    """A view of which all runs under the first pattern diverged after the first evaluation."""
    curves = {name: rng.uniform(size=(2, 3, 4)) for name in ('fedavg', 'mifa')}
    for values in curves.values():
        values[0, :, 1:] = np.nan
    return results(curves)


def test_bars_that_diverged_are_crosses_in_their_groups(draw_page, rng):
    page = bars(diverged(rng))
    axes = draw_page(page).axes[0]
    assert 'Crosses: diverged.' in page.caption
    crosses = [line for line in axes.lines if line.get_marker() == 'x']
    positions = np.concatenate([line.get_xdata() for line in crosses])
    np.testing.assert_allclose(positions, [-0.21, 0.21])
    low, high = axes.get_xlim()
    assert low < -0.42
    assert high > 1.42
    fine = bars(results({'fedavg': rng.uniform(size=(2, 3, 4))}))
    assert 'Crosses' not in fine.caption
    assert not [
        line for line in draw_page(fine).axes[0].lines if line.get_marker() == 'x'
    ]


def test_differences_that_diverged_leave_zero_in_their_panel(draw_page, rng):
    page = comparison(diverged(rng))
    assert 'No point: diverged.' in page.caption
    for axes in draw_page(page).axes:
        low, high = axes.get_xlim()
        assert low < 0 < high
        assert high - low > 1e-6
    fine = results({name: rng.uniform(size=(1, 3, 4)) for name in ('fedavg', 'mifa')})
    assert 'No point' not in comparison(fine).caption


def test_captions_of_curves_say_where_lines_end(rng):
    view = diverged(rng)
    words = 'A line ends where a run diverged.'
    assert words in curves(view).caption
    assert words in overview(view).caption
    second = overview(view, pattern='pattern1')
    assert words not in second.caption
