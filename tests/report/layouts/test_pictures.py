"""Pictures, read back from what was drawn."""

import matplotlib.colors
import numpy as np
import pytest

from fedjax_links import plot
from fedjax_links.report.first_seed_links import FirstSeedLinks
from fedjax_links.report.layouts import bars, comparison, curves, link_maps, overview
from tests import refusals
from tests.report.made import changed, results


def values(rng, patterns=1, seeds=3, evals=20):
    return rng.uniform(0.2, 0.8, size=(patterns, seeds, evals))


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_a_curve_is_the_mean_over_seeds_of_the_moving_average(draw_page, rng):
    raw = values(rng)
    result = results({'fedavg': raw})
    (line,) = draw_page(curves(result, smoothing=0.2)).axes[0].lines
    np.testing.assert_array_equal(line.get_xdata(), result.rounds)
    # 0.2 of 20.
    window = [raw[0, :, max(0, e - 3) : e + 1].mean(axis=1) for e in range(20)]
    np.testing.assert_allclose(line.get_ydata(), np.mean(window, axis=1))
    full = np.mean(
        [np.convolve(row, np.ones(4) / 4, 'valid') for row in raw[0]], axis=0
    )
    np.testing.assert_allclose(line.get_ydata()[3:], full)
    (line,) = draw_page(curves(result)).axes[0].lines
    np.testing.assert_allclose(line.get_ydata(), raw[0].mean(axis=0))


def test_a_curve_can_be_logarithmic(draw_page, rng):
    result = results({'fedavg': values(rng)})
    axes = draw_page(curves(result, log=True)).axes[0]
    assert axes.get_yscale() == 'log'
    assert draw_page(curves(result)).axes[0].get_yscale() == 'linear'


def test_the_first_rounds_can_be_seen(draw_page, rng):
    result = results({'fedavg': values(rng, patterns=2)})
    for axes in draw_page(curves(result, log_rounds=True, columns=1)).axes:
        assert axes.get_xscale() == 'log'
        np.testing.assert_array_equal(axes.lines[0].get_xdata(), result.rounds)


def test_the_legend_of_patterns_shows_the_first_panels_lines(draw_page, rng):
    remaining = {
        model: {'eval_accuracy': values(rng, 2)} for model in ('server', 'client_mean')
    }
    figure = draw_page(
        curves(
            results({'fedavg': values(rng, 2), 'fedpbc': remaining}), lines='patterns'
        )
    )
    for handle, line in zip(
        figure.legends[0].legend_handles, figure.axes[0].lines, strict=True
    ):
        assert handle.get_linestyle() == line.get_linestyle()
        assert handle.get_color() == line.get_color()


def test_levels_show_the_differences_between_equal_seeds(lay_out_page, rng):
    raw = {label: values(rng, patterns=4) for label in ('fedavg', 'mifa', 'fedpbc')}
    view = results(raw, names={'pattern1': 'Second'})
    figure = lay_out_page(comparison(view, tail=0.1))
    assert [axes.get_title() for axes in figure.axes if axes.get_visible()] == [
        'pattern0',
        'Second',
        'pattern2',
        'pattern3',
    ]
    for index, axes in enumerate(figure.axes[:4]):
        ends = {label: one[index, :, -2:].mean(axis=1) for label, one in raw.items()}
        expected = [
            100 * (ends[label] - ends['fedavg']).mean() for label in ('mifa', 'fedpbc')
        ]
        points = [bar.lines[0].get_xdata()[0] for bar in axes.containers]
        np.testing.assert_allclose(points, expected)
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == [
        'mifa',
        'fedpbc',
    ]
    assert figure.get_supxlabel() == 'eval accuracy minus that of fedavg, points'


def test_levels_without_a_baseline_have_no_picture(rng):
    raw = {label: values(rng) for label in ('mifa', 'fedpbc')}
    assert comparison(results(raw)).draw is None
    assert comparison(results({'fedavg': values(rng)})).draw is None


