"""From a config, a tree of plain values, to the experiment that it stands for.

Plain values only before `build`, objects only after it.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links import checks, choices, errors, grids, sections, simulation
from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.base import Algorithm
from fedjax_links.experiment import lanes, limits, plain
from fedjax_links.experiment.config_parts import (
    algorithm_maker,
    parts,
    pattern_sections,
    redraw,
)
from fedjax_links.experiment.definition import Experiment
from fedjax_links.experiment.makers import REQUIRED, Maker
from fedjax_links.experiment.tuning import Tuning
from fedjax_links.sections import Section

_RATE, _SERVER_LR = 'client.learning_rate', 'server_lr'
_REQUIRED: Mapping[str, sections.Kind] = {
    'title': str,
    'problem': Mapping,
    'algorithms': Mapping,
    'num_rounds': int,
    'eval_every': int,
}
_OPTIONAL: Mapping[str, sections.Kind] = {
    'links': (Mapping, str),
    'patterns': Mapping,
    'problems': Mapping,
    'client': Mapping,
    'num_seeds': int,
    'first_seed': int,
    'redraw': (Mapping, str),
    'grid': Mapping,
    'grid_mode': str,
    'tuning': Mapping,
    'eval_fn': (Mapping, str),
    'evaluate_start': bool,
    'metric': str,
    'direction': str,
    'baseline': str,
    'names': (list, tuple),
    'reports': Mapping,
    'caption': str,
    'log': (list, tuple),
}
FIELDS = (*_REQUIRED, *_OPTIONAL)
"""Names of all fields of a config."""

_TUNING_OPTIONS = 'pattern', 'num_rounds', 'num_seeds', 'model'
_TUNING = 'grid', 'learning_rates', 'server_lrs', *_TUNING_OPTIONS


def build(config: Mapping[str, Any]) -> Experiment:
    """The experiment that a config stands for.

    Fields: ``title``; ``problem`` (a section) and ``problems`` (fields that differ, by label of the
    pattern); ``patterns`` (sections by label), or ``links`` for a single one; ``algorithms``
    (sections by label; the label is the name unless there is one; ``client`` in it overrides);
    ``client`` (``learning_rate``, a number or numbers by pattern, ``decay``, ``local_steps``,
    ``batch_size``, 0 for the full local data, ...); ``num_rounds``, ``eval_every``, ``num_seeds``,
    ``first_seed``; ``redraw`` (``by_seed`` or ``fixed``, by stream of draws, or one for all; by
    default by seed is all to which neither a section nor the grid gives a seed); ``grid`` (nested
    like the config, lists of values at its leaves) and ``grid_mode``; ``tuning``
    (``learning_rates`` and ``server_lrs``, or a nested ``grid``; ``pattern``, ``num_rounds``,
    ``num_seeds``, ``model`` as in `Tuning`); ``eval_fn``, ``evaluate_start``, ``metric``,
    ``direction``, ``baseline``, ``names``, ``reports``, ``log`` as in `Experiment`; ``caption``
    likewise, with values of the config as it runs wherever it says ``{config.num_rounds}`` and the
    like.

    Args:
      config: nested dictionaries, as a config file's ``to_dict()`` gives them.

    Returns:
      The experiment; every part was built once, so mistakes show here.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    _check_fields(config)
    columns = grids.flatten(_floats(config.get('grid', {})), 'config.grid')
    tuned = _tuning_columns(config)
    made = parts(config)
    algorithms = {
        label: _algorithm(config, label, {**columns, **tuned}) for label in config['algorithms']
    }
    untuned = [k for k, maker in algorithms.items() if maker.columns[_RATE] is REQUIRED]
    if untuned and _RATE not in {**columns, **tuned}:
        requirement = f'be given, or several as `config.tuning.learning_rates`, for {untuned[0]}'
        raise errors.invalid(f'config.{_RATE}', requirement, None)
    fields = (
        'baseline',
        'metric',
        'direction',
        'names',
        'reports',
        'log',
        'grid_mode',
        'evaluate_start',
    )
    first = config.get('first_seed', 0)
    try:
        experiment = Experiment(
            title=config['title'],
            problem=made.problems,
            patterns=made.patterns,
            algorithms=algorithms,
            num_rounds=config['num_rounds'],
            eval_every=config['eval_every'],
            seeds=range(first, first + config.get('num_seeds', 1)),
            grid=columns,
            tuning=_tuning(config, tuned),
            eval_fn=_eval_fn(config),
            config=config,
            caption=plain.filled(config.get('caption', ''), config),
            redraw=redraw(config),
            **{field: config[field] for field in fields if field in config},
        )
    except errors.InvalidError as error:
        if error.path.partition('.')[0] in FIELDS:
            raise error.at(f'config.{error.path}') from error
        raise
    _try(experiment)
    limits.check_rounds(config)
    for label, pattern in itertools.product(algorithms, made.patterns):
        own = config['algorithms'][label].get('client', {})
        where = f'config.algorithms.{label}.client' if 'batch_size' in own else 'config.client'
        problem = experiment.problem_at(pattern, experiment.grid_points[0])
        limits.check_batch(where, {**config.get('client', {}), **own}, problem)
    return experiment


