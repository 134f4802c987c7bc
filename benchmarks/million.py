"""Times a million and a hundred million clients: cohorts of 100 by every pattern that names them.

Softmax regression. The cost of a round is compared with that of the same round among 10,000
clients, in programs that go on from a state which they overwrite. Examples of a hundred million
clients are made when a client trains, and all of these clients weigh the same. What these runs
keep in memory is a row of `benchmarks.memory`.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import common, micro, summary
from fedjax_links import algorithms, local_training, participation, problems, simulation
from fedjax_links.base import CohortLinkSample, Participation, Problem

TARGETS = {'many': 1.3, 'most': 2.0}
"""Largest cost of a round relative to one among few clients."""

TOLERANCE = 1e-5
SEPARATION = 20
FEW = micro.Settings(num_clients=10_000, num_samples=2, cohort_size=100, num_rounds=100)
MANY = FEW._replace(num_clients=1_000_000)
MOST = FEW._replace(num_clients=100_000_000)
QUICK = tuple(
    FEW._replace(num_clients=n, num_rounds=20) for n in (10_000, 100_000, 1_000_000)
)


def patterns(settings: micro.Settings) -> dict[str, Participation]:
    """Returns all patterns that name their cohort; weights fall by client, groups take turns."""
    num_clients = settings.num_clients
    size = settings.cohort_size
    groups = np.arange(num_clients) * 5 // num_clients
    shuffled = np.random.default_rng(0).permutation(groups)
    in_turns = functools.partial(
        participation.periodic_groups, active_rounds=10, cohort_size=size
    )
    apart = functools.partial(
        participation.minimum_separation,
        (1.0 + np.arange(num_clients) % 100) ** -0.5,
        separation=SEPARATION,
        cohort_size=size,
    )
    return {
        'uniform_cohort': participation.uniform_cohort(num_clients, size),
        'regularized': participation.regularized(num_clients, size),
        'periodic_groups': in_turns(groups),
        'periodic_groups, shuffled groups': in_turns(shuffled),
        **{
            f'minimum_separation, {design}': apart(design=design)
            for design in ('product', 'successive', 'sum')
        },
    }


def equal_weights(settings: micro.Settings) -> Participation:
    """Returns cohorts by successive sampling of clients that weigh the same; all of them wait."""
    return participation.minimum_separation(
        np.broadcast_to(1.0, settings.num_clients),
        separation=SEPARATION,
        cohort_size=settings.cohort_size,
        design='successive',
    )


def generated_problem(settings: micro.Settings) -> Problem:
    """Returns the problem of `micro`, with examples that are made when a client trains."""
    truth = np.random.default_rng(0).standard_normal(
        (settings.num_features, settings.num_classes), np.float32
    )

    def examples(key, client):
        del client
        features = jax.random.normal(key, (settings.num_samples, settings.num_features))
        return problems.Batch(
            features, jnp.argmax(features @ truth, axis=1).astype(jnp.int32)
        )

    return problems.generated(
        examples,
        num_clients=settings.num_clients,
        init_params=lambda key: {
            'weights': jnp.zeros((settings.num_features, settings.num_classes)),
            'bias': jnp.zeros(settings.num_classes),
        },
        loss_fn=micro.loss,
    )


def by_hand(
    key: jax.Array, data: Problem, settings: micro.Settings, cohorts: jax.Array
) -> Any:
    """Runs the rounds of given cohorts int[T, S], without the engine."""

    def one_round(params, inputs):
        t, cohort = inputs
        round_key = jax.random.fold_in(jax.random.fold_in(key, 2), t)
        deltas, losses = jax.vmap(
            lambda i: micro.local_steps(round_key, data, settings, params, i)
        )(cohort)
        return jax.tree.map(
            lambda x, d: x + jnp.mean(d, axis=0), params, deltas
        ), jnp.sum(losses)

    rounds = jnp.arange(settings.num_rounds)
    return jax.lax.scan(one_round, data.init_params(key), (rounds, cohorts))


def realised_cohorts(
    key: jax.Array, pattern: Participation, num_rounds: int
) -> np.ndarray:
    """Returns int[T, S], who was active in each round."""
    sample = simulation.realised_links(key, pattern, num_rounds=num_rounds)
    if isinstance(sample, CohortLinkSample):
        return np.asarray(sample.ids)
    return np.nonzero(np.asarray(sample.mask))[1].reshape(num_rounds, -1)


class Rounds:
    """Runs rounds of one size from the state that the last call left."""

    def __init__(
        self,
        key: jax.Array,
        data: Problem,
        settings: micro.Settings,
        pattern: Participation,
    ):
        """Compiles them, and runs them once from the beginning."""
        program = local_training.local_sgd(
            settings.learning_rate,
            local_steps=settings.local_steps,
            batch_size=settings.batch_size,
        )
        algorithm = algorithms.fedavg(program)

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
        self._advance = lowered.compile()
        self._args = (key, data)
        result = self._advance(state, *self._args)
        self.first = jax.device_get(
            (result.state.algorithm.server, result.rounds.loss_sum)
        )
        self._state = result.state

    def __call__(self) -> None:
        """Runs the next rounds."""
        result = self._advance(self._state, *self._args)
        self._state = jax.block_until_ready(result.state)


def relative(
    what: str,
    sizes: tuple[micro.Settings, micro.Settings],
    runs: list[Rounds],
    repeats: int,
) -> dict[str, Any]:
    """Returns the row of a round's cost relative to one among few clients, without a target."""
    few, other = sizes
    seconds = common.take_turns(
        dict(zip(('few', 'other'), runs, strict=True)), repeats=repeats
    )
    each = 1e3 * float(np.median(seconds['other'])) / other.num_rounds
    return summary.ratio_row(
        f'{what}, {other.cohort_size} of {other.num_clients:,} clients: time of a round relative '
        f'to {few.num_clients:,}',
        seconds['other'],
        seconds['few'],
        at_most=True,
        detail=f'{each:.3g} ms',
    )


