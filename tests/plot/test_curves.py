"""Curves, read back from what was drawn, against NumPy."""

import re

import numpy as np
import pytest
from matplotlib import pyplot

import fedjax_links as fl
from fedjax_links import plot
from tests import refusals
from tests.plot.samples import a_run, half_width, simulated


def test_curves_are_means_over_seeds_with_their_intervals(ax, rng):
    values = rng.normal(size=(4, 6))
    result = plot.learning_curves(
        {'mine': values}, 'loss', rounds=np.arange(6) * 10, ax=ax
    )
    assert result is ax
    (line,) = ax.lines
    np.testing.assert_array_equal(line.get_xdata(), np.arange(6) * 10)
    np.testing.assert_allclose(line.get_ydata(), values.mean(axis=0))
    heights = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert heights.max() == pytest.approx(
        (values.mean(axis=0) + half_width(values)).max()
    )
    assert heights.min() == pytest.approx(
        (values.mean(axis=0) - half_width(values)).min()
    )
    assert (ax.get_xlabel(), ax.get_ylabel()) == ('round', 'loss')
    assert not pyplot.get_fignums()


def test_a_result_knows_its_rounds_and_seeds(ax):
    values = np.linspace(0, 1, 8).reshape(2, 4)
    plot.learning_curves(simulated(values, first_bad_round=[-1, 12]), ax=ax)
    (line,) = ax.lines
    np.testing.assert_array_equal(line.get_xdata(), [5, 10, 15, 20])
    np.testing.assert_allclose(line.get_ydata()[:2], values.mean(axis=0)[:2], rtol=1e-6)
    assert np.isnan(line.get_ydata()[2:]).all()  # a model of NaN has an accuracy too
    assert ax.get_ylabel() == 'accuracy'
    ax.figure.draw_without_rendering()
    assert all(text.get_text().endswith(' %') for text in ax.get_yticklabels())


def test_a_sweep_has_one_line_per_point(ax, rng):
    values = rng.uniform(size=(3, 2, 4))
    plot.learning_curves({'mifa': simulated(values)}, 'accuracy', ax=ax)
    for line, expected in zip(ax.lines, values.mean(axis=1), strict=True):
        np.testing.assert_allclose(line.get_ydata(), expected, rtol=1e-6)
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ['mifa (point 0)', 'mifa (point 1)', 'mifa (point 2)']
    assert len({line.get_color() for line in ax.lines}) == 3


def test_a_sweep_of_one_point_needs_no_number(ax, rng):
    values = rng.uniform(size=(1, 2, 4))
    plot.learning_curves(
        {'mifa': simulated(values)}, 'accuracy', levels={'mifa': 0.5}, ax=ax
    )
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ['mifa', 'mifa, predicted']


def test_a_real_sweep_is_read(ax):
    result = fl.sweep(
        lambda rate: fl.algorithms.fedpbc(
            fl.local_training.local_sgd(rate, local_steps=1)
        ),
        lambda: fl.participation.bernoulli(np.full(3, 0.5)),
        fl.problems.quadratic(np.arange(6.0).reshape(3, 2)),
        seeds=[0, 1],
        grid={'algorithm': {'rate': [0.1, 0.2]}},
        num_rounds=4,
        eval_every=2,
    )
    plot.learning_curves(result, 'loss', log=True, ax=ax)
    for index, line in enumerate(ax.lines):
        values = np.asarray(result.evals['client_mean']['loss'])[index]
        np.testing.assert_allclose(line.get_ydata(), values.mean(axis=0), rtol=1e-6)
    mask = result.state.links.mask[0, 0]
    axes = plot.mixing_matrix(mask)
    np.testing.assert_allclose(
        axes.images[0].get_array(), fl.mixing.mixing_matrix(mask), rtol=1e-6
    )


def test_rounds_can_be_logarithmic_and_then_leave_the_start_out(ax):
    values = np.arange(12.0).reshape(2, 6)
    rounds = np.array([0, 3, 6, 9, 12, 300])
    plot.learning_curves(
        {'mine': values}, 'loss', rounds=rounds, log_rounds=True, ax=ax
    )
    assert (ax.get_xscale(), ax.get_yscale()) == ('log', 'linear')
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), rounds[1:])
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), values.mean(axis=0)[1:])


