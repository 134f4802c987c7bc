"""Makes the fields of an experiment from a config, in three steps.

The config becomes plain values, then typed fields and sections, and then the makers of parts. A
section is a nested mapping of the config. A maker makes an algorithm, a pattern or a problem from
columns of the grid (`parametrized.Maker`).
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fedjax_links import simulation
from fedjax_links.config import (
    algorithm_sections,
    bound,
    captions,
    nested,
    registries,
    resolver,
    schema,
)
from fedjax_links.core import checks, errors, fields, grids
from fedjax_links.core.records import Section
from fedjax_links.experiment import config_parts
from fedjax_links.planning import parametrized
from fedjax_links.planning.plan import Plan
from fedjax_links.planning.sequential_seeds import UntilDecided
from fedjax_links.planning.tuning import Tuning

_TUNING_OPTIONS = fields.declared(Tuning)

_SHOWN = ('title', 'caption', 'names')
"""Fields whose texts are only shown, so that a colon in them names no code."""


def read(config: nested.Config, *, quick: bool = False) -> dict[str, Any]:
    """Makes the fields of an `Experiment` from a config.

    Args:
      config: as in `build`.
      quick: as in `build`.

    Returns:
      The fields by name.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    # 1. Plain values.
    tree = nested.plain(config)
    if isinstance(tree, Mapping):  # `schema.read` refuses anything else.
        tree = nested.quick(tree) if quick else nested.full(tree)
    tree = nested.resolved(tree)
    # 2. Typed fields, sections and columns.
    settings = schema.read(tree)
    caption = captions.fill_in(settings.caption, tree)
    columns = _columns(settings.grid, 'config.grid')
    tuning = _read_tuning(settings.tuning)
    swept = {**columns, **(tuning.grid if tuning else {})}
    sections = {
        label: algorithm_sections.read(label, section, settings.client, swept)
        for label, section in settings.algorithms.items()
    }
    # 3. Makers of parts.
    problems, patterns, redraw = config_parts.make_parts(settings, columns)
    algorithms = {
        label: parametrized.config_maker(bind, defaults, has_placeholders=True)
        for label, (bind, defaults) in sections.items()
    }
    # This check comes last, as the error of a part that lacks an option says more.
    for name in ('grid', 'tuning'):
        if not tree.get(name, True):
            raise errors.invalid(f'config.{name}', 'have at least one entry', {})
    shared = {
        name: getattr(settings, name) for name in fields.declared(schema.Settings)
    }
    return {
        **shared,
        'caption': caption,
        'problem': problems,
        'patterns': patterns,
        'algorithms': algorithms,
        'redraw': redraw,
        'seeds': _read_seeds(settings.seeds, settings.first_seed, settings.num_seeds),
        'grid': columns,
        'tuning': tuning,
        'eval_fn': _make_eval_fn(settings.eval_fn),
        'config': tree,
    }


@contextlib.contextmanager
def named_in_config() -> Iterator[None]:
    """Names fields in errors as the config has them."""
    try:
        yield
    except errors.InvalidError as error:
        if error.path.partition('.')[0] in schema.EXPERIMENT:
            raise error.at(f'config.{error.path}') from error
        raise


def make_algorithms(plan: Plan) -> None:
    """Makes each algorithm at each point of the grid once, so that mistakes show."""
    for label, maker in plan.algorithms.items():
        points = (lane.point for lane in plan.lanes_at_first(label))
        for point in grids.project(points, maker.columns):
            maker.make_at(point)


def prepare_recorded(
    config: Section, *, allow_imports: bool = False, trusted: Any = None
) -> dict[str, Any]:
    """Prepares the config of a run folder for `build`, without trusting it.

    Fields that only watch a run or show its results (``log``, ``reports``) are left out.

    Args:
      config: as the folder holds it.
      allow_imports: whether the config may name code outside the package, which `build` imports.
      trusted: a config of the user. Code that it names is allowed in any case.

    Returns:
      The config.

    Raises:
      RefusedImportError: if the config names other code outside the package.
    """
    prepared = {
        name: part for name, part in config.items() if name not in ('log', 'reports')
    }
    with_names = {name: part for name, part in prepared.items() if name not in _SHOWN}
    bound.check_recorded(
        'config', with_names, allow_imports=allow_imports, trusted=trusted
    )
    return prepared


