"""What fits together in an experiment, and how large one can be."""

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedjax_links.core import checks, client_names, errors, prng
from fedjax_links.planning import seeding, sequential_seeds
from fedjax_links.planning.tuning import BEST, Tuning
from fedjax_links.results import dataset

if TYPE_CHECKING:
    from fedjax_links.experiment.definition import Experiment

MOST_BYTES = 100  # of a label: file names of 255 hold two, and a seed and a round
LINK_PAGES = 'links', 'participation'
"""Pages that every report of a run with kept links has."""
_FILE_NAME = re.compile(r'[^/\\. ]([^/\\]*[^/\\ ])?')


def check_work(
    num_lanes: int,
    num_rounds: int,
    eval_every: int,
    *,
    lanes: str,
    rounds: str = 'num_rounds',
) -> None:
    """Raises for more work than anybody can wait for, before anything is listed.

    Args:
      num_lanes: simulations.
      num_rounds: rounds of each.
      eval_every: rounds between evaluations.
      lanes: where their number comes from, for errors.
      rounds: where the number of rounds comes from.

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


def check(experiment: 'Experiment') -> None:
    """Raises for fields of an experiment that do not fit together, or are too large.

    Problems and patterns are made for it, as the first seed draws them.

    Args:
      experiment: whose fields are of the right kinds.

    Raises:
      ValueError: naming the field.
    """
    plan, tuning, seeds = experiment.plan, experiment.tuning, experiment.seeds
    grid, period = num_points(plan.columns, experiment.grid_mode), experiment.eval_every
    parts = len(experiment.patterns) * len(
        experiment.algorithms
    )  # each pattern has one problem
    where = 'grid' if grid > len(seeds) else 'num_seeds'
    check_work(grid * parts * len(seeds), experiment.num_rounds, period, lanes=where)
    if tuning is not None:
        tried = num_points(plan.tried, 'cross')
        lanes = grid * tried * (len(experiment.algorithms) if tuning.pattern else parts)
        sizes = (
            lanes * len(tuning.seeds),
            tuning.num_rounds or experiment.num_rounds,
            period,
        )
        check_work(*sizes, lanes='tuning', rounds='tuning.num_rounds')
    prng.seed_column(seeds)
    check_labels('patterns', list(experiment.patterns))
    check_labels('algorithms', list(experiment.algorithms))
    check_labels('config.reports', list(experiment.reports), LINK_PAGES)
    checks.choice('baseline', plan.baseline, list(experiment.algorithms))
    for label, _ in experiment.names:
        checks.choice('names', label, (*experiment.patterns, *experiment.algorithms))
    taken = {name for maker in plan.algorithms.values() for name in maker.columns}
    for name in plan.columns:
        checks.choice('grid', name, {seeding.GRID, *plan.drawn_columns, *taken})
    dataset.check_name('grid', plan.columns)
    _check_draws(experiment)
    for pattern, point in itertools.product(experiment.patterns, plan.points):
        metrics = plan.metrics(pattern, point)
        checks.choice('metric', plan.metric, metrics)
        dataset.check_name('metrics', metrics)
        problem = experiment.problem_at(pattern, point)
        wanted = problem.num_clients
        if (count := experiment.pattern_at(pattern, point).num_clients) != wanted:
            requirement = f"have the problem's {wanted} clients"
            raise errors.invalid(f'patterns.{pattern}', requirement, count)
        names = experiment.pattern_at(pattern, point).client_names or ()
        client_names.check_order(f'patterns.{pattern}', names, problem.client_names)
    for name in plan.tried:
        checks.choice('tuning.grid', name, taken)
        if name in plan.columns:
            raise errors.invalid('tuning.grid', 'leave out the columns of `grid`', name)
    is_open = isinstance(seeds, sequential_seeds.UntilDecided)
    if is_open and len(experiment.algorithms) < 2:
        requirement = (
            'be a number of seeds, as nothing is to be decided of one algorithm'
        )
        raise errors.invalid('seeds', requirement, list(experiment.algorithms))
    if (is_open or tuning is not None) and plan.directions[plan.metric] is None:
        requirement = (
            f"be 'max' or 'min', as nothing says which way {plan.metric} is better"
        )
        raise errors.invalid('direction', requirement, None)
    if tuning is not None:
        _check_tuning(experiment, tuning)


def _check_draws(experiment: 'Experiment') -> None:
    """Raises for streams that cannot be drawn as an experiment asks.

    Seeds must not all be alike; a stream by seed must not stand in the grid, and one that was named
    is drawn by something.
    """
    plan, ways, count = (
        experiment.plan,
        experiment.plan.draws.ways(),
        len(experiment.seeds),
    )
    if count > 1 and seeding.BY_SEED not in ways.values():
        requirement = f'have a stream by seed for {count} seeds'
        raise errors.invalid('redraw', requirement, repr(seeding.FIXED))
    if experiment.tuning is not None and seeding.BY_SEED not in ways.values():
        requirement = 'have a stream by seed, as tuning would see what the experiment is judged on'
        raise errors.invalid('redraw', requirement, repr(seeding.FIXED))
    for stream, column in seeding.COLUMNS.items():
        requirement = ''
        if column in plan.columns:
            requirement = f'be fixed beside grid.{column}'
        elif (
            not isinstance(experiment.redraw, str) and column not in plan.drawn_columns
        ):
            whose = 'pattern' if stream == 'links_quality' else 'problem'
            requirement = f'be fixed, as no {whose} draws it'
        if requirement and ways[stream] == seeding.BY_SEED:
            raise errors.invalid(f'redraw.{stream}', requirement, repr(seeding.BY_SEED))


def _check_tuning(experiment: 'Experiment', tuning: Tuning) -> None:
    """Raises for tuning that cannot be done, or is longer than the run."""
    length, labels = tuning.num_rounds or 0, list(experiment.algorithms)
    check_multiple('tuning.num_rounds', length, experiment.eval_every)
    if length > experiment.num_rounds:
        requirement = f'be at most `num_rounds` = {experiment.num_rounds}'
        raise errors.invalid('tuning.num_rounds', requirement, length)
    _check_tuning_seeds(experiment, tuning)
    if tuning.pattern is not None:
        checks.choice('tuning.pattern', tuning.pattern, list(experiment.patterns))
    models = {label: experiment.plan.models(label) for label in labels}
    if not isinstance(tuning.model, Mapping):
        every = {model for own in models.values() for model in own}
        checks.choice('tuning.model', tuning.model, {BEST, *every})
        return
    for label, model in tuning.model.items():
        checks.choice('tuning.model', label, labels)
        checks.choice(f'tuning.model.{label}', model, {BEST, *models[label]})


def _check_tuning_seeds(experiment: 'Experiment', tuning: Tuning) -> None:
    """Raises where a seed of the experiment is one of those that tuning sees."""
    both = sorted({*tuning.seeds}.intersection(experiment.seeds))
    if both:
        field = 'seeds' if experiment.config is None else 'first_seed'
        first, last = tuning.seeds[0], tuning.seeds[-1]
        requirement = (
            f'leave the seeds {first} to {last} to tuning, as those from 0 on do'
        )
        raise errors.invalid(
            field, requirement, f'{both[0]} to {both[-1]} among the seeds'
        )


def check_multiple(field: str, value: int, period: int) -> None:
    """Raises for a number of rounds with a period that is not whole."""
    if value % period:
        raise errors.invalid(field, f'be a multiple of `eval_every` = {period}', value)


def num_points(columns: Mapping[str, Sequence[Any]], mode: str) -> int:
    """The number of points of a grid, without listing them."""
    lengths = [len(values) for values in columns.values()]
    return math.prod(lengths) if mode == 'cross' else max(lengths, default=1)


def check_labels(field: str, labels: Sequence[Any], pages: Sequence[str] = ()) -> None:
    """Raises unless labels name files, each a file of its own.

    Args:
      field: whose labels.
      labels: labels of patterns or algorithms, or names of reports.
      pages: names that are left to the pages of the links.

    Raises:
      ValueError: naming the label.
    """
    seen: dict[str, str] = {}
    for label in labels:
        if isinstance(label, str) and not label.isprintable():
            requirement = (
                'have labels of signs that are seen, without line breaks or joiners'
            )
            raise errors.invalid(field, requirement, errors.text_of(label))
        if (
            not isinstance(label, str)
            or not _FILE_NAME.fullmatch(label)
            or '..' in label
        ):
            requirement = "have labels that are file names without '/' and '..'"
            raise errors.invalid(field, requirement, errors.text_of(label))
        if len(label.encode()) > MOST_BYTES:
            requirement = f'have labels of at most {MOST_BYTES} bytes in UTF-8'
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
