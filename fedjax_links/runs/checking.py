"""What a run folder must hold to be read: a folder is data, and may be anybody's.

Kinds and sizes of what it says are checked where it is read, so that all who use it find what a run
writes, and no number of a file sets how much memory or time is spent.
"""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fedjax_links.core import errors

_STAGES = 'tuning', 'main', 'tie'
_MOST_LINES, _MOST_SHARDS, _MOST_LETTERS = 10**7, 10**5, 255
_LABELS = {'stage': str, 'algorithm': str, 'pattern': str, 'seed': int}
_Check = tuple[Callable[[Any], bool], str]


def is_text(value: Any) -> bool:
    """Tells whether a value is a text without signs that a terminal obeys."""
    return isinstance(value, str) and all(c.isprintable() or c in '\n\t' for c in value)


def is_label(value: Any) -> bool:
    """Tells whether a value is a label, which can be a part of a file's name."""
    if not isinstance(value, str) or not value.isprintable():
        return False
    return (
        0 < len(value) <= _MOST_LETTERS
        and not {'/', '\\'} & {*value}
        and '..' not in value
    )


def is_count(value: Any, least: int = 0, most: int = 2**31 - 1) -> bool:
    """Tells whether a value is a whole number within bounds."""
    return type(value) is int and least <= value <= most


def _is_plain(value: Any) -> bool:
    """Tells whether a value is a number, a text or None, or a list or a section of such."""
    if isinstance(value, list):
        return all(map(_is_plain, value))
    if isinstance(value, Mapping):
        return all(map(is_text, value)) and all(map(_is_plain, value.values()))
    return value is None or isinstance(value, bool | int | float) or is_text(value)


