"""Maps over two columns of a grid, read back from tables and pictures."""

import itertools
import re

import matplotlib.colors
import numpy as np
import pytest

from fedjax_links.report.layouts import heat_map
from tests import refusals
from tests.report.made import results
from tests.tiers import cases

X = 'links.probs.sigma'
Y = 'problem.bayes_accuracy'
RATE = 'client.learning_rate'
NOISE = np.array([-0.1, 0.0, 0.1] * 2)


def over(level, algorithms=('fedavg', 'fedpbc'), evals=1, **axes):
    """Results with the mean ``level(algorithm, *point)`` and the same noise of six seeds."""
    curves, members = curves_over(level, algorithms, evals, **axes)
    return results(curves, members=members)


def curves_over(level, algorithms=('fedavg', 'fedpbc'), evals=1, **axes):
    """What `over` is made of: curves and members by label."""
    columns = {'x': X, 'y': Y, 'rate': RATE}
    axes = {columns.get(name, name): values for name, values in axes.items()}
    curves = {}
    members = {}
    for algorithm in algorithms:
        for values in itertools.product(*axes.values()):
            point = dict(zip(axes, values, strict=True))
            label = f'{algorithm} {values}'
            members[label] = algorithm, point
            result = np.broadcast_to(level(algorithm, *values), evals)
            curves[label] = (NOISE[:, None] + result)[None]
    return curves, members


def rows(table):
    return [list(row) for row in table.rows]


def images(figure):
    return [axes.images[0].get_array() for axes in figure.axes if axes.images]


def hatched(axes, hatch=''):
    """Cells (x, y) that are hatched, or that have this hatch."""
    cells = set()
    for patch in axes.patches:
        if patch.get_hatch() and hatch in patch.get_hatch():
            # A patch begins half a cell before its cell's number.
            cells.add(tuple(np.round(np.add(patch.get_xy(), 0.5))))
    return cells


def lead(algorithm, value, base=0.5):
    """A level of FedPBC that is ahead of FedAvg's by a value."""
    return base + value if algorithm == 'fedpbc' else base


def test_equivalent_is_not_undecided(draw_page):
    """Cells at x = 0 and 1 are equivalent within a point, 2 is undecided, FedPBC leads at 3."""
    widths = {0: 0.0001, 1: 0.001, 2: 0.1}

    def level(algorithm, x, y):
        return lead(algorithm, 0.3 if x == 3 else 0.0)

    curves, members = curves_over(level, x=(0, 1, 2, 3), y=(0, 1))
    apart = np.array([1.0, -1.0, 0.5, -0.5, 0.2, -0.2])
    for label, (algorithm, point) in members.items():
        if algorithm == 'fedpbc':
            width = widths.get(point[X], 0.001)
            curves[label] = curves[label] + width * apart[:, None]
    page = heat_map(results(curves, members=members), x=X, y=Y, margin=0.01)
    best, differences = draw_page(page).axes[:2]
    for axes in (best, differences):
        assert hatched(axes, '//') == {(2, 0), (2, 1)}
        assert hatched(axes, '.') == {(x, y) for x in (0, 1) for y in (0, 1)}
    table = page.tables[2]
    assert list(table.rows[0])[1:4] == ['2 of 8', '0 of 8', '4 of 8']