def test_bands_are_intervals_or_deviations_within_zero_and_one(draw_page, rng):
    raw = values(rng)
    mean = raw[0].mean(axis=0)
    deviation = raw[0].std(axis=0, ddof=1)
    for band, factor in (('deviation', 1.0), ('interval', 4.30265 / np.sqrt(3))):
        axes = draw_page(curves(results({'fedavg': raw}), band=band)).axes[0]
        heights = axes.collections[0].get_paths()[0].vertices[:, 1]
        assert heights.max() == pytest.approx(
            min((mean + factor * deviation).max(), 1), rel=1e-4
        )
        assert heights.min() == pytest.approx(
            max((mean - factor * deviation).min(), 0), rel=1e-4
        )
    alone = draw_page(curves(results({'fedavg': raw[:, :1]}), band='deviation'))
    assert not alone.axes[0].collections


def test_a_deviation_is_of_all_that_a_moving_average_spans(draw_page, rng):
    raw = values(rng) / 4 + 0.3
    axes = draw_page(
        curves(results({'fedavg': raw}), band='deviation', smoothing=0.2)
    ).axes[0]
    heights = axes.collections[0].get_paths()[0].vertices[:, 1]
    spans = [raw[0, :, max(0, e - 3) : e + 1] for e in range(20)]
    assert heights.max() == pytest.approx(
        max(s.mean() + s.std(ddof=1) for s in spans), rel=1e-9
    )
    assert heights.min() == pytest.approx(
        min(s.mean() - s.std(ddof=1) for s in spans), rel=1e-9
    )


def test_a_caption_says_what_one_seed_is_averaged_over(rng):
    alone = results({'fedavg': values(rng)[:, :1]})
    assert curves(alone).caption == 'Lines: one seed.'
    text = 'Lines: one seed, means over the last 4 evaluations.'
    assert curves(alone, smoothing=0.2).caption == text
    both = curves(alone, smoothing=0.2, band='deviation').caption
    assert both == f'{text} Bands: standard deviations.'


@pytest.mark.parametrize('above', [np.nan, np.inf])
def test_curves_are_an_excess_over_a_finite_number(above, rng):
    with refusals.names('above'):
        curves(results({'fedavg': values(rng)}), above=above)


@pytest.mark.parametrize('margin', [-0.1, np.nan])
def test_a_margin_is_not_negative(margin, rng):
    result = results({'fedavg': values(rng), 'fedpbc': values(rng)})
    with refusals.names('margin', 'lie in'):
        comparison(result, margin=margin)


def test_a_curve_can_be_an_excess(draw_page, rng):
    raw = values(rng)
    axes = draw_page(curves(results({'fedavg': raw}), above=0.25)).axes[0]
    np.testing.assert_allclose(axes.lines[0].get_ydata(), raw[0].mean(axis=0) - 0.25)
    assert axes.get_ylabel().endswith('minus 0.25')


def test_lines_are_algorithms_or_patterns(draw_page, rng):
    both = {'fedavg': values(rng, patterns=2), 'mifa': values(rng, patterns=2)}
    result = results(both, names={'pattern1': 'Markov', 'mifa': 'MIFA'})
    figure = draw_page(curves(result))
    assert [axes.get_title() for axes in figure.axes] == ['pattern0', 'Markov']
    assert legend(figure) == ['fedavg', 'MIFA']
    second = figure.axes[1].lines[1]
    np.testing.assert_allclose(second.get_ydata(), both['mifa'][1].mean(axis=0))
    figure = draw_page(curves(result, lines='patterns'))
    assert [axes.get_title() for axes in figure.axes] == ['fedavg', 'MIFA']
    assert legend(figure) == ['pattern0', 'Markov']
    second = figure.axes[1].lines[1]
    np.testing.assert_allclose(second.get_ydata(), both['mifa'][1].mean(axis=0))


def test_each_metric_has_its_panels(draw_page, rng):
    named = {'eval_accuracy': values(rng), 'loss': 5 + values(rng)}
    page = curves(
        results({'fedavg': {'server': named}}), metrics=('loss', 'eval_accuracy')
    )
    loss, accuracy = draw_page(page).axes
    assert (loss.get_ylabel(), accuracy.get_ylabel()) == ('loss', 'eval accuracy')
    assert loss.get_ylim()[0] > 4
    assert accuracy.get_ylim()[1] < 2


