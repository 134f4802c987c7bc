"""Problems that generate the examples of training clients equal those that store them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import algorithms, local_training, participation, problems, simulation
from tests import refusals

N = 9
M = 4
SEED = 3


def examples(key, client):
    features = jax.random.normal(key, (M, 3)) + 0.1 * client
    return problems.Batch(features, jnp.sum(features, axis=1) > 0.3)


def init_params(key):
    return jax.random.normal(key, (3,))


def loss_fn(params, batch):
    margins = batch.features @ params
    return jnp.mean(jnp.logaddexp(0, jnp.where(batch.labels, -margins, margins)))


def generated(**options):
    return problems.generated(
        examples,
        num_clients=N,
        init_params=init_params,
        loss_fn=loss_fn,
        seed=SEED,
        **options,
    )


def stored():
    """A problem that stores the examples of all clients."""
    draw = jax.jit(lambda i: examples(jax.random.fold_in(jax.random.key(SEED), i), i))
    by_client = [draw(i) for i in range(N)]
    features, labels = (
        np.concatenate(leaves) for leaves in zip(*by_client, strict=True)
    )
    owners = np.repeat(np.arange(N), M)
    return problems.from_arrays(
        features, labels, owners, init_params=init_params, loss_fn=loss_fn
    )


@pytest.mark.slow
@pytest.mark.parametrize('batch_size', [2, None])
def test_training_is_that_on_stored_examples(batch_size):
    program = local_training.local_sgd(0.2, local_steps=3, batch_size=batch_size)
    links = participation.uniform_cohort(N, 4)

    def run(problem):
        return simulation.simulate(
            jax.random.key(1),
            algorithms.fedavg(program),
            links,
            problem,
            num_rounds=6,
            eval_every=3,
        )

    ours = jax.jit(run)(generated())
    theirs = jax.jit(run)(stored())
    np.testing.assert_allclose(
        ours.state.algorithm.server, theirs.state.algorithm.server, rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(ours.rounds.loss_sum, theirs.rounds.loss_sum, rtol=1e-5)
    loss = ours.evals['server']['loss']
    np.testing.assert_allclose(loss, theirs.evals['server']['loss'], rtol=1e-5)


def test_nothing_is_stored_per_client_and_counts_can_be_read():
    problem = problems.generated(
        examples, num_clients=10**8, init_params=init_params, loss_fn=loss_fn
    )
    assert problem.num_clients == 10**8
    assert sum(leaf.size for leaf in jax.tree.leaves(problem)) < 10_000

    @jax.jit
    def read(problem):
        drawn = examples(jax.random.fold_in(jax.random.key(SEED), 5), 5)
        return problem.counts, problem.examples_of(5), drawn.features

    counts, (data, first, count), expected = read(generated())
    np.testing.assert_array_equal(counts, np.full(N, M))
    rows = np.asarray(data.features)[first : first + count]
    np.testing.assert_array_equal(rows, expected)


@pytest.mark.parametrize('field', ['examples', 'init_params', 'loss_fn', 'metrics'])
def test_what_is_no_function_is_named(field):
    functions = {
        'examples': examples,
        'init_params': init_params,
        'loss_fn': loss_fn,
        field: ('accuracy',),
    }
    with refusals.names(field, 'be a function'):
        problems.generated(num_clients=2, **functions)


def test_arguments_that_fit_no_examples_are_refused():
    message = r"^`larger_is_better` has no 'acuracy'; valid names: loss\.$"
    with pytest.raises(ValueError, match=message):
        generated(larger_is_better=('acuracy',))
    with pytest.raises(ValueError, match='`num_clients` must be at least 1, got 0'):
        problems.generated(
            examples, num_clients=0, init_params=init_params, loss_fn=loss_fn
        )
    with refusals.names('examples', 'must give leaves of one length'):
        problems.generated(
            lambda key, i: (jnp.zeros(3), jnp.zeros(2)),
            num_clients=2,
            init_params=init_params,
            loss_fn=loss_fn,
        )
