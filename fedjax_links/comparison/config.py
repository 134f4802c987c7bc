"""What a comparison's config says, checked before anything runs."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax

from fedjax_links import checks, errors, evaluation, experiment, sections, simulation
from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.base import Algorithm, DuplexLinkSample, LinkSample, Participation, Problem
from fedjax_links.experiment import Section

_TUNING_NEEDS = ('learning_rates', 'pattern', 'num_rounds', 'num_seeds')
_TUNING_MAY_HAVE = ('server_lrs',)


@dataclasses.dataclass(frozen=True)
class ComparisonConfig:
    """A validated config of a comparison.

    Attributes:
      title: one line for tables.
      problem: as in `experiment.ExperimentConfig`.
      patterns: a links section by label.
      client: as in `experiment.ExperimentConfig`. A ``learning_rate`` is a number, or numbers by
        pattern; an algorithm that is given none is tuned.
      algorithms: as in `experiment.ExperimentConfig`.
      baseline: label of the algorithm that the others are compared with.
      metric: what the tables show.
      num_rounds: T.
      eval_every: rounds between evaluations.
      num_seeds: S.
      first_seed: first seed; tuning uses the seeds from 10,000 on.
      tuning: ``learning_rates`` to try, and ``server_lrs`` for the algorithms that have one, on
        ``pattern``, for ``num_rounds`` rounds with ``num_seeds`` seeds of their own, by ``metric``;
        the best of each algorithm is used.
      problems: fields of the problem that differ, by label of a pattern.
      names: pairs (label, name to show), for patterns and algorithms; they come in this order.
      reports: by file name, ``name`` and options of a layout, see `fedjax_links.report.layouts`.
      caption: what was reported elsewhere, and every deviation from it.
    """

    title: str
    problem: Section
    patterns: Mapping[str, Section]
    client: Section
    algorithms: Mapping[str, Section]
    baseline: str
    metric: str
    num_rounds: int
    eval_every: int
    num_seeds: int
    first_seed: int = 0
    tuning: Section = dataclasses.field(default_factory=dict)
    problems: Mapping[str, Section] = dataclasses.field(default_factory=dict)
    names: tuple = ()
    reports: Mapping[str, Section] = dataclasses.field(default_factory=dict)
    caption: str = ''

    @property
    def seeds(self) -> range:
        """The seeds of the comparison."""
        return range(self.first_seed, self.first_seed + self.num_seeds)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What a comparison config stands for.

    Attributes:
      config: the config.
      patterns: the links by label.
      problems: data and loss by label of the pattern; patterns share them unless configured.
      links: by label of the pattern, ``(key, num_rounds=T) -> LinkSample`` with leaves [T, N], the
        links that `simulation.simulate` meets with this key.
    """

    config: ComparisonConfig
    patterns: Mapping[str, Participation]
    problems: Mapping[str, Problem]
    links: Mapping[str, Callable[..., LinkSample]]

    def algorithm(self, label: str, learning_rate: Any = None, server_lr: Any = None) -> Algorithm:
        """The labelled algorithm at client and server rates, which may be traced.

        Args:
          label: of the algorithm.
          learning_rate: the client's; as configured by default.
          server_lr: the server's; as configured by default.

        Returns:
          The algorithm.
        """
        section, client = dict(self.config.algorithms[label]), dict(self.config.client)
        if learning_rate is not None:
            own = {**section.get('client', {}), 'learning_rate': learning_rate}
            section['client'] = own
        if server_lr is not None:
            section['server_lr'] = server_lr
        return sections.algorithm(label, section, client)

    def fixed_rate(self, label: str, pattern: str) -> float | None:
        """The configured client rate of an algorithm under a pattern; None where it is tuned."""
        own = self.config.algorithms[label].get('client', {})
        rate = own.get('learning_rate', self.config.client.get('learning_rate'))
        if isinstance(rate, Mapping):
            where = f'config.algorithms.{label}.client.learning_rate'
            if pattern not in rate:
                raise errors.invalid(where, f'have {pattern!r}', sorted(rate))
            rate = rate[pattern]
        return None if rate is None else float(rate)

    def is_tuned(self, label: str) -> bool:
        """Whether an algorithm's rate is to be found."""
        return self.fixed_rate(label, next(iter(self.patterns))) is None

    def has_server_lr(self, label: str) -> bool:
        """Whether an algorithm has a server rate that is not configured, so it can be tuned."""
        section = self.config.algorithms[label]
        factory = ALGORITHMS[section.get('name', label)].factory
        return 'server_lr' in inspect.signature(factory).parameters and 'server_lr' not in section


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
    _require_multiple('config.num_rounds', config.num_rounds, config.eval_every)
    checks.choice('config.baseline', config.baseline, list(config.algorithms))
    _check_names(config)
    shared = sections.problem(config.problem)
    for label in config.problems:
        checks.choice('config.problems', label, list(config.patterns))
    problems = {
        label: sections.problem({**config.problem, **config.problems[label]})
        if label in config.problems
        else shared
        for label in config.patterns
    }
    for problem in set_of(problems):
        checks.choice('config.metric', config.metric, metrics_of(problem))
    patterns = {
        label: sections.links(section, problems[label], f'config.patterns.{label}')[0]
        for label, section in config.patterns.items()
    }
    patterns = {label: patterns[label] for label in in_order(patterns, config.names)}
    links = {label: _realiser(label, pattern) for label, pattern in patterns.items()}
    comparison = Comparison(config, patterns, problems, links)
    for label in config.algorithms:
        for rate in _rates_to_check(comparison, label):
            comparison.algorithm(label, rate)
    return comparison