def test_all_models_are_named_wherever_they_first_appear(draw_page, rng):
    both = {
        model: {'eval_accuracy': values(rng)} for model in ('server', 'client_mean')
    }
    result = results({'fedavg': values(rng), 'fedpbc': both})
    assert legend(draw_page(curves(result))) == ['fedavg', 'fedpbc (client mean)']
    assert draw_page(curves(result)).axes[0].lines[1].get_linestyle() == '--'
    panels = draw_page(curves(result, lines='patterns'))
    assert legend(panels) == ['pattern0']
    assert [axes.get_title() for axes in panels.axes] == [
        'fedavg',
        'fedpbc (client mean)',
    ]
    assert legend(draw_page(bars(result))) == ['fedavg', 'fedpbc (client mean)']
    page = draw_page(comparison(changed(result, baseline='fedpbc')))
    assert (
        page.get_supxlabel()
        == 'eval accuracy minus that of fedpbc (client mean), points'
    )
    assert legend(draw_page(overview(result))) == [
        'fedavg',
        'fedpbc (server)',
        'fedpbc (client mean)',
    ]


def test_eighteen_algorithms_look_different(draw_page, rng):
    many = {f'algorithm{k}': values(rng, patterns=2) for k in range(18)}
    figure = draw_page(curves(results(many)))
    assert len({line.get_color() for line in figure.axes[0].lines}) == 18
    figure = draw_page(bars(results(many)))
    assert len({patch.get_facecolor() for patch in figure.axes[0].patches}) == 18


def test_relatives_of_a_picture_have_colours_of_their_own(draw_page, rng):
    labels = ['fedavg', 'fedavg_all', 'fedavg (rate 0.1)', 'fedpbc', 's2s']
    result = results({label: values(rng) for label in labels})
    lines = draw_page(curves(result)).axes[0].lines
    assert len({line.get_color() for line in lines}) == len(labels)
    patches = draw_page(bars(result)).axes[0].patches
    assert len({patch.get_facecolor() for patch in patches}) == len(labels)


def test_bars_have_the_heights_of_the_table(draw_page):
    result = results(
        {
            'fedavg': [[[0.1], [0.3], [0.5]], [[0.2], [0.9], [0.4]]],
            'mifa': [[[0.6]] * 3, [[0.7]] * 3],
        }
    )
    axes = draw_page(bars(result)).axes[0]
    heights = [patch.get_height() for patch in axes.patches]
    np.testing.assert_allclose(heights, [0.3, 0.5, 0.6, 0.7])
    assert axes.get_ylim() == (0, 1)  # an interval would reach 1.40


def test_link_maps_have_the_best_link_on_top(lay_out_page):
    mask = np.array([[0, 1, 1], [0, 0, 1], [0, 0, 1]], bool)
    links = {'pattern1': FirstSeedLinks(mask, np.full(3, np.nan))}
    result = results({'fedavg': np.zeros((2, 1, 1))}, links=links)
    first = lay_out_page(link_maps(result)).axes[0]
    np.testing.assert_array_equal(first.images[0].get_array(), mask.T[[2, 1, 0]])
    assert first.get_title() == 'pattern1'  # the only pattern with recorded links


@pytest.mark.parametrize(
    'layout, function',
    [
        (curves, 'learning_curves'),
        (overview, 'learning_curves'),
        (overview, 'link_map'),
        (overview, 'participation_rates'),
        (bars, 'metric_bars'),
        (link_maps, 'link_map'),
    ],
)
def test_pages_are_drawn_by_the_public_pictures(
    layout, function, draw_page, rng, monkeypatch
):
    calls = []
    draw = getattr(plot, function)

    def noted(*args, **options):
        calls.append(options['ax'])
        return draw(*args, **options)

    monkeypatch.setattr(plot, function, noted)
    links = {
        'pattern0': FirstSeedLinks(rng.uniform(size=(20, 3)) < 0.5, np.full(3, 0.5))
    }
    figure = draw_page(
        layout(results({'fedavg': values(rng), 'mifa': values(rng)}, links=links))
    )
    assert calls
    assert set(calls) <= set(figure.axes)


@pytest.mark.parametrize('direction, position', [('max', 7), ('min', 3), (None, 0)])
def test_of_many_series_every_algorithm_is_drawn_once(
    draw_page, rng, direction, position
):
    raw = {
        f'{name} (rate {k})': values(rng)
        for name in ('fedavg', 'mifa')
        for k in range(13)
    }
    members = {
        label: (label.split()[0], {'rate': int(label[:-1].split()[-1])})
        for label in raw
    }
    for label, (_, point) in members.items():
        raw[label][..., -2:] = {7: 1.0, 3: 0.0}.get(point['rate'], 0.5)
    directions = {'eval_accuracy': direction}
    for layout in (overview, curves):
        page = layout(results(raw, members=members, directions=directions))
        by = ' by eval accuracy, mean of the last 2 evaluations over 3 seeds'
        ending = (
            f'best point of its grid{by}' if direction else 'first point of its grid'
        )
        assert page.heading.endswith(f', every algorithm at the {ending}')
        assert legend(draw_page(page)) == [
            f'{name} (rate {position})' for name in ('fedavg', 'mifa')
        ]
        few = {label: raw[label] for label in [*raw][2:]}
        page = layout(results(few, members=members, directions=directions))
        assert 'every algorithm' not in page.heading
        assert len(legend(draw_page(page))) == 24


