"""A million clients, and a hundred million: cohorts of 100 under minimum separation.

Softmax regression. The cost of a round is compared with that of the same round among 10,000
clients, in programs that go on from a state which they overwrite; the peak memory is that of the
whole process, data included, up to then. Examples of a hundred million clients are made when a
client trains, and all of these clients weigh the same.
"""

import resource
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import common, micro
from fedjax_links import algorithms, local_training, participation, problems, simulation
from fedjax_links.base import CohortLinkSample, Participation, Problem

TARGETS = {'many': (1.3, 2.0), 'most': (2.0, 4.0)}  # round cost ratio, GiB
TOLERANCE = 1e-5
SEPARATION = 20
FEW = micro.Settings(num_clients=10_000, num_samples=2, cohort_size=100, num_rounds=100)
MANY = FEW._replace(num_clients=1_000_000)
MOST = FEW._replace(num_clients=100_000_000)
QUICK = tuple(FEW._replace(num_clients=n, num_rounds=20) for n in (10_000, 100_000, 1_000_000))


def links(settings: micro.Settings, *, equal: bool = False) -> Participation:
    """Weights that fall by client, or equal ones; cohorts by successive sampling, all wait."""
    if equal:
        weights = np.broadcast_to(1.0, settings.num_clients)
    else:
        weights = (1.0 + np.arange(settings.num_clients) % 100) ** -0.5
    return participation.minimum_separation(
        weights, separation=SEPARATION, cohort_size=settings.cohort_size, design='successive'
    )


def made(settings: micro.Settings) -> Problem:
    """The problem of `micro`, with examples that are made when a client trains."""
    truth = np.random.default_rng(0).standard_normal(
        (settings.num_features, settings.num_classes), np.float32
    )

    def examples(key, client):
        del client
        features = jax.random.normal(key, (settings.num_samples, settings.num_features))
        return problems.Batch(features, jnp.argmax(features @ truth, axis=1).astype(jnp.int32))

    return problems.generated(
        examples,
        num_clients=settings.num_clients,
        init_params=lambda key: {
            'weights': jnp.zeros((settings.num_features, settings.num_classes)),
            'bias': jnp.zeros(settings.num_classes),
        },
        loss_fn=micro.loss,
    )


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
    if isinstance(sample, CohortLinkSample):
        return np.asarray(sample.ids)
    return np.nonzero(np.asarray(sample.mask))[1].reshape(settings.num_rounds, -1)


def peak_gibibytes() -> float:
    """Largest memory of this process so far, and of the accelerator if there is one."""
    unit = 1 if sys.platform == 'darwin' else 1024
    host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    statistics = jax.devices()[0].memory_stats() or {}
    return max(host, statistics.get('peak_bytes_in_use', 0)) / 2**30


class Rounds:
    """The rounds of one size, which go on from the state that the last call left."""

    def __init__(self, key: jax.Array, data: Problem, settings: micro.Settings, **options: bool):
        """Compiles them, and runs them once from the beginning."""
        program = local_training.local_sgd(
            settings.learning_rate, local_steps=settings.local_steps, batch_size=settings.batch_size
        )
        algorithm, pattern = algorithms.fedavg(program), links(settings, **options)

        def advance(state, key, data):
            return simulation.simulate(
                key,
                algorithm,
                pattern,
                data,
                num_rounds=settings.num_rounds,
                initial_state=state,
            )

        init = jax.jit(lambda key, data: simulation.init(key, algorithm, pattern, data))
        state = init(key, data)
        # Rounds overwrite their state, so that there is one of each table.
        lowered = jax.jit(advance, donate_argnums=0).lower(state, key, data)
        self._advance, self._args = lowered.compile(), (key, data)
        result = self._advance(state, *self._args)
        self.first = jax.device_get((result.state.algorithm.server, result.rounds.loss_sum))
        self._state = result.state

    def __call__(self) -> None:
        """The next rounds."""
        result = self._advance(self._state, *self._args)
        self._state = jax.block_until_ready(result.state)


def milliseconds(
    first: Rounds, second: Rounds, num_rounds: int, repeats: int
) -> tuple[dict[str, float], float]:
    """Per round of each, and the median ratio of the second to the first."""
    seconds = common.take_turns({'few': first, 'other': second}, repeats=repeats)
    times = {name: 1e3 * float(np.median(s)) / num_rounds for name, s in seconds.items()}
    pairs = zip(seconds['other'], seconds['few'], strict=True)
    return times, float(np.median([other / few for other, few in pairs]))


def compare(
    few: micro.Settings, many: micro.Settings, most: micro.Settings, repeats: int
) -> dict[str, Any]:
    """Proves the sizes right, then times each against the few, in turns."""
    key, gaps, found = jax.random.key(0), [], {}
    rows: list[dict[str, Any]] = []
    for name, settings in (('many', many), ('most', most)):
        stored = name == 'many'
        problem = micro.problem if stored else made
        options = {} if stored else {'equal': True}
        sizes = [(s, problem(s)) for s in (few, settings)]
        runs = [Rounds(key, data, s, **options) for s, data in sizes]
        times, ratio = milliseconds(*runs, few.num_rounds, repeats)
        peak = peak_gibibytes()
        found[name] = {
            'num_clients': settings.num_clients,
            'examples': 'stored' if stored else 'made',
            'milliseconds_per_round': round(times['other'], 3),
            'milliseconds_per_round_of_few': round(times['few'], 3),
            'round_cost_ratio': round(ratio, 2),
            'peak_gibibytes': round(peak, 3),
        }
        what = f'a cohort of {few.cohort_size} of {settings.num_clients:,} clients'
        against = f'{what}: time of a round relative to {few.num_clients:,} clients'
        ours = {'what': against, 'measured': round(ratio, 2), 'unit': 'x'}
        whole = {'what': f'{what}: peak of the process', 'measured': round(peak, 3), 'unit': 'GiB'}
        bounds = zip((ours, whole), TARGETS[name], strict=True)
        rows += [{**row, 'target': bound, 'at_most': True} for row, bound in bounds]
        if stored:
            for run, (s, data) in zip(runs, sizes, strict=True):
                cohorts = realised_cohorts(key, s)
                plain = jax.jit(lambda key, data, cohorts, s=s: by_hand(key, data, s, cohorts))
                expected = plain(key, data, cohorts)
                gaps.append(
                    common.require_close(run.first, expected, tolerance=TOLERANCE, what=name)
                )
    return {
        'settings': few._asdict(),
        'separation': SEPARATION,
        'largest_difference': max(gaps),
        'tolerance': TOLERANCE,
        **found,
        'rows': rows,
    }


def measure(quick: bool) -> dict[str, Any]:
    """The record of this benchmark."""
    return compare(*(QUICK if quick else (FEW, MANY, MOST)), repeats=3 if quick else 7)


if __name__ == '__main__':
    common.main('million', 'A million clients and more against ten thousand.', measure)