def in_order(labels: Iterable[str], names: Iterable[tuple[str, str]]) -> list[str]:
    """Labels in the order of their names.

    Args:
      labels: of patterns or algorithms.
      names: pairs (label, name).

    Returns:
      The labels; those without a name come last, as they came.
    """
    given = list(labels)
    named = [label for label, _ in names if label in given]
    return [*dict.fromkeys(named), *(label for label in given if label not in named)]


def metrics_of(problem: Problem) -> list[str]:
    """The metrics that are recorded of every candidate model."""
    key = jax.random.key(0)
    eval_fn = evaluation.for_problem(problem) or simulation.problem_metrics
    params = jax.eval_shape(problem.init_params, key)
    return list(jax.eval_shape(eval_fn, params, key, problem))


def set_of(problems: Mapping[str, Problem]) -> list[Problem]:
    """Every problem once, however many patterns share it."""
    return list({id(problem): problem for problem in problems.values()}.values())


def _realiser(label: str, pattern: Participation) -> Callable[..., LinkSample]:
    """The links of a pattern as a compiled function; a recording keeps one state per link."""
    realise = functools.partial(simulation.realised_links, participation=pattern)
    sample = jax.eval_shape(functools.partial(realise, num_rounds=1), jax.random.key(0))
    if isinstance(sample, DuplexLinkSample):
        raise errors.invalid(f'config.patterns.{label}', 'have one state per link', 'duplex')
    return jax.jit(realise, static_argnames='num_rounds')


def _rates_to_check(comparison: Comparison, label: str) -> list[float]:
    config = comparison.config
    if not comparison.is_tuned(label):
        return [float(comparison.fixed_rate(label, p) or 0) for p in comparison.patterns]
    _check_tuning(config, label)
    return [float(rate) for rate in config.tuning['learning_rates']]


def _check_tuning(config: ComparisonConfig, label: str) -> None:
    valid = (*_TUNING_NEEDS, *_TUNING_MAY_HAVE)
    for option in config.tuning:
        if option not in valid:
            raise errors.unknown_name('config.tuning', option, valid)
    if missing := [option for option in _TUNING_NEEDS if option not in config.tuning]:
        requirement = f'have {missing[0]!r}, as {label} has no learning_rate'
        raise errors.invalid('config.tuning', requirement, sorted(config.tuning))
    checks.choice('config.tuning.pattern', config.tuning['pattern'], list(config.patterns))
    for option in ('num_rounds', 'num_seeds'):
        checks.static_int(f'config.tuning.{option}', config.tuning[option])
    _require_multiple('config.tuning.num_rounds', config.tuning['num_rounds'], config.eval_every)
    for rate in config.tuning.get('server_lrs', ()):
        checks.positive('config.tuning.server_lrs', rate)


def _require_multiple(field: str, value: int, period: int) -> None:
    if value % period:
        raise errors.invalid(field, f'be a multiple of config.eval_every = {period}', value)


def _check_names(config: ComparisonConfig) -> None:
    labels = [*config.patterns, *config.algorithms]
    for pair in config.names:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise errors.invalid('config.names', 'be pairs (label, name)', repr(pair))
        checks.choice('config.names', pair[0], labels)
