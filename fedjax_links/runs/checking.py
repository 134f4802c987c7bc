"""Checks what a run folder holds when it is read: a folder is data, and may be anybody's.

The facts of a run are its description in ``experiment.json``. Types and sizes are checked where
files are read. So all later code finds what a run writes, and no number in a file decides how much
memory or time is spent.
"""

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

from fedjax_links.core import errors
from fedjax_links.core.checks import is_text
from fedjax_links.core.records import LaneLabels, RunFacts, Section

STAGES = 'tuning', 'main', 'tie'
"""Stages of lanes, in the order in which one process runs them.

A lane is one algorithm, pattern, grid point and seed. It is a trial of tuning, a lane of the main
results, or a lane at a near tie of tuning.
"""
# More than any run has. These limits bound the memory and the time that a file can take.
MAX_LINES = 10**7
_MAX_SHARDS = 10**5
_MAX_DEPTH = 50
# The longest name of a file on common disks.
_MAX_LETTERS = 255
_LABELS = {'stage': str, 'algorithm': str, 'pattern': str, 'seed': int}
_Check = tuple[Callable[[Any], bool], str]


def is_label(value: object) -> bool:
    """Returns whether a value is a label, which can be a part of a file's name."""
    if not isinstance(value, str) or not value.isprintable():
        return False
    return (
        0 < len(value) <= _MAX_LETTERS
        and not {'/', '\\'} & {*value}
        and '..' not in value
    )


def is_count(value: object, least: int = 0, most: int = 2**31 - 1) -> bool:
    """Returns whether a value is a whole number within bounds."""
    return type(value) is int and least <= value <= most


def is_plain(value: object, depth: int = _MAX_DEPTH) -> bool:
    """Returns whether a value is a number, a text or None, or lists or sections of these.

    Args:
      value: from JSON.
      depth: how many lists and sections may lie within each other.
    """
    if not isinstance(value, list | Mapping):
        return value is None or isinstance(value, bool | int | float) or is_text(value)
    entries = value.values() if isinstance(value, Mapping) else value
    if depth == 0 or (isinstance(value, Mapping) and not all(map(is_text, value))):
        return False
    return all(is_plain(entry, depth - 1) for entry in entries)


def _are(kind: Callable[[object], bool]) -> Callable[[object], bool]:
    """Makes the check of a list, not empty, of different values of a kind."""

    def are(values: object) -> bool:
        if not isinstance(values, list) or not values or not all(map(kind, values)):
            return False
        return len(set(values)) == len(values)

    return are


def _are_columns(values: object) -> bool:
    if not isinstance(values, Mapping) or not all(map(is_text, values)):
        return False
    return all(
        isinstance(column, list) and column and is_plain(column)
        for column in values.values()
    )


def _are_names(values: object) -> bool:
    return isinstance(values, list) and all(
        isinstance(pair, list) and len(pair) == 2 and all(map(is_text, pair))
        for pair in values
    )


def _are_models(values: object) -> bool:
    return isinstance(values, Mapping) and all(map(_are(is_label), values.values()))


def _are_directions(values: object) -> bool:
    if not isinstance(values, Mapping) or not values or not all(map(is_text, values)):
        return False
    return all(way in ('max', 'min', None) for way in values.values())


def _are_reports(values: object) -> bool:
    if not isinstance(values, Mapping) or not all(map(is_label, values)):
        return False
    return all(
        is_text(page) or (isinstance(page, Mapping) and is_text(page.get('name')))
        for page in values.values()
    )


