"""Paired differences, read back from what was drawn, against NumPy."""

import itertools

import numpy as np
import pytest

from fedjax_links import evaluation, plot, runs
from fedjax_links.results import conversion, dataset
from tests.plot.samples import a_run, half_width, simulated


def test_differences_are_paired_and_in_points(ax, rng):
    noise = rng.normal(size=5) / 50
    ends = {'fedavg': 0.5 + noise, 'mifa': 0.6 + noise + rng.normal(size=5) / 500}
    ends['fedpbc'] = 0.5 + rng.normal(size=5) / 50
    data = {
        label: np.stack([0 * values, values], axis=1) for label, values in ends.items()
    }
    plot.paired_differences(data, metric='eval_accuracy', model='server', ax=ax)
    bars = [container.lines for container in ax.containers]
    for index, label in enumerate(('mifa', 'fedpbc')):
        difference = ends[label] - ends['fedavg']
        point, _, (bar,) = bars[index]
        assert point.get_xdata()[0] == pytest.approx(100 * difference.mean())
        low, high = bar.get_segments()[0][:, 0]
        assert high - low == pytest.approx(200 * half_width(difference), abs=1e-9)
        clear = abs(difference.mean()) > half_width(difference)
        assert (point.get_markerfacecolor() != 'white') == clear
    assert [text.get_text() for text in ax.get_yticklabels()] == ['mifa', 'fedpbc']
    assert ax.get_xlabel() == 'eval accuracy minus that of fedavg, points'


def test_a_picture_of_many_differences_has_room_for_their_names(rng):
    axes = plot.paired_differences(
        {f'algorithm {k}': rng.uniform(size=3) for k in range(40)}
    )
    axes.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in axes.get_yticklabels()]
    assert len(boxes) == 39
    assert all(above.y0 >= below.y1 for above, below in itertools.pairwise(boxes))


def test_final_values_may_stand_alone_and_runs_are_in_points(ax):
    plot.paired_differences({'a': [1.0, 2.0], 'b': [3.0, 5.0]}, 'b', ax=ax)
    (container,) = ax.containers
    assert ax.get_xlabel() == 'value minus that of b'
    assert container.lines[0].get_xdata()[0] == pytest.approx(-2.5)
    run = a_run()
    values = run['server/eval_accuracy'].reshape(2, 2, 2, 2)[..., -1]
    first, second = plot.paired_differences(run)
    for index, axes in enumerate((first, second)):
        expected = 100 * (values[1, index] - values[0, index]).mean()
        assert axes.containers[0].lines[0].get_xdata()[0] == pytest.approx(expected)
    assert [text.get_text() for text in first.get_yticklabels()] == ['MIFA']
    assert first.figure.get_supxlabel() == 'eval accuracy minus that of fedavg, points'


def on_a_grid(baseline='fedavg'):
    """Makes a run over rates, two seeds and two patterns; mifa has a column of its own.

    Returns:
      Accuracies by algorithm, rate, pattern, seed and horizon, [2, 2, 2, 2, 2], of which fedavg has
      the first horizon alone; and the run.
    """
    levels = np.random.default_rng(3).uniform(0.3, 0.9, (2, 2, 2, 2, 2))
    rows = []
    values = []
    for index in np.ndindex(2, 2, 2, 2):
        rate, pattern, seed, horizon = index
        labels = {
            'pattern': ('one', 'two')[pattern],
            'seed': (3, 4)[seed],
            'round': 10,
            'client.learning_rate': (0.1, 0.2)[rate],
        }
        if horizon == 0:
            rows.append({'algorithm': 'fedavg', **labels})
            values.append(levels[0][index])
        rows.append(
            {'algorithm': 'mifa', **labels, 'algorithms.mifa.horizon': (5, 20)[horizon]}
        )
        values.append(levels[1][index])
    names = list(rows[1])
    columns = {
        name: np.array([row.get(name, np.nan) for row in rows]) for name in names
    }
    columns |= {
        'stage': np.array(['main'] * len(rows)),
        'server/eval_accuracy': np.array(values),
    }
    grid = {'client.learning_rate': [0.1, 0.2], 'algorithms.mifa.horizon': [5, 20]}
    run = a_run()
    return levels, runs.Results(
        columns, {**run.facts, 'grid': grid, 'baseline': baseline}
    )


