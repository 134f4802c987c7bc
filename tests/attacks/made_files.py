"""Writes small files of data and logs that configs name, intact and spoilt."""

import io
import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np

Files = dict[str, bytes]

NUM_OWNERS = 4
_EVERYDAY = ('ann', 'bob', 'eve', 'zoe')
NAMES: tuple[str, ...] = (
    'ann',
    'bob',
    'eve',
    'zoe',
    '0',
    '1',
    '2',
    '007',
    '1.0',
    'nan',
    'True',
    '',
    ' ',
    'a b',
    'a,b',
    '$x_$',
    '$',
    '_a',
    'a|b',
    'a/b',
    '..',
    '<b>',
    '#7',
    '"q"',
    "it's",
    '-a',
    'a\nb',
    'é',
    'e\u0301',
    '联邦平均',
    'متوسط',
    '🚀',
    'Straße',
    'İ',
    '\u200b',
    'x' * 300,
    '联' * 90,
    'a\\b',
    '{x}',
    '%s',
)
"""Names of clients, as logs and data sets have them."""

USER_MODULE = b'''"""A user's own parts."""

import numpy as np

from fedjax_links import participation, problems


def in_turns(labels, *, num_clients):
    return np.arange(len(labels)) % num_clients


def all_to_the_first(labels, *, num_clients):
    return np.zeros(len(labels), int)


def points(*, num_clients=4):
    return problems.quadratic(np.arange(2.0 * num_clients).reshape(num_clients, 2))


def half(*, num_clients):
    return participation.bernoulli(np.full(num_clients, 0.5))
'''


def write(rng: random.Random) -> Files:
    """Makes every file that the bases name, one set in three of them spoilt.

    Args:
      rng: chooses names, values and what is spoilt.

    Returns:
      Contents by name.
    """
    names = list(_EVERYDAY)
    if rng.random() < 0.5:
        names = rng.sample(NAMES, NUM_OWNERS)
        # Keep few blank names.
        names = [name for name in names if name.strip() or rng.random() < 0.3]
        if not names:
            names = ['ann']
        names += [f'{name}2' for name in names[: NUM_OWNERS - len(names)]]
    return _files(rng, names, is_spoilt=rng.random() < 0.35)


def intact(rng: random.Random) -> Files:
    """Makes every file that the bases name, with everyday names and without mistakes."""
    return _files(rng, list(_EVERYDAY), is_spoilt=False)


def _files(rng: random.Random, names: list[str], *, is_spoilt: bool) -> Files:
    """Makes the files of clients with these names."""
    arrays = _arrays(rng, names)
    rows = _intervals(rng, names)
    leaf = {'users': names, 'user_data': _users(rng, names)}
    ready = {name: _timer(rows, name) for name in names}
    if is_spoilt and rng.random() < 0.7:
        rng.choice(_SPOILS)(arrays, rng)
    if is_spoilt and rng.random() < 0.7:
        _spoil_tree(leaf, rng)
    if is_spoilt and rng.random() < 0.5:
        _spoil_tree(ready, rng)
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    files = {
        'mine.npz': stream.getvalue(),
        'train.json': json.dumps(leaf).encode(),
        'log.csv': _csv(rng, ('client', 'start', 'end'), rows, is_spoilt),
        'events.csv': _csv(rng, ('client', 'time', 'state'), _events(rows), is_spoilt),
        'flash.json': json.dumps(ready).encode(),
        'mine.py': USER_MODULE,
    }
    if is_spoilt and rng.random() < 0.2:
        name = rng.choice([name for name in files if name != 'mine.py'])
        files[name] = _spoil_bytes(files[name], rng)
    return files


def _arrays(rng: random.Random, names: list[str]) -> dict[str, Any]:
    """Makes the arrays of an npz with images of three classes."""
    samples = np.random.default_rng(rng.randrange(2**32))
    owners = np.repeat(names, 5)
    arrays: dict[str, Any] = {
        'train_features': samples.integers(0, 256, (20, 4, 4, 1), np.uint8),
        'train_labels': np.arange(20) % 3,
        'train_clients': owners,
        'test_features': samples.integers(0, 256, (8, 4, 4, 1), np.uint8),
        'test_labels': np.arange(8) % 3,
        'test_clients': np.repeat(names, 2),
    }
    if rng.random() < 0.3:
        del arrays['test_clients']
    if rng.random() < 0.2:
        for part in ('train', 'test'):
            arrays[f'{part}_features'] = arrays[f'{part}_features'] / np.float32(255)
    return arrays


def _users(rng: random.Random, names: list[str]) -> dict[str, Any]:
    """Makes the examples by user of a JSON file in LEAF's format."""

    def rows(count: int) -> dict[str, Any]:
        x = [[rng.random(), rng.random()] for _ in range(count)]
        return {'x': x, 'y': [rng.choice((0, 1, 2)) for _ in range(count)]}

    return {name: rows(rng.randrange(1, 5)) for name in names}


def _intervals(rng: random.Random, names: list[str]) -> list[list[Any]]:
    """Makes rows of name, start and end."""
    rows = []
    for name in names:
        start = rng.randrange(0, 3)
        for _ in range(rng.randrange(1, 4)):
            end = start + rng.randrange(1, 5)
            rows.append([name, start, end])
            start = end + rng.randrange(0, 4)
    return rows


def _events(rows: list[list[Any]]) -> list[list[Any]]:
    """Converts intervals to rows of name, time and state."""
    events = []
    for name, start, end in rows:
        events += [[name, start, 'up'], [name, end, 'down']]
    return events


