"""Hours and gigabytes of a run: against its own links, counted by hand."""

import dataclasses
import json
import re

import numpy as np
import pytest

from fedjax_links import (
    algorithms,
    experiment,
    local_training,
    participation,
    problems,
    report,
    runs,
)
from fedjax_links.report import run_view
from fedjax_links.report.comparisons import FinalKey
from fedjax_links.report.layouts import cost, link_maps
from tests.cli.command import run as command
from tests.report.made import results as made

SPEEDS = {'step': 2.0, 'uplink': 8.0, 'downlink': 16.0}
COST = {'name': 'cost', **SPEEDS, 'targets': (20.0, 0.0), 'metric': 'distance'}
CONFIG = {
    'title': 'the cost of two',
    'problem': {'name': 'counterexample', 'num_clients': 6, 'dimension': 2},
    'links': {'name': 'bernoulli', 'probs': {'name': 'equal', 'value': 0.4}},
    'client': {'learning_rate': 0.1, 'local_steps': 2},
    'algorithms': {
        'fedavg': {'client': 'local_sgd'},
        'pausing': {
            'name': 'fedpbc',
            'compute': 'active',
            'client': {'local_steps': 3},
        },
        'fedpbc': {},
    },
    'evaluate_start': True,
    'num_rounds': 12,
    'eval_every': 3,
    'num_seeds': 2,
}


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """A run that kept the links of both seeds."""
    folder = tmp_path_factory.mktemp('cost')
    experiment.build({**CONFIG, 'log': ('links',)}).run(folder)
    return folder


def masks(folder):
    arrays = runs.read_links(folder)
    return [
        np.unpackbits(arrays[f'mask/{n}'], axis=-1, count=6) > 0
        for n in ('links', 'links/1')
    ]


def rows_of(table):
    return {row[1]: row[2:] for row in table.rows}


def hours(mask, steps):
    """Hours of the rounds with participants: a model of 8 bytes takes 0.5 s down and 1 s up."""
    return mask.any(axis=1).sum() * (1.5 + 2.0 * steps) / 3600


def test_totals_are_those_of_the_links(folder):
    page = cost(run_view.from_run(runs.read(folder)), **SPEEDS)
    both = masks(folder)
    active = np.mean([mask.sum() for mask in both])
    for label, steps, training in (
        ('fedavg', 2, active),
        ('pausing', 3, active),
        ('fedpbc', 2, 12 * 6),
    ):
        numbers = [
            np.mean([hours(mask, steps) for mask in both]),
            8 * active / 1e9,
            8 * active / 1e9,
            training * 2.0 * steps / 3600,
        ]
        row = rows_of(page.tables[0])[label]
        assert row == ['1 / 1', *(f'{value:.3g}' for value in numbers)]
    assert 'What 12 rounds cost, mean over 2 seeds:' in page.tables[0].caption


def test_patterns_may_have_problems_of_unequal_size(tmp_path):
    targets = np.array([[0.0], [1.0], [4.0], [9.0]])
    client = local_training.local_sgd(0.1, local_steps=2)
    experiment.Experiment(
        title='sizes',
        problem={n: problems.quadratic(targets[: int(n)]) for n in ('2', '4')},
        patterns={n: participation.always(int(n)) for n in ('2', '4')},
        algorithms={'fedavg': algorithms.fedavg(client)},
        num_rounds=4,
        eval_every=2,
    ).run(tmp_path)
    view = run_view.from_run(runs.read(tmp_path))
    page = cost(view, **SPEEDS, model_bytes=8.0, local_steps=2)
    column = page.tables[0].header.index('compute')
    assert [row[column] for row in page.tables[0].rows] == [
        f'{4 * size * 4.0 / 3600:.3g}' for size in (2, 4)
    ]


def first_round(curve, level):
    """The first round, of evaluations every three rounds, in which a curve is at most a level."""
    return 3 * next(index for index, value in enumerate(curve) if value <= level)


def test_a_target_costs_what_the_rounds_until_then_cost(folder):
    result = run_view.from_run(runs.read(folder))
    distances = result.curve('distance', FinalKey('links', 'fedavg', 'server'))
    level = float(distances.mean(axis=0)[3])
    page = cost(result, **SPEEDS, targets=[level, -1.0], metric='distance')
    end = first_round(distances.mean(axis=0), level)
    assert end > 0
    hours_by_seed = [
        hours(mask[: first_round(curve, level)], 2)
        for mask, curve in zip(masks(folder), distances, strict=True)
    ]
    mean = np.mean([hours(mask[:end], 2) for mask in masks(folder)])
    row = rows_of(page.tables[0])['fedavg'][5:]
    assert (
        row[0] == f'{mean:.3g} ({min(hours_by_seed):.3g} to {max(hours_by_seed):.3g})'
    )
    gigabytes = np.mean([16 * mask[:end].sum() / 1e9 for mask in masks(folder)])
    assert row[1].startswith(f'{gigabytes:.3g} (')
    assert row[2:] == ['never (never)'] * 2


