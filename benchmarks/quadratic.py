"""Long runs on quadratics: FedAvg and FedPBC, 100 clients, 100 dimensions, 100 local steps.

2,500 rounds under Bernoulli links, 3 seeds. The plain programs step all clients in one array with
the gradient written out; FedAvg's masks those that the links drop.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import common
from fedjax_links import algorithms, local_training, participation, problems, simulation
from fedjax_links.base import Problem

TARGET = 1.5
TOLERANCE = 1e-4  # float32, contracting


class Settings(NamedTuple):
    """Size of the workload."""

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
    """Half of the clients behind weaker links than the others."""
    first = np.arange(settings.num_clients) < settings.num_clients // 2
    return np.where(first, settings.up_first_half, settings.up_second_half)


def problem(settings: Settings) -> Problem:
    """Targets around zero in one half of the clients and around one in the other."""
    targets = np.random.default_rng(0).normal(size=(settings.num_clients, settings.dimension))
    targets[settings.num_clients // 2 :] += 1
    return problems.quadratic(targets)


def engine(keys: jax.Array, data: Problem, settings: Settings, name: str) -> jax.Array:
    """Final server models [S, d] through `simulate`, one seed after the other."""
    program = local_training.local_sgd(settings.learning_rate, local_steps=settings.local_steps)
    algorithm = getattr(algorithms, name)(program)
    links = participation.bernoulli(probabilities(settings))

    def one_seed(key):
        result = simulation.simulate(
            key, algorithm, links, data, num_rounds=settings.num_rounds
        )
        return result.state.algorithm.server

    return jax.lax.map(one_seed, keys)


def by_hand(keys: jax.Array, data: Problem, settings: Settings, name: str) -> jax.Array:
    """The same without the engine."""
    fold = jax.random.fold_in
    targets = data.data
    probs = jnp.asarray(probabilities(settings), jnp.float32)[:, None]

    def trained(models):
        def step(x, _):
            return x - settings.learning_rate * (x - targets), None

        return jax.lax.scan(step, models, length=settings.local_steps)[0]

    def mask_of(key, t):
        link_key = fold(fold(fold(key, 1), t), 1)
        return jax.random.uniform(link_key, (settings.num_clients,))[:, None] < probs

    def one_seed(key):
        def fedavg(server, t):
            mask = mask_of(key, t)
            ends = trained(jnp.broadcast_to(server, targets.shape))
            deltas = jnp.where(mask, ends - server[None], 0)
            return server + jnp.sum(deltas, axis=0) / jnp.maximum(jnp.sum(mask), 1), None

        def fedpbc(carry, t):
            server, models = carry
            mask = mask_of(key, t)
            ends, count = trained(models), jnp.sum(mask)
            mean = jnp.sum(jnp.where(mask, ends, 0), axis=0) / jnp.maximum(count, 1)
            server = jnp.where(count > 0, mean, server)
            return (server, jnp.where(mask, server[None], ends)), None

        rounds = jnp.arange(settings.num_rounds)
        start = jnp.zeros(settings.dimension)
        if name == 'fedavg':
            return jax.lax.scan(fedavg, start, rounds)[0]
        return jax.lax.scan(fedpbc, (start, jnp.zeros_like(targets)), rounds)[0][0]

    return jax.lax.map(one_seed, keys)


def compare(settings: Settings, repeats: int) -> dict[str, Any]:
    """Proves and times both algorithms."""
    keys = jax.vmap(jax.random.key)(np.arange(settings.num_seeds, dtype=np.uint32))
    record: dict[str, Any] = {'settings': settings._asdict(), 'tolerance': TOLERANCE}
    ratios = []
    for name in ('fedavg', 'fedpbc'):
        timings, results = common.alternate(
            {
                'engine': lambda keys, data, name=name: engine(keys, data, settings, name),
                'by_hand': lambda keys, data, name=name: by_hand(keys, data, settings, name),
            },
            (keys, problem(settings)),
            repeats=repeats,
        )
        gap = common.require_close(
            results['engine'], results['by_hand'], tolerance=TOLERANCE, what=name
        )
        ratios.append(common.paired_ratio(timings, 'engine', 'by_hand'))
        record[name] = {
            'largest_difference': gap,
            'programs': common.rates(timings, settings.num_rounds * settings.num_seeds),
            'time_relative_to_by_hand': round(ratios[-1], 3),
        }
    return {**record, 'target': TARGET, 'target_met': max(ratios) <= TARGET}


def measure(quick: bool) -> dict[str, Any]:
    """The record of this benchmark."""
    return compare(QUICK if quick else Settings(), repeats=3 if quick else 5)


if __name__ == '__main__':
    common.main('quadratic', 'FedAvg and FedPBC on quadratics against hand-written scans.', measure)
