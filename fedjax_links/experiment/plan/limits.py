"""What fits together in an experiment, and how large one can be."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedjax_links.core import checks, errors
from fedjax_links.experiment.plan import choosing, deciding, redraws
from fedjax_links.results import dataset

if TYPE_CHECKING:
    from fedjax_links.experiment.definition import Experiment

MOST_LANES = 10**5
MOST_ROUNDS = 10**12
MOST_EVALUATIONS = 10**7
MOST_LETTERS = 100
_MOST_GROWN = 20
LINK_PAGES = 'links', 'participation'
"""Pages that every report of a run with kept links has."""
_FILE_NAME = re.compile(r'[^/\\. ]([^/\\]*[^/\\ ])?')


def check_work(
    num_lanes: int, num_rounds: int, eval_every: int, *, lanes: str, rounds: str = 'num_rounds'
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
        (lanes, num_lanes, MOST_LANES, 'lanes'),
        (rounds, total, MOST_ROUNDS, 'rounds in all'),
        ('eval_every', total // eval_every, MOST_EVALUATIONS, 'evaluations in all'),
    ):
        if count > most:
            raise errors.invalid(field, f'give at most {most:,} {what}', f'{count:,}')


def check_size(experiment: 'Experiment') -> None:
    """`check_work` for an experiment; problems are no factor, as each belongs to a pattern."""
    tuning, parts = experiment.tuning, len(experiment.patterns) * len(experiment.algorithms)
    if tuning is not None:
        checks.static_int('tuning.num_rounds', tuning.num_rounds or 0)
        checks.static_int('tuning.num_seeds', tuning.num_seeds)
        checks.static_int('tuning.ties', tuning.ties, minimum=0)
        checks.static_int('tuning.grow', tuning.grow, minimum=0, maximum=_MOST_GROWN)
        if tuning.most_seeds is not None:
            least = max(2, tuning.num_seeds)
            checks.static_int('tuning.most_seeds', tuning.most_seeds, minimum=least)
    grid = num_points(experiment.plan.columns, experiment.grid_mode)
    num_seeds, period = len(experiment.seeds), experiment.eval_every
    where = 'grid' if grid > num_seeds else 'num_seeds'
    check_work(grid * parts * num_seeds, experiment.num_rounds, period, lanes=where)
    if tuning is not None:
        tried = num_points(experiment.plan.tried, 'cross')
        labels = len(experiment.algorithms) if tuning.pattern else parts
        lanes = grid * tried * labels * len(tuning.seeds)
        rounds = 'tuning.num_rounds'
        check_work(lanes, tuning.num_rounds or 0, period, lanes='tuning', rounds=rounds)


def check_until_decided(experiment: 'Experiment', seeds: deciding.UntilDecided) -> None:
    """Raises for seeds that cannot go on until pairs are decided."""
    checks.static_int('seeds.least', seeds.least, minimum=2)
    checks.static_int('seeds.most', seeds.most, minimum=seeds.least)
    for name, most in (('margin', math.inf), ('level', 1), ('tail', 1)):
        checks.within(f'seeds.{name}', getattr(seeds, name), 0, most)
    if len(experiment.algorithms) < 2:
        requirement = 'be a number of seeds, as nothing is to be decided of one algorithm'
        raise errors.invalid('seeds', requirement, list(experiment.algorithms))
    check_direction(experiment)


def check_direction(experiment: 'Experiment') -> None:
    """Raises where nothing says which way the metric is better."""
    plan = experiment.plan
    if plan.directions[plan.metric] is None:
        requirement = f"be 'max' or 'min', as nothing says which way {plan.metric} is better"
        raise errors.invalid('direction', requirement, None)


def check_multiple(field: str, value: int, period: int) -> None:
    """Raises for a number of rounds with a period that is not whole."""
    if value % period:
        raise errors.invalid(field, f'be a multiple of `eval_every` = {period}', value)


def check_columns(experiment: 'Experiment') -> None:
    """Raises for a column of the grid that no maker takes."""
    plan = experiment.plan
    own = {name for maker in plan.algorithms.values() for name in maker.columns}
    for name in plan.columns:
        checks.choice('grid', name, {redraws.GRID, *plan.drawn_columns, *own})
    dataset.check_name('grid', plan.columns)


def check_tuning(experiment: 'Experiment', tuning: choosing.Tuning) -> None:
    """Raises for tuning that cannot be done, is overruled, or is longer than the run."""
    length = tuning.num_rounds or experiment.num_rounds
    check_multiple('tuning.num_rounds', length, experiment.eval_every)
    if length > experiment.num_rounds:
        requirement = f'be at most `num_rounds` = {experiment.num_rounds}'
        raise errors.invalid('tuning.num_rounds', requirement, length)
    if tuning.pattern is not None:
        checks.choice('tuning.pattern', tuning.pattern, list(experiment.patterns))
    plan = experiment.plan
    taken = {name for maker in plan.algorithms.values() for name in maker.columns}
    for name in plan.tried:
        checks.choice('tuning.grid', name, taken)
        if name in plan.columns:
            raise errors.invalid('tuning.grid', 'leave out the columns of `grid`', name)
    check_direction(experiment)
    named = tuning.model
    if not isinstance(named, Mapping):
        every = (model for label in experiment.algorithms for model in plan.models(label))
        checks.choice('tuning.model', named, {choosing.BEST, *every})
        return
    for label, model in named.items():
        checks.choice('tuning.model', label, list(experiment.algorithms))
        checks.choice(f'tuning.model.{label}', model, {choosing.BEST, *plan.models(label)})


def num_points(columns: Mapping[str, Sequence[Any]], mode: str) -> int:
    """The number of points of a grid, without listing them."""
    lengths = [len(values) for values in columns.values()]
    return math.prod(lengths) if mode == 'cross' else max(lengths, default=1)


def check_labels(field: str, labels: Sequence[Any]) -> None:
    """Raises unless labels name files, each a file of its own.

    Args:
      field: whose labels.
      labels: labels of patterns or algorithms, or names of reports.

    Raises:
      ValueError: naming the label.
    """
    seen: dict[str, str] = {}
    for label in labels:
        is_text = isinstance(label, str) and label.isprintable()
        if not is_text or not _FILE_NAME.fullmatch(label) or '..' in label:
            requirement = "have labels that are file names without '/' and '..'"
            raise errors.invalid(field, requirement, errors.text_of(label))
        if len(label) > MOST_LETTERS:
            requirement = f'have labels of at most {MOST_LETTERS} letters'
            raise errors.invalid(field, requirement, errors.text_of(label))
        other = seen.setdefault(label.casefold(), label)
        if other != label:
            requirement = 'have labels that differ by more than capitals, as they name files'
            raise errors.invalid(field, requirement, f'{other!r} and {label!r}')


def check_report_names(names: Sequence[Any]) -> None:
    """`check_labels` for reports, which leave the names of the links' pages free."""
    check_labels('config.reports', names)
    for name in names:
        if name.casefold() in LINK_PAGES:
            requirement = f'leave the names {" and ".join(LINK_PAGES)} to the pages of the links'
            raise errors.invalid('config.reports', requirement, name)


def check_names(names: Sequence[Any], labels: Sequence[str]) -> None:
    """Raises unless names are pairs of a label and what to show."""
    for pair in names:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise errors.invalid('names', 'be pairs (label, name)', errors.text_of(pair))
        checks.choice('names', pair[0], labels)
        if not isinstance(pair[1], str) or not pair[1].strip():
            raise errors.invalid('names', 'show texts', errors.text_of(pair[1]))