def test_a_cell_is_the_paired_difference_to_the_baseline(lay_out_page):
    ahead = {(0.0, 0.5): 0.0, (1.0, 0.5): 0.1, (0.0, 0.9): -0.2, (1.0, 0.9): 0.3}
    result = over(lambda a, x, y: lead(a, ahead[x, y]), x=(0.0, 1.0), y=(0.5, 0.9))
    page = heat_map(result, x=X, y=Y)
    best, differences, in_one = page.tables
    assert list(best.header) == ['bayes accuracy', 'sigma 0', '1']
    assert rows(best) == [
        ['0.5', 'fedavg 50.0 ~', 'fedpbc 60.0'],
        ['0.9', 'fedavg 50.0', 'fedpbc 80.0'],
    ]
    assert 'Empty' not in differences.caption
    assert rows(differences) == [
        ['fedpbc', '0.5', '+0.0 ± 0.0 (50.0)', '+10.0 ± 0.0 ** (60.0)'],
        ['fedpbc', '0.9', '-20.0 ± 0.0 ** (30.0)', '+30.0 ± 0.0 ** (80.0)'],
    ]
    assert rows(in_one) == [
        [
            'fedpbc',
            '2 of 4',
            '1 of 4',
            '1 of 4',
            '3',
            '-20.0 ± 0.0 to +30.0 ± 0.0',
            '+5.0 ± 0.0 *',
        ]
    ]
    figure = lay_out_page(page)
    leaders, image = images(figure)
    np.testing.assert_allclose(image, [[0, 10], [-20, 30]], atol=1e-9)
    first, second, *_ = figure.axes
    assert hatched(first) == hatched(second) == {(0, 0)}
    assert second.images[0].get_clim() == pytest.approx((-30, 30))
    assert [text.get_text() for text in second.texts] == [
        '0.0',
        '+10.0',
        '-20.0',
        '+30.0',
    ]
    faces = [tuple(leaders[row, column]) for row, column in ((1, 0), (0, 1), (1, 1))]
    assert faces[0] != faces[1]
    assert faces[1] == faces[2]
    np.testing.assert_array_equal(leaders[0, 0], 1.0)  # white: no algorithm leads
    legend = figure.legends[0]
    names = ['fedavg', 'fedpbc', 'not decided', 'equivalent']
    assert [text.get_text() for text in legend.get_texts()] == names
    title = (
        'best: coloured by algorithm; hatched where an interval includes zero, dotted where it '
        'lies within 0 points'
    )
    assert legend.get_title().get_text().split() == title.split()
    assert figure.axes[2].get_ylabel() == 'difference, eval accuracy, points'


def test_one_seed_decides_nothing(draw_page):
    curves, members = curves_over(
        lambda a, x, y: lead(a, 0.3 * x), x=(0.0, 1.0), y=(0.5, 0.9)
    )
    alone = {label: values[:, :1] for label, values in curves.items()}
    result = results(alone, members=members)
    page = heat_map(result, x=X, y=Y)
    best, differences, _ = page.tables
    assert rows(best) == [[y, 'fedavg 40.0 ~', 'fedpbc 70.0 ~'] for y in ('0.5', '0.9')]
    assert '~: one seed decides nothing' in best.caption
    assert rows(differences) == [
        ['fedpbc', y, '+0.0 (40.0)', '+30.0 (70.0)'] for y in ('0.5', '0.9')
    ]
    figure = draw_page(page)
    everywhere = set(itertools.product((0, 1), (0, 1)))
    assert hatched(figure.axes[0]) == hatched(figure.axes[1]) == everywhere
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        'not decided'
    ]


def test_the_last_is_ahead_if_all_others_diverged(draw_page):
    curves, members = curves_over(lambda a, x, y: 0.5, x=(0, 1), y=(0, 1))
    for label, (algorithm, point) in members.items():
        if algorithm == 'fedavg' or point == {X: 1, Y: 1}:
            curves[label][:] = np.nan
    page = heat_map(results(curves, members=members), x=X, y=Y)
    assert rows(page.tables[0]) == [
        ['0', *['fedpbc 50.0'] * 2],
        ['1', 'fedpbc 50.0', ''],
    ]
    _, differences, in_one = page.tables
    assert set(np.ravel([row[2:] for row in rows(differences)])) == {''}
    assert 'Empty where a run of the algorithm or of fedavg div' in differences.caption
    assert 'in brackets' not in in_one.caption
    axes = draw_page(page).axes[0]
    assert not hatched(axes)
    grey = matplotlib.colors.to_rgb('#dddddd')
    np.testing.assert_allclose(axes.images[0].get_array()[1, 1], grey)


def test_better_is_blue_whichever_way_a_metric_is_better(draw_page):
    for metric, sign in (('eval_accuracy', 1), ('loss', -1)):
        curves = {}
        members = {}
        for algorithm, (x, y) in itertools.product(
            ('fedavg', 'fedpbc'), ((0, 0), (0, 1), (1, 0))
        ):
            label = f'{algorithm} {x} {y}'
            members[label] = algorithm, {'x': x, 'y': y}
            level = lead(algorithm, 0.2 * sign)
            curves[label] = {'server': {metric: np.full((1, 1, 1), level)}}
        page = heat_map(results(curves, members=members, metric=metric), x='x', y='y')
        image = draw_page(page).axes[1].images[0]
        red, _, blue, _ = image.to_rgba(image.get_array())[0, 0]
        assert blue > red
        assert page.tables[0].rows[1][2] == ''
        assert page.tables[0].rows[0][1].startswith('fedpbc')
        grey = image.to_rgba(image.get_array())[1, 1, :3]  # no such point
        np.testing.assert_allclose(grey, matplotlib.colors.to_rgb('#dddddd'), atol=1e-6)


