"""The screen of predictions: what it claims, and that it fits."""

import functools
import re

import jax
import numpy as np
import pytest

from fedjax_links import analysis, base, experiment, report, simulation
from fedjax_links.analysis.independent_links import batch_means
from fedjax_links.links import graphs
from fedjax_links.preview import theory
from fedjax_links.preview.configured_links import from_experiment
from fedjax_links.report import client_stats
from tests.experiment import parts
from tests.report import plans
from tests.tiers import cases

PROBS = {'name': 'equal', 'value': 0.2}


def screen(links, problem=None, num_rounds=640):
    plan = plans.plan(links, problem)
    return plan, theory.text(plan, plans.record(plan, num_rounds))


def screen_of_law(links, problem=None):
    """The screen with a record of fair coins: for lines that follow from the law alone."""
    plan = plans.plan(links, problem)
    return plan, theory.text(plan, plans.coins(plan.problem.num_clients))


@functools.cache
def known_screen(name):
    """The screen of links of a name in `plans`, written once."""
    return theory.text(plans.named_plan(name), plans.named_record(name, 640))


@pytest.mark.parametrize(
    'name',
    cases(plans.ALL, ['bernoulli', 'cyclic', 'duplex', 'markov', 'separation_listed']),
)
def test_the_text_fits_one_screen(name):
    text = known_screen(name)
    assert max(map(len, text.splitlines())) <= 80
    assert len(text.splitlines()) <= 35


NEVER_UP = {'name': 'bernoulli', 'probs': {'name': 'equal', 'value': 0.0}}


@pytest.mark.parametrize(
    'links',
    [
        NEVER_UP,
        {'name': 'duplex', 'uplink': {'name': 'always'}, 'downlink': NEVER_UP},
        {
            'name': 'packets',
            'pattern': {'name': 'always'},
            'loss': 1.0,
            'num_packets': 2,
        },
    ],
)
def test_links_that_never_deliver_have_a_screen(links):
    _, text = screen(links)
    assert 'Implicit weights: no client takes part in 640 rounds' in text
    assert re.search(r'realised +0 +0 +0', text)


def test_a_long_title_fits_the_screen():
    plan = plans.plan(plans.KNOWN['bernoulli'], title='long ' * 30)
    text = theory.text(plan, plans.named_record('bernoulli', 100))
    assert max(map(len, text.splitlines())) <= 80


def number(text, pattern):
    return float(re.search(pattern, text)[1])


def test_exact_predictions_are_those_of_the_analysis():
    plan = plans.named_plan('bernoulli')
    text = known_screen('bernoulli')
    targets = np.asarray(plan.problem.data, np.float64)
    fixed_point = analysis.fedavg_fixed_point(plan.law.probs, targets)
    bias = np.linalg.norm(fixed_point - targets.mean(axis=0))
    assert f'||E x - x*|| = {bias:.6g}, exact for every step size' in text
    weights = analysis.fedavg_weights(plan.law.probs)
    assert f'from uniform {np.abs(weights - 1 / 12).sum():.4g}, effective' in text
    assert (
        f'1 - lambda_2(E[W]) = {1 - analysis.mixing_rate(plan.law.probs):.4g}, exact'
        in text
    )


def test_empty_rounds_are_counted_where_steps_must_be_small():
    text = known_screen('markov')
    empty = np.prod([1 - prob for prob in plans.named_plan('markov').law.probs])
    assert ', exact for small steps\n' in text
    assert f'\n  larger steps: empty rounds change it, {empty:.2g} of all\n' in text


def test_steps_may_be_large_where_a_client_is_always_active():
    probs = [1.0, *[0.3] * 11]
    _, text = screen_of_law({'name': 'markov', 'probs': probs, 'up_rate': 0.2})
    assert ', exact for every step size\n' in text
    assert 'empty rounds change it' not in text


def test_only_quadratics_have_a_bias():
    assert "FedAvg's bias ||" in known_screen('bernoulli')
    medians = {'name': 'tests.experiment.parts:medians'}
    _, text = screen_of_law(plans.KNOWN['bernoulli'], medians)
    assert "FedAvg's bias" not in text


