"""From a config, a tree of plain values, to the experiment that it stands for.

Plain values only before `build`, objects only after it.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from fedjax_links import simulation
from fedjax_links.config import bound, nested, registries, resolver, schema
from fedjax_links.core import checks, errors, grids
from fedjax_links.experiment import config_parts
from fedjax_links.experiment.definition import Experiment
from fedjax_links.planning.sequential_seeds import UntilDecided
from fedjax_links.planning.tuning import Tuning

_TUNED = {'learning_rates': config_parts.RATE, 'server_lrs': config_parts.SERVER_LR}
"""Columns by what tuning calls their values."""

_SHOWN = ('title', 'caption', 'names')
"""Fields whose texts name nothing."""


def build(config: nested.Config) -> Experiment:
    """The experiment that a config stands for.

    Fields are those of `Experiment`, as plain values, and what makes its parts:

    Fields:
      title: One line for tables and pictures.
      problem: The data and the loss; a section whose name is a problem, with its options.
      problems: Fields of the problem that differ, by label of the pattern.
      initial_params: The parameters that every run begins with, in place of the model's own draw:
        the path of a run's folder or of an npz; or a section with that as ``folder``, ``lane``
        (labels that only that lane has), ``name`` (``server`` or ``client_mean``), ``at_round``.
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
      config: nested dictionaries or an `ml_collections.ConfigDict`, as a config file returns them;
        NumPy's numbers and arrays stand for numbers and lists. What comes first stands first in
        tables, so that the first algorithm is the baseline where none is named ``fedavg``.

    Returns:
      The experiment; every part was built once, so mistakes show here.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    return _build(nested.resolved(nested.plain(config)))


def _build(config: Mapping[str, Any]) -> Experiment:
    _check_fields(config)
    columns = _columns(config.get('grid', {}), 'config.grid')
    tuning = _tuning(config)
    made = config_parts.parts(config, columns, tuning.grid if tuning else {})
    for field in ('grid', 'tuning'):
        if not config.get(field, True):
            raise errors.invalid(
                f'config.{field}', 'have at least one entry', config[field]
            )
    made |= {
        'seeds': _seeds(config),
        'grid': columns,
        'tuning': tuning,
        'eval_fn': _eval_fn(config),
        'config': config,
        'caption': nested.filled_in(config.get('caption', ''), config),
    }
    same = {field.name for field in dataclasses.fields(Experiment)} & config.keys()
    try:
        experiment = Experiment(**{name: config[name] for name in same} | made)
    except errors.InvalidError as error:
        if error.path.partition('.')[0] in schema.FIELDS:
            raise error.at(f'config.{error.path}') from error
        raise
    for label, maker in experiment.plan.algorithms.items():
        points = (lane.point for lane in experiment.plan.lanes_at_first(label))
        for point in grids.project(points, maker.columns):
            maker.make_at(point)
    return experiment


def recorded(
    config: Mapping[str, Any], *, allow_imports: bool = False, trusted: Any = None
) -> dict[str, Any]:
    """Takes the config of a run folder, which is data, for `build`.

    What only watches a run or shows its results (``log``, ``reports``) is left out.

    Args:
      config: as the folder keeps it.
      allow_imports: whether it may name code outside the package, which `build` imports.
      trusted: a config that the user gave; what it names may be named here, too.

    Returns:
      The config.

    Raises:
      RefusedImportError: if it names other code outside the package.
    """
    kept = {
        name: part for name, part in config.items() if name not in ('log', 'reports')
    }
    resolved = {name: part for name, part in kept.items() if name not in _SHOWN}
    bound.check_recorded(
        'config', resolved, allow_imports=allow_imports, trusted=trusted
    )
    return kept


def _check_fields(config: Mapping[str, Any]) -> None:
    if not isinstance(config, Mapping):
        raise errors.invalid(
            'config', 'be a dictionary or a ConfigDict', errors.text_of(config)
        )
    schema.check(config, schema.FIELDS, schema.REQUIRED)
    _check_plain('config', config)
    if 'num_seeds' in config:
        checks.static_int('config.num_seeds', config['num_seeds'])
    most = 2**32 - config.get('num_seeds', 1)
    checks.static_int(
        'config.first_seed', config.get('first_seed', 0), minimum=0, maximum=most
    )
    if ('links' in config) == ('patterns' in config):
        raise errors.invalid(
            'config', "have either 'links' or 'patterns'", sorted(config)
        )