@pytest.mark.parametrize('against', ['hours', 'gigabytes'])
def test_curves_are_drawn_against_cost(folder, against, lay_out_page):
    view = run_view.from_run(runs.read(folder))
    (axes,) = lay_out_page(cost(view, **SPEEDS, against=against)).axes
    expected = []
    for t in range(0, 13, 3):
        if against == 'hours':
            by_seed = [hours(mask[:t], 2) for mask in masks(folder)]
        else:
            by_seed = [16 * mask[:t].sum() / 1e9 for mask in masks(folder)]
        expected.append(np.mean(by_seed))
    assert axes.get_xlabel().startswith(against)
    np.testing.assert_allclose(axes.lines[0].get_xdata(), expected)
    values = view.curve(view.metric().name, FinalKey('links', 'fedavg', 'server'))
    np.testing.assert_allclose(axes.lines[0].get_ydata(), values.mean(axis=0))


@pytest.mark.usefixtures('unrendered')
def test_the_caption_counts_the_seeds_with_links(tmp_path):
    changes = {'reports': {'hours': COST}, 'algorithms': {'fedavg': {}}}
    planned = experiment.build({**CONFIG, **changes, 'num_rounds': 6})
    report.check(planned)
    planned.run(tmp_path)
    text = report.write(runs.read(tmp_path))
    assert 'mean over 1 of 2 seeds' in text
    assert (tmp_path / 'hours.png').exists()
    assert 'Cost in hours' in (tmp_path / 'report.md').read_text()


@pytest.mark.slow
def test_a_series_costs_what_it_does_over_its_own_seeds(tmp_path):
    """Seeds are added until decided: a pair stops where others continue; links have all seeds."""
    changes = {
        'problem': {'name': 'digits', 'num_clients': 6, 'alpha': 0.5, 'seed': 0},
        'client': {'learning_rate': 0.1, 'local_steps': 2, 'batch_size': 4},
        'algorithms': {
            'fedavg': {},
            'far': {'name': 'fedavg', 'client': {'learning_rate': 0.5}},
            'close': {'name': 'fedavg', 'client': {'learning_rate': 0.11}},
        },
        'seeds': {'until': 'decided', 'least': 3, 'most': 12, 'margin': 0.0},
        'log': ('links',),
        'metric': 'eval_accuracy',
    }
    config = {**CONFIG, **changes}
    del config['num_seeds']
    experiment.build(config).run(tmp_path)
    view = run_view.from_run(runs.read(tmp_path))
    links = runs.links(tmp_path).masks['links']
    page = cost(view, **SPEEDS, model_bytes=8, targets=[0.0])
    num_seeds = {}
    for label, row in rows_of(page.tables[0]).items():
        seeds = view.seeds_of(FinalKey('links', label, 'server'))
        num_seeds[label] = len(seeds)
        assert row[1] == f'{np.mean([hours(links[seed], 2) for seed in seeds]):.3g}'
        assert row[5] == '0 (0)'
    assert 3 <= num_seeds['far'] < num_seeds['close'] <= len(links)
    least = min(num_seeds.values())
    most = max(num_seeds.values())
    assert f'mean over {least} to {most} seeds:' in page.tables[0].caption


def test_costs_leave_the_run_as_it_was(folder):
    before = {
        path.name: path.read_bytes() for path in folder.glob('*.*') if path.is_file()
    }
    cost(run_view.from_run(runs.read(folder)), **SPEEDS)
    assert before == {p.name: p.read_bytes() for p in folder.glob('*.*') if p.is_file()}


@pytest.mark.slow
@pytest.mark.usefixtures('unrendered')
def test_the_command_takes_options_and_their_file(folder, tmp_path):
    options = json.dumps({**SPEEDS, 'against': 'gigabytes'})
    path = tmp_path / 'cost.json'
    path.write_text(options)
    one = command('report', f'--workdir={folder}', f'--cost={options}')
    other = command('report', f'--workdir={folder}', f'--cost={path}')
    assert one.returncode == 0, one.stderr
    assert one.stdout == other.stdout
    assert 'models up / down' in one.stdout
    assert (folder / 'cost.png').exists()
    for inputs, message in (
        ('{"step": 1', '`cost` must be JSON, got {"step": 1: '),
        ('{"step": 1}', '`config.reports.cost.uplink` must be given, got None.'),
        (str(tmp_path / 'none'), 'No such file'),
        ('{"stp": 1}', "`config.reports.cost` has no 'stp'; did you mean 'step'?"),
    ):
        done = command('report', f'--workdir={folder}', f'--cost={inputs}')
        assert (done.returncode, done.stderr.count('\n')) == (2, 1)
        assert message in done.stderr


