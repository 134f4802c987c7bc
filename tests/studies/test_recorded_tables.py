"""A cell of every recorded table, from lanes that run again."""

import importlib
import json
import re

import numpy as np
import pytest
from scipy import stats

from configs.figures import predicted_map
from fedjax_links import experiment, runs
from fedjax_links.report import run_view
from studies import by_pattern, predicted_points
from tests import ROOT
from tests.datasets import real_images

pytestmark = [pytest.mark.slow, pytest.mark.optimised]

UNIT = 0.1  # of what is printed; another processor may round differently
RATES = {  # of FedAvg and FOCUS in studies/exactness.md
    'bernoulli': ('0.00008', '0.05'),
    'groups': ('0.0002', '0.005'),
}
SHOWN = 'Bernoulli time-invariant'  # of the pattern bernoulli


def another(test, *values):
    """A case that releases alone run: a record made in the way of the test's first case."""
    return pytest.param(*values, marks=pytest.mark.release(test))


def config(name, argument=''):
    module = importlib.import_module(f'configs.{name}')
    result = module.get_config(*([argument] if argument else [])).to_dict()
    return {name: value for name, value in result.items() if name != 'quick'}


def rows(page):
    """The tables of a page: every row as a dictionary, by the titles above it."""
    titles = None
    for line in (ROOT / 'studies' / f'{page}.md').read_text().splitlines():
        cells = [cell.strip() for cell in line.strip('|').split('|')]
        if not line.startswith('|'):
            titles = None
        elif titles is None:
            titles = cells
        elif set(line) - set('|- '):
            yield dict(zip(titles, cells, strict=True))


def alone(settings, algorithm, pattern, chosen):
    """A comparison of one algorithm on one pattern, whose rates are known."""
    rates = [float(number) for number in re.findall(r'[\d.]+', chosen)]
    tuning = {
        **settings['tuning'],
        'learning_rates': rates[:1],
        'num_rounds': settings['eval_every'],
        'pattern': pattern,
        'num_seeds': 1,
        'grow': 0,
    }
    tuning.pop('model', None)
    if 'server_lrs' in tuning:
        tuning['server_lrs'] = rates[1:]
    dropped = ('baseline', 'names', 'reports', 'caption')
    selected = {name: value for name, value in settings.items() if name not in dropped}
    return {
        **selected,
        'algorithms': {algorithm: settings['algorithms'][algorithm]},
        'patterns': {pattern: settings['patterns'][pattern]},
        'tuning': tuning,
    }


def level(settings, metric='eval_accuracy'):
    """Mean over seeds of the last tenth of the evaluations, and its 95 % interval."""
    columns = experiment.build(settings).run().columns
    main = columns['stage'] == 'main'
    late = np.unique(columns['round'][main])
    late = late[-max(1, round(0.1 * len(late))) :]
    result = np.array(
        [
            columns[f'server/{metric}'][
                main & (columns['seed'] == seed) & np.isin(columns['round'], late)
            ].mean()
            for seed in np.unique(columns['seed'][main])
        ]
    )
    scale = stats.t.isf(0.025, len(result) - 1) / len(result) ** 0.5
    return np.array([result.mean(), scale * result.std(ddof=1)])


def numbers(cell):
    """The numbers of a cell, such as a mean and its interval."""
    return [float(number) for number in re.findall(r'[+-]?[\d.]+', cell)]


@pytest.mark.parametrize(
    'record, name, argument, column, algorithm',
    [
        ('comparison', 'comparison', '', 'bernoulli', 'fedavg'),
        another(
            'test_a_level_by_pattern',
            'papers/xiang2024_table1_gaussians',
            'xiang2024_table1_gaussians',
            '',
            SHOWN,
            'fedavg',
        ),
        another(
            'test_a_level_by_pattern',
            'table1_rules',
            'xiang2024_table1_gaussians',
            'rules',
            SHOWN,
            'fedavg_known',
        ),
        another(
            'test_a_level_by_pattern',
            'table1_noisy',
            'xiang2024_table1_digits',
            'noisy',
            SHOWN,
            'fedavg',
        ),
        another(
            'test_a_level_by_pattern',
            'fashion_mnist_rules',
            'fashion_mnist_rules',
            '',
            'bernoulli_sine',
            'fedavg',
        ),
        another(
            'test_a_level_by_pattern',
            'fashion_mnist_cnn',
            'fashion_mnist_rules',
            'cnn',
            'bernoulli_sine',
            'fedavg',
        ),
    ],
)
def test_a_level_by_pattern(
    record, name, argument, column, algorithm, tmp_path_factory
):
    """That of the baseline, whose row has levels, at the rate that the record has for it."""
    if name == 'fashion_mnist_rules':
        real_images.load_or_skip('fashion_mnist', tmp_path_factory)
    result = run_view.from_run(runs.read(ROOT / 'studies' / 'records' / record))
    titles, _, *lines = by_pattern.rows(record)
    (line,) = (
        line for line in lines if line.startswith(f'| {result.name(algorithm)} |')
    )
    recorded = line.split('|')[titles.split('|').index(f' {column} ')]
    columns = result.run.columns
    main = (columns['stage'] == 'main') & (columns['algorithm'] == algorithm)
    pattern = 'bernoulli' if column == SHOWN else column
    (rate,) = set(
        columns['client.learning_rate'][main & (columns['pattern'] == pattern)]
    )
    settings = alone(config(name, argument), algorithm, pattern, f'{rate:.9f}')
    np.testing.assert_allclose(100 * level(settings), numbers(recorded)[:2], atol=UNIT)


