"""From a config, a tree of plain values, to the experiment that it stands for.

Plain values only before `build`, objects only after it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links import simulation
from fedjax_links.config import choices, fields, plain, sections
from fedjax_links.core import checks, errors, grids
from fedjax_links.experiment.config_parts import RATE, SERVER_LR, algorithm_maker, parts, redraw
from fedjax_links.experiment.definition import Experiment
from fedjax_links.experiment.plan.choosing import Tuning
from fedjax_links.experiment.plan.deciding import UntilDecided
from fedjax_links.experiment.plan.makers import REQUIRED

_AS_THEY_ARE = (
    *('title', 'num_rounds', 'eval_every', 'grid_mode', 'evaluate_start', 'metric', 'direction'),
    'matmul_precision',
    *('baseline', 'names', 'reports', 'log'),
)
"""Fields that an `Experiment` has too."""

_RATES = 'learning_rate', 'server_lr'
_TUNING_OPTIONS = 'pattern', 'num_rounds', 'num_seeds', 'most_seeds', 'ties', 'grow', 'model'
_SEEDS = 'until', 'least', 'most', 'margin', 'level', 'tail'
_TUNING = 'grid', 'learning_rates', 'server_lrs', *_TUNING_OPTIONS


def build(config: Mapping[str, Any]) -> Experiment:
    """The experiment that a config stands for.

    Fields are those of `Experiment`, as plain values, and what makes its parts:

    Fields:
      title: One line for tables and pictures.
      problem: The data and the loss; a section whose name is a problem, with its options.
      problems: Fields of the problem that differ, by label of the pattern.
      links: The pattern, where there is one; a name or a section. Either this or ``patterns``.
      patterns: The patterns, a section each by label.
      algorithms: The algorithms, a section each by label. The label is the name unless the section
        has one; ``client`` in it overrides the client's fields.
      client: What clients do, the program's ``name`` and options; with ``decay`` the schedule of
        the rate, and ``batch_size`` 0 for the full local data.
      num_rounds: Rounds of every lane.
      eval_every: Rounds between evaluations, a divisor of ``num_rounds``.
      num_seeds: How many seeds.
      first_seed: The first of them; the others follow.
      seeds: In place of ``num_seeds``: until every difference is decided.
      redraw: ``by_seed`` or ``fixed``, by stream of draws or one for all. By default by seed is all
        to which neither a section nor the grid gives a seed.
      grid: What is swept: nested like the config, lists of values at its leaves.
      tuning: How rates, or a nested ``grid`` of other fields, are found before the experiment.
      eval_fn: What is measured of a model, a name or a section; ``mine:make`` is a function that
        returns ``(params, key, problem) -> {name: number}``.
      caption: What a reader of the report must know; ``{config.num_rounds}`` in it stands for the
        value of that field as it runs.

    Args:
      config: nested dictionaries, as a config file's ``to_dict()`` gives them.

    Returns:
      The experiment; every part was built once, so mistakes show here.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    _check_fields(config)
    columns = _columns(config.get('grid', {}), 'config.grid')
    tuning = _tuning(config)
    ways = redraw(config)
    problem, patterns = parts(config, columns, ways)
    every = {**columns, **(tuning.grid if tuning else {})}
    algorithms = {label: algorithm_maker(config, label, every) for label in config['algorithms']}
    untuned = [label for label, maker in algorithms.items() if maker.columns[RATE] is REQUIRED]
    if untuned and RATE not in every:
        requirement = f'be given, or several as `config.tuning.learning_rates`, for {untuned[0]}'
        raise errors.invalid(f'config.{RATE}', requirement, None)
    for field in ('grid', 'tuning'):
        if not config.get(field, True):
            raise errors.invalid(f'config.{field}', 'have at least one entry', config[field])
    try:
        experiment = Experiment(
            problem=problem,
            patterns=patterns,
            algorithms=algorithms,
            seeds=_seeds(config),
            grid=columns,
            tuning=tuning,
            eval_fn=_eval_fn(config),
            config=config,
            caption=plain.fill_in(config.get('caption', ''), config),
            redraw=ways,
            **{field: config[field] for field in _AS_THEY_ARE if field in config},
        )
    except errors.InvalidError as error:
        if error.path.partition('.')[0] in fields.FIELDS:
            raise error.at(f'config.{error.path}') from error
        raise
    for label, maker in experiment.plan.algorithms.items():
        points = (lane.point for lane in experiment.plan.every_lane(label))
        for point in grids.project(points, maker.columns):
            maker.make_at(point)
    return experiment


