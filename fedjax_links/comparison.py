"""Many algorithms over many link patterns: the same links for all, one program per algorithm.

The links of every pattern and seed are realised first and replayed to each algorithm, so that all
patterns and seeds are lanes of one program, and each lane equals the plain simulation of its
pattern bit for bit.
"""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import checks, errors, evaluation, experiment, prng, simulation
from fedjax_links.base import Algorithm, DuplexLinkSample, LinkSample, Participation, Problem
from fedjax_links.experiment import Section
from fedjax_links.participation import replay
from fedjax_links.sweeps import over_lanes

MASKS = 'links.npz'


@dataclasses.dataclass(frozen=True)
class ComparisonConfig:
    """A validated config of a comparison.

    Attributes:
      title: one line for tables.
      problem: as in `experiment.ExperimentConfig`.
      patterns: a links section by label.
      client: as in `experiment.ExperimentConfig`; the learning rate is tuned.
      algorithms: as in `experiment.ExperimentConfig`.
      tuning: ``learning_rates`` to try, on ``pattern``, for ``num_rounds`` rounds with
        ``num_seeds`` seeds of their own, by ``metric``; the best of each algorithm is used.
      baseline: label of the algorithm that the others are compared with.
      metric: what the table shows.
      num_rounds: T.
      eval_every: rounds between evaluations.
      num_seeds: S.
      first_seed: first seed; tuning uses the seeds from 10,000 on.
    """

    title: str
    problem: Section
    patterns: Mapping[str, Section]
    client: Section
    algorithms: Mapping[str, Section]
    tuning: Section
    baseline: str
    metric: str
    num_rounds: int
    eval_every: int
    num_seeds: int
    first_seed: int = 0


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What a comparison config stands for.

    Attributes:
      config: the config.
      problem: data and loss, shared by all runs.
      patterns: the links by label.
    """

    config: ComparisonConfig
    problem: Problem
    patterns: Mapping[str, Participation]

    def algorithm(self, label: str, learning_rate: Any) -> Algorithm:
        """The labelled algorithm at a client learning rate, which may be traced."""
        client = {**self.config.client, 'learning_rate': learning_rate}
        return experiment.build_algorithm(label, self.config.algorithms[label], client)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What one algorithm did.

    Attributes:
      learning_rate: the tuned client rate.
      tuning: mean of the metric at each rate tried, NaN where it diverged.
      evals: float[P, S, E] by model and metric.
    """

    learning_rate: float
    tuning: np.ndarray
    evals: Mapping[str, Mapping[str, np.ndarray]]


