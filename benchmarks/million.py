"""A million clients: cohorts of 100 under minimum separation, softmax regression.

The cost of a round is compared with that of the same round among 10,000 clients, and the peak
memory is that of the whole process, data included.
"""

import resource
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import common, micro
from fedjax_links import participation, simulation
from fedjax_links.base import Participation, Problem

TARGET_RATIO = 3.0
TARGET_GIBIBYTES = 2.0
TOLERANCE = 1e-5
SEPARATION = 20
FEW = micro.Settings(num_clients=10_000, num_samples=2, cohort_size=100, num_rounds=100)
MANY = FEW._replace(num_clients=1_000_000, num_rounds=20)
QUICK = FEW._replace(num_rounds=20), MANY._replace(num_clients=100_000, num_rounds=5)


def links(settings: micro.Settings) -> Participation:
    """Weights that fall by client, everyone waits, cohorts by successive sampling."""
    weights = (1.0 + np.arange(settings.num_clients) % 100) ** -0.5
    return participation.minimum_separation(
        weights, separation=SEPARATION, cohort_size=settings.cohort_size, design='successive'
    )


def only_links(key: jax.Array, settings: micro.Settings) -> jax.Array:
    """The links of the workload and nothing else: int32[N], how often each client delivers."""
    pattern = links(settings)

    def one_round(carry, t):
        count, state = carry
        link_key = jax.random.fold_in(jax.random.fold_in(key, 1), t)
        state, sample = pattern.sample(state, link_key, t)
        return (count + sample.mask, state), None

    start = jnp.zeros(settings.num_clients, jnp.int32), pattern.init(key)
    return jax.lax.scan(one_round, start, jnp.arange(settings.num_rounds, dtype=jnp.int32))[0][0]


def by_hand(key: jax.Array, data: Problem, settings: micro.Settings, cohorts: jax.Array) -> Any:
    """The rounds of given cohorts int[T, S], without the engine."""

    def one_round(params, inputs):
        t, cohort = inputs
        round_key = jax.random.fold_in(jax.random.fold_in(key, 2), t)
        deltas, losses = jax.vmap(
            lambda i: micro.local_steps(round_key, data, settings, params, i)
        )(cohort)
        return jax.tree.map(lambda x, d: x + jnp.mean(d, axis=0), params, deltas), jnp.sum(losses)

    rounds = jnp.arange(settings.num_rounds)
    return jax.lax.scan(one_round, data.init_params(key), (rounds, cohorts))


def realised_cohorts(key: jax.Array, settings: micro.Settings) -> np.ndarray:
    """int[T, S], who was active in each round."""
    sample = simulation.realised_links(key, links(settings), num_rounds=settings.num_rounds)
    return np.nonzero(np.asarray(sample.mask))[1].reshape(settings.num_rounds, -1)


def peak_gibibytes() -> float:
    """Largest memory of this process so far, and of the accelerator if there is one."""
    unit = 1 if sys.platform == 'darwin' else 1024
    host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    statistics = jax.devices()[0].memory_stats() or {}
    return max(host, statistics.get('peak_bytes_in_use', 0)) / 2**30


def compare(few: micro.Settings, many: micro.Settings, repeats: int) -> dict[str, Any]:
    """Proves both sizes right, then times them in turns."""
    key, data = jax.random.key(0), (micro.problem(few), micro.problem(many))
    timings, results = common.alternate(
        {
            'few': lambda key, data: micro.engine(key, data[0], few, links(few)),
            'many': lambda key, data: micro.engine(key, data[1], many, links(many)),
            'few_links': lambda key, data: only_links(key, few),
            'many_links': lambda key, data: only_links(key, many),
        },
        (key, data),
        repeats=repeats,
    )
    peak = peak_gibibytes()
    gaps = []
    for name, settings, federation in zip(('few', 'many'), (few, many), data, strict=True):
        cohorts = realised_cohorts(key, settings)
        plain = jax.jit(lambda key, data, cohorts, s=settings: by_hand(key, data, s, cohorts))
        expected = plain(key, federation, cohorts)
        gaps.append(common.require_close(results[name], expected, tolerance=TOLERANCE, what=name))
    milliseconds = {
        name: 1e3 * timing.median / (few if name.startswith('few') else many).num_rounds
        for name, timing in timings.items()
    }
    ratio = milliseconds['many'] / milliseconds['few']
    return {
        'few': few._asdict(),
        'many': many._asdict(),
        'separation': SEPARATION,
        'largest_difference': max(gaps),
        'tolerance': TOLERANCE,
        'compile_seconds': {
            name: round(timing.compile_seconds, 3) for name, timing in timings.items()
        },
        'milliseconds_per_round': {name: round(ms, 3) for name, ms in milliseconds.items()},
        'round_cost_ratio': round(ratio, 2),
        'peak_gibibytes': round(peak, 3),
        'targets': {'round_cost_ratio': TARGET_RATIO, 'peak_gibibytes': TARGET_GIBIBYTES},
        'target_met': ratio <= TARGET_RATIO and peak <= TARGET_GIBIBYTES,
    }


def measure(quick: bool) -> dict[str, Any]:
    """The record of this benchmark."""
    few, many = QUICK if quick else (FEW, MANY)
    return compare(few, many, repeats=3 if quick else 5)


if __name__ == '__main__':
    common.main('million', 'A million clients against ten thousand.', measure)
