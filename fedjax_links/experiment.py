"""From a config to the objects of a run: the last place that knows both.

Every section of a config has a ``name`` and the options of what it names; options are checked
against the signature of the factory, so a new algorithm or pattern needs no edit here.
"""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import numpy as np
import optax

from fedjax_links import checks, errors, local_training, problems
from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.base import Algorithm, Participation, Problem
from fedjax_links.learning_rates import LEARNING_RATES
from fedjax_links.participation import PARTICIPATION, schedules
from fedjax_links.participation.probabilities import label_dependent_probs
from fedjax_links.problems import PROBLEMS, partition

Section = Mapping[str, Any]
Config = TypeVar('Config')


@dataclasses.dataclass(frozen=True)
class ExperimentConfig:
    """A validated config.

    Attributes:
      title: one line for tables and pictures.
      problem: ``name`` in PROBLEMS, and its options.
      links: ``name`` in PARTICIPATION, and its options; ``probs`` and ``schedule`` are sections for
        the patterns that take probabilities.
      client: options of the client program: ``learning_rate``, ``decay`` (a name in
        LEARNING_RATES, or a section with that ``name`` and its options), ``local_steps``,
        ``batch_size`` (0 for the full local data).
      algorithms: options by label; ``name`` in ALGORITHMS if it is not the label, and ``client``
        for options of the client program that differ.
      num_rounds: T.
      eval_every: rounds between evaluations.
      num_seeds: S.
      first_seed: seeds are ``first_seed`` to ``first_seed + num_seeds - 1``.
    """

    title: str
    problem: Section
    links: Section
    client: Section
    algorithms: Mapping[str, Section]
    num_rounds: int
    eval_every: int
    num_seeds: int
    first_seed: int = 0

    @property
    def seeds(self) -> range:
        """The run's seeds."""
        return range(self.first_seed, self.first_seed + self.num_seeds)


@dataclasses.dataclass(frozen=True)
class Experiment:
    """What a config stands for.

    Attributes:
      config: the config.
      problem: data and loss.
      participation: the links.
      probs: float64[N], the probabilities before any schedule; None for patterns without.
      algorithms: by label; a ConfigDict sorts its labels.
    """

    config: ExperimentConfig
    problem: Problem
    participation: Participation
    probs: np.ndarray | None
    algorithms: Mapping[str, Algorithm]


def parse(values: Mapping[str, Any]) -> ExperimentConfig:
    """Checks names and types of the top level.

    Args:
      values: nested dictionaries, as a config file's ``to_dict()`` gives them.

    Returns:
      The config.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    return parse_as(ExperimentConfig, values)


def parse_as(kind: type[Config], values: Mapping[str, Any]) -> Config:
    """`parse` for any dataclass of whole numbers, texts, lists and sections."""
    fields = {field.name: field for field in dataclasses.fields(cast(Any, kind))}
    for name, value in values.items():
        if name not in fields:
            raise errors.unknown_name('config', name, fields)
        if fields[name].type is int:
            checks.static_int(f'config.{name}', value, minimum=0 if name == 'first_seed' else 1)
        elif fields[name].type is str and not isinstance(value, str):
            raise errors.invalid(f'config.{name}', 'be text', repr(value))
        elif fields[name].type is tuple and not isinstance(value, list | tuple):
            raise errors.invalid(f'config.{name}', 'be a list', repr(value))
        elif fields[name].type not in (int, str, tuple) and not isinstance(value, Mapping):
            raise errors.invalid(f'config.{name}', 'be a section', repr(value))
    missing = [
        name
        for name, field in fields.items()
        if name not in values
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise errors.invalid('config', f'have {missing[0]!r}', f'only {sorted(values)}')
    return kind(**values)


def build(config: ExperimentConfig) -> Experiment:
    """Builds everything a config names.

    Args:
      config: the config.

    Returns:
      Problem, links and algorithms.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    if config.num_rounds % config.eval_every:
        raise errors.invalid(
            'config.eval_every', f'divide num_rounds = {config.num_rounds}', config.eval_every
        )
    problem = build_problem(config.problem)
    participation, probs = build_links(config.links, problem)
    algorithms = {
        label: build_algorithm(label, section, config.client)
        for label, section in config.algorithms.items()
    }
    return Experiment(config, problem, participation, probs, algorithms)


