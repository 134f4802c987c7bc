"""Exact limits that are printed before a run: their numbers, their words, their scope."""

import numpy as np
import pytest

from fedjax_links import analysis
from fedjax_links.analysis.link_chains import chains, layouts
from fedjax_links.preview import configured_links, exact_limits, exact_quadratics
from fedjax_links.preview.configured_chains import NotExactError, link_chain
from tests.report import plans

PAIR = {'name': 'quadratic', 'targets': ((0.0,), (100.0,))}
RUN = {'client': {'learning_rate': 0.02, 'local_steps': 5}}


def markov(up_rate):
    return {'name': 'markov', 'probs': (0.5, 0.3), 'up_rate': up_rate}


def described(links, algorithms, problem=PAIR, **config):
    plan = plans.plan(links, problem, algorithms=algorithms, **{**RUN, **config})
    return exact_limits.describe(plan)


def line_of(lines, name):
    (line,) = [line for line in lines if line.startswith(f'  {name}: ')]
    return line.removeprefix(f'  {name}: ')


def test_pair_has_the_numbers_of_its_table():
    """Of 2,000 simulated seeds, FedAvg ended at 37.29 +- .62, known p at 47.97 +- .67."""
    algorithms = {'fedavg': {}, 'fedavg_known': {}, 'fedpbc': {}, 'scaffold': {}}
    lines = described(markov(0.05), algorithms)
    assert lines[0].startswith('Exact limits [without memory]: E x - x*, ')
    fedavg = line_of(lines, 'fedavg')
    assert fedavg.startswith('bias -12.83 [-15.38], spread 27.8 [9.23], settles in')
    known = line_of(lines, 'fedavg_known')
    assert known.startswith('bias -2.48 [0], spread 30.3 [10.5], settles in')
    assert line_of(lines, 'fedpbc server').startswith('bias -6.679 [-6.38]')
    mean = line_of(lines, 'fedpbc client mean')
    assert mean.startswith('bias 0 [0], spread 0 [0], settles')
    assert line_of(lines, 'scaffold').startswith('bias 0 [0], spread 0 [0]')
    assert max(map(len, lines)) <= 80


def test_an_unbounded_variance_has_words():
    line = line_of(described(markov(0.01), {'mifa': {}}), 'mifa')
    assert line == 'bias 0 [0], its variance grows without bound, 1.0013-fold a round'


def test_time_constant_is_that_of_the_mean():
    """One client that is always up: the mean contracts by (1 - eta)^s in a round."""
    problem = {'name': 'quadratic', 'targets': ((1.0,), (1.0,))}
    lines = described({'name': 'always'}, {'fedavg': {}}, problem)
    rounds = -1 / np.log(0.98**5)
    assert line_of(lines, 'fedavg') == (
        f'bias 0, spread 0, settles in {rounds:.3g} rounds'
    )


def test_fedau_has_its_law_of_first_order():
    chain = analysis.link_chains.markov([0.5, 0.3], up_rate=0.05)
    law = analysis.first_order_mean('fedau', chain, [0.0, 100.0], 0.02, 5, cutoff=7)
    lines = described(markov(0.05), {'fedau': {'cutoff': 7}})
    bias = float(law.mean[0]) - 50
    assert line_of(lines, 'fedau').startswith(f'bias {bias:.4g} [')
    assert line_of(lines, 'fedau').endswith('to first order in the step')


def test_means_without_memory_are_exact_at_any_step():
    """For more clients than can be listed, FedAvg and known probabilities."""
    probs = np.linspace(0.1, 0.9, 40)
    problem = {'name': 'counterexample', 'num_clients': 40, 'dimension': 3}
    links = {'name': 'bernoulli', 'probs': probs.tolist()}
    lines = described(links, {'fedavg': {}, 'fedavg_known': {}}, problem)
    targets = np.asarray(plans.plan(links, problem).problem.data, float)
    fixed_point = analysis.fedavg_fixed_point(probs, targets)
    bias = np.linalg.norm(fixed_point - targets.mean(axis=0))
    assert line_of(lines, 'fedavg') == f'bias {bias:.4g}, exact at any step'
    assert line_of(lines, 'fedavg_known') == 'bias 0, exact at any step'