def build(values: Mapping[str, Any]) -> Comparison:
    """Checks a config and builds what all runs share.

    Args:
      values: nested dictionaries, as a config file's ``to_dict()`` gives them.

    Returns:
      The comparison; every algorithm was built once at every rate, so mistakes show here.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    config = experiment.parse_as(ComparisonConfig, values)
    if config.num_rounds % config.eval_every:
        raise errors.invalid(
            'config.eval_every', f'divide num_rounds = {config.num_rounds}', config.eval_every
        )
    valid = {'learning_rates', 'pattern', 'num_rounds', 'num_seeds'}
    for option in config.tuning:
        if option not in valid:
            raise errors.unknown_name('config.tuning', option, valid)
    if missing := valid - config.tuning.keys():
        raise errors.invalid('config.tuning', f'have {min(missing)!r}', sorted(config.tuning))
    for field, value, labels in (
        ('config.tuning.pattern', config.tuning['pattern'], config.patterns),
        ('config.baseline', config.baseline, config.algorithms),
    ):
        checks.choice(field, value, list(labels))
    problem = experiment.build_problem(config.problem)
    patterns = {
        label: experiment.build_links(section, problem, f'config.patterns.{label}')[0]
        for label, section in config.patterns.items()
    }
    comparison = Comparison(config, problem, patterns)
    for label in config.algorithms:
        for rate in config.tuning['learning_rates']:
            comparison.algorithm(label, float(rate))
    return comparison


def realise(comparison: Comparison) -> LinkSample:
    """The links of every pattern and seed, leaves [P, S, T, N].

    Raises:
      ValueError: for a pattern with separate downlinks, which a recording does not keep.
    """
    config = comparison.config
    seeds = range(config.first_seed, config.first_seed + config.num_seeds)
    samples = []
    for label, pattern in comparison.patterns.items():
        links = _links_of_seeds(pattern, seeds, config.num_rounds)
        if isinstance(links, DuplexLinkSample):
            raise errors.invalid(f'config.patterns.{label}', 'have one state per link', 'duplex')
        samples.append(links)
    return jax.tree.map(lambda *a: np.stack(a), *samples)


def run(comparison: Comparison, label: str, links: LinkSample, folder: Path) -> Outcome:
    """Tunes and runs one algorithm over all patterns and seeds, or reads what an earlier call did.

    Args:
      comparison: the comparison.
      label: the algorithm.
      links: from `realise`.
      folder: where the outcome is kept, as ``<label>.npz``.

    Returns:
      The outcome.
    """
    config, path = comparison.config, folder / f'{label}.npz'
    if path.exists():
        return _load(path)
    rate, tuning = _tune(comparison, label)
    num_patterns, num_seeds = links.mask.shape[:2]
    lanes = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), links)
    seeds = config.first_seed + np.arange(num_patterns * num_seeds) % num_seeds
    evals = _run_lanes(
        comparison,
        lambda point: comparison.algorithm(label, rate),
        {'seed': prng.seed_column(seeds.tolist()), 'links': lanes},
        config.num_rounds,
        config.eval_every,
    )
    shaped = jax.tree.map(lambda a: a.reshape(num_patterns, num_seeds, *a.shape[1:]), evals)
    outcome = Outcome(rate, tuning, shaped)
    _save(path, outcome)
    return outcome


def _tune(comparison: Comparison, label: str) -> tuple[float, np.ndarray]:
    """The rate with the best metric on average over tuning seeds, all tried in one program."""
    config, tuning = comparison.config, comparison.config.tuning
    rates = [float(rate) for rate in tuning['learning_rates']]
    seeds = range(10_000, 10_000 + tuning['num_seeds'])
    pattern = comparison.patterns[tuning['pattern']]
    links = _links_of_seeds(pattern, seeds, tuning['num_rounds'])
    num_seeds, num_rates = len(seeds), len(rates)
    evals = _run_lanes(
        comparison,
        lambda point: comparison.algorithm(label, point['rate']),
        {
            'seed': np.tile(prng.seed_column(seeds), num_rates),
            'links': jax.tree.map(lambda a: np.tile(a, (num_rates, 1, 1)), links),
            'rate': np.repeat(np.asarray(rates, np.float32), num_seeds),
        },
        tuning['num_rounds'],
        tuning['num_rounds'],
    )
    best_model = [named[config.metric][:, -1] for named in evals.values()]
    scores = np.max(best_model, axis=0).reshape(num_rates, num_seeds).mean(axis=1)
    if np.isnan(scores).all():
        raise errors.invalid('config.tuning.learning_rates', f'suit {label}', 'divergence at all')
    return rates[int(np.nanargmax(scores))], scores


def _run_lanes(
    comparison: Comparison,
    make_algorithm: Callable[[Mapping[str, Any]], Algorithm],
    lanes: Mapping[str, Any],
    num_rounds: int,
    eval_every: int,
) -> Mapping[str, Mapping[str, np.ndarray]]:
    """Evaluations [L, E] of one simulation per lane, compiled once."""

    def lane(point: Mapping[str, Any], problem: Problem) -> Any:
        return simulation.simulate(
            jax.random.key(point['seed']),
            make_algorithm(point),
            replay(point['links'].mask, point['links'].prob),
            problem,
            num_rounds=num_rounds,
            eval_every=eval_every,
            eval_fn=evaluation.train_and_eval,
        ).evals

    return jax.tree.map(np.asarray, jax.jit(over_lanes(lane))(lanes, comparison.problem))


def _links_of_seeds(pattern: Participation, seeds: range, num_rounds: int) -> Any:
    """Realised links of a pattern, leaves [S, T, N]."""

    def realised(seed: jax.Array) -> Any:
        return simulation.realised_links(jax.random.key(seed), pattern, num_rounds=num_rounds)

    columns = jnp.asarray(prng.seed_column(seeds))
    return jax.tree.map(np.asarray, jax.jit(lambda seeds: jax.lax.map(realised, seeds))(columns))


def _save(path: Path, outcome: Outcome) -> None:
    """Writes the outcome in one step: a file that is there is whole."""
    flat: dict[str, Any] = {
        f'{model}/{metric}': values
        for model, named in outcome.evals.items()
        for metric, values in named.items()
    }
    partial = path.with_suffix('.partial.npz')
    np.savez(partial, learning_rate=outcome.learning_rate, tuning=outcome.tuning, **flat)
    partial.replace(path)


def _load(path: Path) -> Outcome:
    with np.load(path) as stored:
        evals: dict[str, dict[str, np.ndarray]] = {}
        for name in stored.files:
            if '/' in name:
                model, metric = name.split('/')
                evals.setdefault(model, {})[metric] = stored[name]
        return Outcome(float(stored['learning_rate']), stored['tuning'], evals)