def _check_fields(config: Mapping[str, Any]) -> None:
    sections.check_fields(config, _REQUIRED, _OPTIONAL)
    plain.check(config)
    if 'num_seeds' in config:
        checks.static_int('config.num_seeds', config['num_seeds'])
    first = config.get('first_seed', 0)
    most = 2**32 - config.get('num_seeds', 1)
    checks.static_int('config.first_seed', first, minimum=0, maximum=most)
    for label, section in config.get('problems', {}).items():
        _check_section(f'config.problems.{label}', section)
    if ('links' in config) == ('patterns' in config):
        raise errors.invalid('config', "have either 'links' or 'patterns'", sorted(config))
    for name in ('algorithms', 'patterns', 'problem', 'grid'):
        if name in config and not config[name]:
            raise errors.invalid(f'config.{name}', 'have at least one entry', config[name])


def _check_section(where: str, section: Any) -> None:
    if not isinstance(section, Mapping):
        raise errors.invalid(where, 'be a section', errors.shown(section))


def _floats(grid: Any) -> Any:
    """Rates are numbers that no program is built around, whichever way they are written."""
    if not isinstance(grid, Mapping):
        return grid
    rates = ('learning_rate', 'server_lr')
    return {
        name: [float(v) if type(v) is int else v for v in values]
        if name in rates and isinstance(values, list | tuple)
        else _floats(values)
        for name, values in grid.items()
    }


# Algorithms and tuning.


def _algorithm(config: Mapping[str, Any], label: str, columns: grids.Columns) -> Maker[Algorithm]:
    """An algorithm; it takes its client rate and what the grids say of it and of clients."""
    section = config['algorithms'][label]
    _check_section(f'config.algorithms.{label}', section)
    own_client = section.get('client', {})
    _check_section(f'config.algorithms.{label}.client', own_client)
    shared = config.get('client', {})
    prefix, axes = f'algorithms.{label}.', {}
    for name in columns:
        root, *path = name.split('.')
        if root == 'client' and path and path[0] not in own_client:
            axes[name] = ['client', *path]
        elif name.startswith(prefix):
            axes[name] = ['section', *name.removeprefix(prefix).split('.')]
        elif name == _SERVER_LR and _may_tune_server_lr(label, section):
            axes[name] = ['section', name]
    own_rate = 'learning_rate' in own_client
    axes[_RATE] = [*(['section'] if own_rate else []), 'client', 'learning_rate']
    rate = own_client.get('learning_rate', shared.get('learning_rate', REQUIRED))
    if rate is not REQUIRED:
        rate = _as_rate(label, rate, list(pattern_sections(config)))
    if _RATE in columns and 'learning_rate' in own_client:
        where = f'config.algorithms.{label}.client.learning_rate'
        requirement = 'be left out, as `config.grid` or `config.tuning` has rates for all'
        raise errors.invalid(where, requirement, errors.shown(rate))

    return algorithm_maker(label, section, shared, axes, {_RATE: rate})


