"""Realised links that a run kept."""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedjax_links.core import errors, paths
from fedjax_links.runs.folder import LINKS, read_description
from fedjax_links.storage import checksummed_npz


def read_links(folder: str | Path) -> dict[str, np.ndarray]:
    """The arrays of realised links as they are kept, masks packed; empty if none were kept.

    Args:
      folder: of a run.

    Returns:
      By pattern, and ``<pattern>/<seed>`` for further seeds, ``mask/...``, packed along the
      clients, ``mean_prob/...`` and where asked for ``prob/...``; where there are,
      ``duration/...``, ``neighbours/...`` and ``edges/...``, packed as masks.

    Raises:
      ValueError: if the file was changed.
    """
    path = paths.as_path(folder) / LINKS
    with errors.on_disk(path):
        if not path.exists():
            return {}
        if not checksummed_npz.is_verified(path):
            requirement = f'hold readable links ({LINKS})'
            raise errors.invalid('folder', requirement, f'{path}, which has changed')
        with _decoding_links(path), np.load(path, allow_pickle=False) as stored:
            return dict(stored)


class RecordedLinks(NamedTuple):
    """Realised links that a run kept, from round ``first_round`` on.

    Attributes:
      masks: bool[T, N], who took part, by pattern and seed.
      mean_probs: float[N], the mean reported probability, by pattern and seed; NaN where unknown.
      probs: float[T, N], by pattern and seed, where the run logged links.
      durations: float[T], seconds of each round, by pattern and seed, of patterns that tell them.
      neighbours: int32[N, K], by pattern and seed, where there are links between clients.
      edges: bool[T, N, K], which of these were up, likewise.
      first_round: 0, but of a forked run.
    """

    masks: Mapping[str, Mapping[int, np.ndarray]]
    mean_probs: Mapping[str, Mapping[int, np.ndarray]]
    probs: Mapping[str, Mapping[int, np.ndarray]]
    durations: Mapping[str, Mapping[int, np.ndarray]]
    neighbours: Mapping[str, Mapping[int, np.ndarray]]
    edges: Mapping[str, Mapping[int, np.ndarray]]
    first_round: int


def links(folder: str | Path) -> RecordedLinks:
    """The realised links of a run, masks unpacked; nothing by any pattern if none were kept.

    Args:
      folder: of a run.

    Raises:
      ValueError: if the folder holds no run, or the file was changed.
    """
    facts, _ = read_description(folder)
    arrays = read_links(folder)
    kinds = 'mask', 'mean_prob', 'prob', 'duration', 'neighbours', 'edges'
    found: dict[str, dict[str, dict[int, np.ndarray]]] = {kind: {} for kind in kinds}
    with _decoding_links(folder):
        for name, array in unpacked(arrays).items():
            kind, *rest = name.split('/')
            if rest:
                pattern, seed = rest[0], rest[1] if len(rest) > 1 else facts['seeds'][0]
                found[kind].setdefault(pattern, {})[int(seed)] = array
        return RecordedLinks._make((*found.values(), int(arrays.get('first_round', 0))))


def _decoding_links(path: Any) -> contextlib.AbstractContextManager[None]:
    """Makes links that no run writes a mistake."""
    return errors.decoding(
        lambda said: errors.invalid(
            'folder', f'hold readable links ({LINKS})', f'{path}: {said}'
        )
    )


def unpacked(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What `read_links` returns with masks bool[T, N] and edges bool[T, N, K]."""
    found = dict(arrays)
    with _decoding_links(LINKS):
        for name, array in arrays.items():
            kind, _, rest = name.partition('/')
            if kind in ('mask', 'edges'):
                alike = 'neighbours' if kind == 'edges' else 'mean_prob'
                shape = arrays[f'{alike}/{rest}'].shape
                bits = np.unpackbits(array, axis=-1, count=int(np.prod(shape)))
                found[name] = bits.reshape(-1, *shape) > 0
    return found