def test_a_cell_of_the_predicted_map():
    settings = config('predicted_map')['figure']
    sizes = {
        name: settings[name]
        for name in ('num_clients', 'examples_per_client', 'num_classes')
    }
    result = predicted_map.limits(
        bayes_accuracies=(0.6,),
        sigmas=(10.0,),
        alphas=(0.1,),
        seeds=range(settings['num_draws']),
        minimum=settings['minimum'],
        **sizes,
    )
    differences = 100 * (result.fedpbc - result.fedavg).ravel()
    scale = stats.t.isf(0.025, differences.size - 1) / differences.size**0.5
    (recorded,) = (
        row['10']
        for row in rows('map')
        if (row.get('alpha'), row.get('Bayes accuracy')) == ('0.1', '0.6')
        and 'sigma 0' in row
    )
    again = differences.mean(), scale * differences.std(ddof=1)
    np.testing.assert_allclose(again, numbers(recorded), atol=0.06)


@pytest.mark.release('test_the_simulated_cell')
def test_a_point_of_the_predictions():
    setting = predicted_points.SETTINGS[3]
    pattern = 'markov'
    values = predicted_points.config(setting)
    values['patterns'] = {pattern: values['patterns'][pattern]}
    shown = ', '.join(f'{value:g}' for value in setting[:3])
    (recorded,) = (
        row
        for row in rows('prediction')
        if (row.get('Bayes, alpha, sigma'), row.get('pattern')) == (shown, pattern)
    )
    fedavg, fedpbc = predicted_points.points(values, setting)
    for point, predicted, simulated in (
        (fedavg, 'FedAvg predicted', 'simulated'),
        (fedpbc, 'FedPBC predicted', 'client mean simulated'),
    ):
        assert abs(point.predicted - numbers(recorded[predicted])[0]) < 0.02
        again = point.simulated, point.error
        np.testing.assert_allclose(again, numbers(recorded[simulated])[:2], atol=UNIT)


@pytest.mark.parametrize(
    'links, title',
    [
        ('bernoulli', 'independent'),
        another('test_where_fedavg_and_focus_end', 'groups', 'groups'),
    ],
)
def test_where_fedavg_and_focus_end(links, title):
    table = [row for row in rows('exactness') if 'kept per client' in row]
    for algorithm, shown, rate in zip(
        ('fedavg', 'focus'), ('FedAvg', 'FOCUS'), RATES[links], strict=True
    ):
        (recorded,) = (row[title] for row in table if row['algorithm'] == shown)
        again = level(
            alone(config('exactness', links), algorithm, links, rate), 'distance'
        )
        if recorded == 'rounding':
            assert again[0] < 2e-7
        else:
            np.testing.assert_allclose(again, numbers(recorded), atol=5e-4)


def nested(values):
    """Values by dotted path as sections."""
    results = {}
    for path, value in values.items():
        *parents, name = path.split('.')
        section = results
        for parent in parents:
            section = section.setdefault(parent, {})
        section[name] = value
    return results


@pytest.mark.parametrize(
    'which, at',
    [
        ('space', {'links.probs.sigma': 10.0, 'problem.alpha': 0.1}),
        another(
            'test_a_point_of_a_simulated_map', 'rounds', {'problem.model.zero': True}
        ),
        another(
            'test_a_point_of_a_simulated_map',
            'correlation',
            {'links.correlation_time': 30.0},
        ),
    ],
)
def test_a_point_of_a_simulated_map(which, at):
    """The first seed, by the config that the record has, at the rate that it took."""
    algorithm = 'fedavg'
    folder = ROOT / 'studies' / 'records' / 'maps' / which
    saved = runs.read(folder).columns
    settings = json.loads((folder / 'config.json').read_text())
    settings.pop('sha256', None)
    at = {**at, 'problem.bayes_accuracy': 0.7 if which == 'space' else 0.6}
    rows = saved['algorithm'] == algorithm
    rows &= saved['stage'] == 'main'
    rows &= saved['seed'] == 0
    for name, value in at.items():
        rows &= saved[name] == value
    if which == 'rounds':
        rows &= saved['client.learning_rate'] == 0.03
    (rate,) = set(saved['client.learning_rate'][rows])
    for field in ('tuning', 'seeds', 'quick'):
        settings.pop(field, None)
    settings |= {
        'algorithms': {algorithm: {}},
        'names': (),
        'reports': {},
        'baseline': algorithm,
        'grid': nested({name: (value,) for name, value in at.items()}),
        'client': {**settings['client'], 'learning_rate': rate},
        'num_seeds': 1,
    }
    again = experiment.build(settings).run().columns
    np.testing.assert_array_equal(again['round'], saved['round'][rows])
    accuracy = 'server/eval_accuracy'
    np.testing.assert_allclose(again[accuracy], saved[accuracy][rows], atol=0.002)


def test_where_robust_regression_ends():
    page = ' '.join((ROOT / 'docs' / 'papers.md').read_text().split())
    expected = re.search(
        r'to (0\.\d+) ± (0\.\d+) at R = 15, and then no more', page
    ).groups()
    settings = config('sun2025_figure2')
    for field in ('baseline', 'names', 'reports'):
        del settings[field]
    settings['algorithms'] = {'fedavg': {}}
    settings['patterns'] = {'R15': settings['patterns']['R15']}
    again = level(settings, 'loss')
    np.testing.assert_allclose(again, [float(number) for number in expected], atol=5e-5)