def _check_plain(where: str, value: Any) -> None:
    """Raises unless fields have names and every number is one that the engine can hold.

    Objects, such as a flax module that a script puts in, are not looked at.
    """
    if isinstance(value, Mapping):
        for name, part in value.items():
            if not isinstance(name, str) or not name.strip():
                requirement = 'have texts as names of its fields'
                raise errors.invalid(where, requirement, errors.text_of(name))
            _check_plain(f'{where}.{name}', part)
    elif isinstance(value, list | tuple):
        for place, part in enumerate(value):
            _check_plain(
                where if isinstance(part, int | float) else f'{where}[{place}]', part
            )
    elif isinstance(value, bytes | bytearray | complex | set | frozenset):
        raise errors.invalid(
            where, 'be a number, text, list or section', errors.text_of(value)
        )
    elif isinstance(value, int) and abs(value) >= 2**63:
        raise errors.invalid(where, 'be within 64 bits', errors.text_of(value))
    elif isinstance(value, float):
        _check_float(where, value)


def _check_float(where: str, value: float) -> None:
    """Raises unless the engine can hold a number."""
    if math.isnan(value) and where.partition('[')[0].endswith('.prob'):
        return  # of `replay`, where a probability is not known
    if not math.isfinite(value):
        raise errors.invalid(where, 'be finite', errors.text_of(value))
    largest = float(np.finfo(jnp.result_type(float)).max)
    if abs(value) > largest:
        limit = f'at most {largest:.2g}' if value > 0 else f'at least {-largest:.2g}'
        raise errors.invalid(where, f'be {limit}, to be finite here', value)


def _seeds(config: Mapping[str, Any]) -> Sequence[int]:
    """A number of seeds, or as many as are needed."""
    first, given = config.get('first_seed', 0), config.get('seeds')
    if given is None:
        return range(first, first + config.get('num_seeds', 1))
    if 'num_seeds' in config:
        raise errors.invalid(
            'config.seeds', 'be left out, or else `config.num_seeds`', given
        )
    known = {field.name for field in dataclasses.fields(UntilDecided)} - {'first'}
    for option in given:
        checks.choice('config.seeds', option, {'until', *known})
    checks.choice('config.seeds.until', given.get('until'), ('decided',))
    with errors.inside('config'):
        return UntilDecided(
            first=first, **{name: given[name] for name in known & given.keys()}
        )


def _columns(grid: Any, where: str) -> dict[str, list[Any]]:
    """The columns of a grid; no program is built around a rate, whichever way it is written."""
    columns = grids.flatten(grid, where)
    for name in columns:
        if name.endswith(('learning_rate', 'server_lr')):
            columns[name] = [float(v) if type(v) is int else v for v in columns[name]]
    return columns


def _tuning(config: Mapping[str, Any]) -> Tuning | None:
    """What tuning tries, and how."""
    tuning, given = (
        dict(config.get('tuning') or {}),
        config.get('client', {}).get('learning_rate'),
    )
    if not tuning:
        return None
    known = {field.name for field in dataclasses.fields(Tuning)}
    for option in tuning:
        checks.choice('config.tuning', option, {*known, *_TUNED})
    if tuning.get('server_lrs') in (None, (), []):
        tuning.pop('server_lrs', None)
    tried = {
        _TUNED[name]: _rates(name, tuning[name]) for name in _TUNED if name in tuning
    }
    if 'grid' in tuning and tried:
        requirement = "have either 'grid' or 'learning_rates' and 'server_lrs'"
        raise errors.invalid('config.tuning', requirement, sorted(tuning))
    if 'learning_rates' in tuning and given is not None:
        requirement = f'be left out, or else `config.{config_parts.RATE}`'
        value = f'{tried[config_parts.RATE]} beside {errors.text_of(given)}'
        raise errors.invalid('config.tuning.learning_rates', requirement, value)
    tried = tried or _columns(tuning.get('grid', {}), 'config.tuning.grid')
    if not tried:
        requirement = "have 'learning_rates', 'server_lrs' or 'grid'"
        raise errors.invalid('config.tuning', requirement, sorted(tuning))
    own = {name: value for name, value in tuning.items() if name in known}
    with errors.inside('config'):
        return Tuning(**{**own, 'grid': tried})


def _rates(option: str, values: Any) -> list[float]:
    """Different positive numbers."""
    where = f'config.tuning.{option}'
    if not isinstance(values, list | tuple | np.ndarray) or not len(values):
        raise errors.invalid(
            where, 'be a list of at least one number', errors.text_of(values)
        )
    rates = [config_parts.as_rate(where, rate) for rate in values]
    if len({*rates}) < len(rates):
        raise errors.invalid(where, 'hold each number once', errors.text_of(values))
    return rates


def _eval_fn(config: Mapping[str, Any]) -> simulation.EvalFn | None:
    if 'eval_fn' not in config:
        return None
    where, section = 'config.eval_fn', config['eval_fn']
    found: simulation.EvalFn = resolver.build_named(where, section, registries.EVAL_FNS)
    if not callable(found):
        raise errors.invalid(
            where, 'name what returns a function', errors.text_of(found)
        )
    return found
