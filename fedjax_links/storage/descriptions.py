"""Reads what a run folder says of its experiment, and compares that with what is to run.

In this module, *there* stands for the run in the folder and *here* for what is to run.
"""

import zipfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedjax_links.core import errors
from fedjax_links.core.records import RunFacts
from fedjax_links.storage import atomic_files, checksummed_npz, documents
from fedjax_links.storage.identity import RunIdentity, run_differences, run_from_plain
from fedjax_links.storage.run_files import (
    CHANGED,
    CONFIG,
    EXAMPLES,
    EXPERIMENT,
    IDENTITY,
    MAY_DIFFER,
    MAY_GROW,
)

_MAX_CLAUSES = 3


class Description(NamedTuple):
    """Holds what a folder says of its experiment.

    Attributes:
      facts: labels, metrics, grid, seeds: what reports need.
      config: the config; None for an experiment made in Python.
      identity: digests of programs and data (`storage.identity`); None if the folder has none.
    """

    facts: Mapping[str, Any]
    config: Mapping[str, Any] | None
    identity: RunIdentity | None


class FieldDifference(NamedTuple):
    """Names a field in which two descriptions of an experiment differ.

    Attributes:
      field: dotted path of the field.
      there: value of the field in the folder.
      here: value of the field in what is to run.
    """

    field: str
    there: Any
    here: Any


def read_identity(path: Path) -> RunIdentity | None:
    """Reads the identity of a run or of an archive; None if the folder has none.

    Args:
      path: of the folder.

    Raises:
      ValueError: if the files were changed.
    """
    values = documents.read_json(path, IDENTITY)
    if values is None:
        return None
    examples = path / EXAMPLES
    if examples.exists() and not checksummed_npz.is_verified(examples):
        requirement = f'hold {EXAMPLES} as it was written'
        raise errors.invalid('workdir', requirement, f'{examples}, which has changed')
    arrays: dict[str, np.ndarray] = {}
    try:
        if examples.exists():
            with np.load(examples, allow_pickle=False) as stored:
                arrays = dict(stored)
        return run_from_plain(values, arrays)
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        requirement = f'hold {IDENTITY} and {EXAMPLES} as a run writes them'
        raise errors.invalid('workdir', requirement, f'{path}: {error}') from None


def write_identity(path: Path, identity: RunIdentity) -> None:
    """Writes the identity of a run.

    Args:
      path: of the folder.
      identity: of programs and data.
    """
    content = checksummed_npz.npz(identity.rows_as_arrays(), compress=False)
    atomic_files.write(path / EXAMPLES, content)
    content = documents.as_json(identity.as_plain())
    atomic_files.write(path / IDENTITY, content)


def read_description(path: Path) -> Description | None:
    """Reads what a folder says of its experiment; None if there is no description yet.

    Args:
      path: of the folder.
    """
    facts = documents.read_json(path, EXPERIMENT)
    if facts is None:
        return None
    config = documents.read_json(path, CONFIG)
    return Description(facts, config, read_identity(path))


def check_same(
    argument: str,
    path: Path,
    there: Description,
    here: Description,
    *,
    may_grow: bool,
    allow_changed: bool = False,
) -> list[str]:
    """Compares the run in a folder with what is to run there, or is to be merged with it.

    Args:
      argument: name of the argument or flag that gave the folder, for errors.
      path: of the folder.
      there: what the folder says.
      here: what is to run.
      may_grow: whether what is to run may have more rounds and seeds than the folder.
      allow_changed: whether programs or data may differ.

    Returns:
      Clauses on how programs and data differ. Clauses that were allowed before are included.

    Raises:
      ValueError: naming what differs.
    """
    check_kind(argument, path, there, here)
    ignored = _ignored_fields(there.facts, may_grow=may_grow)
    config_clauses = _config_differences(there, here, ignored)
    is_shorter = False
    if may_grow:
        is_shorter = _is_shorter(path, there, here, is_alone=not config_clauses)

    # Labels, metrics, grid, seeds and lengths decide what runs: they must agree.
    facts = _facts_to_compare(there.facts, here.facts, may_grow=may_grow)
    fact_clause = _first_fact_difference(there.facts, facts, ignored)
    if fact_clause is not None or is_shorter:
        shown = config_clauses[:_MAX_CLAUSES] or [str(fact_clause)]
        requirement = 'be new or hold a run with the same config'
        raise errors.invalid(argument, requirement, f'{path}, where {"; ".join(shown)}')

    # Programs and data must agree, except for changes that were or are allowed.
    allowed_before = [*there.facts.get(CHANGED, ()), *here.facts.get(CHANGED, ())]
    clauses = _identity_differences(there, here)
    new_clauses = [clause for clause in clauses if clause not in allowed_before]
    if new_clauses and not allow_changed:
        shown = config_clauses[:_MAX_CLAUSES]
        shown += _without_config_fields(new_clauses, config_clauses)[:_MAX_CLAUSES]
        requirement = (
            'be new or hold a run with the same config, programs and data '
            '(--allow_changed continues anyway)'
        )
        raise errors.invalid(argument, requirement, f'{path}, where {"; ".join(shown)}')
    return list(dict.fromkeys([*allowed_before, *clauses]))