@pytest.mark.parametrize('tried', [(0.1, 0.3, 1.0), (0.3, 0.1, 1.0)])
def test_every_algorithm_takes_its_best_rate_at_every_cell(tried):
    rates = {
        ('fedavg', 0): 0.1,
        ('fedavg', 1): 0.3,
        ('fedpbc', 0): 0.3,
        ('fedpbc', 1): 1.0,
    }

    def level(algorithm, x, y, rate):
        best = lead(algorithm, 0.05, base=0.75) - 0.1 * y
        return best - abs(rate - rates[algorithm, x])

    result = over(level, x=(0, 1), y=(0, 1), rate=tried)
    best, differences, _ = heat_map(result, x=X, y=Y, best_over=(RATE,)).tables
    text = (('0', '80.0'), ('1', '70.0'))
    assert [row[1:] for row in rows(differences)] == [
        [y, *[f'+5.0 ± 0.0 ** ({level})'] * 2] for y, level in text
    ]
    assert [row[1:] for row in rows(best)] == [['fedpbc 80.0'] * 2, ['fedpbc 70.0'] * 2]
    assert 'in 4 of 8 cells that is an edge' in best.caption


def test_cells_without_a_choice_are_not_at_an_edge():
    def level(algorithm, x, y, rate=0.1):
        return 0.5 + rate / 10

    curves, members = curves_over(
        level, ('fedavg',), x=(0, 1), y=(0, 1), rate=(0.1, 0.3, 1.0)
    )
    other = curves_over(level, ('fedpbc',), x=(0, 1), y=(0, 1))
    result = results(curves | other[0], members=members | other[1])
    page = heat_map(result, x=X, y=Y, best_over=(RATE,))
    assert 'in 4 of 4 cells that is an edge' in page.caption


def test_rounds_can_be_an_axis():
    def level(algorithm, y, rate):
        # The large rate is ahead first, and stops at 0.12.
        slope = 0.01 if rate == 0.1 else 0.03
        largest = 1.0 if rate == 0.1 else 0.12
        return np.minimum(slope * np.arange(1, 25), largest) + 0.1 * y

    result = over(level, evals=24, y=(0, 1), rate=(0.1, 1.0))
    best, *_ = heat_map(result, x='round', y=Y, best_over=(RATE,)).tables
    assert list(best.header[1:]) == ['round 30', '60', '120', '240']
    levels = [[cell.split()[1] for cell in row[1:]] for row in best.rows]
    assert levels == [['9.0', '12.0', '12.0', '24.0'], ['19.0', '22.0', '22.0', '34.0']]


def test_a_third_column_and_patterns_have_panels_below(draw_page):
    curves, members = curves_over(
        lambda a, third, y, x: 0.1 * third + 0.01 * x,
        third=(1, 2),
        y=(0, 1),
        x=(0, 1, 2),
    )
    twice = {
        label: np.concatenate([values, values + 0.4])
        for label, values in curves.items()
    }
    result = results(twice, members=members, patterns=['one', 'two'])
    page = heat_map(result, x=X, y=Y)
    best = page.tables[0]
    assert list(best.header) == [
        'pattern',
        'third',
        'bayes accuracy',
        'sigma 0',
        '1',
        '2',
    ]
    text = [(row[0], row[1], row[3].split()[1]) for row in best.rows[::2]]
    assert text == [
        ('one', '1', '10.0'),
        ('one', '2', '20.0'),
        ('two', '1', '50.0'),
        ('two', '2', '60.0'),
    ]
    assert len(images(draw_page(page))) == 8


