"""Reads the run that a fork starts from: lanes, states of lanes, and programs.

A lane is one simulation (`planning.lanes.Lane`), and `forking` says what a fork is.
"""

import contextlib
import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from fedjax_links import runs
from fedjax_links.config import bound
from fedjax_links.core import errors, grids
from fedjax_links.core.records import LaneLabels, Section
from fedjax_links.experiment.config import prepare_recorded
from fedjax_links.machines import devices, environment
from fedjax_links.planning.lanes import MAIN, Lane, from_record
from fedjax_links.planning.plan import Plan
from fedjax_links.runner import program_cache
from fedjax_links.runner.identity import Identities
from fedjax_links.storage import checkpoints, descriptions, run_access
from fedjax_links.storage.identity import run_differences


class Planned(Protocol):
    """Stands for `Experiment`, which this module cannot import."""

    @property
    def plan(self) -> Plan:
        """Returns the plan of the experiment."""


class SourceRun:
    """Reads the folder of a run as the source of a fork.

    Attributes:
      folder: path of the run folder.
      facts: the content of the folder's ``experiment.json``.
      config: of the run's experiment; None for an experiment made in Python.
      lanes: records of the run's lanes, by name.
      identity: digests of the run's programs and data; None if the folder has none.
    """

    def __init__(
        self,
        folder: Path,
        build: Callable[[Section], Planned],
        *,
        allow_imports: bool,
        trusted: Section | None,
    ) -> None:
        """Reads the descriptions in the folder.

        Args:
          folder: of a run.
          build: makes the experiment of a config.
          allow_imports: whether the run's config may name code outside the package.
          trusted: a config from the user. The run's config may name the code that this one names.
        """
        self.folder = folder
        self.facts, self.config = runs.read_description(folder, 'fork_from')
        run_access.refuse_archive('fork_from', folder)
        self.lanes = {lane.name: lane for lane in runs.lanes(folder)}
        self.identity = descriptions.read_identity(folder)
        self._build = build
        self._allow_imports = allow_imports
        self._trusted = trusted

    def check_unchanged(self) -> None:
        """Refuses a run whose config now yields other programs or data than when it ran.

        Lanes may be advanced again from that config, so its programs and data must be the run's. If
        the experiment was made in Python, only the version of this package is compared. If the
        config names code that may not be imported, nothing is compared.

        Raises:
          ValueError: naming what changed.
        """
        if self.identity is None:
            raise self._changed('nothing records its programs and data')
        if self.config is None:
            current_version = environment.version()
            versions = {lane.version for lane in self.identity.lanes.values()}
            changed = [
                f'fedjax_links is {version} and not {current_version}'
                for version in versions - {current_version}
            ]
        else:
            try:
                current_identity = Identities(self.programs.plan).run_identity()
            except bound.RefusedImportError:
                return  # Lanes cannot be advanced again, so only checkpoints are read.
            changed = run_differences(self.identity, current_identity)
        if changed:
            raise self._changed('; '.join(changed[:3]))

    def _changed(self, what: str) -> errors.InvalidError:
        """Builds the error for a run that has changed."""
        requirement = (
            'hold a run whose programs and data are unchanged (--allow_changed '
            'continues anyway)'
        )
        return errors.invalid('fork_from', requirement, f'{self.folder}, where {what}')

    def counterpart(self, lane: Lane) -> str:
        """Finds the lane of the run that a lane of a fork resumes.

        Both lanes have the same seed, and the same labels of algorithm and pattern. If the run has
        only one algorithm or pattern, the label need not be the same. Both lanes also agree in the
        columns that both have, if the run's grid has several values of the column.

        Returns:
          The name of the run's lane.

        Raises:
          ValueError: naming what is missing, or if the run has several such lanes.
        """
        labels = self._labels_of_counterpart(lane)
        names = [
            name
            for name, record in self.lanes.items()
            if grids.agree(record.labels, labels)
        ]
        if len(names) != 1:
            shown = [
                f'{name} {value}' for name, value in labels.items() if name != 'stage'
            ]
            requirement = f'hold one lane with {", ".join(shown)}'
            got = f'{self.folder} with {len(names)}'
            raise errors.invalid('fork_from', requirement, got)
        return names[0]

    def _labels_of_counterpart(self, lane: Lane) -> LaneLabels:
        """Returns the labels that the counterpart of a lane must have."""
        seeds = self.facts['seeds']
        if lane.seed not in seeds:
            raise self._lacks(f'seed {lane.seed}', seeds)
        labels: dict[str, Any] = {'stage': MAIN, 'seed': int(lane.seed)}
        labels['algorithm'] = self._label('algorithm', lane.algorithm)
        labels['pattern'] = self._label('pattern', lane.pattern)
        for name, values in self.facts['grid'].items():
            if len(values) > 1 and name in lane.point:
                labels[name] = plain(lane.point[name])
        return labels

    def _label(self, kind: str, label: str) -> str:
        """Returns the run's label of an algorithm or pattern: the same, or the run's only one."""
        labels: Sequence[str] = self.facts[f'{kind}s']
        if label in labels:
            return label
        if len(labels) > 1:
            raise self._lacks(f'{kind} {label!r}', labels)
        return labels[0]

    def _lacks(self, what: str, present: Sequence[object]) -> errors.InvalidError:
        """Builds the error for a seed or a label that the run does not have."""
        shown = ', '.join(map(str, present))
        return errors.invalid(
            'fork_from', f'hold {what}', f'{self.folder} with {shown}'
        )

    def saved_leaves(self, name: str, round: int) -> dict[str, Any] | None:
        """Reads the leaves of a lane's state after a round; None without an intact checkpoint."""
        path = self.lanes[name].states.get(round)
        if path is not None:
            with contextlib.suppress(checkpoints.DamagedError):  # or removed since
                return checkpoints.leaves(path)
        return None

    def lane(self, name: str, round: int) -> Lane:
        """Returns a lane of the run, to advance it to a round.

        Raises:
          ValueError: if the run has no config, or if the lane would compute something else now.
        """
        record = self.lanes[name]
        if self.config is None:
            rounds = [done for done in record.states if self.saved_leaves(name, done)]
            requirement = f'be a round with a checkpoint of {name}, as {self.folder} has no config'
            present = ', '.join(map(str, rounds)) or 'none'
            raise errors.invalid(
                'at_round', requirement, f'{round}; there is {present}'
            )
        facts = self.programs.plan.facts()
        current = {key: facts[key] for key in ('draws', 'numerics')}
        recorded = {key: self.facts.get(key, value) for key, value in current.items()}
        difference = runs.first_difference(recorded, current, 'run')
        if difference:
            field, old, new = difference
            requirement = (
                f'hold the states of round {round}, or have run as it would here'
            )
            got = f'{self.folder}, where {field} is {old!r} and not {new!r}'
            raise errors.invalid('fork_from', requirement, got)
        return from_record(record)

    @functools.cached_property
    def programs(self) -> program_cache.Programs:
        """Returns the programs of the run."""
        assert self.config is not None
        with errors.context('fork_from'):
            config = prepare_recorded(
                self.config, allow_imports=self._allow_imports, trusted=self._trusted
            )
            plan = self._build(config).plan
        # A lane on a mesh rounds differently than without, but meshes of all sizes agree.
        slots = devices.device_slots(1, 1) if self.facts.get(runs.ON_A_MESH) else None
        return program_cache.Programs(plan, slots=slots)


def plain(value: Any) -> Any:
    """Returns a value as it reads in a line of metrics."""
    return json.loads(json.dumps(value))