def _timer(rows: list[list[Any]], name: str) -> dict[str, Any]:
    """Converts the intervals of a client to FLASH's format."""
    ready = [[start, end] for owner, start, end in rows if owner == name]
    return {'trace_start': 0, 'trace_end': 20, 'ready_time': ready}


def _csv(
    rng: random.Random, header: tuple[str, ...], rows: list[list[Any]], is_spoilt: bool
) -> bytes:
    rows = [list(row) for row in rows]
    separator = ','
    encoding = 'utf-8'
    if is_spoilt:
        header, separator, encoding = _spoil_rows(rng, header, rows)
    lines = [separator.join(map(_cell, row)) for row in [header, *rows]]
    return '\n'.join(lines).encode(encoding)


def _spoil_rows(
    rng: random.Random, header: tuple[str, ...], rows: list[list[Any]]
) -> tuple[tuple[str, ...], str, str]:
    """Spoils rows in place, and returns the header, the separator of cells and the encoding."""
    if rng.random() < 0.3:
        row = rng.choice(rows)
        column = rng.randrange(len(row))
        junk = (
            '',
            'x',
            '-1',
            'nan',
            'inf',
            '1e400',
            '2020-01-01T00:00:00',
            '1e18',
            '0',
            'é',
        )
        row[column] = rng.choice(junk)
    if rng.random() < 0.1:
        del rng.choice(rows)[-1]
    if rng.random() < 0.1:
        rows.append(rng.choice(rows))
    if rng.random() < 0.1:
        header = tuple(rng.sample([*header, 'Client', 'begin'], 3))
    separator = rng.choice([',', ',', ',', ',', ',', ';', '\t'])
    encoding = rng.choice(['utf-8', 'utf-8', 'utf-8', 'utf-8-sig', 'utf-16'])
    return header, separator, encoding


def _cell(value: Any) -> str:
    """Formats a cell of a CSV file, in quotes if it needs them."""
    text = str(value)
    if not any(character in text for character in ',"\n'):
        return text
    return '"' + text.replace('"', '""') + '"'


def _spoil_tree(tree: Any, rng: random.Random) -> None:
    """Replaces or removes something in nested dictionaries and lists."""
    inner = [part for part in _containers(tree) if part]
    part = rng.choice(inner)
    key = rng.choice(list(part)) if isinstance(part, dict) else rng.randrange(len(part))
    if rng.random() < 0.3:
        del part[key]
    else:
        junk = (None, 'x', -1, 1e300, [], {}, [[1]], True, '1', 0.5, float('nan'))
        part[key] = rng.choice(junk)


def _containers(tree: Any) -> list[Any]:
    """Lists all dictionaries and lists in a tree, itself first."""
    if not isinstance(tree, dict | list):
        return []
    containers = [tree]
    for part in tree.values() if isinstance(tree, dict) else tree:
        containers += _containers(part)
    return containers


def _spoil_bytes(content: bytes, rng: random.Random) -> bytes:
    """Empties a file, cuts it, or puts two bytes into it."""
    offset = rng.randrange(len(content))
    start = content[:offset]
    return rng.choice([b'', start, start + b'\xff\x00' + content[offset:]])


def _spoil_labels(arrays: dict[str, Any], rng: random.Random) -> None:
    labels = np.asarray(arrays['train_labels'], float)
    arrays['train_labels'] = rng.choice(
        [
            labels,
            labels + 0.5,
            labels - 1,
            labels + 1,
            labels * 10**6,
            labels == 0,
            labels * 0,
            labels[:5],
            labels.astype(str),
            labels[:, None],
            labels * np.nan,
            labels[:0],
            np.stack([labels, labels], 1).astype(int),
        ]
    )


def _spoil_features(arrays: dict[str, Any], rng: random.Random) -> None:
    part = rng.choice(['train_features', 'test_features'])
    rows = np.asarray(arrays[part], float)
    with_hole = rows.copy()
    with_hole[0] = rng.choice([np.nan, np.inf, 1e300])
    arrays[part] = rng.choice(
        [
            with_hole,
            rows.astype(np.uint16) * 257,
            rows > 100,
            rows[:, :3],
            rows[:0],
            rows[0],
            rows.astype(str),
            rows * 1j,
            rows.astype(np.int64) * 2**40,
            rows.reshape(len(rows), -1),
            rows.astype(np.float16),
            rows * 0,
            rows[..., 0],
        ]
    )


def _spoil_owners(arrays: dict[str, Any], rng: random.Random) -> None:
    part = rng.choice(['train_clients', 'test_clients'])
    count = len(arrays[part.replace('clients', 'features')])
    numbers = np.arange(count) % NUM_OWNERS
    arrays[part] = rng.choice(
        [
            numbers,
            numbers * 7,
            numbers - 1,
            numbers + 0.5,
            numbers * 1.0,
            numbers == 0,
            numbers[:3],
            numbers * 10**9,
            np.full(count, ''),
            np.full(count, np.nan),
            numbers.astype(str),
        ]
    )


def _spoil_keys(arrays: dict[str, Any], rng: random.Random) -> None:
    key = rng.choice(list(arrays))
    value = arrays.pop(key)
    if rng.random() < 0.5:
        arrays[key.replace('train', 'x')] = value
    arrays.update(
        rng.choice(
            [{}, {'num_classes': np.array(2)}, {'client_names': np.array(['a'])}]
        )
    )


_SPOILS: tuple[Callable[[dict[str, Any], random.Random], None], ...] = (
    _spoil_labels,
    _spoil_features,
    _spoil_owners,
    _spoil_keys,
)