def test_an_own_column_is_compared_at_the_same_point():
    levels, run = on_a_grid()
    result = plot.paired_differences(run)
    for pattern, axes in enumerate(result):
        expected = [
            100
            * (
                levels[1][rate, pattern, :, horizon] - levels[0][rate, pattern, :, 0]
            ).mean()
            for rate, horizon in np.ndindex(2, 2)
        ]
        points = [container.lines[0].get_xdata()[0] for container in axes.containers]
        np.testing.assert_allclose(points, expected)
    names = [
        f'MIFA (learning_rate {r}, horizon {h})' for r in (0.1, 0.2) for h in (5, 20)
    ]
    assert [text.get_text() for text in result[0].get_yticklabels()] == names
    axes = plot.paired_differences(run, 'mifa (learning_rate 0.1, horizon 20)')[0]
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert names[:2] == ['fedavg (learning_rate 0.1)', 'fedavg (learning_rate 0.2)']
    expected = 100 * (levels[0][1, 0, :, 0] - levels[1][0, 0, :, 1]).mean()
    assert axes.containers[1].lines[0].get_xdata()[0] == pytest.approx(expected)


def test_panels_of_differences_share_one_label_and_row_names():
    _, run = on_a_grid()
    first, second = plot.paired_differences(
        run, names={'mifa': 'An algorithm of a long name'}
    )
    figure = first.figure
    figure.draw_without_rendering()
    shown = [axes.yaxis.get_tick_params()['labelleft'] for axes in (first, second)]
    assert shown == [True, False]
    assert (
        first.get_yticklabels()[0]
        .get_text()
        .startswith('An algorithm of a long name (')
    )
    texts = [figure._supxlabel, *first.get_yticklabels(), first.title, second.title]
    for box in (text.get_window_extent() for text in texts):
        assert figure.bbox.x0 <= box.x0
        assert box.x1 <= figure.bbox.x1
    assert first.get_window_extent().width > 200  # pixels


def test_points_of_sweeps_are_compared_with_each_other(ax, rng):
    values = rng.uniform(size=(2, 2, 3, 4))
    data = {'fedavg': simulated(values[0]), 'mifa': simulated(values[1])}
    plot.paired_differences(data, tail=0.25, ax=ax)
    differences = 100 * (values[1] - values[0])[..., -1].mean(axis=1)
    points = [container.lines[0].get_xdata()[0] for container in ax.containers]
    np.testing.assert_allclose(points, differences, rtol=1e-4)
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names == ['mifa (point 0)', 'mifa (point 1)']


def until_decided(differences, level=0.95):
    """Makes a run whose second algorithm has these differences to the first, by seed."""
    base = np.linspace(0.5, 0.6, len(differences))
    result = conversion.to_dataset(
        {'fedavg': base[:, None], 'mifa': (base + differences)[:, None]}, 'accuracy'
    )
    until = {'least': 4, 'level': level, 'margin': 0.0}
    return result.assign_attrs(until=dataset.as_json(until))  # as runs have it


@pytest.mark.parametrize('level', [0.95, 0.8])
def test_until_decided_bars_are_those_of_the_table(level):
    """At any number of seeds: wider than Student's t, and filled by the wider one alone."""
    differences = np.array([0.05, 0.02, 0.045, 0.03])
    verdict = evaluation.decide(differences, level=level)
    axes = plot.paired_differences(until_decided(differences, level))
    (bar,) = axes.containers
    (segment,) = bar[2][0].get_segments()
    np.testing.assert_allclose(np.ptp(segment[:, 0]) / 2, 100 * verdict.half_width)
    is_filled = bar[0].get_markerfacecolor() != 'white'
    assert is_filled == (verdict.word == evaluation.AHEAD)
    assert is_filled == (level == 0.8)


def test_until_decided_a_bar_without_end_goes_through_the_panel():
    axes = plot.paired_differences(until_decided(np.array([0.05, 0.04])))
    (bar,) = axes.containers
    assert not bar.has_xerr
    assert bar[0].get_markerfacecolor() == 'white'
    dashed = [line for line in axes.lines if line.get_linestyle() == '--']
    assert [list(line.get_xdata()) for line in dashed] == [[0, 1]]


@pytest.mark.parametrize('half_width', [np.inf, np.nan])
def test_a_second_interval_without_end_is_not_filled(half_width):
    """An infinite one is a dashed line, through which the bar over seeds still shows."""
    data = {'fedavg': [0.71, 0.74, 0.72], 'mifa': [0.75, 0.77, 0.76]}
    axes = plot.paired_differences(data, wide={'mifa': half_width})
    (bar,) = axes.containers
    assert bar.has_xerr
    assert bar[0].get_markerfacecolor() == 'white'
    dashed = [line for line in axes.lines if line.get_linestyle() == '--']
    assert len(dashed) == np.isinf(half_width)
