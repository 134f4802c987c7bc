"""Numbers under "Conclusions" of docs/papers.md, computed again from the archives."""

import re

import pytest

from studies import claim as claim_of
from studies.claim import Side
from tests import ROOT

CONCLUSIONS = (ROOT / 'docs' / 'papers.md').read_text().split('\n## Conclusions\n')[1]
TEXT = ' '.join(CONCLUSIONS.split())


def row(start):
    """The cells but the first of the row that starts so."""
    line = next(line for line in CONCLUSIONS.splitlines() if line.startswith(start))
    return [cell.strip() for cell in line.strip('|').split('|')][1:]


def course(run, algorithm, pattern, metric):
    return claim_of.course(run, Side(algorithm, pattern), metric)


def final(run, algorithm, pattern, metric='eval_accuracy'):
    """The mean over seeds of the last tenth of the evaluations."""
    return claim_of.final(*course(run, algorithm, pattern, metric)).mean()


def test_losses_of_robust_regression():
    run = 'sun2025_figure2'
    shown = [float(cell) for cell in row('| loss of Debiasing FedAvg')]
    for separation, loss in zip((0, 5, 10, 15, 19), shown, strict=True):
        measured = final(run, 'debiased_fedavg', f'R{separation:02}', 'loss')
        assert measured == pytest.approx(loss, abs=0.6e-5)
    for separation in (0, 15, 19):
        measured = final(run, 'fedavg', f'R{separation:02}', 'loss')
        assert f'{measured:.4f} ±' in TEXT


@pytest.mark.parametrize(
    ('algorithm', 'start'),
    [('debiased_fedavg', '| Debiasing FedAvg |'), ('fedavg', '| FedAvg |')],
)
def test_rounds_to_a_loss_by_separation(algorithm, start):
    run = 'sun2025_figure3_gaussians'
    for separation, cell in zip((0, 5, 10), row(start), strict=True):
        rounds, losses = course(run, algorithm, f'R{separation:02}', 'train_loss')
        assert rounds[losses.mean(axis=0) <= 1.15][0] == int(cell)


@pytest.mark.parametrize(
    ('start', 'patterns'),
    [
        ('| 1e-5, as printed', ['rate4']),
        ('| 1e-3, 1e-2', ['rate2', 'rate1']),
        ('| 0.1, where', ['rate0']),
    ],
)
def test_leads_of_amplification_by_local_rate(start, patterns):
    run = 'wang2022_figure_d2_gaussians'
    (cell,) = row(start)
    leads = [
        100 * (final(run, 'amplified', pattern) - final(run, 'plain', pattern))
        for pattern in patterns
    ]
    sign = -1 if 'behind' in cell else 1
    shown = re.match(r'([\d.]+)(?: to (\d+))?', cell).groups()
    expected = [number for number in shown if number]
    digits = len(expected[0].partition('.')[2])
    assert sorted(f'{sign * lead:.{digits}f}' for lead in leads) == sorted(expected)


def test_steps_of_factor_20_beside_smaller_factors():
    run = 'wang2022_figure_d3_gaussians'
    for metric, shown in [
        ('train_loss', '1.6 to 4.2'),
        ('eval_accuracy', '1.1 to 1.3'),
    ]:
        steps = {
            factor: claim_of.fluctuation(
                *course(run, f'eta{factor:02}', 'periodic', metric)
            ).mean()
            for factor in (5, 10, 15, 20)
        }
        ratios = [2 ** (steps[20] - steps[factor]) for factor in (15, 5)]
        assert f'{ratios[0]:.1f} to {ratios[1]:.1f}' == shown
        assert shown in TEXT


def test_accuracies_of_the_figures_of_wang_and_ji_are_close():
    labels = {
        'figure1': ('wait_minibatch', 'wait_full', 'plain', 'amplified'),
        'figure2': ('period20', 'period50', 'period70', 'period100', 'period150'),
        'figure_d3': ('eta02', 'eta05', 'eta10', 'eta15', 'eta20'),
    }
    accuracies = [
        final(f'wang2022_{item}_gaussians', algorithm, 'periodic')
        for item, algorithms in labels.items()
        for algorithm in algorithms
    ]
    widest = 100 * (max(accuracies) - min(accuracies))
    assert f'are within {widest:.2f} points of each other' in TEXT


@pytest.mark.parametrize('pattern', ['invariant', 'varying'])
def test_fedpbc_s_loss_beside_fedavg_s(pattern):
    run = 'xiang2023_figure3'
    fedavg = final(run, 'fedavg', pattern, 'train_loss')
    leads = []
    for model in ('server', 'client_mean'):
        side = Side('fedpbc', pattern, model)
        loss = claim_of.final(*claim_of.course(run, side, 'train_loss')).mean()
        leads.append(f'{100 * (1 - loss / fedavg):.0f} %')
    first = f"FedPBC's loss is {leads[0]} below FedAvg's with its server model"
    assert f'{first}, and {leads[1]} with its client mean' in TEXT