def test_a_run_has_a_panel_per_pattern():
    run = a_run()
    result = plot.learning_curves(run)
    assert len(pyplot.get_fignums()) == 1
    assert result.shape == (2,)
    assert [axes.get_title() for axes in result] == ['one', 'Two']
    values = run['server/eval_accuracy'].reshape(2, 2, 2, 2)
    for index, axes in enumerate(result):
        for algorithm, line in enumerate(axes.lines):
            expected = values[algorithm, index].mean(axis=0)
            np.testing.assert_allclose(line.get_ydata(), expected)
            np.testing.assert_array_equal(line.get_xdata(), [10, 20])
    names = [text.get_text() for text in result[1].get_legend().get_texts()]
    assert names == ['fedavg', 'MIFA']
    again = plot.learning_curves(run, ax=result)
    assert list(again) == list(result)
    assert len(pyplot.get_fignums()) == 1


def test_the_legend_names_what_only_an_earlier_panel_shows():
    """With seeds until decided, a run in which MIFA has not started on the last pattern."""
    run = a_run()
    started = (run['algorithm'] != 'mifa') | (run['pattern'] != 'two')
    columns = {name: column[started] for name, column in run.columns.items()}
    facts = {**run.facts, 'until': {'least': 2}}
    first, last = plot.learning_curves(fl.runs.Results(columns, facts))
    assert (len(first.lines), len(last.lines)) == (2, 1)
    names = [text.get_text() for text in last.get_legend().get_texts()]
    assert names == ['fedavg', 'MIFA']


def test_what_diverged_in_a_run_is_missing():
    finite = np.ones(16, bool)
    finite[0] = False
    first, _ = plot.learning_curves(a_run(finite=finite))
    assert np.isnan(first.lines[0].get_ydata()[0])
    assert np.isfinite(first.lines[0].get_ydata()[1])


@pytest.mark.parametrize('log_rounds', [False, True])
def test_a_line_under_another_one_is_seen_by_its_markers(ax, rng, log_rounds):
    labels = ('fedavg', 'mifa', 'wait', 'mine')
    values = rng.uniform(size=400)
    plot.learning_curves(
        dict.fromkeys(labels, values), 'loss', log_rounds=log_rounds, ax=ax
    )
    marked = [set(line.get_markevery()) for line in ax.lines]
    for index, ours in enumerate(marked):
        others = set().union(*marked[:index], *marked[index + 1 :])
        assert len(ours - others) >= 5
    # Without the first two: whole rounds are not evenly spaced there on a logarithmic axis.
    rounds = 1.0 + np.sort([*marked[1]])[2:]
    steps = np.diff(np.log(rounds) if log_rounds else rounds)
    assert steps.max() < 1.5 * steps.min()
    assert len({line.get_marker() for line in ax.lines}) == 4


def test_a_line_alone_has_no_markers(ax):
    plot.learning_curves({'fedavg': np.arange(40.0)}, 'loss', ax=ax)
    assert ax.lines[0].get_marker() == ''


def test_long_legends_stand_outside_where_there_is_room(rng):
    many = {f'algorithm {k}': rng.normal(size=(2, 3)) for k in range(9)}
    axes = plot.learning_curves(many, 'loss')
    axes.figure.draw_without_rendering()
    box = axes.get_legend().get_window_extent()
    page = axes.figure.bbox
    assert box.x0 >= axes.get_window_extent().x1
    assert page.x0 <= box.x0
    assert box.x1 <= page.x1
    assert page.y0 <= box.y0
    assert box.y1 <= page.y1


@pytest.mark.parametrize(
    'low, high, shown',
    [(0.3, 3, {'0.5', '1', '2'}), (1e-4, 1e2, {'0.001', '0.1', '10'})],
)
def test_logarithmic_axes_have_plain_numbers(ax, low, high, shown):
    plot.learning_curves({'mine': np.geomspace(low, high, 5)}, 'loss', log=True, ax=ax)
    ax.figure.draw_without_rendering()
    texts = [text.get_text() for text in ax.yaxis.get_ticklabels(which='both')]
    assert shown <= set(texts)
    assert not any('$' in text for text in texts)


def test_a_logarithmic_axis_within_a_decade_has_several_numbers(ax):
    plot.learning_curves({'mine': np.geomspace(1.07, 2.6, 5)}, 'loss', log=True, ax=ax)
    ax.figure.draw_without_rendering()
    low, high = ax.get_ylim()
    ticks = ax.yaxis.get_ticklabels(which='both')
    written = [float(tick.get_text()) for tick in ticks if tick.get_text()]
    assert len([value for value in written if low < value < high]) >= 4
    positions = {
        float(tick.get_text()): tick.get_position()[1]
        for tick in ticks
        if tick.get_text()
    }
    np.testing.assert_allclose(list(positions), list(positions.values()), rtol=1e-5)