def build_problem(section: Section) -> Problem:
    """The problem that a section names."""
    return build_named('config.problem', section, PROBLEMS)


def build_algorithm(label: str, section: Section, client: Section) -> Algorithm:
    """The algorithm of a labelled section.

    Args:
      label: its label, and its name in ALGORITHMS unless the section has one.
      section: its options; ``client`` overrides options of the client program.
      client: options of the client program that all algorithms share.

    Returns:
      The algorithm.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    where = f'config.algorithms.{label}'
    options = {'name': label, **section}
    client = {**client, **options.pop('client', {})}
    entry = ALGORITHMS[_name_of(where, options, ALGORITHMS)]
    local_train = _build_client(
        f'{where}.client', client, entry.client_program or local_training.local_sgd
    )
    optimizer = options.get('server_optimizer')
    if isinstance(optimizer, Mapping):
        options['server_optimizer'] = build_named(
            f'{where}.server_optimizer', optimizer, SERVER_OPTIMIZERS
        )
    return build_named(where, options, ALGORITHMS, local_train)


SERVER_OPTIMIZERS: Mapping[str, Callable[..., optax.GradientTransformation]] = {
    'adagrad': optax.adagrad,
    'adam': optax.adam,
    'sgd': optax.sgd,
    'yogi': optax.yogi,
}


def _label_dependent(problem: Problem, **options: Any) -> np.ndarray:
    labels = getattr(problem.data, 'labels', None)
    if labels is None:
        raise errors.invalid(
            'config.links.probs.name', 'suit a problem with labels', "'label_dependent'"
        )
    mix = partition.class_mix(problems.owners(problem), np.asarray(labels))
    return label_dependent_probs(mix, **options)


def _equal(problem: Problem, *, value: float) -> np.ndarray:
    return np.full(problem.num_clients, value)


def _halves(problem: Problem, *, first: float, second: float) -> np.ndarray:
    """The first half of the clients at one value, the second at another."""
    return np.where(np.arange(problem.num_clients) < problem.num_clients // 2, first, second)


def _listed(problem: Problem, *, values: Any) -> np.ndarray:
    if len(values) != problem.num_clients:
        raise errors.invalid(
            'config.links.probs.values', f'have {problem.num_clients} entries', len(values)
        )
    return np.asarray(values, float)


def _power(problem: Problem, *, exponent: float, count: int | None = None) -> np.ndarray:
    """``1, 2^-exponent, 3^-exponent, ...``; one per client unless a count is given."""
    return np.arange(1.0, (count or problem.num_clients) + 1) ** -exponent


def _contiguous(problem: Problem, *, num_groups: int) -> np.ndarray:
    return partition.contiguous_groups(problem.num_clients, num_groups=num_groups)


PROBS: Mapping[str, Callable[..., np.ndarray]] = {
    'label_dependent': _label_dependent,
    'equal': _equal,
    'halves': _halves,
    'listed': _listed,
}
WEIGHTS: Mapping[str, Callable[..., np.ndarray]] = {**PROBS, 'power': _power}
GROUPS: Mapping[str, Callable[..., np.ndarray]] = {'contiguous': _contiguous}


def build_links(
    section: Section, problem: Problem, where: str = 'config.links'
) -> tuple[Participation, np.ndarray | None]:
    """The links that a section names.

    What the factory asks for by parameter name is filled in: ``num_clients``, ``schedule`` and
    ``probs`` from the sections of these names, nested patterns from nested sections.

    Args:
      section: name in PARTICIPATION, and options.
      problem: whose clients, and whose labels if the probabilities depend on them.
      where: the section's place in the config, for errors.

    Returns:
      The pattern, and the probabilities before any schedule; None for patterns without.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    options, probs = link_options(section, problem, where)
    return build_named(where, options, PARTICIPATION), probs


