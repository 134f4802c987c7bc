"""Where a run of several processes is kept: by the leader, but for what they divide.

Each of them writes and reads its own rows of client tables. What the others must know to do the
same as the leader (where lanes stand, when to save, and that the disk is full) is told by it
whenever it is asked.
"""

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from fedjax_links import runs
from fedjax_links.base import PyTree
from fedjax_links.core import errors
from fedjax_links.experiment.running import stores
from fedjax_links.machines import processes
from fedjax_links.storage import checkpoints


class InStep:
    """The leader's store, as every process sees it: a call is answered by the leader's own.

    Attributes:
      own: the store, in the leader.
    """

    def __init__(
        self,
        make: Callable[[], stores.Memory],
        described: Sequence[Any],
        folder: Path | None,
        own_rows: Callable[[int], tuple[int, int]],
    ) -> None:
        """Opens it.

        Args:
          make: makes the store in the leader.
          described: the experiment, which all processes share: config and facts.
          folder: of the run, on a disk that they share where they divide tables; None in memory.
          own_rows: which rows of a table are this process's (`devices.Place.own_rows`).

        Raises:
          ValueError: in every process, if the leader cannot, or one has another experiment.
        """
        self.own: Any = None
        self._folder, self._own_rows = Path(folder or '').absolute(), own_rows
        self._is_kept = folder is not None
        own = [
            {k: v for k, v in (values or {}).items() if k not in runs.MAY_DIFFER}
            for values in described
        ]
        leaders = _of_leader(lambda: own)
        processes.do_in_all(lambda: _check_same(leaders, json.loads(json.dumps(own))))

        def begin() -> None:
            self.own = make()

        _of_leader(begin)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """A method of `Memory`."""
        return lambda *given: _of_leader(lambda: getattr(self.own, name)(*given))

    def restore(self, lanes: Mapping[str, PyTree]) -> dict[str, PyTree]:
        """As `Memory.restore`; of what was divided every process reads its own rows."""
        return {lane: self._restored(lane, like) for lane, like in lanes.items()}

    def _restored(self, lane: str, like: PyTree) -> PyTree:
        path = runs.checkpoint_file(self._folder, lane, self.rounds(lane))
        content = processes.ask_leader(lambda: checkpoints.proven(path))
        load = functools.partial(checkpoints.load, content=content, own_rows=self._own_rows)
        return processes.do_in_all(lambda: load(path, like))

    def save(self, states: Mapping[str, PyTree], round: int) -> None:
        """As `Memory.save`; every process writes its rows of what is divided before."""
        files = {lane: runs.checkpoint_file(self._folder, lane, round) for lane in states}
        parts = {}
        for lane, path in files.items() if self._is_kept else ():
            said = processes.ask_all(functools.partial(_write_part, path, states[lane]))
            parts[lane] = [part for text in said if (part := json.loads(text))]

        def keep() -> None:
            for lane, own in parts.items():
                for place in range(len(own)):
                    _check_there(checkpoints.part_file(files[lane], place))
            self.own.save(states, round, parts)

        _of_leader(keep)

    def close(self) -> None:
        """As `Memory.close`; it is told to nobody, as all may have ended."""
        if self.own is not None:
            self.own.close()


def _write_part(path: Path, state: PyTree) -> bytes:
    """What a save says of this process's part, which is on the disk then."""
    _check_there(path.parent)
    with errors.on_disk(path):
        return json.dumps(checkpoints.write_part(path, jax.process_index(), state)).encode()


def _check_there(path: Path) -> None:
    if not path.exists():
        requirement = 'be on a disk that all processes share, as they divide what clients keep'
        raise errors.invalid('workdir', requirement, f'one without {path}')


def _check_same(leaders: Sequence[Any], own: Sequence[Any]) -> None:
    for theirs, ours in zip(leaders, own, strict=True):
        field, there, here = runs.first_difference(theirs, ours)
        if there != here:
            raise errors.invalid(field, 'be the same in all processes', f'{there!r} and {here!r}')


def _of_leader(answer: Callable[[], Any]) -> Any:
    """What the leader answers, as JSON holds it."""
    return json.loads(processes.ask_leader(lambda: json.dumps(answer()).encode()))
