"""Checks by name that the clients of a recording of links are the clients of the data."""

import collections
from collections.abc import Sequence

from fedjax_links.core import errors

_MOST_NAMED = 3  # Names of an error, at most.


def check_names(
    argument: str,
    known: Sequence[str],
    expected: Sequence[str],
    others: Sequence[object] = (),
) -> None:
    """Refuses a recording of links whose clients are not the clients of the data.

    Args:
      argument: the argument that holds the recording, for errors.
      known: names of the recorded clients.
      expected: names of the clients of the data.
      others: names of owners in the data who do not train. The recording may have them, too.

    Raises:
      ValueError: if clients are missing on either side, with the first of their names; or for a
        name that occurs twice.
    """
    for names in (known, expected):
        _check_unique(argument, names)
    known_names = set(known)
    names_of_data = {*expected, *map(str, others)}
    missing = [name for name in expected if name not in known_names]
    unknown = [name for name in known if name not in names_of_data]
    differences: list[str] = []
    if missing:
        differences.append(f'none of {_first_few(missing)}')
    if unknown:
        differences.append(f'{_first_few(unknown)}, whom the data do not know')
    if differences:
        requirement = "have the data's clients by name"
        raise errors.invalid(argument, requirement, ', and '.join(differences))


def _check_unique(argument: str, names: Sequence[str]) -> None:
    """Refuses a name that stands twice."""
    if len(set(names)) < len(names):
        name, _ = collections.Counter(names).most_common(1)[0]
        raise errors.invalid(argument, 'name each client once', f'{name!r} twice')


def check_order(argument: str, known: Sequence[str], expected: Sequence[str]) -> None:
    """Refuses recorded clients that are not the clients of the data, in the same order.

    Args:
      argument: the argument that holds the recording, for errors.
      known: names of the recorded clients; empty if they have none.
      expected: names of the clients of the data; empty if they have none.

    Raises:
      ValueError: as `check_names`; or if the clients have another order.
    """
    if not known or not expected or list(known) == list(expected):
        return
    check_names(argument, known, expected)
    first = 0
    while known[first] == expected[first]:
        first += 1
    requirement = (
        "have the data's clients in their order, as `clients=problem.client_names` of "
        '`participation.trace` puts them'
    )
    difference = f'{known[first]!r} in the place of {expected[first]!r}'
    raise errors.invalid(argument, requirement, difference)


def _first_few(names: Sequence[str]) -> str:
    """Lists the first names, and says how many more there are."""
    more = f' and {len(names) - _MOST_NAMED} more' if len(names) > _MOST_NAMED else ''
    return ', '.join(map(repr, names[:_MOST_NAMED])) + more