def test_an_algorithm_without_a_column_is_the_same_along_it():
    result = curves_over(lambda a, x, y: 0.5 + 0.1 * x, ('fedpbc',), x=(0, 1), y=(0, 1))
    alone = curves_over(lambda a, x: 0.4 + 0.1 * x, ('fedavg',), x=(0, 1))
    curves, members = (
        {**one, **other} for one, other in zip(result, alone, strict=True)
    )
    both = results(curves, members=members)
    _, differences, _ = heat_map(both, x=X, y=Y).tables
    cells = {row[2:] for row in map(tuple, differences.rows)}
    assert cells == {('+10.0 ± 0.0 ** (50.0)', '+10.0 ± 0.0 ** (60.0)')}


def test_maps_show_the_client_mean_where_clients_keep_models(draw_page):
    curves, members = curves_over(lambda a, x, y: 0.5, x=(0, 1), y=(0, 1))
    for label, (algorithm, _) in members.items():
        if algorithm == 'fedpbc':
            models = {'server': curves[label], 'client_mean': curves[label] + 0.1}
            curves[label] = {model: {'eval_accuracy': v} for model, v in models.items()}
    page = heat_map(results(curves, members=members), x=X, y=Y)
    assert {cell for row in page.tables[1].rows for cell in row[2:]} == {
        '+10.0 ± 0.0 ** (60.0)'
    }
    title = draw_page(page).legends[0].get_title().get_text()
    assert ' '.join(title.split()).endswith('; fedpbc at its client mean')


@pytest.mark.parametrize(
    'options, message',
    [
        (
            {'x': 'links.sigma'},
            "`x` has no 'links.sigma'; did you mean 'links.probs.sigma'?",
        ),
        ({'y': X}, '`y` must be another column than x, got links.probs.sigma.'),
        ({'best_over': ('rate',)}, "`best_over` has no 'rate'"),
        ({'best_over': (X,)}, "`x` has no 'links.probs.sigma'"),
        (
            {'x': 'round', 'y': 'round'},
            '`y` must be another column than x, got round.',
        ),
        (
            {'x': 'round', 'y': 'third'},
            '`grid` must have at most one column beside round, third, got [',
        ),
        ({'metric': 'loss'}, '`metric`'),
        ({'tail': 2}, '`tail` must lie in [0, 1], got 2.'),
    ],
)
def test_errors(options, message):
    result = over(lambda a, x, y, third: 0.5, x=(0, 1), y=(0, 1), third=(0, 1))
    with refusals.one_line(f'^{re.escape(message)}'):
        heat_map(result, **{'x': X, 'y': Y, **options})


@pytest.mark.parametrize(
    'num_third, shape',
    cases([(1, (2, 3)), (3, (5, 3)), (6, (6, 5))], [(1, (2, 3)), (3, (5, 3))]),
)
def test_every_panel_shows_what_stands_above_it(draw_page, num_third, shape):
    algorithms = ('fedavg', 'fedau', 'fedpbc', 'mifa', 'scaffold')
    lift = dict(zip(algorithms, (0.0, 0.1, 0.2, 0.3, 0.4), strict=True))
    third = tuple(range(1, num_third + 1))

    def level(algorithm, third, y, x):
        by_third = 0.0 if algorithm == 'fedavg' else 0.01 * third
        return 0.1 + lift[algorithm] + by_third

    result = over(
        level,
        algorithms=algorithms,
        third=third,
        y=(0, 1),
        x=tuple(range(6)),
    )
    figure = draw_page(heat_map(result, x=X, y=Y))
    panels = [axes for axes in figure.axes if axes.get_title()]
    assert len(panels) == 5 * num_third
    grid = panels[0].get_gridspec()
    assert (grid.nrows, grid.ncols) == shape
    for axes in panels:
        name, *words = axes.get_title().split(', ')
        if name == 'best':
            continue
        value = int(words[0].removeprefix('third ')) if words else 1
        expected = 100 * lift[name.removesuffix(' - fedavg')] + value
        np.testing.assert_allclose(axes.images[0].get_array(), expected, atol=1e-9)
    for axes in panels:
        position = axes.get_subplotspec()
        is_above_another = position.num1 + grid.ncols < len(panels)
        assert axes.xaxis.get_tick_params()['labelbottom'] is not is_above_another
        assert axes.yaxis.get_tick_params()['labelleft'] is position.is_first_col()
    if num_third == 1:
        assert figure.get_size_inches()[0] <= 11
