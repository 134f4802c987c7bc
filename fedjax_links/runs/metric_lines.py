"""Checks the lines of metrics of a run folder against the description of the run.

The facts of a run are its description in ``experiment.json``. As in `checking`, no line is trusted:
anybody may have written it.
"""

import json
import math
from collections.abc import Mapping

import numpy as np

from fedjax_links.core import errors
from fedjax_links.core.checks import is_text
from fedjax_links.core.records import MetricsRow, RunFacts
from fedjax_links.planning.tuning import FIRST_TUNING_SEED
from fedjax_links.results import dataset
from fedjax_links.runs.checking import (
    MAX_LINES,
    STAGES,
    is_count,
    is_plain,
    num_grid_points,
)


def parse_row(line: bytes | str) -> MetricsRow:
    """Reads a line of metrics.

    Raises:
      ValueError: if the text is no line of metrics.
    """
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    is_row = isinstance(row, dict) and is_count(row.get('round'))
    if not is_row or not all(map(_is_cell, row.values())):
        raise errors.invalid(
            'folder', 'hold readable lines of metrics', errors.text_of(line)
        )
    return row


def _is_cell(value: object) -> bool:
    """Returns whether a value can be a cell: no list or section, or a plain one (`is_plain`)."""
    return not isinstance(value, list | dict) or is_plain(value)


def check_columns(
    where: object, columns: Mapping[str, np.ndarray], facts: RunFacts
) -> None:
    """Refuses metrics that no run with these facts writes.

    Raises:
      ValueError: naming the folder and the column.
    """
    if not columns:
        return
    _check_label_columns(where, columns, facts)
    _check_metric_columns(where, columns, facts)
    is_tuning = columns['stage'] == dataset.TUNING  # tuning has seeds of its own
    if {*columns['seed'][~is_tuning].tolist()} - {*facts['seeds']}:
        raise errors.invalid('folder', 'hold lines of known seeds', where)
    num_rounds = facts['num_rounds']
    if not ((columns['round'] >= 0) & (columns['round'] <= num_rounds)).all():
        raise errors.invalid('folder', f'hold rounds up to {num_rounds}', where)
    for name, column in columns.items():
        is_number = column.dtype.kind in 'fiub'
        if column.dtype == object and not all(map(_is_cell, column.tolist())):
            requirement = f'hold plain values as {errors.text_of(name)}'
            raise errors.invalid('folder', requirement, where)
        if not is_text(name):
            requirement = f'name no column {errors.text_of(name)}'
            raise errors.invalid('folder', requirement, where)
        if '/' in name and not is_number:
            requirement = f'hold numbers as {errors.text_of(name)}'
            raise errors.invalid('folder', requirement, where)
    _check_tuning_lines(where, columns, facts)


def _check_metric_columns(
    where: object, columns: Mapping[str, np.ndarray], facts: RunFacts
) -> None:
    """Refuses lines of an algorithm that lack the metric of one of its models."""
    for label in {*columns['algorithm'].tolist()}:
        for model in facts['models'][label]:
            name = f'{model}/{facts["metric"]}'
            if name not in columns:
                requirement = f'hold {errors.text_of(name)} of {label}'
                raise errors.invalid('folder', requirement, where)


_KINDS_OF_COLUMNS = {
    'stage': 'OU',
    'algorithm': 'OU',
    'pattern': 'OU',
    'seed': 'iu',
    'round': 'iu',
}
"""The kinds of dtypes of the columns that each run has."""


def _check_label_columns(
    where: object, columns: Mapping[str, np.ndarray], facts: RunFacts
) -> None:
    """Refuses lines that lack a label, or have a label that is not in the facts."""
    have_one_length = len({len(column) for column in columns.values()}) == 1
    for name, kinds in _KINDS_OF_COLUMNS.items():
        is_there = name in columns and columns[name].dtype.kind in kinds
        if not is_there or not have_one_length:
            raise errors.invalid('folder', f'hold lines with a {name} each', where)
    known_values = {
        'stage': STAGES,
        'algorithm': facts['algorithms'],
        'pattern': facts['patterns'],
    }
    for name, known in known_values.items():
        unknown = {*columns[name].tolist()} - {*known}
        if unknown:
            first = errors.text_of(min(map(str, unknown)))
            requirement = f'hold lines of a known {name}'
            raise errors.invalid('folder', requirement, f'{where} with {first}')


def _check_tuning_lines(
    where: object, columns: Mapping[str, np.ndarray], facts: RunFacts
) -> None:
    """Refuses lines of tuning that no run with these facts writes.

    Valid lines have known seeds and values, and are of no more trials than any run has.
    """
    is_tuning = columns['stage'] == dataset.TUNING
    if not is_tuning.any():
        return
    tuning = facts['tuning']
    if tuning is None:
        raise errors.invalid('folder', 'hold no lines of tuning', where)
    rows = {name: column[is_tuning] for name, column in columns.items()}
    num_seeds = tuning.get('most_seeds') or tuning['num_seeds']
    seeds = rows['seed'] - FIRST_TUNING_SEED
    if not ((seeds >= 0) & (seeds < num_seeds)).all():
        raise errors.invalid('folder', 'hold lines of known seeds of tuning', where)
    for name, values in tuning['grid'].items():
        if name in rows and not _are_known(rows[name], values):
            requirement = f'hold lines of known values of {name}'
            raise errors.invalid('folder', requirement, where)
    _check_num_scores(where, rows, facts, num_seeds)


def _check_num_scores(
    where: object, rows: Mapping[str, np.ndarray], facts: RunFacts, num_seeds: int
) -> None:
    """Refuses an algorithm whose trials would have more scores than any run has."""
    for algorithm in facts['algorithms']:
        is_own = rows['algorithm'] == algorithm
        own_rows = {name: column[is_own] for name, column in rows.items()}
        num_scores = num_seeds * _num_trials(own_rows, facts)
        if num_scores > MAX_LINES:
            requirement = f'hold at most {MAX_LINES:,} scores of tuning'
            value = f'{where} with {num_scores:,} of {algorithm}'
            raise errors.invalid('folder', requirement, value)


def _are_known(column: np.ndarray, values: list[object]) -> bool:
    """Returns whether each entry of a column is missing or among known values."""
    known = list(map(dataset.as_tuple, values))
    for value in dataset.as_tuples(column).tolist():
        is_missing = value is None or value != value
        if not is_missing and value not in known:
            return False
    return True


def _num_trials(rows: Mapping[str, np.ndarray], facts: RunFacts) -> int:
    """Counts the trials of an algorithm at all points of the columns that its lines have."""
    present = [name for name, column in rows.items() if dataset.has_value(column).any()]
    grid = facts['tuning']['grid']
    lengths = [len(values) for name, values in grid.items() if name in present]
    return math.prod(lengths) * num_grid_points(facts, present)