def _are(kind: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def are(values: Any) -> bool:
        if not isinstance(values, list) or not values or not all(map(kind, values)):
            return False
        return len({*values}) == len(values)

    return are


def _are_columns(values: Any) -> bool:
    if not isinstance(values, Mapping) or not all(map(is_text, values)):
        return False
    return all(
        isinstance(own, list) and own and _is_plain(own) for own in values.values()
    )


def _are_names(values: Any) -> bool:
    if not isinstance(values, list):
        return False
    are_pairs = (isinstance(pair, list) and len(pair) == 2 for pair in values)
    return all(are_pairs) and all(is_text(part) for pair in values for part in pair)


def _are_models(values: Any) -> bool:
    return isinstance(values, Mapping) and all(map(_are(is_label), values.values()))


def _are_directions(values: Any) -> bool:
    if not isinstance(values, Mapping) or not values or not all(map(is_text, values)):
        return False
    return all(way in ('max', 'min', None) for way in values.values())


def _are_reports(values: Any) -> bool:
    if not isinstance(values, Mapping) or not all(map(is_label, values)):
        return False
    return all(
        is_text(page) or (isinstance(page, Mapping) and is_text(page.get('name')))
        for page in values.values()
    )


def _is_tuning(value: Any) -> bool:
    if value is None:
        return True
    if not isinstance(value, Mapping) or not is_count(value.get('num_rounds'), 1):
        return False
    return _are_columns(value.get('grid'))


def _is_until(value: Any) -> bool:
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
    'tuning': (_is_tuning, 'be null, or have a grid and a number of rounds'),
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


def check_facts(where: Any, facts: Any) -> None:
    """Refuses what is not the description of an experiment.

    Args:
      where: the file, for errors.
      facts: what it holds.

    Raises:
      InvalidError: naming the file and the first fact that is none.
    """
    if not isinstance(facts, Mapping):
        raise errors.invalid(
            str(where), 'describe an experiment', errors.text_of(facts)
        )
    for name, (holds, requirement) in (*_NEEDED.items(), *_POSSIBLE.items()):
        if (name in facts or name in _NEEDED) and not holds(facts.get(name)):
            got = errors.text_of(facts.get(name))
            raise errors.invalid(f'{where}: {name}', requirement, got)
    known = {
        'baseline': facts['algorithms'],
        'metric': [*facts['directions']],
    }
    for name, choices in known.items():
        if facts[name] not in choices:
            raise errors.unknown_name(f'{where}: {name}', facts[name], choices)
    if missing := [
        label for label in facts['algorithms'] if label not in facts['models']
    ]:
        raise errors.invalid(
            f'{where}: models', 'name those of each algorithm', missing[0]
        )
    if facts['num_rounds'] % facts['eval_every']:
        requirement = f'be a multiple of eval_every = {facts["eval_every"]}'
        raise errors.invalid(f'{where}: num_rounds', requirement, facts['num_rounds'])
    lengths = [len(values) for values in facts['grid'].values()]
    points = (
        math.prod(lengths) if facts['grid_mode'] == 'cross' else max(lengths, default=1)
    )
    labels = len(facts['algorithms']) * len(facts['patterns'])
    lines = (
        points
        * labels
        * len(facts['seeds'])
        * (facts['num_rounds'] // facts['eval_every'])
    )
    if lines > _MOST_LINES:
        raise errors.invalid(
            f'{where}: grid', f'give at most {_MOST_LINES:,} lines', f'{lines:,}'
        )


def check_division(where: Any, found: Any) -> None:
    """Refuses what does not say how lanes are divided into shards.

    Raises:
      InvalidError: naming the file.
    """
    checks: Mapping[str, Callable[[Any], bool]] = {
        'count': lambda v: is_count(v, 1, _MOST_SHARDS),
        'by': lambda v: v in ('program', 'seed'),
        'lanes': lambda v: isinstance(v, dict) and all(map(is_label, v)),
        'optional': lambda v: isinstance(v, list) and all(map(is_label, v)),
        'asked': lambda v: isinstance(v, list) and all(map(is_label, v)),
        'ended': lambda v: isinstance(v, bool),
        'fingerprint': lambda v: isinstance(v, dict | None),
    }
    if not isinstance(found, dict) or not {'count', 'by', 'lanes'} <= found.keys():
        raise errors.invalid(
            'folder', 'say how lanes are divided', f'{where} that does not'
        )
    for name, value in found.items():
        if name not in checks or not checks[name](value):
            raise errors.invalid(
                'folder', f'hold another {name}', f'{where}: {errors.text_of(value)}'
            )
    if not all(
        is_count(shard, 0, found['count'] - 1) for shard in found['lanes'].values()
    ):
        raise errors.invalid('folder', 'hold shards that there are', where)


def check_about(where: Any, about: Any) -> None:
    """Refuses what no save of a lane says of itself.

    Raises:
      InvalidError: naming the file.
    """
    held: Mapping[str, Any] = about if isinstance(about, Mapping) else {}
    labels: Any = held.get('labels')
    place: Any = held.get('place')
    fits = isinstance(labels, Mapping) and all(
        type(labels.get(name)) is kind for name, kind in _LABELS.items()
    )
    fits = fits and labels['stage'] in _STAGES and all(map(is_label, labels))
    if not fits or not all(map(_is_plain, labels.values())):
        raise errors.invalid(
            'checkpoint', 'say whose it is', f'{where}: {errors.text_of(labels)}'
        )
    is_old = type(place) is int
    is_pair = isinstance(place, list) and len(place) == 2 and all(map(is_count, place))
    if not (is_old or is_pair):
        raise errors.invalid('checkpoint', 'say where it stands', f'{where}: {place!r}')


def check_labels(
    where: Any, labels: Mapping[str, Any], facts: Mapping[str, Any]
) -> None:
    """Refuses a lane of an algorithm or a pattern that a description does not have.

    Raises:
      InvalidError: naming what is unknown.
    """
    for name in ('algorithm', 'pattern'):
        if labels[name] not in facts[f'{name}s']:
            got = f'{where} with {labels[name]!r}'
            raise errors.invalid('folder', f'hold lanes of a known {name}', got)


def parse_row(line: bytes | str) -> dict[str, Any]:
    """Reads a line of metrics.

    Raises:
      InvalidError: if it is none.
    """
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict) or not is_count(row.get('round')):
        raise errors.invalid(
            'folder', 'hold readable lines of metrics', errors.text_of(line)
        )
    return row


def check_columns(
    where: Any, columns: Mapping[str, np.ndarray], facts: Mapping[str, Any]
) -> None:
    """Refuses metrics that no run of this description writes.

    Raises:
      InvalidError: naming the folder and the column.
    """
    if not columns:
        return
    lengths = {len(column) for column in columns.values()}
    kinds = {
        'stage': 'OU',
        'algorithm': 'OU',
        'pattern': 'OU',
        'seed': 'iu',
        'round': 'iu',
    }
    for name, known in kinds.items():
        if (
            name not in columns
            or columns[name].dtype.kind not in known
            or len(lengths) > 1
        ):
            raise errors.invalid('folder', f'hold lines with a {name} each', where)
    every = {
        'stage': _STAGES,
        'algorithm': facts['algorithms'],
        'pattern': facts['patterns'],
    }
    for name, values in every.items():
        found = {*columns[name].tolist()} - {*values}
        if found:
            shown = errors.text_of(sorted(map(str, found))[0])
            raise errors.invalid(
                'folder', f'hold lines of a known {name}', f'{where} with {shown}'
            )
    main = columns['stage'] == 'main'
    if {*columns['seed'][main].tolist()} - {*facts['seeds']}:
        raise errors.invalid('folder', 'hold lines of known seeds', where)
    if not ((columns['round'] >= 0) & (columns['round'] <= facts['num_rounds'])).all():
        raise errors.invalid(
            'folder', f'hold rounds up to {facts["num_rounds"]}', where
        )
    for name, column in columns.items():
        if not is_text(name) or ('/' in name and column.dtype.kind not in 'fiub'):
            raise errors.invalid(
                'folder', f'hold numbers as {errors.text_of(name)}', where
            )
