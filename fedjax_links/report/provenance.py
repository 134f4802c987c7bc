"""Says at the end of a report what ran: seeds, versions, data, and when."""

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedjax_links import runs
from fedjax_links.core import errors
from fedjax_links.results import dataset, recorded
from fedjax_links.storage import descriptions, documents, run_files

_MOST_DIGITS = 12
"""Hexadecimal digits of a digest that are shown: 48 bits tell data sets apart."""


def lines(run: runs.Results) -> list[str]:
    """Returns what a reader needs to repeat the run, a line for each fact.

    Args:
      run: its folder is read, if it has one.
    """
    # The seeds that ran: with seeds until decided, fewer than the facts list.
    rows = recorded.rows_of(run.columns, run.facts, dataset.MAIN)
    texts = [f'Seeds: {_spans(set(rows["seed"].tolist())) or "none"}.']
    if run.folder is not None:
        texts += _versions(run.folder)
        texts += _data(run.folder)
    changes = run.facts.get(run_files.CHANGED)
    if changes:
        listed = '; '.join(changes)
        texts.append(f'Changed while it ran, and continued anyway: {listed}.')
    return texts


def _versions(folder: Path) -> list[str]:
    """Returns the versions of libraries, and when and on which devices the run last started."""
    environment: Mapping[str, Any] = {}
    # A damaged file is left out: it describes the run, and nothing depends on it.
    with contextlib.suppress(errors.InvalidError):
        environment = documents.read_json(folder, run_files.ENVIRONMENT) or {}
    versions = environment.get('versions')
    texts: list[str] = []
    if isinstance(versions, Mapping) and versions:
        named = [f'{name} {version}' for name, version in versions.items()]
        texts.append(f'Versions: {", ".join(named)}.')
    devices = environment.get('devices')
    if 'date' in environment and isinstance(devices, list):
        names = ', '.join(dict.fromkeys(map(str, devices)))
        texts.append(f'Last started on {environment["date"]} on {names}.')
    return texts


def _data(folder: Path) -> list[str]:
    """Returns name, size and digest of the data, a line for each data set."""
    identity = descriptions.read_identity(folder)
    if identity is None:
        return []
    patterns: dict[str, list[str]] = {}
    for pattern, size in identity.sizes.items():
        count = f'{size["examples"]:,} examples of {size["clients"]:,} clients'
        digest = size['digest'][:_MOST_DIGITS]
        text = f'{size["name"]}, {count}, SHA-256 {digest}'
        patterns.setdefault(text, []).append(pattern)
    if len(patterns) == 1:
        return [f'Data: {text}.' for text in patterns]
    return [f'Data ({", ".join(names)}): {text}.' for text, names in patterns.items()]


def _spans(seeds: Iterable[int]) -> str:
    """Returns seeds as spans: ``0 to 4, 7``."""
    spans: list[list[int]] = []
    for seed in sorted(seeds):
        if spans and seed == spans[-1][1] + 1:
            spans[-1][1] = seed
        else:
            spans.append([seed, seed])
    return ', '.join(str(a) if a == b else f'{a} to {b}' for a, b in spans)
