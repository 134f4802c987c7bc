"""The suites catch the mistakes that they are for."""

import ast
import functools
import pathlib
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import (
    algorithms,
    base,
    local_training,
    participation,
    simulation,
    testing,
)
from fedjax_links.base import LinkSample, RoundMetrics
from fedjax_links.clients import cohorts
from fedjax_links.core import tree
from fedjax_links.core.registry import AlgorithmEntry
from fedjax_links.local_training import Contribution, train_cohort
from tests.conformance import shared


@pytest.fixture(autouse=True)
def _one_fedavg(monkeypatch):
    """Compares every algorithm with the same runs of FedAvg."""
    monkeypatch.setattr(testing.Runs, 'fedavg_runs', shared.fedavg_runs())


def with_other_key(run):
    """A client's round whose batches follow another key than the round's."""

    def with_key(start, client, round, key, problem, **adjustments):
        key = jax.random.fold_in(key, 7)
        return run(start, client, round, key, problem, **adjustments)

    return with_key


def broken_fedavg(mistake):
    """FedAvg with one classic mistake."""

    def make(local_train):
        if mistake == 'own batches':
            local_train = local_train._replace(run=with_other_key(local_train.run))

        def round_step(state, ctx, problem):
            links = ctx.links
            taking_part = base.participants(ctx.links)
            if mistake == 'uplinks alone':
                taking_part = links.mask
            cohort = cohorts.make_cohort(taking_part)
            if mistake == 'cohorts' and isinstance(links, base.CohortLinkSample):
                cohort = cohort._replace(size=cohort.size - 1)
            if mistake == 'reads the unavailable':
                cohort = cohorts.all_clients(problem.num_clients)

            def client(train, i, row):
                update = train(state.server)
                weight = jnp.where(taking_part[i], 1.0, 0.0)
                if mistake == 'chunks' and local_train.chunk_size:
                    weight = weight / local_train.chunk_size
                if mistake == 'order':
                    weight = weight * (1 + i)
                return Contribution(
                    tree.scale(weight, update.delta), weight * update.loss
                ), row

            total, _ = train_cohort(local_train, cohort, ctx, problem, client)
            num_active = jnp.sum(taking_part, dtype=jnp.int32)
            mean = jax.tree.map(lambda a: a / num_active, total.value)
            if mistake == 'scale':
                mean = tree.scale(1.1, mean)
            if mistake != 'empty round':
                mean = tree.select(num_active > 0, mean, tree.zeros_like(mean))
            server = tree.add_scaled(state.server, 1.0, mean)
            if mistake == 'dtype':
                server = jax.tree.map(lambda a: a.astype(jnp.bfloat16), server)
            num_computing = (
                jnp.int32(problem.num_clients) if mistake == 'computes' else num_active
            )
            metrics = RoundMetrics(
                num_active=num_active,
                num_computing=num_computing,
                loss_sum=total.loss,
                extra={},
            )
            return algorithms.common.ServerState(server=server), metrics

        return algorithms.fedavg(local_train)._replace(round_step=round_step)

    return make


@pytest.mark.parametrize(
    'mistake, message',
    [
        ('empty round', 'NaN'),
        ('reads the unavailable', 'never delivers'),
        ('order', 'order of clients|follow FedAvg'),
        ('scale', 'follow FedAvg'),
        ('dtype', 'return the state that .* bfloat16'),
        ('uplinks alone', 'receives the broadcast must matter'),
    ],
)
def test_a_broken_algorithm_is_caught(mistake, message):
    with pytest.raises(
        (AssertionError, TypeError, ValueError), match=message
    ) as caught:
        testing.check_algorithm(broken_fedavg(mistake))
    first, *rest = str(caught.value).splitlines()
    assert re.search(message, first), 'the reason must come first'
    assert not rest or rest[0] == ''


@pytest.mark.parametrize(
    'check, make, message',
    [
        (
            'lost_broadcasts_matter',
            broken_fedavg('computes'),
            'cannot train must not',
        ),
        ('named_cohort_is_its_mask', broken_fedavg('cohorts'), 'name a cohort'),
        ('chunks_change_rounding_alone', broken_fedavg('chunks'), 'chunks of two'),
        (
            'one_sample_a_round_is_all_data',
            broken_fedavg('own batches'),
            "minibatch of the client's key",
        ),
        (
            'narrow_tables_agree',
            lambda local_train, table_dtype=None: algorithms.mifa(local_train),
            'tables must be bfloat16, got',
        ),
        (
            'narrow_tables_agree',
            lambda local_train, table_dtype=None: algorithms.mifa(
                local_train,
                table_dtype=table_dtype,
                server_lr=1.1 if table_dtype else 1.0,
            ),
            'the server must be near',
        ),
    ],
)
def test_a_forgotten_kind_of_links_or_execution_is_noticed(check, make, message):
    with pytest.raises(AssertionError, match=message):
        testing.ALGORITHM_CHECKS[check](testing.Runs(AlgorithmEntry(make)))


def test_a_server_that_stands_still_needs_no_broadcast():
    make = functools.partial(algorithms.fedbuff, buffer_size=1000)
    with pytest.raises(testing.DoesNotApply, match='does not move'):
        testing.ALGORITHM_CHECKS['lost_broadcasts_matter'](
            testing.Runs(AlgorithmEntry(make))
        )