def _check_fields(config: Mapping[str, Any]) -> None:
    fields.check(config, fields.FIELDS, fields.REQUIRED)
    plain.check('config', config)
    if 'num_seeds' in config:
        checks.static_int('config.num_seeds', config['num_seeds'])
    most = 2**32 - config.get('num_seeds', 1)
    checks.static_int('config.first_seed', config.get('first_seed', 0), minimum=0, maximum=most)
    if ('links' in config) == ('patterns' in config):
        raise errors.invalid('config', "have either 'links' or 'patterns'", sorted(config))


def _seeds(config: Mapping[str, Any]) -> Sequence[int]:
    """A number of seeds, or as many as are needed."""
    first, given = config.get('first_seed', 0), config.get('seeds')
    if given is None:
        return range(first, first + config.get('num_seeds', 1))
    if 'num_seeds' in config:
        raise errors.invalid('config.seeds', 'be left out, or else `config.num_seeds`', given)
    for option in given:
        checks.choice('config.seeds', option, _SEEDS)
    checks.choice('config.seeds.until', given.get('until'), ('decided',))
    return UntilDecided(first=first, **{k: v for k, v in given.items() if k != 'until'})


def _columns(grid: Any, where: str) -> dict[str, list[Any]]:
    """The columns of a grid; no program is built around a rate, whichever way it is written."""
    return {
        name: [float(v) if type(v) is int and name.endswith(_RATES) else v for v in values]
        for name, values in grids.flatten(grid, where).items()
    }


# Tuning.


def _tuning(config: Mapping[str, Any]) -> Tuning | None:
    """What tuning tries, and how."""
    tuning, given = config.get('tuning'), config.get('client', {}).get('learning_rate')
    if not tuning:
        return None
    for option in tuning:
        checks.choice('config.tuning', option, _TUNING)
    tried: dict[str, list[Any]] = {}
    if 'learning_rates' in tuning:
        tried[RATE] = _rates('learning_rates', tuning['learning_rates'])
    if tuning.get('server_lrs') not in (None, (), []):
        tried[SERVER_LR] = _rates('server_lrs', tuning['server_lrs'])
    if 'grid' in tuning and tried:
        requirement = "have either 'grid' or 'learning_rates' and 'server_lrs'"
        raise errors.invalid('config.tuning', requirement, sorted(tuning))
    if RATE in tried and given is not None:
        requirement = f'be left out, or else `config.{RATE}`'
        value = f'{tried[RATE]} beside {errors.text_of(given)}'
        raise errors.invalid('config.tuning.learning_rates', requirement, value)
    tried = tried or _columns(tuning.get('grid', {}), 'config.tuning.grid')
    if not tried:
        requirement = "have 'learning_rates', 'server_lrs' or 'grid'"
        raise errors.invalid('config.tuning', requirement, sorted(tuning))
    return Tuning(grid=tried, **{k: v for k, v in tuning.items() if k in _TUNING_OPTIONS})


def _rates(option: str, values: Any) -> list[float]:
    """Different positive numbers."""
    where = f'config.tuning.{option}'
    if not isinstance(values, list | tuple | np.ndarray) or not len(values):
        raise errors.invalid(where, 'be a list of at least one number', errors.text_of(values))
    for rate in values:
        checks.positive(where, rate)
    if any(np.ndim(rate) for rate in values) or len({*values}) < len(values):
        raise errors.invalid(where, 'hold each number once', errors.text_of(values))
    return [float(rate) for rate in values]


def _eval_fn(config: Mapping[str, Any]) -> simulation.EvalFn | None:
    if 'eval_fn' not in config:
        return None
    found: simulation.EvalFn = sections.build_named(
        'config.eval_fn', config['eval_fn'], choices.EVAL_FNS
    )
    if not callable(found):
        requirement = 'name what returns a function'
        raise errors.invalid('config.eval_fn', requirement, errors.text_of(found))
    return found
