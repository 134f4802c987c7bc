"""Quick sizes of the shipped comparisons: numbers against theory, images at a tiny size."""

import re

import jax
import numpy as np
import pytest
from scipy import optimize

from fedjax_links import analysis, experiment, report, simulation
from fedjax_links.config import algorithm_sections, link_sections, nested, resolver
from fedjax_links.papers.sun2025 import presets as sun2025
from fedjax_links.report import layouts, run_view
from tests.configs import shipped
from tests.problems.generators import draw_robust_regression
from tests.tiers import cases


def values(name, argument=None, **changes):
    (path,) = (path for path in shipped.PATHS if path.stem == name)
    return nested.quick(
        {**shipped.values(path, argument, 'quick'), nested.QUICK: changes}
    )


def run(config):
    """Runs every algorithm."""
    return run_view.from_run(experiment.build(config).run())


def run_and_report(config, folder):
    """Runs every algorithm and writes the report."""
    run = experiment.build(config).run(folder)
    report.write(run)
    return run_view.from_run(run)


def finals(view, label):
    """An algorithm's final metric, the mean over seeds, by pattern."""
    final = view.final_metrics(None)
    model = view.main_models[label]
    return {
        pattern: final.choices[pattern, label, model].mean for pattern in view.patterns
    }


@pytest.mark.slow
@pytest.mark.optimised
@pytest.mark.statistical
def test_fedpbc_is_ahead_on_synthetic_data_and_ends_where_it_did():
    """What the paper reports of Figure 3, without numbers."""
    tuned = {
        'client': {'learning_rate': 0.01},
        'tuning': None,
        'reports': {'rates': None},
    }
    result = run(values('xiang2023_figure3', **tuned, num_rounds=120, num_seeds=2))
    fedavg = finals(result, 'fedavg')
    fedpbc = finals(result, 'fedpbc')
    ahead = {pattern: fedavg[pattern] - fedpbc[pattern] for pattern in fedavg}
    assert min(ahead.values()) > 0.05
    # Jitter that leaves the mean of every link alone moves FedPBC far less than it is ahead.
    assert abs(fedpbc['invariant'] - fedpbc['varying']) < 0.2 * min(ahead.values())


@pytest.mark.slow
@pytest.mark.optimised
@pytest.mark.statistical
def test_waiting_biases_fedavg_less_and_debiasing_is_uniform():
    config = values(
        'sun2025_figure2', num_rounds=1_200, num_seeds=2, patterns={'R19': None}
    )
    config['names'] = tuple(pair for pair in config['names'] if pair[0] != 'R19')
    result = run(config)
    fedavg = finals(result, 'fedavg')
    debiased = finals(result, 'debiased_fedavg')
    separations = [f'R{r:02d}' for r in (0, 5, 10, 15)]
    losses = [fedavg[label] for label in separations]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] - losses[1] > 0.002
    assert losses[1] - losses[3] > 2e-4
    # From uniform sampling all are within a tenth of FedAvg's largest bias.
    biases = [abs(debiased[label] - fedavg['uniform']) for label in separations]
    assert max(biases) < 0.1 * (losses[0] - fedavg['uniform'])


