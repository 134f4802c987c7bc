"""Rounds of a named cohort: what a mask gives, at the cost of the cohort."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import algorithms, base, local_training, participation, simulation
from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.clients import cohorts
from fedjax_links.participation import rejection_sampling
from fedjax_links.problems import generated
from fedjax_links.testing import federation
from tests.tiers import cases

PROGRAM = local_training.local_sgd(0.1, local_steps=2, batch_size=2)
MANY = 1_000_003  # no other array of the round has this length


@pytest.mark.parametrize('name', cases(['fedavg', 'fedpbc', 'scaffold'], ['scaffold']))
def test_a_named_cohort_is_treated_as_its_mask(name, monkeypatch):
    """States and metrics agree; the conformance suite compares all algorithms' servers."""
    problem = federation.problem()
    key = jax.random.key(2)
    entry = ALGORITHMS[name]
    algorithm = entry(PROGRAM, **entry.example)

    def run(pattern):
        return jax.jit(
            lambda p: simulation.simulate(key, algorithm, pattern, p, num_rounds=5)
        )(problem)

    monkeypatch.setattr(rejection_sampling, 'FEWEST_CLIENTS', 1)
    pattern = participation.uniform_cohort(federation.NUM_CLIENTS, 3)

    @jax.jit
    def draw(key):
        links = simulation.realised_links(key, pattern, num_rounds=5)
        assert isinstance(links, base.CohortLinkSample)
        return links.mask, links.prob

    mask, prob = map(np.asarray, draw(key))
    ours = run(pattern)
    theirs = run(participation.replay(mask, prob))
    for part in ('algorithm', 'counters'):
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6),
            getattr(ours.state, part),
            getattr(theirs.state, part),
        )
    np.testing.assert_allclose(ours.rounds.loss_sum, theirs.rounds.loss_sum, rtol=1e-5)
    np.testing.assert_array_equal(ours.rounds.num_active, theirs.rounds.num_active)
    np.testing.assert_array_equal(ours.state.links.mask, mask[-1])


def test_a_sample_that_names_its_cohort_keeps_its_ids():
    @functools.partial(jax.jit, static_argnums=0)
    def run(cohort_of, ids):
        # The id N = 6 marks an empty slot.
        links = base.cohort_links(ids, 6, 0.5, is_full=False)
        cohort = cohort_of(links)
        assert cohort.ids is ids
        assert cohort.num_clients == 6
        rows = jnp.arange(6.0)
        scattered = cohorts.scatter(cohort, rows, jnp.array([-1.0, -2.0, -3.0]))
        total, table = cohorts.map_reduce(
            lambda i, row: (row, row + i), cohort, rows, chunk_size=2
        )
        counts = cohorts.count_participants(links, jnp.arange(6))
        computing = cohorts.computing(links).ids
        return links.size, scattered, total, table, counts, computing

    for cohort_of in (cohorts.participating, cohorts.delivering):
        results = run(cohort_of, np.array([1, 4, 6], np.int32))
        size, scattered, total, table, counts, computing = results
        assert size == 2
        assert total == 1 + 4
        np.testing.assert_array_equal(scattered, [0, -1, 2, 3, -2, 5])
        np.testing.assert_array_equal(table, [0, 1 + 1, 2, 3, 4 + 4, 5])
        np.testing.assert_array_equal(counts, [0, 1 + 1, 2, 3, 4 + 1, 5])
        np.testing.assert_array_equal(computing, range(6))


def test_no_client_is_active_before_the_first_round():
    state = simulation.init(
        jax.random.key(0),
        algorithms.fedavg(PROGRAM),
        participation.uniform_cohort(MANY, 3),
        _federation(),
    )
    assert not state.links.mask.any()


def _federation():
    return generated(
        lambda key, client: jax.random.normal(key, (2, 3)),
        num_clients=MANY,
        init_params=lambda key: jnp.zeros(3),
        loss_fn=lambda params, batch: jnp.mean(jnp.square(batch - params[None])),
    )


def rounds_of(algorithm, pattern):
    """The compiled rounds as text."""
    problem = _federation()
    run = jax.jit(
        lambda key, problem: simulation.simulate(
            key, algorithm, pattern, problem, num_rounds=3
        )
    )
    return run.lower(jax.random.key(0), problem).compile().as_text()


def long_results(text):
    """Lists the opcodes that make an array of all clients, in what the entry computation calls.

    A fusion counts as the opcode of its root.
    """
    computations = dict(
        re.findall(r'^%?([\w.\-]+) \(.*?\{\n(.*?)^\}', text, re.M | re.S)
    )
    shape = rf'\S*\[(?:\d+,)*{MANY}(?:,\d+)*\]\S*'
    built = re.compile(rf'^ +(?:ROOT )?%?[\w.\-]+ = {shape} ([\w\-]+)\((.*)$', re.M)
    called = set(re.findall(r'calls=%?([\w.\-]+)', text))
    results = []
    for name, body in computations.items():
        if name in called:  # a fusion's inside: its root counts, where it is called
            continue
        for opcode, rest in built.findall(body):
            if opcode == 'fusion':
                inside = computations[re.search(r'calls=%?([\w.\-]+)', rest).group(1)]
                opcode = re.search(r'ROOT .*? ([\w\-]+)\(', inside).group(1)
            results.append(opcode)
    return results


UPDATES = {'scatter', 'dynamic-update-slice'}
FREE = {'parameter', 'get-tuple-element', 'bitcast', 'constant'}


@pytest.mark.optimised
@pytest.mark.parametrize(
    'name', cases(['fedavg', 'fedavg_known', 'debiased_fedavg'], ['fedavg_known'])
)
def test_no_operation_of_a_round_makes_an_array_of_all_clients(name):
    """Except tables of the pattern or the algorithm and counters, each updated in place."""
    make = getattr(algorithms, name)
    pattern = participation.minimum_separation(
        (1.0 + np.arange(MANY) % 7) ** -0.5,
        separation=2,
        cohort_size=5,
        design='successive',
    )
    if name == 'fedavg_known':
        pattern = participation.uniform_cohort(MANY, 5)
    result = long_results(rounds_of(make(PROGRAM), pattern))
    assert set(result) <= UPDATES | FREE
    # Two counters, from when clients are selectable, and debiased FedAvg's counts.
    num_tables = {'fedavg': 3, 'fedavg_known': 2, 'debiased_fedavg': 4}[name]
    assert sum(opcode in UPDATES for opcode in result) == num_tables


@pytest.mark.slow
@pytest.mark.optimised
def test_a_mask_over_all_clients_would_be_noticed():
    cohort = participation.uniform_cohort(MANY, 5)

    def sample(carry, key, round):
        carry, links = cohort.sample(carry, key, round)
        return carry, base.as_masks(links)

    result = long_results(
        rounds_of(algorithms.fedavg(PROGRAM), cohort._replace(sample=sample))
    )
    assert not set(result) <= UPDATES | FREE