def _as_rate(label: str, rate: Any, patterns: Sequence[str]) -> Any:
    """A rate, or rates by pattern."""
    where = f'config.algorithms.{label}.client.learning_rate'
    if isinstance(rate, Mapping) and patterns:
        if missing := [pattern for pattern in patterns if pattern not in rate]:
            raise errors.invalid(where, f'have {missing[0]!r}', sorted(rate))
        return {pattern: _as_rate(label, rate[pattern], ()) for pattern in patterns}
    if isinstance(rate, bool) or not isinstance(rate, int | float | np.number):
        raise errors.invalid(where, 'be a number', errors.shown(rate))
    checks.positive(where, rate)
    return float(rate)


def _may_tune_server_lr(label: str, section: Section) -> bool:
    """Whether an algorithm has a server rate that is not configured."""
    named = {'name': label, **section}
    factory, options = sections.lookup(f'config.algorithms.{label}', named, ALGORITHMS)
    return _SERVER_LR in sections.parameters(factory) and _SERVER_LR not in options


def _tuning_columns(config: Mapping[str, Any]) -> dict[str, list[Any]]:
    """What tuning tries."""
    tuning, given = config.get('tuning', {}), config.get('client', {}).get('learning_rate')
    for option in tuning:
        if option not in _TUNING:
            raise errors.unknown_name('config.tuning', option, _TUNING)
    listed = {}
    if 'learning_rates' in tuning:
        listed[_RATE] = _rates('learning_rates', tuning['learning_rates'])
    if tuning.get('server_lrs') not in (None, (), []):
        listed[_SERVER_LR] = _rates('server_lrs', tuning['server_lrs'])
    if 'grid' in tuning:
        if listed:
            requirement = "have either 'grid' or 'learning_rates' and 'server_lrs'"
            raise errors.invalid('config.tuning', requirement, sorted(tuning))
        return grids.flatten(_floats(tuning['grid']), 'config.tuning.grid')
    if _RATE in listed and given is not None:
        requirement = f'be left out, or else `config.{_RATE}`'
        value = f'{listed[_RATE]} beside {errors.shown(given)}'
        raise errors.invalid('config.tuning.learning_rates', requirement, value)
    if tuning and not listed:
        requirement = "have 'learning_rates', 'server_lrs' or 'grid'"
        raise errors.invalid('config.tuning', requirement, sorted(tuning))
    return listed


def _rates(option: str, values: Any) -> list[float]:
    """Different positive numbers."""
    where = f'config.tuning.{option}'
    if not isinstance(values, list | tuple | np.ndarray) or not len(values):
        raise errors.invalid(where, 'be a list of at least one number', errors.shown(values))
    for rate in values:
        checks.positive(where, rate)
    if any(np.ndim(rate) for rate in values) or len({*values}) < len(values):
        raise errors.invalid(where, 'hold each number once', errors.shown(values))
    return [float(rate) for rate in values]


def _tuning(config: Mapping[str, Any], columns: grids.Columns) -> Tuning | None:
    if 'tuning' not in config:
        return None
    if not config['tuning']:
        raise errors.invalid('config.tuning', 'have at least one entry', config['tuning'])
    options = {k: v for k, v in config['tuning'].items() if k in _TUNING_OPTIONS}
    if 'num_rounds' not in options:
        raise errors.invalid('config.tuning', "have 'num_rounds'", sorted(config['tuning']))
    return Tuning(grid=columns, **options)


def _eval_fn(config: Mapping[str, Any]) -> simulation.EvalFn | None:
    if 'eval_fn' not in config:
        return None
    found: simulation.EvalFn = sections.named('config.eval_fn', config['eval_fn'], choices.EVAL_FNS)
    if not callable(found):
        raise errors.invalid('config.eval_fn', 'name what returns a function', errors.shown(found))
    return found


def _try(experiment: Experiment) -> None:
    """Builds every part at every point."""
    for label in experiment.pattern_makers:
        for point in experiment.grid_points:
            experiment.pattern_at(label, point)
    for label, maker in experiment.algorithm_makers.items():
        for point in grids.project(experiment.grid_points, maker.columns):
            for values in lanes.tuning_points(experiment, label) or [{}]:
                experiment.algorithm_at(label, maker.at({**point, **values}))
        for pattern in experiment.pattern_makers:
            fixed = {k: v[pattern] for k, v in maker.columns.items() if isinstance(v, Mapping)}
            if fixed:
                experiment.algorithm_at(label, maker.at({**experiment.grid_points[0], **fixed}))