def test_levels_are_dotted_lines(ax):
    data = {'fedavg': [0.1, 0.2], 'mifa': [0.3, 0.4]}
    plot.learning_curves(data, 'eval_accuracy', levels={'mifa': 0.9}, ax=ax)
    (line,) = [line for line in ax.lines if line.get_label() == 'mifa, predicted']
    assert set(line.get_ydata()) == {0.9}
    assert line.get_linestyle() == ':'


def test_exact_curves_are_dashes_between_dots(ax):
    """`above` is subtracted from the mean (dashes) and from both bounds (dots)."""
    data = {'fedavg': [2.0, 3.0], 'mifa': [1.0, 1.0]}
    exact = {'fedavg': {'server': [[2.0, 2.5], [1.5, 2.0], [3.0, 4.0]]}}
    plot.learning_curves(data, 'loss', exact=exact, above=1.0, ax=ax)
    (dashes,) = [line for line in ax.lines if line.get_linestyle() == '--']
    assert dashes.get_ydata().tolist() == [1.0, 1.5]
    dots = [line for line in ax.lines if line.get_linestyle() == ':']
    assert [line.get_ydata().tolist() for line in dots] == [[0.5, 1.0], [2.0, 3.0]]
    names = ax.get_legend_handles_labels()[1]
    assert names == ['fedavg', 'mifa']


def test_two_seeds_are_drawn_as_they_are():
    """The t of one degree of freedom is 12.7: an interval would fill every picture."""
    finals = np.array([[0.4, 0.6]])
    axes = plot.metric_bars(
        {'fedavg': finals, 'mifa': finals + 0.1}, ['one'], 'accuracy'
    )
    assert not any(bar.errorbar for bar in axes.containers)
    dots = np.sort(np.concatenate([line.get_ydata() for line in axes.lines]))
    np.testing.assert_allclose(dots, [0.4, 0.5, 0.6, 0.7])
    curves = plot.learning_curves(
        {'fedavg': np.array([[0.2, 0.4], [0.2, 0.6]])}, 'loss'
    )
    band = curves.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == pytest.approx(0.2)
    assert band[:, 1].max() == pytest.approx(0.6)


def test_where_seeds_agree_a_band_has_no_width():
    values = np.array([[0.2, 0.4], [0.2, 0.6], [0.2, 0.5]])
    axes = plot.learning_curves({'fedavg': values}, 'loss')
    band = axes.collections[0].get_paths()[0].vertices
    np.testing.assert_allclose(band[band[:, 0] == 1.0, 1], 0.2)


def test_an_axis_of_rounds_has_integers():
    axes = plot.learning_curves({'fedavg': np.ones(3)}, 'loss')
    ticks = [tick for tick in axes.get_xticks() if 1 <= tick <= 3]
    assert ticks == [round(tick) for tick in ticks]
    alone = plot.learning_curves({'fedavg': np.ones(1)}, 'loss')
    links = [plot.link_map(np.eye(rounds, dtype=bool)) for rounds in (1, 4)]
    for integers in (alone, *links):
        assert all(tick == round(tick) for tick in integers.get_xticks())


def test_predictions_at_one_level_show_each_other():
    """Dashes of one line lie in the gaps of the other."""
    values = np.ones((2, 3))
    levels = {'fedavg': 0.5, 'mifa': 0.5}
    axes = plot.learning_curves(
        {'fedavg': values, 'mifa': values}, 'loss', levels=levels
    )
    lines = [line for line in axes.lines if 'predicted' in line.get_label()]
    taken = set()
    for line in lines:
        offset, (on, off) = line._unscaled_dash_pattern
        period = on + off
        positions = {(offset + k) % period for k in range(on)}
        assert not taken & positions
        taken |= positions
    assert len(lines) == 2


NAMES = [
    '$x_$',
    '_hidden',
    'a $ b',
    '$5',
    'a|b',
    r'$\alpha$ or $\beta$',
    'FedAvg_known',
]


