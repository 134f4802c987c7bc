"""Exact curves of quadratics: in what is recorded, in pictures, and against a run."""

import numpy as np
import pytest

from fedjax_links import analysis, experiment, report, runs
from fedjax_links.preview import exact_limits
from fedjax_links.preview.configured_links import from_experiment
from fedjax_links.report import client_stats, exact_curves, run_view
from fedjax_links.report.layouts import progress
from tests.reference.statistics import BOUND

PAIR = {
    'title': 'Two clients',
    'problem': {'name': 'quadratic', 'targets': ((0.0,), (100.0,))},
    'links': {'name': 'markov', 'probs': (0.5, 0.3), 'up_rate': 0.05},
    'client': {'learning_rate': 0.02, 'local_steps': 5},
    'algorithms': {'fedavg': {}, 'fedavg_known': {}, 'fedpbc': {}},
    'num_rounds': 20,
    'eval_every': 5,
    'metric': 'distance',
}


def curve(algorithm, num_rounds):
    chain = analysis.link_chains.markov([0.5, 0.3], up_rate=0.05)
    return analysis.linear_curve(
        algorithm, chain, [0.0, 100.0], 0.02, 5, num_rounds=num_rounds
    )


def test_curves_are_those_of_the_analysis():
    plan = experiment.build(PAIR)
    curves = exact_curves.for_pattern(plan, 'links', plan.plan.facts())
    exact = curve('fedpbc', 20)
    rounds = [5, 10, 15, 20]
    for model in ('server', 'client_mean'):
        mean = exact.means[model][rounds, 0]
        variance = exact.covariances[model][rounds, 0, 0]
        distance, low, high = curves['fedpbc'][model]['distance']
        mean_square = (mean - 50) ** 2 + variance
        np.testing.assert_allclose(distance, np.sqrt(mean_square))
        deviation = np.sqrt(variance)
        ends = np.abs([mean - 2 * deviation - 50, mean + 2 * deviation - 50])
        np.testing.assert_allclose(high, ends.max(axis=0), atol=1e-6)
        # Where the band reaches beyond the optimum, its least distance is zero.
        has_optimum = np.abs(mean - 50) < 2 * deviation
        least = np.where(has_optimum, 0, ends.min(axis=0))
        np.testing.assert_allclose(low, least, atol=1e-6)
        loss = curves['fedpbc'][model]['loss'][0]
        np.testing.assert_allclose(loss, mean_square / 2 + 1250)


@pytest.mark.parametrize(
    'change',
    [
        {'grid': {'client': {'learning_rate': [0.01, 0.02]}}},
        {'links': {'name': 'outage', 'pattern': 'always', 'start': 2, 'stop': 3}},
        {
            'problem': {'name': 'counterexample', 'num_clients': 2, 'dimension': 1},
            'redraw': 'by_seed',
        },
    ],
)
def test_other_runs_have_none(change):
    plan = experiment.build({**PAIR, **change})
    assert exact_curves.for_pattern(plan, 'links', plan.plan.facts()) == {}


@pytest.mark.usefixtures('unrendered')
def test_a_report_draws_what_was_recorded(tmp_path):
    plan = experiment.build({**PAIR, 'algorithms': {'fedavg': {}}, 'num_seeds': 2})
    report.write(plan.run(tmp_path), plan)
    stored = client_stats.read(tmp_path)['links'].exact['fedavg']['server']
    exact = curve('fedavg', 20)
    loss = stored['loss'][0]
    mean_square = (exact.means['server'] - 50)[:, 0] ** 2
    mean_square += exact.covariances['server'][:, 0, 0]
    np.testing.assert_allclose(loss, mean_square[[5, 10, 15, 20]] / 2 + 1250)
    view = run_view.from_run(runs.read(tmp_path))
    for page in (progress.overview(view), progress.curves(view, metrics=('loss',))):
        assert 'Black dashes, exact before the run' in page.caption


def coordinate():
    """Makes an evaluation: the model's coordinate and the problem's metrics."""

    def evaluate(params, key, problem):
        return {'coordinate': params[0], **problem.metrics(params, problem.eval_data)}

    return evaluate


@pytest.mark.slow
def test_a_run_ends_at_the_printed_bias():
    """A thousand seeds of a config, against the lines that it prints before the run."""
    config = {
        **PAIR,
        'eval_fn': 'tests.report.test_exact_curves:coordinate',
        'metric': 'loss',
        'algorithms': {'fedavg': {}, 'fedavg_known': {}},
        'num_rounds': 160,
        'eval_every': 80,
        'num_seeds': 1000,
    }
    plan = experiment.build(config)
    lines = exact_limits.describe(from_experiment(plan))
    run = plan.run()
    last = run.columns['round'] == 160
    for name in config['algorithms']:
        (line,) = [line for line in lines if line.startswith(f'  {name}: ')]
        printed = float(line.split('bias ')[1].split(' ')[0])
        ends = run.columns['server/coordinate'][
            last & (run.columns['algorithm'] == name)
        ]
        assert len(ends) == 1000
        error = ends.std(ddof=1) / np.sqrt(1000)
        assert abs(ends.mean() - 50 - printed) < 3 * error
    curves = exact_curves.for_pattern(plan, 'links', plan.plan.facts())
    for name in config['algorithms']:
        for index, at in enumerate((80, 160)):
            rows = run.columns['round'] == at
            rows &= run.columns['algorithm'] == name
            losses = run.columns['server/loss'][rows].astype(float)
            error = losses.std(ddof=1) / np.sqrt(1000)
            exact = curves[name]['server']['loss'][0, index]
            assert abs(losses.mean() - exact) < BOUND * error
