"""A cell of every recorded table is what its command gives: the lanes behind it run again."""

import importlib.util
import re

import numpy as np
import pytest
from scipy import stats

from fedjax_links import experiment
from tests.cli.command import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.optimised]

UNIT = 0.1  # of what is printed; another processor may round differently
SHOWN = 'Bernoulli time-invariant', 'FedAvg'  # of the pattern bernoulli and fedavg


def config(name, argument=''):
    spec = importlib.util.spec_from_file_location(name, ROOT / 'configs' / f'{name}.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.get_config(*([argument] if argument else [])).to_dict()


def rows(page):
    """The tables of a page: every row as a dictionary, by the titles above it."""
    titles = None
    for line in (ROOT / 'docs' / f'{page}.md').read_text().splitlines():
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
    }
    if 'server_lrs' in tuning:
        tuning['server_lrs'] = rates[1:]
    dropped = ('baseline', 'names', 'reports', 'caption', 'quick')
    kept = {name: value for name, value in settings.items() if name not in dropped}
    return {
        **kept,
        'algorithms': {algorithm: settings['algorithms'][algorithm]},
        'patterns': {pattern: settings['patterns'][pattern]},
        'tuning': tuning,
    }


def level(settings):
    """Mean over seeds of the last tenth of the evaluations, and its 95 % interval, in per cent."""
    columns = experiment.build(settings).run().columns
    main = columns['stage'] == 'main'
    late = np.unique(columns['round'][main])
    late = late[-max(1, round(0.1 * len(late))) :]
    found = np.array(
        [
            columns['server/eval_accuracy'][
                main & (columns['seed'] == seed) & np.isin(columns['round'], late)
            ].mean()
            for seed in np.unique(columns['seed'][main])
        ]
    )
    scale = stats.t.isf(0.025, len(found) - 1) / len(found) ** 0.5
    return 100 * found.mean(), 100 * scale * found.std(ddof=1)


def bare(cell):
    """A cell without the arrow of a rate at the edge of its grid."""
    return cell.removesuffix(' ↑')


@pytest.mark.parametrize(
    'page, name, argument, pattern, algorithm',
    [
        ('comparison', 'comparison', '', 'bernoulli', 'fedavg'),
        ('table1_gaussians', 'xiang2024_table1_gaussians', '', *SHOWN),
        ('table1_noisy', 'xiang2024_table1_digits', 'noisy', *SHOWN),
    ],
)
def test_the_level_of_fedavg_in_a_comparison(page, name, argument, pattern, algorithm):
    table = [row for row in rows(page) if bare(row.get('algorithm', '')) == algorithm]
    (recorded,) = (row['ours'] for row in table if row.get('pattern') == pattern)
    (chosen,) = (row['chosen'] for row in table if 'chosen' in row)
    settings = alone(config(name, argument), 'fedavg', 'bernoulli', chosen)
    wanted = [float(number) for number in recorded.split(' ± ')]
    np.testing.assert_allclose(level(settings), wanted, atol=UNIT)
