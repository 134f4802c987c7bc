"""Makes the mistakes of users: in configs, in files that they name, and in names."""

import copy
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.config import registries
from fedjax_links.participation import PARTICIPATION
from fedjax_links.problems import PROBLEMS
from fedjax_links.report.layouts import LAYOUTS
from tests.attacks import everyday, made_files
from tests.attacks.junk import JUNK, KEYS, STRANGE_NAMES

Config = everyday.Config
Path_ = tuple[Any, ...]

# What `_call` renames. Repeated entries here and below are chosen more often.
_NAMED = (
    'algorithms',
    'algorithms',
    'patterns',
    'patterns',
    'reports',
    'names',
    'names',
    'title',
    'caption',
)


def nodes(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """Yields each leaf, section and list within a config, with its path."""
    if path:
        yield path, value
    inner: Any = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list | tuple) and len(value) < 20:
        inner = enumerate(value)
    for key, part in list(inner):
        yield from nodes(part, (*path, key))


def get(config: Any, path: Path_) -> Any:
    """Returns the value at a path."""
    for key in path:
        config = config[key]
    return config


def put(config: Any, path: Path_, value: Any) -> Any:
    """Returns the config with another value at a path."""
    if not path:
        return value
    first, *rest = path
    if isinstance(config, dict):
        return {**config, first: put(config.get(first, {}), tuple(rest), value)}
    changed = list(config)
    changed[first] = put(changed[first], tuple(rest), value)
    return changed


class Case(NamedTuple):
    """A config with mistakes.

    Attributes:
      config: plain values.
      done: the base and its changes, in words.
      files: contents of the files that it may name, by name.
    """

    config: Config
    done: str
    files: made_files.Files


def mutated(seed: int) -> Case:
    """Makes a config with up to three mistakes in values, files or names.

    Args:
      seed: everything depends on it alone.
    """
    rng = random.Random(seed)
    # Bases on files are cheap, so they come more often.
    base = rng.choice([*sorted(everyday.BASES), *everyday.ON_FILES * 4])
    is_on_files = base in everyday.ON_FILES
    config = everyday.BASES[base](rng)
    done = [base]
    files = made_files.write(rng) if is_on_files else {}
    num_mistakes = rng.choice((0, 0, 0, 1) if is_on_files else (0, 1, 1, 1, 2))
    for _ in range(num_mistakes):
        config, what = rng.choice(MISTAKES)(config, rng)
        done.append(what)
    needs_name = is_on_files or not num_mistakes
    num_names = rng.choice((0, 1, 1) if needs_name else (0, 0, 0, 1))
    for _ in range(num_names):
        config, what = _call(config, rng)
        done.append(what)
    return Case(config, '; '.join(done), files)


def _replace(config: Config, rng: random.Random) -> tuple[Config, str]:
    path, _ = rng.choice(list(nodes(config)))
    value = copy.deepcopy(rng.choice(JUNK))
    return put(config, path, value), f'{_text(path)} = {value!r}'


def _delete(config: Config, rng: random.Random) -> tuple[Config, str]:
    path, _ = rng.choice(list(nodes(config)))
    owner = get(config, path[:-1])
    if isinstance(owner, dict):
        less: Any = {key: value for key, value in owner.items() if key != path[-1]}
    else:
        less = [value for index, value in enumerate(owner) if index != path[-1]]
    return put(config, path[:-1], less), f'without {_text(path)}'


def _add(config: Config, rng: random.Random) -> tuple[Config, str]:
    positions = [()] + [
        path for path, value in nodes(config) if isinstance(value, dict)
    ]
    position = rng.choice(positions)
    key = rng.choice(KEYS)
    plausible = [value for path, value in nodes(config) if path[-1] == key]
    value = copy.deepcopy(rng.choice([*JUNK, *(plausible or [1, 0.1]) * 20]))
    path = (*position, key)
    return put(config, path, value), f'added {_text(path)} = {value!r}'


def _distort(config: Config, rng: random.Random) -> tuple[Config, str]:
    numbers = [(p, v) for p, v in nodes(config) if type(v) in (int, float)]
    if not numbers:
        return _replace(config, rng)
    path, value = rng.choice(numbers)
    changed = rng.choice(
        (
            -value,
            0,
            value * 10**6,
            value * 10**12,
            value + 0.5,
            float(value),
            str(value),
            [value],
            value * 10,
            value + 1,
            {'value': value},
            True,
            None,
            1 / (value or 1),
            value * 3,
            value / 3,
            [value, -value],
            value * 1000,
        )
    )
    return put(config, path, changed), f'{_text(path)} = {changed!r}'


