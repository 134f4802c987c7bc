"""Times unreliable links: `micro` with Bernoulli(0.1) uplinks, where the number of clients varies.

It is proven equal to a program that trains all clients and masks, and timed against it and `micro`.
Other chunk sizes show what a program of one width can reach.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import common, micro, summary
from fedjax_links import participation
from fedjax_links.base import Problem

TARGET = 0.85
TOLERANCE = 1e-6
PROOF_ROUNDS = 100
UP = 0.1
CHUNK_SIZES = 6, 8, 12, 14, 16
SEVERAL = 7, 10, 12


def masked(key: jax.Array, data: Problem, settings: micro.Settings) -> Any:
    """Trains all clients in every round, and averages the active ones by a mask."""
    fold = jax.random.fold_in

    def one_round(params, t):
        link_key = fold(fold(fold(key, 1), t), 1)
        mask = jax.random.uniform(link_key, (settings.num_clients,)) < jnp.float32(UP)
        deltas, losses = jax.vmap(
            lambda i: micro.local_steps(
                fold(fold(key, 2), t), data, settings, params, i
            )
        )(jnp.arange(settings.num_clients))
        count = jnp.maximum(jnp.sum(mask), 1)

        def masked_mean(delta):
            uploads = jnp.where(mask.reshape(-1, *[1] * (delta.ndim - 1)), delta, 0)
            return jnp.sum(uploads, axis=0) / count

        new = jax.tree.map(lambda x, d: x + masked_mean(d), params, deltas)
        return new, jnp.sum(jnp.where(mask, losses, 0))

    return jax.lax.scan(
        one_round, data.init_params(key), jnp.arange(settings.num_rounds)
    )


def compare(
    settings: micro.Settings, proof_rounds: int, repeats: int
) -> dict[str, Any]:
    """Proves the engine equal to the masked program, then times it against the fixed cohort."""
    links = participation.bernoulli(np.full(settings.num_clients, UP))
    fixed = participation.uniform_cohort(settings.num_clients, settings.cohort_size)
    arguments = jax.random.key(0), micro.problem(settings)
    short = settings._replace(num_rounds=proof_rounds)
    proof, results = common.alternate(
        {
            'bernoulli': lambda key, data: micro.engine(key, data, short, links),
            'masked': lambda key, data: masked(key, data, short),
        },
        arguments,
        repeats=2,
    )
    gap = common.require_close(
        results['bernoulli'], results['masked'], tolerance=TOLERANCE, what='bernoulli'
    )
    run = functools.partial(micro.engine, settings=settings)
    programs = {
        'bernoulli': functools.partial(run, links=links),
        'micro': functools.partial(run, links=fixed),
    }
    for size in (*CHUNK_SIZES, SEVERAL):
        programs[f'chunks of {size}'] = functools.partial(
            run, links=links, chunk_size=size
        )
    timings, results = common.alternate(programs, arguments, repeats=repeats)
    for size in (*CHUNK_SIZES, SEVERAL):
        common.require_close(
            results[f'chunks of {size}'],
            results['bernoulli'],
            tolerance=micro.TOLERANCE,
            what=f'bernoulli, chunks of {size}',
        )
    masking = common.rates(proof, proof_rounds)['masked']
    best_size = min(CHUNK_SIZES, key=lambda size: timings[f'chunks of {size}'].median)
    best_row = summary.ratio_row(
        f'the same with the best of {len(CHUNK_SIZES)} other chunk sizes',
        timings['micro'].seconds,
        timings[f'chunks of {best_size}'].seconds,
        None,
        detail=f'chunks of {best_size}',
    )
    several_row = summary.ratio_row(
        f'the same with chunks of several widths, chunk_size={SEVERAL}',
        timings['micro'].seconds,
        timings[f'chunks of {SEVERAL}'].seconds,
        TARGET,
    )
    row = summary.ratio_row(
        'speed relative to micro: Bernoulli(0.1) links',
        timings['micro'].seconds,
        timings['bernoulli'].seconds,
        None,
        detail=f'{settings.num_rounds / timings["bernoulli"].median:,.0f} rounds/s; computing all '
        f'and masking {masking["rounds_per_second"]:,.0f}',
    )
    return {
        'settings': {**settings._asdict(), 'up': UP, 'proof_rounds': proof_rounds},
        'largest_difference': gap,
        'tolerance': TOLERANCE,
        'programs': {**common.rates(timings, settings.num_rounds), 'masked': masking},
        'rows': [row, best_row, several_row],
    }


def measure(quick: bool) -> dict[str, Any]:
    """Runs this benchmark and returns its record."""
    settings = micro.QUICK if quick else micro.Settings()
    return compare(settings, PROOF_ROUNDS, repeats=3 if quick else 7)


if __name__ == '__main__':
    common.main('bernoulli', 'Links that come and go, against a fixed cohort.', measure)