def test_estimates_say_so_and_how_noisy_they_are():
    equal = {'name': 'halves', 'first': 0.5, 'second': 0.5}
    links = {
        'name': 'markov',
        'probs': equal,
        'schedule': {'name': 'jitter', 'width': 0.1},
    }
    _, text = screen(links, num_rounds=6400)
    assert 'A nonempty], estimated, 6,400 rounds' in text
    distance = number(text, r'from uniform (\S+) \(noise alone')
    noise = number(text, r'from uniform \S+ \(noise alone: (\S+)\)')
    bias = number(text, r'x\*\|\| = (\S+), estimated')
    bias_noise = number(text, r'estimated \(noise alone: (\S+)\)')
    # All weights are equal: the distance is noise, and of the size that is printed.
    assert 0.5 < distance / noise < 2
    assert 0.2 < bias / bias_noise < 3


@pytest.mark.slow
def test_noise_of_the_bias_is_its_spread_over_seeds():
    plan = plans.plan(
        {**plans.KNOWN['markov'], 'schedule': {'name': 'jitter', 'width': 0.1}}
    )
    targets = np.asarray(plan.problem.data, np.float64)

    @jax.jit
    def active(key):
        links = simulation.realised_links(key, plan.participation, num_rounds=1600)
        return base.participants(links)

    records = [np.asarray(active(jax.random.key(seed))) for seed in range(40)]
    limits = [analysis.effective_weights(masks=r).weights @ targets for r in records]
    noise = np.mean([batch_means(r, values=targets)[1] for r in records], axis=0)
    ratio = noise / np.std(limits, axis=0, ddof=1)
    assert (np.abs(ratio - 1) < 0.4).all(), ratio  # the spread of 40 is known to 11 %


def test_label_mix_is_weighted_by_hand():
    problem = {'name': 'digits', 'num_clients': 12, 'alpha': 0.2, 'seed': 3}
    plan, text = screen_of_law(plans.KNOWN['bernoulli'], problem)
    labels = np.asarray(plan.problem.data.labels)
    counts = np.asarray(plan.problem.counts)
    labels_by_client = np.split(labels, np.cumsum(counts)[:-1])
    mix = np.array(
        [
            np.bincount(labels_of_client, minlength=10) / len(labels_of_client)
            for labels_of_client in labels_by_client
        ]
    )
    implicit = analysis.fedavg_weights(plan.law.probs) @ mix
    row = re.search(r'^  FedAvg +(.*)$', text, flags=re.MULTILINE)[1]
    np.testing.assert_allclose(
        [float(cell) for cell in row.split()], implicit, atol=6e-4
    )
    variation = 0.5 * np.abs(implicit - mix.mean(axis=0)).sum()
    assert f'total variation {variation:.4g}' in text


def test_groups_of_the_paper():
    links = {
        'name': 'minimum_separation',
        'weights': {'name': 'power', 'exponent': 1.5, 'count': 20},
        'groups': {'name': 'contiguous', 'num_groups': 20},
        'separation': 5,
    }
    problem = {'name': 'counterexample', 'num_clients': 100, 'dimension': 2}
    _, text = screen_of_law(links, problem)
    assert 'pi_R over 20 groups of 5: 0.0138 to 0.1521, L1 from uniform 0.6434' in text
    law = analysis.minimum_separation_stationary(np.arange(1.0, 21) ** -1.5, 5)
    scale = analysis.debiasing_weights(law)
    assert f'1/(M pi_R): {scale.min():.4g} to {scale.max():.4g}' in text


def test_memory_is_that_of_those_who_take_part():
    """Nine clients are rarely active and forget at once; three stay active for long."""
    probs = np.array([0.02] * 9 + [0.9] * 3)
    _, text = screen_of_law({'name': 'markov', 'probs': probs.tolist()})
    # These three have 2.7 of 2.88 participations a round.
    remaining = 1 - (0.05 + 0.05 * 0.1 / 0.9)
    scale = f'{-1 / np.log(remaining):.3g}'
    memory = f'{scale} rounds (median participation), clients: below 1 to {scale}'
    assert f'\nmemory   {memory}\n' in text


@pytest.mark.parametrize(
    'links, memory',
    [
        ({'name': 'bernoulli', 'probs': PROBS}, 'none: rounds are independent'),
        (
            {'name': 'markov', 'probs': PROBS, 'correlation_time': 30.0},
            '30 rounds (every client)',
        ),
        (
            {'name': 'cyclic', 'probs': PROBS, 'cycle_length': 50},
            'links repeat every 50 rounds',
        ),
        (plans.UNKNOWN['duplex_markov'], 'not known'),
    ],
)
def test_how_long_links_remember(links, memory):
    _, text = screen_of_law(links)
    assert f'\nmemory   {memory}\n' in text