def _read_seeds(section: Section | None, first: int, count: int) -> Sequence[int]:
    """Returns the seeds: a fixed range, or `UntilDecided` if there is a section ``seeds``."""
    if section is None:
        return range(first, first + count)
    options = dict(section)
    known = fields.declared(UntilDecided)
    for option in options:
        checks.choice('config.seeds', option, {*schema.SEEDS, *known})
    # This only checks the option ``until``, which has one valid value and is not kept.
    schema.SeedsSection(until=options.pop('until', None))
    with errors.context('config'):
        try:
            return UntilDecided(first=first, **options)
        except errors.InvalidError as error:
            if error.path != 'seeds.first':
                raise
            raise error.at('first_seed') from error


def _columns(grid: Any, path: str) -> dict[str, list[Any]]:
    """Returns the columns of a grid. Rates become floats, which are arguments of programs."""
    columns = grids.flatten(grid, path)
    for name, values in columns.items():
        if name.endswith(('learning_rate', 'server_lr')):
            columns[name] = [float(v) if type(v) is int else v for v in values]
    return columns


def _read_tuning(section: Section | None) -> Tuning | None:
    """Reads the section ``tuning``; None for no tuning."""
    if not section:
        return None
    for option in section:
        checks.choice('config.tuning', option, {*schema.TUNING, *_TUNING_OPTIONS})
    grid = _read_rates(section)
    if 'grid' in section and grid:
        requirement = "have either 'grid' or 'learning_rates' and 'server_lrs'"
        raise errors.invalid('config.tuning', requirement, sorted(section))
    if not grid:
        grid = _columns(section.get('grid', {}), 'config.tuning.grid')
    if not grid:
        requirement = "have 'learning_rates', 'server_lrs' or 'grid'"
        raise errors.invalid('config.tuning', requirement, sorted(section))
    options = {
        name: value for name, value in section.items() if name in _TUNING_OPTIONS
    }
    with errors.context('config'):
        return Tuning(**{**options, 'grid': grid})


def _read_rates(section: Section) -> dict[str, list[float]]:
    """Returns the columns that ``learning_rates`` and ``server_lrs`` stand for."""
    columns = {}
    if 'learning_rates' in section:
        rates = section['learning_rates']
        columns[algorithm_sections.RATE] = _list_of_rates('learning_rates', rates)
    # Not every algorithm has a server rate, so an empty list tunes none.
    if section.get('server_lrs') not in (None, (), []):
        rates = section['server_lrs']
        columns[algorithm_sections.SERVER_LR] = _list_of_rates('server_lrs', rates)
    return columns


def _list_of_rates(option: str, values: object) -> list[float]:
    """Checks that the values are distinct positive numbers, and returns them as floats."""
    path = f'config.tuning.{option}'
    if not isinstance(values, list | tuple) or not values:
        requirement = 'be a list of at least one number'
        raise errors.invalid(path, requirement, errors.text_of(values))
    rates = [algorithm_sections.as_rate(path, rate) for rate in values]
    if len(set(rates)) < len(rates):
        raise errors.invalid(path, 'hold each number once', errors.text_of(values))
    return rates


def _make_eval_fn(section: Section | str | None) -> simulation.EvalFn | None:
    """Makes the evaluation of a model; None for the problem's metrics."""
    if section is None:
        return None
    path = 'config.eval_fn'
    eval_fn: simulation.EvalFn = resolver.build_named(
        path, section, registries.EVAL_FNS
    )
    if not callable(eval_fn):
        requirement = 'name what returns a function'
        raise errors.invalid(path, requirement, errors.text_of(eval_fn))
    return eval_fn