def test_an_algorithm_has_one_colour_on_all_pages(draw_page, rng):
    result = results({'mifa': values(rng), 'fedavg': values(rng)})
    alone = results({'mifa': values(rng)})
    colours = [
        draw_page(page).axes[0].lines[0].get_color()
        for page in (curves(result), curves(alone))
    ]
    colours.append(draw_page(overview(result)).axes[0].lines[0].get_color())
    assert set(colours) == {plot.assign_styles(['mifa'])['mifa'].colour}
    patch = draw_page(bars(result)).axes[0].patches[0]
    assert patch.get_facecolor()[:3] == matplotlib.colors.to_rgb(colours[0])


def test_the_best_of_many_series_are_best_in_the_drawn_metric(draw_page, rng):
    raw = {
        f'mifa (rate {k})': {m: values(rng) for m in ('loss', 'accuracy')}
        for k in range(25)
    }
    members = {label: ('mifa', {'rate': rate}) for rate, label in enumerate(raw)}
    raw['mifa (rate 4)']['loss'][..., -10:] = 0.1  # best in the last half
    raw['mifa (rate 4)']['loss'][..., -1] = 0.2
    raw['mifa (rate 6)']['loss'][..., -1] = 0.0  # best at the end
    raw['mifa (rate 9)']['accuracy'][..., -10:] = 1.0
    result = results(
        {label: {'server': named} for label, named in raw.items()},
        members=members,
        metric='accuracy',
    )
    for options, rate in (({'tail': 0.5}, 4), ({'tail': 0.05}, 6)):
        page = curves(result, metrics=('loss', 'accuracy'), **options)
        assert legend(draw_page(page)) == [f'mifa (rate {rate})']
        assert ' point of its grid by loss, ' in page.heading
    assert legend(draw_page(overview(result, tail=0.5))) == ['mifa (rate 9)']


def test_the_picture_of_levels_has_every_difference_of_the_table(draw_page, rng):
    points = {
        'fedavg (rate 1)': {'rate': 1},
        'fedavg (rate 2)': {'rate': 2},
        'mifa (rate 1, horizon 5)': {'rate': 1, 'horizon': 5},
        'mifa (rate 2, horizon 5)': {'rate': 2, 'horizon': 5},
        'plain': {},
    }
    members = {label: (label.split()[0], point) for label, point in points.items()}
    page = comparison(
        results({label: values(rng) for label in points}, members=members)
    )
    cells = {row[1]: row[-2] for row in page.tables[0].rows if row[-1]}
    assert list(cells) == list(points)[2:]
    axes = draw_page(page).axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == list(cells)
    points = [container.lines[0] for container in axes.containers]
    assert [f'{point.get_xdata()[0]:+.1f}' for point in points] == [
        cell.split()[0] for cell in cells.values()
    ]
    starred = [cell.endswith('*') for cell in cells.values()]
    assert [point.get_markerfacecolor() != 'white' for point in points] == starred


@pytest.mark.parametrize('layout', [bars, curves, overview])
def test_long_names_stay_within_the_picture(layout, draw_page, rng):
    page_names = {name: f'{name} ' + 30 * 'a word ' for name in ('fedavg', 'mifa')}
    run = changed(results({name: values(rng) for name in page_names}), names=page_names)
    figure = draw_page(layout(run))
    figure.draw_without_rendering()
    (shown,) = figure.legends or [figure.axes[0].get_legend()]
    box = shown.get_window_extent()
    page = figure.bbox
    assert page.x0 <= box.x0
    assert box.x1 <= page.x1
    assert page.y0 <= box.y0
    for axes in figure.axes:
        assert axes.get_window_extent().height > 0.15 * page.height
        assert not axes.get_window_extent().overlaps(box)
