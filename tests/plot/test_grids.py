"""A run over a grid as a heat map, beside a loop over its rows."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from fedjax_links import plot, runs
from tests import ROOT

X, Y = 'links.probs.sigma', 'problem.bayes_accuracy'
AT = {'problem.alpha': 0.1, 'client.learning_rate': 0.02}


@pytest.fixture(scope='module')
def run():
    return runs.read(ROOT / 'studies' / 'records' / 'maps' / 'space')


def by_hand(run, algorithm, model, x, y):
    """float[S], the mean of the last two evaluations of each seed."""
    found = {}
    for place in range(len(run['seed'])):
        here = {X: x, Y: y, **AT, 'algorithm': algorithm, 'stage': 'main'}
        if all(run[name][place] == value for name, value in here.items()):
            found.setdefault(run['seed'][place], []).append(
                (run['round'][place], run[f'{model}/eval_accuracy'][place])
            )
    return np.array([np.mean([v for _, v in sorted(found[s])[-2:]]) for s in sorted(found)])


def test_differences_are_those_of_pairs_of_seeds(run):
    axes = plot.grid_map(run, X, Y, algorithm='fedpbc', baseline='fedavg', at=AT, tail=0.4)
    image = axes.images[0].get_array()
    assert image.shape == (6, 6)
    hatched = {tuple(np.round(np.add(p.get_xy(), 0.5))) for p in axes.patches if p.get_hatch()}
    for x, y, place in ((10.0, 0.6, (1, 5)), (0.0, 0.98, (5, 0))):
        ours = by_hand(run, 'fedpbc', 'client_mean', x, y)
        other = by_hand(run, 'fedavg', 'server', x, y)
        np.testing.assert_allclose(image[place], 100 * (ours - other).mean(), atol=1e-9)
        low, high = stats.ttest_rel(ours, other).confidence_interval(0.95)
        assert ((place[1], place[0]) in hatched) == (low <= 0 <= high)
    assert axes.get_xlabel() == 'sigma'
    assert [label.get_text() for label in axes.get_yticklabels()][:2] == ['0.5', '0.6']


def test_one_seed_is_certain_of_nothing(run):
    alone = run.select(seeds=run.facts['seeds'][0])
    axes = plot.grid_map(alone, X, Y, algorithm='fedpbc', baseline='fedavg', at=AT)
    assert sum(patch.get_hatch() is not None for patch in axes.patches) == 36
    label = 'FedPBC (client mean) minus FedAvg: eval accuracy, points'
    assert axes.figure.axes[1].get_ylabel() == label


def test_levels_of_a_chosen_model(run):
    axes = plot.grid_map(run, X, Y, algorithm='fedpbc', model='server', at=AT, tail=0.4)
    expected = 100 * by_hand(run, 'fedpbc', 'server', 2.0, 0.9).mean()
    np.testing.assert_allclose(axes.images[0].get_array()[4, 3], expected, atol=1e-9)


def changed(run, chosen, **columns):
    """The run with other values in some of its rows."""
    found = dict(run.columns)
    for name, value in columns.items():
        found[name] = np.where(chosen, value, found[name])
    return dataclasses.replace(run, columns=found)


def test_where_a_seed_diverged_there_is_no_value(run):
    last = (run['round'] == run['round'].max()) & (run['seed'] == run['seed'].max())
    lost = changed(run, last & (run[X] == 10.0) & (run[Y] == 0.6), finite=False)
    kinds = {'algorithm': 'fedpbc', 'baseline': 'fedavg'}
    before, after = (plot.grid_map(r, X, Y, **kinds, at=AT).images[0] for r in (run, lost))
    expected = np.array(before.get_array())
    expected[1, 5] = np.nan  # though a model of NaN has an accuracy too
    np.testing.assert_array_equal(np.ma.filled(after.get_array(), np.nan), expected)


def test_a_baseline_without_a_column_stands_at_all_of_its_values(run):
    ours = run['algorithm'] == 'fedpbc'
    kept = ours | ((run['algorithm'] == 'fedavg') & (run[X] == 0.0))
    few = dataclasses.replace(
        run, columns={name: column[kept] for name, column in run.columns.items()}
    )
    without = changed(few, ~ours[kept], **{X: np.nan})
    axes = plot.grid_map(without, X, Y, algorithm='fedpbc', baseline='fedavg', at=AT, tail=0.4)
    expected = by_hand(run, 'fedpbc', 'client_mean', 2.0, 0.9) - by_hand(
        run, 'fedavg', 'server', 0.0, 0.9
    )
    np.testing.assert_allclose(axes.images[0].get_array()[4, 3], 100 * expected.mean(), atol=1e-9)
    with pytest.raises(ValueError, match=r'`x` must be a column of fedavg, got links.probs.sigma'):
        plot.grid_map(without, X, Y, algorithm='fedavg', at=AT)


def test_a_picture_of_a_part_has_its_curves(run):
    at = {X: 0.0, Y: 0.9, 'problem.alpha': 0.1}
    axes = plot.learning_curves(run.select(at, algorithms='fedavg'))
    rate = 'client.learning_rate'
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == [f'FedAvg (learning_rate {value:g})' for value in run.facts['grid'][rate]]
    rows = np.logical_and.reduce([run[name] == value for name, value in at.items()])
    rows &= (run['algorithm'] == 'fedavg') & (run[rate] == run.facts['grid'][rate][0])
    last = run['server/eval_accuracy'][rows & (run['round'] == run['round'].max())]
    np.testing.assert_allclose(axes.lines[0].get_ydata()[-1], last.mean())
    with pytest.raises(ValueError, match=r'^`legend` must be False for more than 60 curves \(`run'):
        plot.learning_curves(run)


@pytest.mark.parametrize(
    'changes, message',
    [
        ({'algorithm': 'fedpcb'}, "`algorithm` has no 'fedpcb'; did you mean 'fedpbc'?"),
        ({'x': 'sigma'}, "`x` has no 'sigma'"),
        ({'at': {'problem.alpha': 0.1}}, '`at` must have a value of client.learning_rate, got '),
        ({'at': {**AT, 'problem.alpha': 0.2}}, '`at.problem.alpha` must be among 0.05, '),
        ({'at': {**AT, 'problem.alpa': 0.1}}, "`at` has no 'problem.alpa'; did you mean"),
        ({'model': 'clients'}, "`model` has no 'clients'"),
    ],
)
def test_mistakes_cost_one_line(run, changes, message):
    with pytest.raises(ValueError, match='`') as caught:
        plot.grid_map(run, **{'x': X, 'y': Y, 'algorithm': 'fedpbc', 'at': AT, **changes})
    assert str(caught.value).startswith(message)