def link_options(
    section: Section, problem: Problem, where: str = 'config.links'
) -> tuple[dict[str, Any], np.ndarray | None]:
    """What the factory of a pattern gets: `build_links` up to its last step.

    Args:
      section: as in `build_links`.
      problem: as in `build_links`.
      where: as in `build_links`.

    Returns:
      The pattern's name under ``'name'`` and its options, sections replaced by what they stand for;
      and the probabilities before any schedule.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    options = dict(section)
    probs_section = options.pop('probs', None)
    schedule_section = options.pop('schedule', {'name': 'constant'})
    name = _name_of(where, options, PARTICIPATION)
    wanted = inspect.signature(PARTICIPATION[name].factory).parameters
    probs = None
    if wanted.keys() & {'schedule', 'probs'} and isinstance(probs_section, Mapping):
        probs = build_named(f'{where}.probs', probs_section, PROBS, problem)
        checks.probabilities(f'{where}.probs', probs)
    if probs is None and 'schedule' in wanted:
        raise errors.invalid(where, "have a section 'probs'", sorted(section))
    if 'schedule' in wanted:
        options['schedule'] = build_named(
            f'{where}.schedule', schedule_section, schedules.SCHEDULES, probs
        )
    elif 'probs' in wanted:
        options['probs'] = probs_section if probs is None else probs
    if 'num_clients' in wanted:
        options['num_clients'] = problem.num_clients
    for parameter, value in options.items():
        options[parameter] = _build_part(f'{where}.{parameter}', parameter, value, problem)
    return options, probs


def _build_part(where: str, parameter: str, value: Any, problem: Problem) -> Any:
    """An option of a pattern: a plain value, or a section that names what it stands for."""
    if isinstance(value, list | tuple) and value and isinstance(value[0], Mapping):
        return [_build_part(where, parameter, part, problem) for part in value]
    if not isinstance(value, Mapping):
        return value
    if parameter == 'weights':
        return build_named(where, value, WEIGHTS, problem)
    if parameter == 'groups':
        return build_named(where, value, GROUPS, problem)
    return build_links(value, problem, where)[0]


def _build_client(
    where: str, section: Section, program: Callable[..., local_training.ClientProgram]
) -> local_training.ClientProgram:
    options = dict(section)
    decay = options.pop('decay', 'constant')
    if not isinstance(decay, Mapping):
        checks.choice(f'{where}.decay', str(decay), LEARNING_RATES)
        decay = {'name': decay}
    if 'learning_rate' not in options:
        raise errors.invalid(where, "have 'learning_rate'", sorted(options))
    eta = options['learning_rate']
    checks.positive('learning_rate', eta)
    options['learning_rate'] = build_named(f'{where}.decay', decay, LEARNING_RATES, eta)
    options['batch_size'] = options.get('batch_size') or None
    return _call(where, program, options)


def build_named(where: str, section: Section, registry: Mapping[str, Any], *args: Any) -> Any:
    """Calls what a section names with the section's options.

    Args:
      where: the section's place in the config, for errors.
      section: ``name`` in the registry, and options of the factory of that name.
      registry: factories by name.
      *args: positional arguments of the factory, which are no options.

    Returns:
      What the factory returns.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    name = _name_of(where, section, registry)
    options = {key: value for key, value in section.items() if key != 'name'}
    return _call(where, registry[name], options, *args)


def _name_of(where: str, section: Section, registry: Mapping[str, Any]) -> str:
    if not isinstance(section, Mapping):
        raise errors.invalid(where, 'be a section', repr(section))
    name = section.get('name')
    if name not in registry:
        raise errors.unknown_name(f'{where}.name', str(name), registry)
    return str(name)


def _call(where: str, factory: Callable[..., Any], options: Section, *args: Any) -> Any:
    checks.options(where, factory, options, *args)
    return factory(*args, **options)