def test_every_name_can_be_drawn():
    labels = ['other', *NAMES]
    values = dict.fromkeys(labels, np.array([[0.2, 0.4], [0.2, 0.6]]))
    axes = plot.learning_curves(values, 'loss', levels=dict.fromkeys(NAMES, 0.3))
    finals = np.full((len(labels), 2), 0.4)
    bars = plot.metric_bars(dict.fromkeys(labels, finals), labels)
    plot.paired_differences(values, 'other')
    plot.participation_loss([1, 2], {label: [1.0, 3.0] for label in labels})
    for shown in map(pyplot.figure, pyplot.get_fignums()):
        shown.canvas.draw()
    for legend in (axes.get_legend(), bars.get_legend()):
        # Matplotlib hides names that begin with `_` and reads `$` as formulas, so they are escaped.
        texts = [
            text.get_text().lstrip('\u200b').replace(r'\$', '$')
            for text in legend.get_texts()
        ]
        assert {*NAMES} <= {*texts}


DATA = {'fedavg': np.ones((2, 3)), 'mifa': np.ones((2, 3))}


@pytest.mark.parametrize(
    'call, message',
    [
        (
            lambda: plot.learning_curves(DATA, band='sd'),
            "`band` has no 'sd'; valid names:",
        ),
        (
            lambda: plot.learning_curves(DATA, rounds=[1, 2]),
            '`rounds` must have 3 entries',
        ),
        (
            lambda: plot.learning_curves(DATA, rounds=[1, 2, np.nan]),
            '`rounds` must be finite, got [1, 2, nan].',
        ),
        (
            lambda: plot.learning_curves(DATA, rounds=[1, 3, 3]),
            '`rounds` must increase from entry to entry, got [1, 3, 3].',
        ),
        (
            lambda: plot.learning_curves(a_run(), rounds=[1]),
            '`rounds` must be left out for the results of a run',
        ),
        (
            lambda: plot.learning_curves(DATA, against={'mifa': [1, 2]}),
            "`against` must have shape [3] for each label, got shape [2] for 'mifa'.",
        ),
        (
            lambda: plot.learning_curves(DATA, levels={'mifa': 'high'}),
            "`levels` must be a number, got 'high'.",
        ),
        (
            lambda: plot.learning_curves(DATA, exact={'mifa': {'server': [1, 2, 3]}}),
            "`exact` must have shape [3, 3] for each label, got shape [3] for 'mifa'.",
        ),
        (
            lambda: plot.learning_curves(DATA, exact={'mifa': [1, 2, 3]}),
            '`exact` must be values by label and model, got [1, 2, 3]',
        ),
        (lambda: plot.learning_curves(DATA, model='sever'), "did you mean 'server'?"),
        (
            lambda: plot.learning_curves(DATA, ax=3),
            '`ax` must be matplotlib axes or None, got 3.',
        ),
        (lambda: plot.learning_curves({}), '`data` must hold at least one label'),
        (
            lambda: plot.learning_curves({'a': np.ones((1, 2, 3))}),
            '`data` must be of shape [E] or',
        ),
        (
            lambda: plot.learning_curves({**DATA, 'b': np.ones(4)}),
            '`data` must have as many eval',
        ),
        (
            lambda: plot.learning_curves(
                {'a': simulated([1, 1]), 'b': simulated([1, 1], every=2)}
            ),
            "`data` must be evaluated after the same rounds for every label, got {'a': [5, 10]",
        ),
        (
            lambda: plot.learning_curves(a_run(), 'accuracy'),
            "did you mean 'eval_accuracy'?",
        ),
        (
            lambda: plot.learning_curves(a_run(), ax=[None]),
            '`ax` must be 2 axes, one per panel',
        ),
        (
            lambda: plot.learning_curves(simulated([1, 1]), 'acuracy'),
            "did you mean 'accuracy'?",
        ),
        (lambda: plot.paired_differences(DATA, 'fedavgs'), "did you mean 'fedavg'?"),
        (
            lambda: plot.paired_differences(DATA, tail=2),
            '`tail` must lie in [0, 1], got 2.',
        ),
        (lambda: plot.metric_bars(DATA, ['one']), '`values` must be of shape [1, S]'),
    ],
)
def test_errors(call, message):
    with refusals.one_line(re.escape(message)):
        call()


def test_many_rounds_are_written_in_thousands():
    axes = plot.learning_curves(
        {'fedavg': [0.1, 0.2]}, 'loss', rounds=[100_000, 300_000]
    )
    assert axes.xaxis.get_major_formatter()(150_000, 0) == '150k'
    few = plot.learning_curves({'fedavg': [0.1, 0.2]}, 'loss', rounds=[1_000, 3_000])
    assert few.xaxis.get_major_formatter()(1_500, 0) != '1.5k'