def test_many_clients_have_the_law_of_first_order():
    probs = np.linspace(0.1, 0.9, 40)
    problem = {'name': 'counterexample', 'num_clients': 40, 'dimension': 3}
    links = {'name': 'markov', 'probs': probs.tolist(), 'up_rate': 0.05}
    algorithms = {'fedavg_known': {}, 'fedavg': {}, 'mifa': {}}
    lines = described(links, algorithms, problem)
    targets = np.asarray(plans.plan(links, problem).problem.data, float)
    chain = analysis.link_chains.markov(probs, up_rate=0.05)
    for name in ('fedavg_known', 'fedavg'):
        law = analysis.first_order_mean(name, chain, targets, 0.02, 5)
        bias = np.linalg.norm(law.mean - targets.mean(axis=0))
        assert line_of(lines, name).startswith(f'bias {bias:.4g} [')
    assert lines[-1].startswith('  no exact limit of mifa: it takes long')


def test_a_link_that_alternates_takes_long():
    """It is up in every other round, so FedAvg's law sums over all lags."""
    probs = [0.5, *np.linspace(0.51, 0.6, 29)]
    problem = {'name': 'counterexample', 'num_clients': 30, 'dimension': 1}
    links = {'name': 'markov', 'probs': probs, 'up_rate': 1.0}
    lines = described(links, {'fedavg': {}}, problem)
    assert lines[-1].startswith('  no exact limit of fedavg: it takes long')


@pytest.mark.parametrize(
    'algorithms, config, reason',
    [
        ({'fedbuff': {'buffer_size': 2}}, {}, 'fedbuff: not linear in its models'),
        ({'fedavg': {'server_lr': 2.0}}, {}, 'does not cover server_lr 2.0'),
        ({'fedpbc': {'compute': 'active'}}, {}, 'does not cover compute active'),
        (
            {'fedau': {}},
            {'links': {'name': 'markov', 'probs': (0.0, 0.5), 'up_rate': 0.3}},
            'of fedau: chain must let each client come up',
        ),
        (
            {'fedavg': {'client': {'decay': 'inverse_sqrt'}}},
            {},
            'the rate decays (inverse_sqrt)',
        ),
        (
            {'fedavg': {}, 'mifa': {}},
            {
                'tuning': {'learning_rates': (0.1, 0.2), 'num_seeds': 1},
                'client': {'local_steps': 5},
            },
            'limit of fedavg, mifa: learning rates are tuned',
        ),
    ],
)
def test_a_refusal_is_one_line(algorithms, config, reason):
    config = {'links': markov(0.05), **config}
    text = '\n'.join(described(algorithms=algorithms, **config))
    last_line = text.replace('\n    ', ' ').splitlines()[-1]
    assert reason in last_line
    assert text.count(reason) == 1


def test_links_without_a_chain_are_named():
    links = {'name': 'outage', 'pattern': markov(0.1), 'start': 2, 'stop': 5}
    assert described(links, {'fedavg': {}}) == [
        'no exact limits: no link chain of outage is known'
    ]


def test_other_problems_have_no_lines():
    sizes = {'num_clients': 2, 'alpha': 1.0, 'examples_per_client': 4, 'seed': 0}
    assert described(markov(0.1), {'fedavg': {}}, {'name': 'gaussians', **sizes}) == []


def test_data_that_seeds_redraw_are_named():
    problem = {'name': 'counterexample', 'num_clients': 2, 'dimension': 1}
    headings = []
    for mode in ('by_seed', 'fixed'):
        config = {'redraw': {'data': mode}, 'first_seed': 7}
        headings.append(described(markov(0.1), {'fedavg': {}}, problem, **config)[:2])
    by_seed, fixed = (' '.join(' '.join(lines).split()) for lines in headings)
    assert 'time constant, data of seed 7' in by_seed
    assert 'data of seed' not in fixed


def test_what_takes_seconds_is_left_to_theory():
    """Before a run only little is computed; the command `theory` has the rest."""
    problem = {'name': 'counterexample', 'num_clients': 12, 'dimension': 2}
    algorithms = {'fedavg': {}, 'scaffold': {}}
    config = {
        'problem': problem,
        'links': plans.KNOWN['markov'],
        'algorithms': algorithms,
    }
    lines = plans.summary_lines(config)
    assert 'no exact limit of scaffold: it takes' in lines[-1]


