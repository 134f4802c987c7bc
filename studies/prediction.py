"""Predicted accuracies beside those of runs: the tables of studies/prediction.md.

python -m studies.prediction
"""

from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np

import fedjax_links as fl
from fedjax_links import analysis, local_training, participation, problems
from fedjax_links.base import Problem
from fedjax_links.config import link_sections
from fedjax_links.preview import prediction
from fedjax_links.problems import models
from studies.gaussian_accuracy import gaussian_accuracy

LINKS = {'name': 'label_dependent', 'sigma': 10.0, 'minimum': 0.02, 'seed': 0}
STEPS = 5
BATCH = 16
CLASSES = 10
MODELS = (('fedavg', 'server'), ('fedpbc', 'client_mean'), ('fedpbc', 'server'))


class Setting(NamedTuple):
    """Holds a row of a table.

    Attributes:
      name: of the row.
      problem: the problem.
      probs: float64[N], of independent links.
      rate: of the clients.
      rounds: T.
      seeds: how many runs.
    """

    name: str
    problem: Problem
    probs: np.ndarray
    rate: float
    rounds: int
    seeds: int


def digits(noise: float, rate: float, rounds: int, seeds: int) -> Setting:
    """Returns digits over 50 clients with label-dependent links; some training labels redrawn."""
    problem = problems.digits(order='numbers')
    bound = link_sections.bind_links({'name': 'bernoulli', 'probs': LINKS}, problem)
    probs = bound.options['schedule'].args[0]
    labels = np.array(problem.data.labels)
    rng = np.random.default_rng(0)
    flip = rng.random(len(labels)) < noise
    labels[flip] = rng.integers(CLASSES, size=flip.sum())
    noisy = problems.from_flax(
        np.asarray(problem.data.features),
        labels,
        problems.owners(problem),
        module=models.Softmax(CLASSES),
        eval_data=tuple(map(np.asarray, problem.eval_data)),
    )
    name = f'digits, {noise:.0%} noise, rate {rate}'
    return Setting(name, noisy, np.asarray(probs, np.float64), rate, rounds, seeds)


def gaussians(seed: int, distance: float, rounds: int) -> tuple[Setting, list[float]]:
    """Returns ten Gaussian classes over 100 clients, and their minimisers' accuracies."""
    clients = 100
    each = 200
    dim = 10
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(CLASSES, dim))
    means *= distance / np.linalg.norm(means, axis=1, keepdims=True)
    mix = rng.dirichlet(np.full(CLASSES, 0.1), size=clients)
    quality = rng.lognormal(0, 10.0, CLASSES)
    probs = np.maximum(mix @ (quality / quality.sum()), 0.02)
    labels = np.stack([rng.choice(CLASSES, size=each, p=q) for q in mix]).ravel()
    features = means[labels] + rng.normal(size=(len(labels), dim))
    tested = rng.integers(CLASSES, size=50_000)
    held_out = means[tested] + rng.normal(size=(len(tested), dim))
    problem = problems.from_flax(
        features.astype(np.float32),
        labels,
        np.repeat(np.arange(clients), each),
        module=models.Softmax(CLASSES),
        eval_data=(held_out.astype(np.float32), tested),
    )
    setting = Setting(f'Gaussian {seed}, {distance}', problem, probs, 0.02, rounds, 1)
    shares = (analysis.fedavg_weights(probs), np.full(clients, 1 / clients))
    best = [analysis.gaussian_minimiser(means, mix, weights) for weights in shares]
    return setting, [100 * gaussian_accuracy(model, means).accuracy for model in best]


def predicted(setting: Setting) -> prediction.Predictions:
    """Predicts both algorithms' accuracies, in the limit and after the rounds of the row."""
    predictions = prediction.predictions(
        setting.problem,
        analysis.fedavg_weights(setting.probs),
        non_empty=float(1 - np.prod(1 - setting.probs)),
        time=STEPS * setting.rate * setting.rounds,
    )
    assert predictions is not None
    return predictions


def simulated(setting: Setting, name: str) -> dict[str, np.ndarray]:
    """Returns accuracies in per cent at forty rounds, [seeds, 40], by candidate model."""
    client = local_training.local_sgd(setting.rate, local_steps=STEPS, batch_size=BATCH)
    pattern = participation.bernoulli(setting.probs.astype(np.float32))

    @jax.jit
    @jax.vmap
    def run(seed: jax.Array) -> dict[str, jax.Array]:
        result = fl.simulate(
            jax.random.key(seed),
            fl.ALGORITHMS[name](client),
            pattern,
            setting.problem,
            num_rounds=setting.rounds,
            eval_every=setting.rounds // 40,
        )
        return {
            model: evaluations['accuracy']
            for model, evaluations in result.evals.items()
        }

    fractions = run(np.arange(setting.seeds))
    return {model: 100 * np.asarray(values) for model, values in fractions.items()}


def rows() -> Iterator[tuple[Setting, list[float]]]:
    """Yields the settings of the page, with the population's accuracies where they are known."""
    for row in (
        (0.0, 0.02, 1000, 5),
        (0.0, 0.1, 4000, 3),
        (0.2, 0.1, 1000, 5),
        (0.2, 0.1, 4000, 3),
        (0.2, 0.02, 20_000, 1),
    ):
        yield digits(*row), []
    for seed, distance in ((0, 2.5), (1, 2.5), (0, 1.5), (0, 4.0)):
        yield gaussians(seed, distance, 4000)


def main() -> None:
    """Prints limits, flows and runs."""
    for setting, population in rows():
        both = predicted(setting)
        limits = [100 * p.limit.get('accuracy', np.nan) for p in both[:2]]
        flows = [100 * p.reached['accuracy'] for p in both[:2]]
        print(f'{setting.name}, {setting.rounds} rounds: limit {limits}, flow {flows}')
        print(f'  population {population}')
        runs = {name: simulated(setting, name) for name in ('fedavg', 'fedpbc')}
        for name, model in MODELS:
            evaluations = runs[name][model]
            last = evaluations[:, -1]
            error = 0.0
            if len(last) > 1:
                error = last.std(ddof=1) / len(last) ** 0.5
            late = evaluations[:, 30:].mean()
            print(
                f'  {name} {model}: {last.mean():.2f} +- {error:.2f}, {late:.2f} late'
            )


if __name__ == '__main__':
    main()
