"""Reads the realised links that a run recorded."""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedjax_links.core import errors, paths
from fedjax_links.runs.folder import LINKS, read_description
from fedjax_links.storage import checksummed_npz


def read_links(folder: str | Path) -> dict[str, np.ndarray]:
    """Reads the arrays of realised links as they are stored, masks packed; empty if there are none.

    Args:
      folder: of a run.

    Returns:
      Arrays by ``<kind>/<pattern>``, and ``<kind>/<pattern>/<seed>`` for further seeds. Kinds are
      ``mask``, packed along the clients, and ``mean_prob``. Some runs also have ``prob``,
      ``duration``, ``neighbours`` and ``edges``; edges are packed as masks are. Forks also have the
      scalars ``first_round`` and ``num_rounds``.

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
    """Holds realised links that a run recorded, from round ``first_round`` on.

    Attributes:
      masks: bool[T, N], who took part, by pattern and seed.
      mean_probs: float[N], the mean reported probability, by pattern and seed; NaN where unknown.
      probs: float[T, N], by pattern and seed, where the run logged links.
      durations: float[T], seconds of each round, by pattern and seed, of patterns that have them.
      neighbours: int32[N, K], the neighbours of each client, by pattern and seed, for links between
        clients.
      edges: bool[T, N, K], which links to these neighbours were up, likewise.
      first_round: 0 unless the run is a fork.
    """

    masks: Mapping[str, Mapping[int, np.ndarray]]
    mean_probs: Mapping[str, Mapping[int, np.ndarray]]
    probs: Mapping[str, Mapping[int, np.ndarray]]
    durations: Mapping[str, Mapping[int, np.ndarray]]
    neighbours: Mapping[str, Mapping[int, np.ndarray]]
    edges: Mapping[str, Mapping[int, np.ndarray]]
    first_round: int


def links(folder: str | Path) -> RecordedLinks:
    """Reads the realised links of a run, masks unpacked; fields are empty without links.

    Args:
      folder: of a run.

    Raises:
      ValueError: if the folder holds no run, or the file was changed.
    """
    facts, _ = read_description(folder)
    arrays = read_links(folder)
    by_kind: dict[str, dict[str, dict[int, np.ndarray]]] = {
        kind: {}
        for kind in ('mask', 'mean_prob', 'prob', 'duration', 'neighbours', 'edges')
    }
    with _decoding_links(folder):
        for name, array in unpacked(arrays).items():
            kind, _, rest = name.partition('/')
            if rest:
                pattern, _, seed = rest.partition('/')
                seed = seed or facts['seeds'][0]
                by_kind[kind].setdefault(pattern, {})[int(seed)] = array
        return RecordedLinks(
            masks=by_kind['mask'],
            mean_probs=by_kind['mean_prob'],
            probs=by_kind['prob'],
            durations=by_kind['duration'],
            neighbours=by_kind['neighbours'],
            edges=by_kind['edges'],
            first_round=int(arrays.get('first_round', 0)),
        )


def _decoding_links(path: object) -> contextlib.AbstractContextManager[None]:
    """Turns what reading damaged links raises into an error that names the user's folder."""

    def failed(reason: str) -> errors.InvalidError:
        requirement = f'hold readable links ({LINKS})'
        return errors.invalid('folder', requirement, f'{path}: {reason}')

    return errors.decoding(failed)


def unpacked(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Unpacks what `read_links` returns: masks to bool[T, N], edges to bool[T, N, K]."""
    result = dict(arrays)
    with _decoding_links(LINKS):
        for name, array in arrays.items():
            kind, _, rest = name.partition('/')
            if kind in ('mask', 'edges'):
                # Bits are padded to bytes. An array of another kind has the shape of a round.
                unpacked_kind = 'neighbours' if kind == 'edges' else 'mean_prob'
                shape = arrays[f'{unpacked_kind}/{rest}'].shape
                bits = np.unpackbits(array, axis=-1, count=int(np.prod(shape)))
                result[name] = bits.reshape(-1, *shape) > 0
    return result