def _swap(config: Config, rng: random.Random) -> tuple[Config, str]:
    (one, first), (two, second) = rng.choices(list(nodes(config)), k=2)
    if one[: len(two)] == two or two[: len(one)] == one:
        return _replace(config, rng)
    swapped = put(put(config, one, second), two, first)
    return swapped, f'{_text(one)} and {_text(two)} swapped'


def _rename(config: Config, rng: random.Random) -> tuple[Config, str]:
    """Replaces a text by the name of another thing, or spells it differently."""
    named = [(path, value) for path, value in nodes(config) if isinstance(value, str)]
    if not named:
        return _replace(config, rng)
    path, value = rng.choice(named)
    tables = (
        ALGORITHMS,
        PARTICIPATION,
        PROBLEMS,
        LAYOUTS,
        registries.OPTIMIZERS,
        registries.PROBS,
    )
    name = rng.choice(sorted(rng.choice(tables)))
    name = rng.choice([name, _misspelt(value, rng), value.upper(), f'{value} '])
    return put(config, path, name), f'{_text(path)} = {name!r}'


def _misspell(config: Config, rng: random.Random) -> tuple[Config, str]:
    """Misspells the name of a field."""
    keyed = [path for path, _ in nodes(config) if isinstance(path[-1], str)]
    path = rng.choice(keyed)
    owner = get(config, path[:-1])
    name = _misspelt(path[-1], rng)
    changed = {name if key == path[-1] else key: value for key, value in owner.items()}
    return put(config, path[:-1], changed), f'{_text(path)} spelt {name!r}'


def _misspelt(name: str, rng: random.Random) -> str:
    index = rng.randrange(len(name) + 1)
    return rng.choice(
        [
            name[:index] + name[index + 1 :],
            name[:index] + 'z' + name[index:],
            name.upper(),
        ]
    )


def _nest(config: Config, rng: random.Random) -> tuple[Config, str]:
    path, value = rng.choice(list(nodes(config)))
    changed = rng.choice([{'name': value}, [value], {path[-1]: value}, [value, value]])
    if isinstance(value, dict) and rng.random() < 0.5:
        changed = value.get('name', list(value))
    return put(config, path, changed), f'{_text(path)} nested: {changed!r:.60}'


def _copy(config: Config, rng: random.Random) -> tuple[Config, str]:
    (one, value), (two, _) = rng.choices(list(nodes(config)), k=2)
    if two[: len(one)] == one:
        return _replace(config, rng)
    return put(config, two, copy.deepcopy(value)), f'{_text(two)} as {_text(one)}'


def _call(config: Config, rng: random.Random) -> tuple[Config, str]:
    """Renames an algorithm, a pattern, a report or the experiment."""
    name = rng.choice(STRANGE_NAMES)
    field = rng.choice(_NAMED)
    if field in ('title', 'caption'):
        return {**config, field: name}, f'{field} = {name!r:.60}'
    labelled = config.get('algorithms' if field == 'names' else field)
    if not isinstance(labelled, dict) or not labelled:
        return {**config, 'title': name}, f'title = {name!r:.60}'
    label = rng.choice(list(labelled))
    if field == 'names':
        renamed = {**config, 'names': [[label, name]]}
        return renamed, f'{label!r:.60} is called {name!r:.60}'
    renamed = _relabelled(config, field, label, name)
    return renamed, f'{field}: {label!r:.60} is called {name!r:.60}'


def _relabelled(config: Config, field: str, label: str, name: str) -> Config:
    """Replaces a label of a field, and what refers to it."""
    sections = {}
    for key, section in config[field].items():
        sections[name if key == label else key] = section
    if field == 'algorithms':
        # The old label was the algorithm's name too.
        section = config[field][label]
        if isinstance(section, dict):
            section = {'name': label, **section}
        sections[name] = section
    changed = {**config, field: sections}
    if config.get('baseline') == label:
        changed['baseline'] = name
    pairs = config.get('names')
    if _is_list_of_lists(pairs):
        changed['names'] = []
        for pair in pairs:
            new_pair = [name if item == label else item for item in pair]
            changed['names'].append(new_pair)
    return changed


def _is_list_of_lists(value: Any) -> bool:
    if not isinstance(value, list | tuple):
        return False
    return all(isinstance(item, list | tuple) for item in value)


def _text(path: Path_) -> str:
    return '.'.join(map(str, path))


MISTAKES = (
    _replace,
    _replace,
    _replace,
    _distort,
    _distort,
    _distort,
    _delete,
    _add,
    _add,
    _swap,
    _rename,
    _rename,
    _misspell,
    _nest,
    _copy,
)
