"""A run that another one goes on from: its lanes, and their states after any round."""

import contextlib
import functools
import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax

from fedjax_links import runs
from fedjax_links.core import errors
from fedjax_links.experiment import config as config_
from fedjax_links.experiment.definition import Experiment
from fedjax_links.experiment.plan import lanes as lanes_
from fedjax_links.experiment.plan import redraws
from fedjax_links.experiment.plan.lanes import Lane
from fedjax_links.experiment.running import hooks
from fedjax_links.experiment.running import loop as running
from fedjax_links.experiment.running.programs import Group, Programs
from fedjax_links.machines import devices
from fedjax_links.storage import checkpoints


class Past:
    """What a run folder holds, and what follows from it; nothing is written.

    Attributes:
      folder: as the user gave it.
      facts: what the folder says of the experiment.
      config: what the experiment was made from; None if it was made in Python.
      kept: its lanes, by name.
    """

    def __init__(self, folder: str | Path) -> None:
        """Reads the folder.

        Raises:
          ValueError: if it holds no run, or its files were changed.
        """
        self.folder = Path(folder)
        self.facts, self.config = runs.described(folder, 'fork_from')
        self.kept = {lane.name: lane for lane in runs.lanes(folder)}

    @property
    def first_round(self) -> int:
        """Where its lanes began: 0, unless it was forked itself."""
        return int(self.facts.get('at_round', 0))

    @property
    def draws(self) -> redraws.Draws:
        """Which seed each draw of its lanes had."""
        facts = self.facts
        alone = facts['grid'].get(redraws.GRID, ())
        return redraws.Draws(facts.get('redraw', {}), facts['seeds'], alone)

    def name_of(self, lane: Lane) -> str:
        """The lane that another run's lane goes on from.

        Labels of algorithm and pattern agree, or there is only one; seeds agree; and so do the
        columns of this run's grid that have several values and that both lanes have.

        Args:
          lane: of the other run.

        Returns:
          The name of the lane here.

        Raises:
          ValueError: naming what is missing, or that there are several.
        """
        wanted = {
            'algorithm': self._label('algorithm', lane.algorithm),
            'pattern': self._label('pattern', lane.pattern),
            'seed': int(lane.seed),
        }
        if wanted['seed'] not in self.facts['seeds']:
            raise self._lacks(f'seed {lane.seed}', self.facts['seeds'])
        several = {name for name, values in self.facts['grid'].items() if len(values) > 1}
        point = {name: _plain(value) for name, value in lane.point.items() if name in several}
        there = {name: kept.labels for name, kept in self.kept.items()}
        found = _agreeing(there, wanted, point)
        if not found and self.config is not None:
            found = _agreeing(self._labels, wanted, point)
        if len(found) != 1:
            shown = ', '.join(f'{name} {value}' for name, value in {**wanted, **point}.items())
            requirement = f'hold one lane with {shown}'
            raise errors.invalid('fork_from', requirement, f'{self.folder} with {len(found)}')
        return found[0]

    def labels(self, name: str) -> Mapping[str, Any]:
        """What identifies a lane, and its point."""
        return self.kept[name].labels if name in self.kept else self._labels[name]

    def state(self, name: str, round: int) -> dict[str, Any]:
        """The leaves of a lane's state after a round, by their place in it.

        They are read if there is a checkpoint; else the lane is advanced again, from the last
        checkpoint before the round or from where it began.

        Args:
          name: of the lane.
          round: rounds behind it, a multiple of ``eval_every``.

        Returns:
          The leaves, named as `checkpoints.leaves_of` does.

        Raises:
          ValueError: if it must be advanced and there is no config to build it from.
        """
        found = self._stored(name, round)
        return self._advanced(name, round) if found is None else found

    def shapes(self, name: str, round: int) -> dict[str, Any]:
        """As `state`, but what would have to be computed is known by its shape alone."""
        found = self._stored(name, round)
        if found is not None:
            return found
        lane = self._lane(name, round)
        (shape,) = Group(self._programs, [lane]).shapes()
        return checkpoints.leaves_of(shape)

    def is_done(self, lane: Lane) -> bool:
        """Whether a lane of this name and length is done."""
        return lane.name in self.kept and self.kept[lane.name].round == lane.num_rounds

    # Its lanes.

    @functools.cached_property
    def _labels(self) -> dict[str, dict[str, Any]]:
        """Labels of every lane, of an experiment that is built from its config."""
        experiment = self._experiment
        return {
            lane.name: _plain(lane.about['labels'])
            for label in experiment.algorithms
            for lane in lanes_.main_lanes(experiment, label, lanes_.first_tried(experiment, label))
        }

    def _label(self, kind: str, label: str) -> str:
        """The label here, or the only one."""
        labels = self.facts[f'{kind}s']
        if label in labels or len(labels) == 1:
            return label if label in labels else str(labels[0])
        raise self._lacks(f'{kind} {label!r}', labels)

    def _lacks(self, what: str, there: list[Any]) -> ValueError:
        shown = ', '.join(map(str, there))
        return errors.invalid('fork_from', f'hold {what}', f'{self.folder} with {shown}')

    # Their states.

    def _stored(self, name: str, round: int) -> dict[str, Any] | None:
        """The state in a checkpoint; None if there is none that is whole."""
        if name in self.kept and round in self.kept[name].states:
            with contextlib.suppress(checkpoints.DamagedError):  # or removed since
                return checkpoints.leaves(self.kept[name].states[round])
        return None

    def _advanced(self, name: str, round: int) -> dict[str, Any]:
        """The state after a round that no checkpoint was kept of."""
        lane = self._lane(name, round)
        group = Group(self._programs, [lane])
        (shape,) = group.shapes()
        for done in sorted(self._rounds(name), reverse=True):
            stored = self._stored(name, done) if done < round else None
            if stored is not None:
                state = jax.tree.unflatten(jax.tree.structure(shape), list(stored.values()))
                group.restore([state])
                break
        else:
            _, states = self._origin.begin([lane], {lane.name: shape})
            if states:
                group.restore(list(states.values()))
            else:
                group.start()
        while group.round < round:
            group.period()
        return checkpoints.leaves_of(group.states()[0])

    def _lane(self, name: str, round: int) -> Lane:
        """A lane to advance.

        Raises:
          ValueError: if nothing says what it does.
        """
        if self.config is None:
            kept = [done for done in self._rounds(name) if self._stored(name, done) is not None]
            requirement = f'be a round with a checkpoint of {name}, as {self.folder} has no config'
            there = ', '.join(map(str, kept)) or 'none'
            raise errors.invalid('at_round', requirement, f'{round}; there is {there}')
        label = self.labels(name)['algorithm']
        experiment = self._experiment
        here = {name: experiment.facts()[name] for name in ('draws', 'numerics')}
        theirs = {name: self.facts.get(name, value) for name, value in here.items()}
        if theirs != here:
            field, old, new = runs.first_difference(theirs, here, 'run')
            requirement = f'hold the states of round {round}, or have run as it would here'
            where = f'{self.folder}, where {field} is {old!r} and not {new!r}'
            raise errors.invalid('fork_from', requirement, where)
        for lane in lanes_.tuning_lanes(experiment, label):
            if not self.is_done(lane):
                raise self._lacks(f'all of the tuning of {label}', ['an unfinished one'])
        columns = runs.as_columns(
            itertools.chain.from_iterable(lane.lines for lane in self.kept.values())
        )
        chosen = running.choose(experiment, label, columns)
        lanes = lanes_.main_lanes(experiment, label, chosen)
        return next(lane for lane in lanes if lane.name == name)

    def _rounds(self, name: str) -> list[int]:
        """After which a lane was saved, and still is."""
        return list(self.kept[name].states) if name in self.kept else []

    @functools.cached_property
    def _experiment(self) -> Experiment:
        assert self.config is not None
        try:
            return config_.build(self.config)
        except errors.InvalidError as error:
            requirement = 'hold a config that can be built'
            said = f'{self.folder}: `{error.path}` {error.clause}'
            raise errors.invalid('fork_from', requirement, said) from None

    @functools.cached_property
    def _programs(self) -> Programs:
        places = devices.places(1, 1) if self.facts.get(runs.ON_A_MESH) else None
        return Programs(self._experiment, places=places)

    @functools.cached_property
    def _origin(self) -> hooks.Origin:
        """Where its own lanes began."""
        from fedjax_links.experiment.looking import forking

        facts = self.facts
        return forking.origin(self._experiment, facts.get('forked_from'), facts.get('at_round'))


def _agreeing(
    lanes: Mapping[str, Mapping[str, Any]], wanted: Mapping[str, Any], point: Mapping[str, Any]
) -> list[str]:
    """Names of the lanes with these labels, and with this point as far as they have its columns."""
    return [
        name
        for name, labels in lanes.items()
        if labels['stage'] == lanes_.MAIN
        and all(labels[key] == value for key, value in wanted.items())
        and all(labels[key] == value for key, value in point.items() if key in labels)
    ]


def _plain(value: Any) -> Any:
    """A value as it reads in a line of metrics."""
    return json.loads(json.dumps(value))