def _first_fact_difference(
    there: RunFacts, here: RunFacts, ignored: Collection[str]
) -> str | None:
    """Says how the first fact that must agree differs; None if all such facts agree."""
    first = first_difference(there, here, 'config', ignored)
    if first is not None:
        return f'{first.field} is {first.there!r} and not {first.here!r}'
    # Identities do not hold the names of metrics. Without this check, one run could get lines of
    # metrics with different names.
    old_names = sorted(there.get('directions', ()))
    names = sorted(here.get('directions', ()))
    if old_names != names:
        return f'the metrics are {", ".join(old_names)} and not {", ".join(names)}'
    return None


def _config_differences(
    there: Description, here: Description, ignored: Collection[str]
) -> list[str]:
    """Returns a clause for each field in which the configs differ."""
    fields = _differences(there.config or {}, here.config or {}, 'config', ignored)
    return [
        f'{field} is {errors.text_of(old)} and not {errors.text_of(new)}'
        for field, old, new in fields
    ]


def _ignored_fields(facts: RunFacts, *, may_grow: bool) -> list[str]:
    """Returns the top-level fields of facts and configs that may differ."""
    ignored = list(MAY_DIFFER)
    if may_grow:
        ignored += MAY_GROW
    metric_decides_what_runs = facts.get('tuning') is not None or 'until' in facts
    if not metric_decides_what_runs:
        ignored += ['metric', 'directions']
    return ignored


def _facts_to_compare(there: RunFacts, here: RunFacts, *, may_grow: bool) -> RunFacts:
    """Returns the facts of what is to run, without seeds beyond the folder's."""
    facts = dict(here)
    old_seeds = there.get('seeds')
    seeds = here.get('seeds')
    if may_grow and isinstance(old_seeds, list) and isinstance(seeds, list):
        facts['seeds'] = seeds[: len(old_seeds)]
    return facts


def _without_config_fields(clauses: list[str], config_clauses: list[str]) -> list[str]:
    """Returns the clauses on programs and data that no clause on a config field repeats."""
    new_clauses = []
    for clause in clauses:
        start = f'config.{clause}'
        if not any(other.startswith(start) for other in config_clauses):
            new_clauses.append(clause)
    return new_clauses


def _identity_differences(there: Description, here: Description) -> list[str]:
    """Returns a clause for each way in which programs and data differ."""
    if there.identity is None or here.identity is None:
        return ['nothing records its programs and data']
    return run_differences(there.identity, here.identity)


def check_started(argument: str, path: Path, here: Description) -> None:
    """Refuses to resume without a config if the folder holds a config.

    Args:
      argument: as in `check_same`.
      path: of a folder in which a run has started but written no description yet.
      here: what is to run.

    Raises:
      ValueError: naming the folder.
    """
    config = documents.read_json(path, CONFIG)
    if config is not None:
        check_kind(argument, path, Description({}, config, None), here)


def check_kind(
    argument: str, path: Path, there: Description, here: Description
) -> None:
    """Refuses a folder if only one of its run and what is to run was made from a config."""
    if (there.config is None) == (here.config is None):
        return
    here_kind = 'an experiment that a config describes'
    there_kind = 'an experiment made in Python'
    if here.config is None:
        here_kind, there_kind = there_kind, here_kind
    requirement = f'be new or hold a run of {here_kind}'
    raise errors.invalid(argument, requirement, f'{path}, of {there_kind}')


def _is_shorter(
    path: Path, there: Description, here: Description, *, is_alone: bool
) -> bool:
    """Returns whether what is to run has fewer rounds or seeds than the folder.

    Args:
      path: of the folder.
      there: what the folder says.
      here: what is to run.
      is_alone: whether nothing else differs.

    Raises:
      ValueError: if only rounds or seeds differ. The caller refuses another experiment.
    """
    pairs = [(there.facts, here.facts), (there.config or {}, here.config or {})]
    for name, words in MAY_GROW.items():
        for old, new in pairs:
            if name == 'num_seeds' and old.get('seeds') != new.get('seeds'):
                continue  # If seeds are given in another way, their numbers do not compare.
            minimum = old.get(name, 1)
            value = new.get(name, 1)
            if value < minimum and is_alone:
                requirement = f'be at least {minimum}, the {words} of {path}'
                raise errors.invalid(name, requirement, value)
            if value < minimum:
                return True
    return False


def first_difference(
    there: object,
    here: object,
    field: str = 'config',
    ignored: Collection[str] = (),
) -> FieldDifference | None:
    """Finds the first field in which two descriptions of an experiment differ.

    Args:
      there: values by name, possibly nested.
      here: values by name, possibly nested.
      field: name of the described object; the paths of fields begin with it.
      ignored: names at the top level that may differ.

    Returns:
      The first difference; None if there is none.
    """
    return next(_differences(there, here, field, ignored), None)


def _differences(
    there: object, here: object, field: str, ignored: Collection[str]
) -> Iterator[FieldDifference]:
    """Yields the fields that differ, sorted by name."""
    if not (isinstance(there, Mapping) and isinstance(here, Mapping)):
        if there != here:
            yield FieldDifference(field, there, here)
        return
    for name in sorted({*there, *here} - {*ignored}):
        yield from _differences(there.get(name), here.get(name), f'{field}.{name}', ())
