"""Checks that recorded clients and those of the data are the same, by name."""

import collections
from collections.abc import Sequence
from typing import Any

from fedjax_links.core import errors

_MOST_NAMED = 3


def check_names(
    argument: str,
    known: Sequence[str],
    wanted: Sequence[str],
    others: Sequence[Any] = (),
) -> None:
    """Refuses names of recorded clients that are not those of the data.

    Args:
      argument: the recording, for errors.
      known: its names.
      wanted: names of the clients of the data.
      others: names of owners in the data who do not train, which it may have besides.

    Raises:
      ValueError: with the first names that either side misses, or a name that stands twice.
    """
    for names in (known, wanted):
        if len({*names}) < len(names):
            twice = collections.Counter(names).most_common(1)[0][0]
            raise errors.invalid(argument, 'name each client once', f'{twice!r} twice')
    missing = [name for name in wanted if name not in {*known}]
    strange = [name for name in known if name not in {*wanted, *map(str, others)}]
    if missing or strange:
        parts = [f'none of {_first_few(missing)}'] if missing else []
        parts += (
            [f'{_first_few(strange)}, whom the data do not know'] if strange else []
        )
        raise errors.invalid(
            argument, "have the data's clients by name", ', and '.join(parts)
        )


def check_order(argument: str, known: Sequence[str], wanted: Sequence[str]) -> None:
    """Refuses recorded clients that are not those of the data, in their order.

    Args:
      argument: the recording, for errors.
      known: its names; empty where it has none.
      wanted: names of the clients of the data; likewise.

    Raises:
      ValueError: as `check_names`; or for another order.
    """
    if not known or not wanted or list(known) == list(wanted):
        return
    check_names(argument, known, wanted)
    first = next(i for i, name in enumerate(wanted) if known[i] != name)
    requirement = (
        "have the data's clients in their order, as `clients=problem.client_names` of "
        '`participation.trace` puts them'
    )
    difference = f'{known[first]!r} in the place of {wanted[first]!r}'
    raise errors.invalid(argument, requirement, difference)


def _first_few(names: Sequence[str]) -> str:
    """Lists the first names, and says how many more there are."""
    more = f' and {len(names) - _MOST_NAMED} more' if len(names) > _MOST_NAMED else ''
    return ', '.join(map(repr, names[:_MOST_NAMED])) + more
