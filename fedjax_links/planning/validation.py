"""Checks that the fields of an experiment fit together, and that it is not too large."""

import itertools
import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links.core import checks, client_names, contracts, errors, prng
from fedjax_links.core.grids import GridColumns, Point
from fedjax_links.planning import lane_shards, seeding, sequential_seeds
from fedjax_links.planning.plan import Plan
from fedjax_links.planning.tuning import BEST, Tuning
from fedjax_links.results import dataset

MAX_BYTES = 100
"""Most bytes of a label: a file name of at most 255 bytes holds two labels, a seed and a round."""
LINK_PAGES = 'links', 'participation'
"""Pages that every report of a run with kept links has."""
_ROUNDS_OF_ALGORITHMS = 'period', 'start_round'
_ROUNDS_OF_LINKS = {'outage': 'start', 'switch': 'at_rounds'}
"""By name of a pattern, its option that holds a round, or rounds."""
_OPTIONAL_PARTS: Mapping[str, tuple[type, str]] = {
    'tuning': (Tuning, "a Tuning, such as Tuning(grid={'learning_rate': [0.1, 0.2]})"),
    'lane_shard': (lane_shards.LaneShard, 'a shard, as the method `shard` sets it'),
    'config': (Mapping, 'the config that the experiment was made from'),
}
"""Kinds of the fields of an experiment that may be None, and how errors describe them."""
_FILE_NAME = re.compile(r'(?!.*\.\.)[^/\\. ]([^/\\]*[^/\\ ])?')