@pytest.mark.parametrize(
    'options, message',
    [
        ({'against': 'hour'}, "`against` has no 'hour'; did you mean 'hours'?"),
        ({'uplink': {'name': 'lognormel', 'median': 1.0}}, "did you mean 'lognormal'?"),
        ({'uplink': {'name': 'lognormal', 'medan': 1.0}}, "`uplink` has no 'medan'"),
        ({'overhead': -1.0}, '`overhead` must lie in'),
        ({'model_bytes': 0}, '`model_bytes` must be positive, got 0.'),
        (
            {'targets': (0.12341, 0.12342), 'metric': 'distance'},
            '`targets` must differ where the table rounds them, got (0.12341, 0.12342).',
        ),
        (
            {'traffic': {'fedavg': {'up': -1}}},
            '`traffic.fedavg.up` must be at least 0, got -1.',
        ),
        (
            {'traffic': {'fedavg': {'peers': -1}}},
            '`traffic.fedavg.peers` must be at least 0, got -1.',
        ),
        ({'traffic': {'fedavg': {'upp': 1}}}, "`traffic.fedavg` has no 'upp'"),
        ({'traffic': {'fedavg': 3}}, '`traffic.fedavg` must have `up`, `down` and'),
        (
            {'traffic': {'fedavgg': {'up': 1}}},
            "`traffic` has no 'fedavgg'; did you mean 'fedavg'?",
        ),
    ],
)
def test_a_mistake_is_named(folder, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        cost(run_view.from_run(runs.read(folder)), **{**SPEEDS, **options})


def test_the_option_traffic_replaces_that_of_the_registry(folder):
    page = cost(
        run_view.from_run(runs.read(folder)),
        **SPEEDS,
        traffic={'pausing': {'up': 3, 'down': 0}},
        model_bytes=100,
        local_steps=1,
    )
    active = np.mean([mask.sum() for mask in masks(folder)])
    row = rows_of(page.tables[0])['pausing']
    assert row[0] == '3 / 0'
    assert row[2:4] == [f'{300 * active / 1e9:.3g}', '0']


def test_what_has_no_cost_is_refused(tmp_path):
    in_memory = made({'fedavg': np.zeros((1, 1, 2))})
    with pytest.raises(
        ValueError, match='`folder` must be given for the cost of a run'
    ):
        cost(in_memory, **SPEEDS)
    algorithms = {'mine': {'name': 'fedjax_links.algorithms.fedavg:fedavg_all'}}
    experiment.build(
        {**CONFIG, 'algorithms': algorithms, 'num_rounds': 3, 'num_seeds': 1}
    ).run(tmp_path)
    result = run_view.from_run(runs.read(tmp_path), allow_imports=True)
    with pytest.raises(
        ValueError, match=r'`traffic` must say what mine sends, got \[\].'
    ):
        cost(result, **SPEEDS)
    assert (
        rows_of(cost(result, **SPEEDS, traffic={'mine': {}}).tables[0])['mine'][0]
        == '1 / 1'
    )
    swept = {**CONFIG, 'grid': {'links': {'probs': {'value': [0.2, 0.6]}}}}
    with pytest.raises(
        ValueError, match=r'`config\.reports\.cost\.grid` must not change links'
    ):
        report.check(experiment.build({**swept, 'reports': {'cost': COST}}))


def test_a_grid_of_python_that_may_change_links_has_no_cost(tmp_path):
    client = local_training.local_sgd(0.1, local_steps=2)

    def with_rate(rate=0.5):
        return algorithms.fedavg(client, server_lr=rate)

    def pattern(prob=0.5):
        return participation.bernoulli(np.full(3, prob))

    def run(name, grid):
        planned = experiment.Experiment(
            title=name,
            problem=problems.quadratic(np.eye(3)),
            patterns={'some': pattern},
            algorithms={'fedavg': with_rate},
            num_rounds=4,
            eval_every=4,
            seeds=(0,),
            grid=grid,
        )
        return run_view.from_run(planned.run(tmp_path / name), planned)

    fixed = {**SPEEDS, 'local_steps': 2, 'model_bytes': 4}
    same_links = run('rates', {'rate': [0.5, 1.0]})
    first, second = rows_of(cost(same_links, **fixed).tables[0]).values()
    assert first == second
    assert link_maps(same_links).tables[0].caption.startswith('First seed, all rounds')
    other_links = run('probs', {'prob': [0.2, 0.9]})
    assert 'First seed, first point' in link_maps(other_links).tables[0].caption
    from_folder = dataclasses.replace(same_links, experiment=None)
    for view, column in ((other_links, 'prob'), (from_folder, 'rate')):
        with pytest.raises(ValueError, match=f'must not change links.*{column}'):
            cost(view, **fixed)