def _is_deciding_model(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(map(is_text, value)) and all(map(is_text, value.values()))
    return is_text(value)


def _are_ranges(values: object) -> bool:
    return isinstance(values, Mapping) and all(map(_is_range, values.values()))


def _is_range(value: object) -> bool:
    if not isinstance(value, list) or not all(map(is_count, value)):
        return False
    return len(value) == 2 and value[0] < value[1]


def _is_until(value: object) -> bool:
    return isinstance(value, Mapping) and is_count(value.get('least'), 1)


_NEEDED: Mapping[str, _Check] = {
    'title': (is_text, 'be a text'),
    'caption': (is_text, 'be a text'),
    'num_rounds': (lambda v: is_count(v, 1), 'be a number of rounds'),
    'eval_every': (lambda v: is_count(v, 1), 'be a number of rounds'),
    'grid_mode': (lambda v: v in ('cross', 'together'), "be 'cross' or 'together'"),
    'patterns': (_are(is_label), 'be labels'),
    'algorithms': (_are(is_label), 'be labels'),
    'names': (_are_names, 'be pairs of texts'),
    'baseline': (is_label, 'be a label'),
    'metric': (is_text, 'be a name'),
    'directions': (_are_directions, "be 'max', 'min' or null by name"),
    'models': (_are_models, 'be names by algorithm'),
    'seeds': (_are(lambda v: is_count(v, 0, 2**32 - 1)), 'be whole numbers'),
    'grid': (_are_columns, 'be lists of plain values by name'),
    'tuning': (lambda v: isinstance(v, Mapping | None), 'be null or a section'),
    'reports': (_are_reports, 'be sections by name'),
}
_POSSIBLE: Mapping[str, _Check] = {
    'evaluate_start': (lambda v: isinstance(v, bool), 'be true or false'),
    'log': (lambda v: isinstance(v, list) and all(map(is_text, v)), 'be names'),
    'until': (_is_until, 'have a least number of seeds'),
    'at_round': (is_count, 'be a number of rounds'),
    'forked_from': (is_text, 'be a path'),
    'attainable': (is_text, 'be a text'),
    'redraw': (lambda v: isinstance(v, Mapping), 'be ways by stream'),
}
_NEEDED_OF_TUNING: Mapping[str, _Check] = {
    'num_rounds': (lambda v: is_count(v, 1), 'be a number of rounds'),
    'num_seeds': (lambda v: is_count(v, 1), 'be a number of seeds'),
    'grid': (_are_columns, 'be lists of plain values by name'),
    'model': (_is_deciding_model, 'be a name, or names by algorithm'),
}
_POSSIBLE_OF_TUNING: Mapping[str, _Check] = {
    'most_seeds': (lambda v: v is None or is_count(v, 1), 'be null or a number'),
    'ties': (is_count, 'be a number of values'),
    'given': (_are_ranges, 'be ranges of indices by name'),
}


def check_facts(where: object, facts: object) -> None:
    """Refuses facts that do not describe an experiment.

    Args:
      where: the file, for errors.
      facts: what the file holds.

    Raises:
      ValueError: naming the file and the first invalid fact.
    """
    if not isinstance(facts, Mapping):
        value = errors.text_of(facts)
        raise errors.invalid(str(where), 'describe an experiment', value)
    _check_kinds(f'{where}: ', facts, _NEEDED, _POSSIBLE)
    if facts['tuning'] is not None:
        prefix = f'{where}: tuning.'
        _check_kinds(prefix, facts['tuning'], _NEEDED_OF_TUNING, _POSSIBLE_OF_TUNING)
    choices = {'baseline': facts['algorithms'], 'metric': [*facts['directions']]}
    for name, known in choices.items():
        if facts[name] not in known:
            raise errors.unknown_name(f'{where}: {name}', facts[name], known)
    for label in facts['algorithms']:
        if label not in facts['models']:
            requirement = 'name those of each algorithm'
            raise errors.invalid(f'{where}: models', requirement, label)
    if facts['num_rounds'] % facts['eval_every']:
        requirement = f'be a multiple of eval_every = {facts["eval_every"]}'
        raise errors.invalid(f'{where}: num_rounds', requirement, facts['num_rounds'])
    num_lines = _num_lines(facts)
    if num_lines > MAX_LINES:
        requirement = f'give at most {MAX_LINES:,} lines'
        raise errors.invalid(f'{where}: grid', requirement, f'{num_lines:,}')


def _check_kinds(
    prefix: str,
    facts: Section,
    needed: Mapping[str, _Check],
    possible: Mapping[str, _Check],
) -> None:
    """Refuses the first fact that is missing or of another kind."""
    for name, (holds, requirement) in (*needed.items(), *possible.items()):
        if (name in facts or name in needed) and not holds(facts.get(name)):
            value = errors.text_of(facts.get(name))
            raise errors.invalid(f'{prefix}{name}', requirement, value)


def _num_lines(facts: RunFacts) -> int:
    """Counts the lines of metrics that an experiment writes, without tuning."""
    num_points = num_grid_points(facts, facts['grid'])
    num_pairs = len(facts['algorithms']) * len(facts['patterns'])
    num_evaluations: int = facts['num_rounds'] // facts['eval_every']
    return num_points * num_pairs * len(facts['seeds']) * num_evaluations


def num_grid_points(facts: RunFacts, names: Collection[str]) -> int:
    """Counts the points of some columns of the grid."""
    lengths = [len(values) for name, values in facts['grid'].items() if name in names]
    if facts['grid_mode'] == 'cross':
        return math.prod(lengths)
    return max(lengths, default=1)


def _are_labels(values: object) -> bool:
    return isinstance(values, list) and all(map(is_label, values))


def _are_shards(values: object) -> bool:
    return isinstance(values, dict) and all(map(is_label, values))


_DIVISION: Mapping[str, Callable[[Any], bool]] = {
    'count': lambda value: is_count(value, 1, _MAX_SHARDS),
    'by': lambda value: value in ('program', 'seed'),
    'lanes': _are_shards,
    'optional': _are_labels,
    'requested': _are_labels,
    'ended': lambda value: isinstance(value, bool),
    'fingerprint': lambda value: isinstance(value, dict | None),
}


def check_division(where: object, values: object) -> None:
    """Refuses values that do not say how lanes are divided into shards.

    Raises:
      ValueError: naming the file.
    """
    if not isinstance(values, dict) or not {'count', 'by', 'lanes'} <= values.keys():
        raise errors.invalid('folder', 'say how lanes are divided', where)
    for name, value in values.items():
        if name not in _DIVISION or not _DIVISION[name](value):
            got = f'{where}: {errors.text_of(value)}'
            raise errors.invalid('folder', f'hold a valid {name}', got)
    last_shard = values['count'] - 1
    if not all(is_count(shard, 0, last_shard) for shard in values['lanes'].values()):
        requirement = f'hold shards from 0 to {last_shard}'
        raise errors.invalid('folder', requirement, where)


def check_about(where: object, about: object) -> None:
    """Refuses a description of a lane that no save of a lane has.

    Raises:
      ValueError: naming the file.
    """
    fields: Mapping[str, Any] = about if isinstance(about, Mapping) else {}
    if 'place' in fields:  # Version 0.1.0 calls the position ``place``.
        requirement = (
            'be written by this version; the older one that wrote it can resume it '
            '(--start_over sets it aside)'
        )
        raise errors.invalid('checkpoint', requirement, where)
    labels = fields.get('labels')
    if not _are_lane_labels(labels):
        value = f'{where}: {errors.text_of(labels)}'
        raise errors.invalid('checkpoint', 'hold the labels of its lane', value)
    position = fields.get('position')
    is_pair = (
        isinstance(position, list)
        and len(position) == 2
        and all(map(is_count, position))
    )
    if not is_pair:
        value = f'{where}: {position!r}'
        raise errors.invalid('checkpoint', 'hold the position of its lane', value)


def _are_lane_labels(labels: object) -> bool:
    """Returns whether values are the labels of a lane: of known types, on one line each."""
    if not isinstance(labels, Mapping):
        return False
    if not all(type(labels.get(name)) is kind for name, kind in _LABELS.items()):
        return False
    if labels['stage'] not in STAGES or not all(map(is_label, labels)):
        return False
    return all(map(is_plain, labels.values()))


def check_labels(where: object, labels: LaneLabels, facts: RunFacts) -> None:
    """Refuses a lane whose algorithm or pattern the facts of the run do not have.

    Raises:
      ValueError: naming what is unknown.
    """
    for name in ('algorithm', 'pattern'):
        if labels[name] not in facts[f'{name}s']:
            got = f'{where} with {labels[name]!r}'
            raise errors.invalid('folder', f'hold lanes of a known {name}', got)