@pytest.mark.parametrize('curvature', [None, [0.5] * 4 + [1.5] * 4])
def test_theory_is_named_where_the_first_order_law_fails(curvature):
    """Slow links have too many lags for the law, and it needs equal curvatures."""
    probs = np.linspace(0.1, 0.55, 8).tolist()
    links = {'name': 'markov', 'probs': probs, 'up_rate': 0.005}
    problem = {'name': 'quadratic', 'targets': [[float(i)] for i in range(8)]}
    if curvature:
        problem['curvature'] = curvature
    plan = plans.plan(links, problem, algorithms={'fedavg': {}}, **RUN)
    quick_lines = ' '.join(exact_limits.describe(plan, max_work=1000.0))
    assert 'the command `theory` computes it' in ' '.join(quick_lines.split())
    assert line_of(exact_limits.describe(plan), 'fedavg').startswith('bias ')


WITHOUT_CHAIN = {
    'quorum',
    'regularized',
    'separation_zero_weight',
    'unavailable',
    'both',
    'either',
    'duplex',
    'released_markov',
    'outage',
    'either_duplex',
    'duplex_markov',
}


@pytest.mark.parametrize('name', sorted(WITHOUT_CHAIN))
def test_a_pattern_without_chain_is_refused(name):
    plan = plans.named_plan(name)
    with pytest.raises(NotExactError, match=r'no link chain|must be positive'):
        link_chain(configured_links.bound_links(plan.experiment, plan.label))


@pytest.mark.parametrize('name', sorted(plans.ALL.keys() - WITHOUT_CHAIN))
def test_chain_of_a_pattern_has_its_rates(name):
    """The law of participation, or frequencies in a record, are independent of the chain."""
    plan = plans.named_plan(name)
    chain = link_chain(configured_links.bound_links(plan.experiment, plan.label))
    rates = []
    for client in range(chain.num_clients):
        modes = chains.joint_modes(chain, np.array([client]))
        rates.append(modes.stationary @ modes.masks[:, 0])
    if plan.law.rates is not None:
        np.testing.assert_allclose(rates, plan.law.rates, rtol=1e-6)
    else:
        active = np.asarray(plans.named_record(name, 4000).mask).mean(axis=0)
        np.testing.assert_allclose(rates, active, atol=0.08)


def full_run(run, targets):
    """The same run in all coordinates of the models."""
    dimension = targets.shape[1]
    return run._replace(
        targets=targets, basis=np.eye(dimension), copies=np.ones(dimension)
    )


@pytest.mark.parametrize('noise', [0.0, 0.7])
@pytest.mark.parametrize('algorithm', ['fedavg_known', 'mifa', 'fedpbc'])
def test_few_coordinates_have_the_variance_of_all(algorithm, noise):
    """Four clients in two groups, in five coordinates, from a start that is not zero."""
    rng = np.random.default_rng(3)
    targets = rng.normal(size=(4, 5))
    problem = {
        'name': 'quadratic',
        'targets': targets.tolist(),
        'noise': noise,
        'initial_point': (1.0, -2.0, 0.0, 3.0, 0.5),
    }
    links = {'name': 'markov', 'probs': (0.3, 0.3, 0.6, 0.6), 'up_rate': 0.2}
    plan = plans.plan(links, problem, algorithms={algorithm: {}}, **RUN)
    run = exact_quadratics.quadratic_run(plan)
    assert run.targets.shape[1] < 5
    linear = exact_quadratics.linear_algorithm(plan, algorithm)
    expected = full_run(run, np.asarray(plan.problem.data, float) - run.start)
    few = exact_quadratics.limits(run, linear)
    for model, end in exact_quadratics.limits(expected, linear).items():
        np.testing.assert_allclose(few[model].bias, end.bias, atol=1e-7)
        np.testing.assert_allclose(few[model].deviation, end.deviation, atol=1e-6)
    rounds = np.array([0, 1, 2, 7])
    curves = exact_quadratics.curves(expected, linear, rounds)
    for model, metrics in exact_quadratics.curves(run, linear, rounds).items():
        for metric, values in metrics.items():
            np.testing.assert_allclose(values, curves[model][metric], atol=1e-6)


def test_work_is_that_of_the_smaller_layout():
    chain = analysis.link_chains.markov(np.repeat([0.2, 0.7], 10), up_rate=0.1)
    groups = layouts.exchangeable_groups(chain, np.ones(20))
    work = layouts.num_moments(chain, groups, has_rows=False, has_offsets=False)
    assert work == 11 * 11 * 2**2