def test_a_promise_is_checked_where_python_drops_assertions_too():
    for module in pathlib.Path(testing.__file__).parent.glob('*.py'):
        tree = ast.parse(module.read_text())
        results = [
            node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assert)
        ]
        assert results == [], f'{module.name} must raise: python -O drops `assert`'


@pytest.mark.slow
@pytest.mark.parametrize(
    'prob, message', [(0.5, 'standard errors'), (1.5, 'lie in [0, 1]')]
)
def test_python_without_assertions_notices_a_broken_promise(prob, message):
    program = """
import sys
from fedjax_links import participation, testing
pattern = participation.bernoulli([0.3, 0.4])
def sample(carry, key, round):
    carry, links = pattern.sample(carry, key, round)
    return carry, links._replace(prob=links.prob * 0 + float(sys.argv[1]))
testing.check_participation(pattern._replace(sample=sample))
"""
    command = [sys.executable, '-O', '-c', program, str(prob)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert message in done.stderr


@pytest.mark.slow
def test_a_sound_algorithm_of_a_user_passes():
    testing.check_algorithm(broken_fedavg('none'))


def lying_pattern(prob):
    """Independent links that report another probability."""
    honest = participation.bernoulli(np.full(5, 0.5))

    def sample(carry, key, round):
        carry, links = honest.sample(carry, key, round)
        return carry, LinkSample(mask=links.mask, prob=jnp.full(5, prob))

    return base.Participation(init=honest.init, sample=sample, num_clients=5)


def pattern_without_downlinks():
    """Links whose downlinks fail too, which report the probability of their uplinks."""
    honest = participation.duplex(
        uplink=participation.bernoulli(np.full(5, 0.5)),
        downlink=participation.bernoulli(np.full(5, 0.8)),
    )

    def sample(carry, key, round):
        carry, links = honest.sample(carry, key, round)
        return carry, links._replace(prob=jnp.full(5, 0.5))

    return honest._replace(sample=sample)


@pytest.mark.parametrize(
    'pattern, cohort_size, message',
    [
        (pattern_without_downlinks(), None, 'standard errors'),
        (lying_pattern(0.65), None, 'standard errors'),
        (lying_pattern(1.5), None, r'lie in \[0, 1\]'),
        (lying_pattern(0.5), 2, 'cohorts must have 2 clients'),
    ],
)
def test_a_broken_pattern_is_caught(pattern, cohort_size, message):
    with pytest.raises(AssertionError, match=message):
        testing.check_participation(pattern, cohort_size=cohort_size)


def test_a_pattern_with_hidden_state_is_caught():
    calls = []

    def sample(carry, key, round):
        calls.append(round)
        samples = jax.random.uniform(jax.random.fold_in(key, len(calls)), (4,))
        return carry, LinkSample(mask=samples < 0.5, prob=jnp.full(4, 0.5))

    pattern = base.Participation(init=lambda key: (), sample=sample, num_clients=4)
    with pytest.raises(
        AssertionError, match=r'^the same key and rounds must give the same links'
    ):
        testing.check_participation(pattern)


def test_an_entry_is_checked_with_its_own_client_program():
    """A fault of the client program itself is found, not hidden behind plain SGD."""

    def forgetful(learning_rate, **options):
        program = local_training.local_sgd(learning_rate, **options)

        def run(start, client, round, key, problem, **adjustments):
            update = program.run(start, client, round, key, problem, **adjustments)
            return update._replace(delta=tree.scale(1 + client, update.delta))

        return program._replace(run=run)

    entry = AlgorithmEntry(algorithms.fedavg, client_program=forgetful)
    check = testing.ALGORITHM_CHECKS['relabelling_changes_nothing_global']
    with pytest.raises(AssertionError, match='order of clients'):
        check(testing.Runs(entry))
    sound = entry._replace(client_program=None)
    check(testing.Runs(sound))


def test_a_check_without_a_promise_says_so_and_the_suite_goes_on():
    entry = algorithms.ALGORITHMS['wait_for_all']
    for check, reason in (
        ('full_participation_is_fedavg', 'the algorithm is not FedAvg'),
        ('unavailable_clients_never_influence', 'does not look at the links'),
    ):
        with pytest.raises(testing.DoesNotApply, match=reason):
            testing.ALGORITHM_CHECKS[check](testing.Runs(entry))
    certain = participation.replay(np.ones((2, 3), bool))
    for check, reason in (
        ('probabilities_are_probabilities', 'reports no probabilities'),
        ('cohort_sizes_are_exact', 'is not fixed'),
        ('marginals_match', 'no client has a known probability between 0 and 1'),
    ):
        with pytest.raises(testing.DoesNotApply, match=reason):
            testing.PARTICIPATION_CHECKS[check](certain, testing.Promises())
    promises = testing.Promises(prob_is_marginal=False)
    with pytest.raises(testing.DoesNotApply, match='over time only'):
        testing.PARTICIPATION_CHECKS['marginals_match'](certain, promises)
    testing.check_participation(certain)


def test_a_key_used_twice_is_noticed():
    """In the program of a round too: the suite checks keys in this package."""

    def sample(carry, key, round):
        mask = jax.random.uniform(key, (4,)) < jax.random.uniform(key, (4,))
        return carry, base.LinkSample(mask, jnp.full(4, 0.5))

    pattern = participation.bernoulli(np.full(4, 0.5))._replace(sample=sample)
    with pytest.raises(jax.errors.KeyReuseError):
        simulation.realised_links(jax.random.key(0), pattern, num_rounds=3)