def compare(
    few: micro.Settings, many: micro.Settings, most: micro.Settings, repeats: int
) -> dict[str, Any]:
    """Proves many clients right under every pattern, then times each against few, in turns."""
    key = jax.random.key(0)
    gaps = []
    rows = []
    sizes = few, many
    problems_of = [micro.problem(settings) for settings in sizes]
    plain = [
        jax.jit(lambda key, data, cohorts, s=settings: by_hand(key, data, s, cohorts))
        for settings in sizes
    ]
    for name in patterns(few):
        runs = []
        for settings, data, run_plain in zip(sizes, problems_of, plain, strict=True):
            pattern = patterns(settings)[name]
            runs.append(Rounds(key, data, settings, pattern))
            cohorts = realised_cohorts(key, pattern, settings.num_rounds)
            expected = run_plain(key, data, cohorts)
            gaps.append(
                common.require_close(
                    runs[-1].first, expected, tolerance=TOLERANCE, what=name
                )
            )
        rows.append({**relative(name, sizes, runs, repeats), 'target': TARGETS['many']})
    runs = [
        Rounds(key, generated_problem(settings), settings, equal_weights(settings))
        for settings in (few, most)
    ]
    rows.append(
        {
            **relative('examples made', (few, most), runs, repeats),
            'target': TARGETS['most'],
        }
    )
    return {
        'settings': few._asdict(),
        'separation': SEPARATION,
        'largest_difference': max(gaps),
        'tolerance': TOLERANCE,
        'rows': rows,
    }


def measure(quick: bool) -> dict[str, Any]:
    """Runs this benchmark and returns its record."""
    return compare(*(QUICK if quick else (FEW, MANY, MOST)), repeats=3 if quick else 5)


if __name__ == '__main__':
    common.main('million', 'A million clients and more against ten thousand.', measure)