@pytest.mark.slow
@pytest.mark.optimised
@pytest.mark.statistical
@pytest.mark.parametrize(
    'separation, rate, num_rounds', [(0, 0.05, 8_000), (5, 0.1, 8_000)]
)
def test_fedavg_ends_at_the_optimum_of_the_stationary_weights(
    separation, rate, num_rounds
):
    """With small steps FedAvg minimises ``sum_i pi_R(i) f_i``, found here by another solver."""
    weights = np.arange(1.0, sun2025.NUM_GROUPS + 1) ** -1.5
    by_group = analysis.minimum_separation_stationary(weights, separation)
    samples = draw_robust_regression(
        num_clients=sun2025.NUM_CLIENTS, dimension=20, examples_per_client=100, seed=0
    )

    def optimum(group_shares):
        weight = np.repeat(group_shares / group_shares.sum(), 500) / 500
        rows = samples.features.reshape(-1, 20)
        offsets = samples.labels.ravel()

        def value_and_gradient(x):
            residual = rows @ x + offsets
            slope = weight * residual / (1 + residual**2 / 2)
            return np.sum(weight * np.log1p(residual**2 / 2)), rows.T @ slope

        start = -samples.references.mean(axis=0)
        return optimize.minimize(value_and_gradient, start, jac=True, method='BFGS').x

    exact = np.linalg.norm(optimum(by_group) - optimum(np.ones(sun2025.NUM_GROUPS)))
    problem = resolver.bind_problem({'name': 'robust_regression', 'seed': 0}).build()
    links = link_sections.bind_links(sun2025.separated(separation), problem).build()
    client = {'learning_rate': rate, 'local_steps': 5, 'batch_size': 0}
    algorithm = algorithm_sections.bind('fedavg', {}, client).build()

    def models(params, key, problem):
        return params

    def lane(key, problem):
        return simulation.simulate(
            key,
            algorithm,
            links,
            problem,
            num_rounds=num_rounds,
            eval_every=50,
            eval_fn=models,
        ).evals['server']

    num_seeds = 4
    keys = jax.vmap(jax.random.key)(np.arange(num_seeds, dtype=np.uint32))
    lanes = jax.jit(lambda keys, problem: jax.lax.map(lambda k: lane(k, problem), keys))
    paths = np.asarray(lanes(keys, problem), np.float64)
    settled = paths[:, num_rounds // 100 :]
    mean = settled.mean(axis=1) - np.asarray(problem.eval_data.optimum, np.float64)
    error = mean.std(axis=0, ddof=1) / np.sqrt(num_seeds)
    # A step of finite size moves the mean by O(rate): by less than a tenth at a rate of 0.05.
    bias = abs(np.linalg.norm(mean.mean(axis=0)) - exact)
    step_bias = rate / 0.05 * 0.1 * exact
    assert bias < step_bias + 4.5 * np.linalg.norm(error)
    assert np.linalg.norm(error) < 0.1 * exact


TINY = (
    ('sun2025_figure3', 'as_released'),
    ('sun2025_table1', None),
    ('wang2022_figure1', 'fashion_mnist'),
    ('wang2022_figure1', 'cifar10,as_released'),
    ('xiang2024_table1', 'cinic10'),
    ('xiang2024_table2', 'svhn'),
)
"""The kinds of settings; all but the one by default, which has the paper's network, are slow."""

ALSO_TINY = (
    ('sun2025_figure3', None),
    ('wang2022_figure2', 'cifar10'),
    ('wang2022_figure_d1', 'fashion_mnist'),
    ('wang2022_figure_d2', 'fashion_mnist'),
    ('wang2022_figure_d3', 'cifar10'),
    ('wang2022_table_d1', 'fashion_mnist'),
    ('xiang2024_figure9', 'alpha'),
    ('xiang2024_table1', 'first_commit'),
    ('xiang2024_table1_synthetic', None),
)

WITH_THEIR_NETWORK = (TINY[2],)
"""The other settings take a network that compiles in no time."""


@pytest.mark.usefixtures('unrendered')
@pytest.mark.parametrize(
    'name, argument',
    cases(TINY, WITH_THEIR_NETWORK)
    + cases(ALSO_TINY, (), 'test_image_experiments_run_at_a_tiny_size'),
)
def test_image_experiments_run_at_a_tiny_size(name, argument, tmp_path):
    """Of the algorithms, the baseline and variants of released code run."""
    config = values(name, argument)
    problem = config['problem']
    data = {
        'num_train': 20 * problem['num_clients'],
        'num_test': 20,
        'shape': (8, 8, problem['data']['shape'][2]),
    }
    smaller = {
        'problem': {'data': data},
        'num_rounds': 4,
        'eval_every': 2,
        'num_seeds': 1,
    }
    if (name, argument) not in WITH_THEIR_NETWORK:
        smaller['problem']['model'] = {'name': 'softmax'}
    if 'tuning' in config:
        smaller['tuning'] = {'num_rounds': 2, 'num_seeds': 1}
    smaller['algorithms'] = {
        label: None
        for label, section in config['algorithms'].items()
        if label != config['baseline']
        and '.released:' not in section.get('name', label)
    }
    for label, section in config['algorithms'].items():
        if label not in smaller['algorithms']:
            fields = [field for field in ('period', 'start_round') if field in section]
            smaller['algorithms'][label] = dict.fromkeys(fields, 2)
    removed = [
        label for label, changes in smaller['algorithms'].items() if changes is None
    ]
    smaller['names'] = tuple(pair for pair in config['names'] if pair[0] not in removed)
    result = run_and_report(nested.quick({**config, nested.QUICK: smaller}), tmp_path)
    text = (tmp_path / layouts.REPORT).read_text()
    parts = re.split(r'\{config\.[\w.]+\}', config['caption'])
    # Between the parts stand the values that ran: numbers, or words such as 'step'.
    assert re.search(r'[\w,. ]+'.join(map(re.escape, parts)), text)
    for pattern in config['patterns']:
        assert result.name(pattern) in text
    has_several = len(config['algorithms']) - len(removed) > 1
    layouts_with_pictures = (
        ('bars', 'curves', 'comparison') if has_several else ('bars', 'curves')
    )
    expected = {'links.png'}
    for label, section in config['reports'].items():
        if section['name'] in layouts_with_pictures:
            expected.add(f'{label}.png')
    assert {path.name for path in tmp_path.glob('*.png')} == expected