def test_a_grid_is_predicted_at_its_first_point_and_says_so():
    """Whether or not the section has a value that the grid replaces."""
    config = {
        'title': 'Swept',
        'problem': {'name': 'counterexample', 'dimension': 2},
        'links': 'uniform_cohort',
        'grid': {'links': {'cohort_size': [2, 4]}, 'problem': {'num_clients': [8, 16]}},
    }
    first = 'cohort_size 2, num_clients 8, the first of 4 points of the grid'
    lines = plans.summary_lines(config)
    assert lines[:3] == [
        'links    links: uniform_cohort, 2 of 8 clients, uniformly, rounds independent',
        f'         at {first}',
        "         rates 0.25, mean 0.25; FedAvg's implicit weights are 0.00 from equal (L1, exact)",
    ]
    other_links = {'name': 'uniform_cohort', 'cohort_size': 3}
    problem = {**config['problem'], 'num_clients': 5}
    assert (
        plans.summary_lines({**config, 'links': other_links, 'problem': problem})
        == lines
    )
    together = {
        **config,
        'grid_mode': 'together',
        'patterns': {'a': 'uniform_cohort', 'b': other_links},
    }
    del together['links']
    together['grid'] = {**config['grid'], 'patterns': {'a': {'cohort_size': [4, 8]}}}
    del together['grid']['links']
    result = '\n'.join(plans.summary_lines(together))
    assert (
        'at num_clients 8, cohort_size 4, the first of 2 points of the grid' in result
    )
    assert 'at num_clients 8, the first of 2 points of the grid' in result
    swept = from_experiment(plans.planned(config))
    assert f'at {first}' in theory.text(swept, plans.coins(8))


def test_one_of_several_patterns_is_named():
    rare = {'name': 'bernoulli', 'probs': 0.1}
    often = {'name': 'bernoulli', 'probs': 0.9}
    problem = {'name': 'counterexample', 'num_clients': 4, 'dimension': 3}
    patterns = {'rare': rare, 'often': often}
    planned = plans.planned({'problem': problem, 'patterns': patterns})
    for label in ('rare', 'often'):
        links = from_experiment(planned, label)
        shown = theory.text(links, plans.coins(4))
        assert f'links    {label}, one of 2 patterns: bernoulli, ' in shown
    _, alone = screen_of_law(rare)
    assert 'one of' not in alone


@pytest.mark.slow
@pytest.mark.usefixtures('unrendered')
def test_all_that_looks_at_a_problem_shares_one(tmp_path):
    """From the config to the report, as the command does, data are loaded and divided once."""
    config = {
        'title': 'Two patterns',
        'problem': {
            'name': 'tests.experiment.parts:loaded',
            'num_clients': 6,
            'seed': 0,
        },
        'patterns': {
            name: {**plans.KNOWN[name], 'probs': {'name': 'label_dependent', 'seed': 0}}
            for name in ('bernoulli', 'markov')
        },
        'client': {'learning_rate': 0.1, 'local_steps': 1},
        'algorithms': {'fedavg': {}},
        'num_rounds': 2,
        'eval_every': 2,
        'log': ('links',),
    }
    parts.loads.clear()
    planned = experiment.build(config)
    report.check(planned)
    planned.describe()
    assert len(theory.summary(planned).splitlines()) > 4
    planned.check()
    report.write(planned.run(tmp_path / 'run'), planned)
    assert client_stats.read(tmp_path / 'run')['bernoulli'].expected
    assert len(parts.loads) == 1


@pytest.mark.slow
def test_edges_between_clients_have_their_own_contraction():
    """Independent edges have one beside that of the uplinks alone; edges with memory have none."""
    uplinks = {'name': 'bernoulli', 'probs': 0.3}
    result = {}
    for label, prob in (('coins', 0.5), ('memory', {'name': 'markov', 'probs': 0.5})):
        links = {'name': 'peers', 'pattern': uplinks, 'graph': 'ring', 'prob': prob}
        plan, result[label] = screen(links)
    num_clients = plan.problem.num_clients
    ring = graphs.ring(num_clients).neighbours
    gap = 1 - analysis.semi_decentralised_rate(np.full(num_clients, 0.3), ring, 0.5)
    assert f'1 - lambda_2(E[M W M]) = {gap:.4g}, exact' in result['coins']
    assert 'M W M' not in result['memory']
    assert 'Gossip: 1 - lambda_2(E[W])' in result['memory']
