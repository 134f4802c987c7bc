"""Times orchestration: 10,000 small rounds through `simulate` and through a scan written by hand.

Softmax regression, 100 clients x 64 samples, 32 features, 10 classes, 10 uniform clients per round,
5 local steps of batch 16. The plain program draws the same links and batches from the same keys.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import common, summary
from fedjax_links import algorithms, local_training, participation, problems, simulation
from fedjax_links.base import Participation, Problem
from fedjax_links.core import prng

TARGET = 1.0
TOLERANCE = 2e-5  # float32, 10,000 rounds; training is convex and forgets rounding


class Settings(NamedTuple):
    """Holds the size of the workload."""

    num_clients: int = 100
    num_samples: int = 64
    num_features: int = 32
    num_classes: int = 10
    cohort_size: int = 10
    local_steps: int = 5
    batch_size: int = 16
    learning_rate: float = 0.1
    num_rounds: int = 10_000


QUICK = Settings(num_rounds=500)


def problem(settings: Settings) -> Problem:
    """Returns softmax regression on labels of a random linear model."""
    rng = np.random.default_rng(0)
    num_examples = settings.num_clients * settings.num_samples
    features = rng.standard_normal((num_examples, settings.num_features), np.float32)
    truth = rng.standard_normal(
        (settings.num_features, settings.num_classes), np.float32
    )
    return problems.from_arrays(
        features,
        np.argmax(features @ truth, axis=1).astype(np.int32),
        np.repeat(np.arange(settings.num_clients), settings.num_samples),
        init_params=lambda key: {
            'weights': jnp.zeros((settings.num_features, settings.num_classes)),
            'bias': jnp.zeros(settings.num_classes),
        },
        loss_fn=loss,
    )


def loss(params: Any, batch: Any) -> jax.Array:
    """Returns the mean cross-entropy of a linear model."""
    features, labels = batch
    logits = features @ params['weights'] + params['bias'][None]
    log_probs = jax.nn.log_softmax(logits)
    return -jnp.mean(jnp.take_along_axis(log_probs, labels[:, None], axis=1))


def engine(
    key: jax.Array,
    data: Problem,
    settings: Settings,
    links: Participation,
    chunk_size: int | None = None,
) -> Any:
    """Runs the workload through `simulate`; returns the final model and all rounds' losses."""
    program = local_training.local_sgd(
        settings.learning_rate,
        local_steps=settings.local_steps,
        batch_size=settings.batch_size,
        chunk_size=chunk_size,
    )
    result = simulation.simulate(
        key, algorithms.fedavg(program), links, data, num_rounds=settings.num_rounds
    )
    return result.state.algorithm.server, result.rounds.loss_sum


def local_steps(
    key: jax.Array, data: Problem, settings: Settings, start: Any, i: jax.Array
) -> Any:
    """Returns one client's displacement and first loss, written out; ``key`` is the round's."""
    client_key = jax.random.fold_in(key, i)
    keys = jax.vmap(lambda step: jax.random.fold_in(client_key, step))(
        jnp.arange(settings.local_steps)
    )
    rows = jax.vmap(
        lambda k: prng.integers(k, (settings.batch_size,), settings.num_samples)
    )(keys)

    def step(params, row):
        index = i * settings.num_samples + row
        batch = data.data.features[index], data.data.labels[index]
        value, grad = jax.value_and_grad(loss)(params, batch)
        return jax.tree.map(
            lambda x, g: x - settings.learning_rate * g, params, grad
        ), value

    end, losses = jax.lax.scan(step, start, rows)
    return jax.tree.map(jnp.subtract, end, start), losses[0]


def by_hand(key: jax.Array, data: Problem, settings: Settings) -> Any:
    """Runs the same workload as a scan over rounds of a fixed cohort, without the engine."""
    fold = jax.random.fold_in

    def one_round(params, t):
        bits = jax.random.bits(fold(fold(key, 1), t), (settings.num_clients,), 'uint32')
        # Positive floats are ordered as their bits, and XLA sorts the largest floats out fast.
        order = jax.lax.bitcast_convert_type(
            (bits >> 2) + np.uint32(1 << 23), jnp.float32
        )
        _, cohort = jax.lax.top_k(order, settings.cohort_size)
        round_key = fold(fold(key, 2), t)
        deltas, losses = jax.vmap(
            lambda i: local_steps(round_key, data, settings, params, i)
        )(cohort)
        return jax.tree.map(
            lambda x, d: x + jnp.mean(d, axis=0), params, deltas
        ), jnp.sum(losses)

    return jax.lax.scan(
        one_round, data.init_params(key), jnp.arange(settings.num_rounds)
    )


def compare(settings: Settings, repeats: int) -> dict[str, Any]:
    """Proves both programs equal, then times them in turns."""
    links = participation.uniform_cohort(settings.num_clients, settings.cohort_size)
    timings, results = common.alternate(
        {
            'engine': lambda key, data: engine(key, data, settings, links),
            'by_hand': lambda key, data: by_hand(key, data, settings),
        },
        (jax.random.key(0), problem(settings)),
        repeats=repeats,
    )
    gap = common.require_close(
        results['engine'], results['by_hand'], tolerance=TOLERANCE, what='micro'
    )
    row = summary.ratio_row(
        'speed relative to a hand-written scan: 10 of 100 clients, 5 steps of batch 16',
        timings['by_hand'].seconds,
        timings['engine'].seconds,
        TARGET,
        detail=f'{settings.num_rounds / timings["engine"].median:,.0f} rounds/s',
    )
    return {
        'settings': settings._asdict(),
        'largest_difference': gap,
        'tolerance': TOLERANCE,
        'programs': common.rates(timings, settings.num_rounds),
        'rows': [row],
    }


def measure(quick: bool) -> dict[str, Any]:
    """Runs this benchmark and returns its record."""
    return compare(QUICK if quick else Settings(), repeats=3 if quick else 7)


if __name__ == '__main__':
    common.main('micro', 'Many small rounds against a hand-written scan.', measure)
