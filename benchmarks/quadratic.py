"""Times long runs on quadratics: FedAvg and FedPBC, 100 clients, 100 dimensions, 100 local steps.

2,500 rounds under Bernoulli links, 3 seeds. The plain programs step all clients in one array with
the gradient written out; FedAvg's masks those that the links drop. Both return the losses at the
start of every round, as the engine does.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import common, summary
from fedjax_links import algorithms, local_training, participation, problems, simulation
from fedjax_links.base import Problem

TARGETS = {'fedavg': 1.1, 'fedpbc': 1.05}
TOLERANCE = 1e-5  # float32, contracting


class Settings(NamedTuple):
    """Holds the size of the workload."""

    num_clients: int = 100
    dimension: int = 100
    local_steps: int = 100
    learning_rate: float = 1e-3
    num_rounds: int = 2500
    num_seeds: int = 3
    up_first_half: float = 0.1
    up_second_half: float = 0.5


QUICK = Settings(num_rounds=50)


def probabilities(settings: Settings) -> np.ndarray:
    """Returns probabilities that are lower for half of the clients."""
    first = np.arange(settings.num_clients) < settings.num_clients // 2
    return np.where(first, settings.up_first_half, settings.up_second_half)


def problem(settings: Settings) -> Problem:
    """Returns targets around zero in one half of the clients and around one in the other."""
    targets = np.random.default_rng(0).normal(
        size=(settings.num_clients, settings.dimension)
    )
    targets[settings.num_clients // 2 :] += 1
    return problems.quadratic(targets)


def engine(keys: jax.Array, data: Problem, settings: Settings, name: str) -> Any:
    """Returns final models [S, d] and losses [S, T] through `simulate`, seed after seed."""
    program = local_training.local_sgd(
        settings.learning_rate, local_steps=settings.local_steps
    )
    algorithm = getattr(algorithms, name)(program)
    links = participation.bernoulli(probabilities(settings))

    def one_seed(key):
        result = simulation.simulate(
            key, algorithm, links, data, num_rounds=settings.num_rounds
        )
        return result.state.algorithm.server, result.rounds.loss_sum

    return jax.lax.map(one_seed, keys)


def by_hand(keys: jax.Array, data: Problem, settings: Settings, name: str) -> Any:
    """Runs the same workload as scans written by hand, without the engine."""
    fold = jax.random.fold_in
    targets = data.data
    probs = jnp.asarray(probabilities(settings), jnp.float32)

    def trained(models):
        def step(x, _):
            return x - settings.learning_rate * (x - targets), None

        ends, _ = jax.lax.scan(step, models, length=settings.local_steps)
        return ends, 0.5 * jnp.sum(jnp.square(models - targets), axis=1)

    def one_round(name, carry, key, t):
        server, models = carry
        link_key = fold(fold(fold(key, 1), t), 1)
        mask = jax.random.uniform(link_key, (settings.num_clients,)) < probs
        row = mask[:, None]
        count = jnp.maximum(jnp.sum(mask), 1)
        if name == 'fedavg':
            ends, losses = trained(jnp.broadcast_to(server, targets.shape))
            server = (
                server + jnp.sum(jnp.where(row, ends - server[None], 0), axis=0) / count
            )
        else:
            ends, losses = trained(models)
            mean = jnp.sum(jnp.where(row, ends, 0), axis=0) / count
            server = jnp.where(jnp.any(mask), mean, server)
            models = jnp.where(row, server[None], ends)
        return (server, models), jnp.sum(jnp.where(mask, losses, 0))

    def one_seed(key):
        models = jnp.zeros_like(targets) if name == 'fedpbc' else ()
        start = jnp.zeros(settings.dimension), models
        (server, _), loss_sums = jax.lax.scan(
            lambda carry, t: one_round(name, carry, key, t),
            start,
            jnp.arange(settings.num_rounds),
        )
        return server, loss_sums

    return jax.lax.map(one_seed, keys)


def compare(settings: Settings, repeats: int) -> dict[str, Any]:
    """Proves and times both algorithms."""
    keys = jax.vmap(jax.random.key)(np.arange(settings.num_seeds, dtype=np.uint32))
    record: dict[str, Any] = {'settings': settings._asdict(), 'tolerance': TOLERANCE}
    rows: list[dict[str, Any]] = []
    for name in TARGETS:
        timings, results = common.alternate(
            {
                'engine': lambda keys, data, name=name: engine(
                    keys, data, settings, name
                ),
                'by_hand': lambda keys, data, name=name: by_hand(
                    keys, data, settings, name
                ),
            },
            (keys, problem(settings)),
            repeats=repeats,
        )
        gap = common.require_close(
            results['engine'], results['by_hand'], tolerance=TOLERANCE, what=name
        )
        rows.append(
            summary.ratio_row(
                f'{name}, time relative to a hand-written scan: 100 clients, 100 steps, d = 100',
                timings['engine'].seconds,
                timings['by_hand'].seconds,
                TARGETS[name],
                at_most=True,
            )
        )
        record[name] = {
            'largest_difference': gap,
            'programs': common.rates(timings, settings.num_rounds * settings.num_seeds),
        }
    return {**record, 'rows': rows}


def measure(quick: bool) -> dict[str, Any]:
    """Runs this benchmark and returns its record."""
    return compare(QUICK if quick else Settings(), repeats=3 if quick else 5)


if __name__ == '__main__':
    common.main(
        'quadratic',
        'FedAvg and FedPBC on quadratics against hand-written scans.',
        measure,
    )