def check_work(
    num_lanes: int,
    num_rounds: int,
    eval_every: int,
    *,
    lanes: str,
    rounds: str = 'num_rounds',
) -> None:
    """Raises for more work than anyone means, before lanes are listed.

    Args:
      num_lanes: number of lanes, that is of simulations.
      num_rounds: rounds of each lane.
      eval_every: rounds between evaluations.
      lanes: the field that the number of lanes comes from, for errors.
      rounds: the field that the number of rounds comes from, for errors.

    Raises:
      ValueError: naming the field to lower.
    """
    total = num_lanes * num_rounds
    for field, count, most, what in (
        (lanes, num_lanes, 10**5, 'lanes'),
        (rounds, total, 10**12, 'rounds in all'),
        ('eval_every', total // eval_every, 10**7, 'evaluations in all'),
    ):
        if count > most:
            raise errors.invalid(field, f'give at most {most:,} {what}', f'{count:,}')


def check_kinds(parts: Any) -> None:
    """Raises for a field of an experiment of the wrong kind, from which no plan can be made.

    Args:
      parts: an object with the fields of `experiment.Experiment`.

    Raises:
      ValueError: naming the field. Parts must stand under labels and seeds in a list, at least one
        of each. Tuning, shard and config must be of their kinds, if they are given.
    """
    for field in ('patterns', 'algorithms'):
        entries = getattr(parts, field)
        if not isinstance(entries, Mapping):
            requirement = "be by label, such as {'mine': ...}"
            raise errors.invalid(field, requirement, contracts.kind_of(entries))
    _check_seeds(parts.seeds)
    for field in ('patterns', 'algorithms', 'seeds'):
        entries = getattr(parts, field)
        if not len(entries):
            raise errors.invalid(field, 'have at least one entry', entries)
    for field, (kind, description) in _OPTIONAL_PARTS.items():
        value = getattr(parts, field)
        if value is not None and not isinstance(value, kind):
            requirement = f'be {description}, or None'
            raise errors.invalid(field, requirement, errors.text_of(value))


def _check_seeds(seeds: object) -> None:
    """Raises unless seeds are in a list, or in an array with an axis."""
    is_list = isinstance(seeds, Collection) and not isinstance(seeds, str)
    if not is_list or getattr(seeds, 'shape', None) == ():
        requirement = 'be a list of seeds, such as range(3)'
        raise errors.invalid('seeds', requirement, errors.text_of(seeds))


def check(plan: Plan) -> None:
    """Raises for fields of an experiment that do not fit together, or are too large.

    To be checked, problems and patterns are made as the first seed draws them.

    Args:
      plan: of an experiment whose fields are of the right kinds.

    Raises:
      ValueError: naming the field.
    """
    _check_size(plan)
    _check_names(plan)
    _check_grid(plan)
    _check_draws(plan)
    for pattern, point in itertools.product(plan.patterns, plan.points):
        _check_point(plan, pattern, point)
    _check_tuned_columns(plan)
    _check_comparison(plan)
    if plan.tuning is not None:
        _check_tuning(plan, plan.tuning)


def _check_size(plan: Plan) -> None:
    """Raises for too many lanes, rounds or evaluations, of the main stage or of tuning."""
    num_labels = len(plan.algorithms)
    num_pairs = len(plan.patterns) * num_labels  # each pattern has one problem
    num_seeds = len(plan.seeds)
    grid_size = num_points(plan.columns, plan.settings.grid_mode)
    check_work(
        grid_size * num_pairs * num_seeds,
        plan.num_rounds,
        plan.eval_every,
        lanes='grid' if grid_size > num_seeds else plan.field_of_seeds,
    )
    tuning = plan.tuning
    if tuning is None:
        return
    num_tuned = num_labels if tuning.pattern else num_pairs
    num_trials = grid_size * num_points(plan.tuned_columns, 'cross') * num_tuned
    check_work(
        num_trials * len(tuning.seeds),
        tuning.num_rounds or plan.num_rounds,
        plan.eval_every,
        lanes='tuning',
        rounds='tuning.num_rounds',
    )


def _check_names(plan: Plan) -> None:
    """Raises for seeds, labels and names that cannot stand in files and tables."""
    algorithms = list(plan.algorithms)
    patterns = list(plan.patterns)
    prng.seed_column(plan.seeds)
    check_labels('patterns', patterns)
    check_labels('algorithms', algorithms)
    check_labels('config.reports', list(plan.settings.reports), LINK_PAGES)
    checks.choice('baseline', plan.baseline, algorithms)
    names: dict[str, str] = {}
    for label, name in plan.settings.names:
        checks.choice('names', label, (*patterns, *algorithms))
        if names.setdefault(label, name) != name:
            got = f'{names[label]} and {name}'
            raise errors.invalid('names', f'have one name for {label}', got)
    for labels in (patterns, algorithms):
        label_of_name: dict[str, str] = {}
        for label in labels:
            name = names.get(label, label)
            first = label_of_name.setdefault(name, label)
            if first != label:
                # Tables have a row or column for each name.
                requirement = f'name {first} and {label} differently'
                raise errors.invalid('names', requirement, name)


def _check_grid(plan: Plan) -> None:
    """Raises for a column of the grid that nothing takes, or that metrics cannot have."""
    known = {
        seeding.REDRAW_COLUMN,
        *plan.data_and_link_columns,
        *_algorithm_columns(plan),
    }
    for name in plan.columns:
        checks.choice('grid', name, known)
    _check_columns(plan, dataset.LINE_COLUMNS)


def _check_columns(plan: Plan, others: Sequence[str]) -> None:
    """Raises for a column of the grid or of tuning with a name that is taken."""
    dataset.check_name('grid', plan.columns, others)
    dataset.check_name('tuning.grid', plan.tuned_columns, others)


def _algorithm_columns(plan: Plan) -> set[str]:
    """Returns the columns that algorithms take."""
    return {name for maker in plan.algorithms.values() for name in maker.columns}


def _check_draws(plan: Plan) -> None:
    """Raises for streams that cannot be drawn as an experiment asks.

    `seeding` says what streams are. Several seeds, or tuning, need a stream by seed. The grid must
    not set the seeds of such a stream. If ``redraw`` names the stream, a part must draw from it.
    """
    modes = plan.draws.modes()
    is_random = seeding.BY_SEED in modes.values()
    if len(plan.seeds) > 1 and not is_random:
        requirement = f'have a stream by seed for {len(plan.seeds)} seeds'
        raise errors.invalid('redraw', requirement, repr(seeding.FIXED))
    if plan.tuning is not None and not is_random:
        requirement = 'have a stream by seed, as tuning would see what the experiment is judged on'
        raise errors.invalid('redraw', requirement, repr(seeding.FIXED))
    for stream, column in seeding.COLUMNS.items():
        requirement = _why_fixed(plan, stream, column)
        if requirement and modes[stream] == seeding.BY_SEED:
            raise errors.invalid(f'redraw.{stream}', requirement, repr(seeding.BY_SEED))


def _why_fixed(plan: Plan, stream: str, column: str) -> str:
    """Says why a stream must be fixed; empty if it need not be."""
    if column in plan.columns:
        return f'be fixed beside grid.{column}'
    is_named = not isinstance(plan.redraw, str)
    if is_named and column not in plan.data_and_link_columns:
        part = 'pattern' if stream == 'links_quality' else 'problem'
        return f'be fixed, as no {part} draws it'
    return ''


def _check_point(plan: Plan, pattern: str, point: Point) -> None:
    """Raises if a pattern and its problem do not fit together at a point."""
    metrics = plan.metrics(pattern, point)
    checks.choice('metric', plan.metric, metrics)
    dataset.check_name('metrics', metrics)
    _check_columns(plan, metrics)
    problem = plan.problem_at(pattern, point)
    participation = plan.pattern_at(pattern, point)
    contracts.check_pattern(participation, f'patterns.{pattern}')
    if participation.num_clients != problem.num_clients:
        requirement = f"have the problem's {problem.num_clients} clients"
        raise errors.invalid(
            f'patterns.{pattern}', requirement, participation.num_clients
        )
    client_names.check_order(
        f'patterns.{pattern}',
        participation.client_names or (),
        problem.client_names,
    )


def _check_tuned_columns(plan: Plan) -> None:
    """Raises for a column of tuning that no algorithm takes, or that the grid has."""
    known = _algorithm_columns(plan)
    for name in plan.tuned_columns:
        checks.choice('tuning.grid', name, known)
        if name in plan.columns:
            raise errors.invalid('tuning.grid', 'leave out the columns of `grid`', name)


def _check_comparison(plan: Plan) -> None:
    """Raises where seeds or tuning must compare, and nothing says what or in which direction."""
    is_open = isinstance(plan.seeds, sequential_seeds.UntilDecided)
    if is_open and len(plan.algorithms) < 2:
        requirement = (
            'be a number of seeds, as one algorithm has none to be compared with'
        )
        raise errors.invalid('seeds', requirement, list(plan.algorithms))
    decides = is_open or plan.tuning is not None
    if decides and plan.directions[plan.metric] is None:
        requirement = (
            f"be 'max' or 'min', as nothing says which way {plan.metric} is better"
        )
        raise errors.invalid('direction', requirement, None)


def check_rounds(plan: Plan) -> None:
    """Raises for events of a config that would first come after the last round."""
    config = plan.config or {}
    for label, value in config.get('algorithms', {}).items():
        section = value if isinstance(value, Mapping) else {}
        for field in _ROUNDS_OF_ALGORITHMS:
            path = f'algorithms.{label}.{field}'
            latest = _latest(plan.columns.get(path, section.get(field)))
            if latest is not None and latest > plan.num_rounds:
                requirement = f'be at most `num_rounds` = {plan.num_rounds}'
                raise errors.invalid(f'config.{path}', requirement, latest)
    for field in ('links', 'patterns'):
        _check_rounds_of_links(plan, field, config.get(field))


def _check_rounds_of_links(plan: Plan, path: str, value: Any) -> None:
    """Raises for an outage or a switch after the last round, also inside other patterns."""
    if isinstance(value, list | tuple):
        for index, part in enumerate(value):
            _check_rounds_of_links(plan, f'{path}[{index}]', part)
    if not isinstance(value, Mapping):
        return
    field = _ROUNDS_OF_LINKS.get(str(value.get('name')))
    if field is not None:
        latest = _latest(plan.columns.get(f'{path}.{field}', value.get(field)))
        if latest is not None and latest >= plan.num_rounds:
            requirement = f'come before the end of the run, at round {plan.num_rounds}'
            raise errors.invalid(f'config.{path}.{field}', requirement, latest)
    for name, part in value.items():
        _check_rounds_of_links(plan, f'{path}.{name}', part)


def _latest(value: Any) -> float | None:
    """Returns a number, or the largest one of a list; None without any."""
    parts = value if isinstance(value, list | tuple | np.ndarray) else [value]
    numbers: list[Any] = [
        part for part in parts if isinstance(part, int | float | np.number)
    ]
    return max(numbers, default=None)


def _check_tuning(plan: Plan, tuning: Tuning) -> None:
    """Raises for tuning that cannot be done, or is longer than the run."""
    length = tuning.num_rounds or plan.num_rounds
    check_multiple('tuning.num_rounds', length, plan.eval_every)
    if length > plan.num_rounds:
        requirement = f'be at most `num_rounds` = {plan.num_rounds}'
        raise errors.invalid('tuning.num_rounds', requirement, length)
    _check_tuning_seeds(plan, tuning)
    if tuning.pattern is not None:
        checks.choice('tuning.pattern', tuning.pattern, list(plan.patterns))
    models = {label: plan.models(label) for label in plan.algorithms}
    if not isinstance(tuning.model, Mapping):
        all_models = {name for names in models.values() for name in names}
        checks.choice('tuning.model', tuning.model, {BEST, *all_models})
        return
    for label, model in tuning.model.items():
        checks.choice('tuning.model', label, list(models))
        checks.choice(f'tuning.model.{label}', model, {BEST, *models[label]})


def _check_tuning_seeds(plan: Plan, tuning: Tuning) -> None:
    """Raises if tuning would see a seed of the experiment."""
    shared = sorted(set(tuning.seeds).intersection(plan.seeds))
    if shared:
        field = 'seeds' if plan.config is None else 'first_seed'
        first, last = tuning.seeds[0], tuning.seeds[-1]
        requirement = (
            f'leave the seeds {first} to {last} to tuning, as those from 0 on do'
        )
        raise errors.invalid(
            field, requirement, f'{shared[0]} to {shared[-1]} among the seeds'
        )


def check_multiple(field: str, value: int, period: int) -> None:
    """Raises unless a number of rounds is a multiple of the evaluation period."""
    if value % period:
        raise errors.invalid(field, f'be a multiple of `eval_every` = {period}', value)


def num_points(columns: GridColumns, mode: str) -> int:
    """Returns the number of points of a grid, without listing them."""
    lengths = [len(values) for values in columns.values()]
    return math.prod(lengths) if mode == 'cross' else max(lengths, default=1)


def check_labels(
    field: str, labels: Sequence[object], pages: Sequence[str] = ()
) -> None:
    """Raises unless labels name files, each a file of its own.

    Args:
      field: whose labels.
      labels: labels of patterns or algorithms, or names of reports.
      pages: names that are reserved for the pages of the links.

    Raises:
      ValueError: naming the label.
    """
    seen: dict[str, str] = {}
    for label in labels:
        if isinstance(label, str) and not label.isprintable():
            requirement = (
                'have labels of printable characters, without line breaks or joiners'
            )
            raise errors.invalid(field, requirement, errors.text_of(label))
        if not isinstance(label, str) or not _FILE_NAME.fullmatch(label):
            requirement = (
                r"have labels that are file names without '/', '\' and '..', "
                'a dot in front and spaces at the ends'
            )
            raise errors.invalid(field, requirement, errors.text_of(label))
        if len(label.encode()) > MAX_BYTES:
            requirement = f'have labels of at most {MAX_BYTES} bytes in UTF-8'
            raise errors.invalid(field, requirement, errors.text_of(label))
        if label.casefold() in pages:
            requirement = (
                f'leave the names {" and ".join(pages)} to the pages of the links'
            )
            raise errors.invalid(field, requirement, label)
        other = seen.setdefault(label.casefold(), label)
        if other != label:
            requirement = (
                'have labels that differ by more than capitals, as they name files'
            )
            raise errors.invalid(field, requirement, f'{other!r} and {label!r}')
