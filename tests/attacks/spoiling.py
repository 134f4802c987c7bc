"""Changes to the files of a run folder, each as a function of the folder."""

import hashlib
import io
import json
import os
import struct
from pathlib import Path

import numpy as np

from fedjax_links import runs
from fedjax_links.storage import checksummed_npz

CANARY = 'canary.txt'


def facts_with(**changes):
    """Changes facts of the experiment."""

    def spoil(folder):
        values = runs.read_json(folder, runs.EXPERIMENT)
        write(folder / runs.EXPERIMENT, {**values, **changes})

    return spoil


def facts_without(*names):
    """Removes facts of the experiment."""

    def spoil(folder):
        values = runs.read_json(folder, runs.EXPERIMENT)
        remaining = {name: value for name, value in values.items() if name not in names}
        write(folder / runs.EXPERIMENT, remaining)

    return spoil


def config_with(path, value):
    """Changes a field of the config."""

    def spoil(folder):
        values = runs.read_json(folder, runs.CONFIG)
        *parents, name = path.split('.')
        section = values
        for parent in parents:
            section = section.setdefault(parent, {})
        section[name] = value
        write(folder / runs.CONFIG, values)

    return spoil


def json_of(name, value):
    """Writes another value as a file of JSON, with a digest if it is an object."""

    def spoil(folder):
        (folder / name).parent.mkdir(exist_ok=True)
        write(folder / name, value)

    return spoil


def write(path, value):
    """Writes JSON, with its digest if it is an object."""
    is_object = isinstance(value, dict)
    path.write_bytes(runs.as_json(value) if is_object else json.dumps(value).encode())


def lanes_with(change):
    """Changes the arrays of the last save of every lane; ``change`` takes and returns them."""

    def spoil(folder):
        for files in runs.saves(folder).values():
            repack(files[max(files)], change)

    return spoil


def repack(path, change):
    """Changes the arrays of an npz, and its checksum with them."""
    with np.load(path, allow_pickle=False) as stored:
        arrays = dict(stored)
    path.write_bytes(checksummed(change(arrays)))


def checksummed(arrays):
    """The content of an npz with its checksum; arrays of objects are pickled."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    # The checksum is the comment of the zip. The last two bytes are the comment's length.
    buffer.seek(-2, os.SEEK_END)
    buffer.write(struct.pack('<H', 64))
    buffer.write(hashlib.sha256(buffer.getbuffer()).hexdigest().encode())
    return buffer.getvalue()


class Pickled:
    """Creates the canary when it is unpickled."""

    def __reduce__(self):
        """Returns what unpickling calls, and its arguments."""
        return (os.system, (f'touch {CANARY}',))


def pickled(arrays):
    """Replaces each leaf by an array of an object."""
    objects = np.array([Pickled()], object)
    texts = ('about', 'lines')
    return {name: array if name in texts else objects for name, array in arrays.items()}


def about_with(**changes):
    """Changes the metadata of a save; None removes a field."""

    def change(arrays):
        about = json.loads(bytes(arrays['about'])) | changes
        about = {name: value for name, value in about.items() if value is not None}
        return {**arrays, 'about': text(json.dumps(about))}

    return lanes_with(change)


def leaves_of_kind(kind):
    """Changes the kind of each leaf in the metadata."""

    def change(arrays):
        about = json.loads(bytes(arrays['about']))
        about['leaves'] = [{**leaf, 'kind': kind} for leaf in about['leaves']]
        return {**arrays, 'about': text(json.dumps(about))}

    return lanes_with(change)


def leaves_as_texts(arrays):
    """Replaces each leaf of a state by a text."""
    return {
        name: np.array('x') if name.isdecimal() else array
        for name, array in arrays.items()
    }


def lines_with(change):
    """Changes every line of metrics."""

    def of_lane(arrays):
        lines = bytes(arrays['lines']).decode().splitlines()
        return {**arrays, 'lines': text(''.join(f'{change(line)}\n' for line in lines))}

    return lanes_with(of_lane)


def rows_with(**changes):
    """Changes fields of every line of metrics."""
    return lines_with(lambda line: json.dumps({**json.loads(line), **changes}))


def text(value):
    """Converts a text to the array that stands for it in an npz."""
    return np.frombuffer(value.encode(), np.uint8)


def links_with(change):
    """Changes the recorded links."""
    return lambda folder: repack(folder / runs.LINKS, change)


def clients_with(arrays):
    """Writes other per-client results."""
    return lambda folder: (folder / 'clients.npz').write_bytes(checksummed(arrays))


def symlink(name, target=CANARY):
    """Replaces a file by a link, by default to the canary, which does not exist."""

    def spoil(folder):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(Path.cwd() / target)

    return spoil


def moved_lanes(folder):
    """Moves the lanes' files, and leaves a link."""
    (folder / runs.CHECKPOINTS).rename(folder.with_name('elsewhere'))
    (folder / runs.CHECKPOINTS).symlink_to(folder.with_name('elsewhere'))


def renamed_lane(name):
    """Renames the file of a lane."""

    def spoil(folder):
        first = next(iter(runs.saves(folder).values()))
        path = first[max(first)]
        path.rename(path.with_name(name))

    return spoil


def archive_with(**arrays):
    """Turns the folder into an archive with further columns."""

    def spoil(folder):
        content = checksummed_npz.pack_metrics(runs.read(folder).columns)
        with np.load(io.BytesIO(content)) as stored:
            columns = dict(stored)
        metrics = checksummed({**columns, **arrays})
        (folder / checksummed_npz.METRICS).write_bytes(metrics)

    return spoil
