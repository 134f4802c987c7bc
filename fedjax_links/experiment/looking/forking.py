"""Other futures of a run: lanes that begin at one of its rounds, under other conditions.

The lanes of a fork begin after round T with the states that a run's lanes had then. Keys depend on
seed, round and client alone, so with nothing changed they go on to the bit as the run's own did, on
the kind of device that it ran on; what differs later is due to what was changed.

* The model, memories, counters and whatever else the algorithm keeps must fit leaf by leaf.
* The pattern's carry (Markov states, clocks, offsets) is kept if its section and the seeds of its
  draws are unchanged and its leaves fit; without a config nothing is known of sections. Else the
  pattern begins afresh, as it would before round 0, with the links of round T and later.
* Tuning begins before round 0, as ever.
* Metrics and realised links are those of the rounds after T.

The run is read whenever a lane begins, so it has to stay until all have begun.
"""

import contextlib
import functools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedjax_links import runs
from fedjax_links.base import FederationState, PyTree
from fedjax_links.core import checks, errors, prng
from fedjax_links.experiment.config import build
from fedjax_links.experiment.config_parts import pattern_sections
from fedjax_links.experiment.definition import Experiment
from fedjax_links.experiment.plan import lanes as lanes_
from fedjax_links.experiment.plan import redraws
from fedjax_links.experiment.plan.lanes import Lane
from fedjax_links.experiment.running import hooks
from fedjax_links.experiment.running import loop as running
from fedjax_links.experiment.running.groups import Group
from fedjax_links.experiment.running.programs import Programs, state_shape
from fedjax_links.machines import devices
from fedjax_links.storage import checkpoints

_CARRY, _LINKS = 'participation', 'links'


def run(
    experiment: Experiment,
    folder: str | Path | None = None,
    callbacks: Sequence[hooks.Callback] = (),
    *,
    fork_from: str | Path,
    at_round: int,
) -> runs.Results:
    """As `Experiment.run`, with lanes that begin where another run's lanes were.

    Args:
      experiment: what happens from then on; its ``num_rounds`` counts from the run's beginning.
      folder: as in `Experiment.run`; new, or of the same fork.
      callbacks: likewise.
      fork_from: folder of the run.
      at_round: T, a multiple of ``eval_every`` of both.

    Returns:
      The metrics of the rounds after T.

    Raises:
      ValueError: as `origin` and `Experiment.run`.
    """
    begin = origin(experiment, fork_from, at_round)
    return running.run(experiment, folder, callbacks, origin=begin)


def origin(
    experiment: Experiment, fork_from: str | Path | None, at_round: int | None
) -> hooks.Origin:
    """Where the lanes of an experiment begin.

    Args:
      experiment: the experiment.
      fork_from: folder of a run; None for lanes that begin before their first round.
      at_round: T; None likewise.

    Returns:
      The origin, for `running.run`.

    Raises:
      ValueError: if only one of the two is given, the round is none that both have evaluated, a
        lane has no counterpart, or a state does not fit, with its first such leaf.
    """
    if fork_from is None and at_round is None:
        return hooks.Origin()
    if fork_from is None or at_round is None:
        absent = 'fork_from' if fork_from is None else 'at_round'
        raise errors.invalid(absent, 'be given too', None)
    return Fork(experiment, fork_from, at_round)


class Fork(hooks.Origin):
    """The states of a run's lanes after a round.

    Attributes:
      round: T.
      facts: ``forked_from`` and ``at_round``.
    """

    def __init__(self, experiment: Experiment, fork_from: str | Path, at_round: int) -> None:
        """Checks that every lane can begin; errors as in `origin`."""
        self._experiment = experiment
        self._folder = Path(fork_from)
        self._theirs, self._config = runs.described(fork_from, 'fork_from')
        self._kept = {lane.name: lane for lane in runs.lanes(fork_from)}
        self._ready: dict[str, FederationState] = {}
        self.round = at_round
        self.facts = {'forked_from': os.path.normpath(fork_from), 'at_round': at_round}
        self._check_round()
        for label in experiment.algorithms:
            checked: set[str] = set()
            for lane in lanes_.main_lanes(experiment, label):
                name = self._name_of(lane)
                if lane.pattern not in checked or self._config is None:
                    checked.add(lane.pattern)
                    leaves = self._stored(name, at_round)
                    if leaves is None:
                        past = self._lane(name)
                        like = state_shape(self._programs.experiment, past)
                        leaves = checkpoints.leaves_of(like)
                    self._fitted(lane, name, leaves)

    def begin(self, lane: Lane) -> FederationState:
        """As `Origin.begin`: read if there is a checkpoint; else the run's lane is advanced again.

        From the last checkpoint before the round, or from where it began.
        """
        if lane.name in self._ready:
            return self._ready.pop(lane.name)
        name = self._name_of(lane)
        return self._fitted(lane, name, self._stored(name, self.round) or self._advanced(name))

    def carry(self, pattern: str, seed: int) -> PyTree | None:
        """As `Origin.carry`; all algorithms meet the same links, so any lane knows it."""
        every = lanes_.main_lanes(self._experiment, next(iter(self._experiment.algorithms)))
        lane = next(lane for lane in every if (lane.pattern, lane.seed) == (pattern, seed))
        state = self._ready[lane.name] = self.begin(lane)
        return state.participation

    def has_links(self, folder: Path, num_rounds: int) -> bool:
        """As `Origin.has_links`: to draw them again, lanes would have to be advanced again."""
        kept = runs.read_links(folder)
        return 'num_rounds' in kept and int(kept['num_rounds']) == num_rounds

    def _check_round(self) -> None:
        checks.static_int('at_round', self.round)
        ours, theirs = self._experiment, self._theirs
        least, most = theirs.get('at_round', 0), theirs['num_rounds']
        every, every_there = ours.eval_every, theirs['eval_every']
        known = f'lie in [{least}, {most}], the rounds of {self._folder}'
        for is_wrong, requirement in (
            (self.round % every, f'be a multiple of eval_every = {every}'),
            (self.round % every_there, f'be a multiple of eval_every = {every_there} of the run'),
            (not least <= self.round <= most, known),
            (self.round >= ours.num_rounds, f'be below num_rounds = {ours.num_rounds}'),
        ):
            if is_wrong:
                raise errors.invalid('at_round', requirement, self.round)

    # What fits.

    def _fitted(self, lane: Lane, name: str, leaves: Mapping[str, Any]) -> FederationState:
        """The leaves of the run's lane of this name as a state of a lane.

        Raises:
          ValueError: naming the first leaf that does not fit.
        """
        fields: dict[str, PyTree] = {}
        shape = state_shape(self._experiment, lane)
        for field, like in shape._asdict().items():
            found, mismatch = _field(leaves, field, like)
            if mismatch is None:
                fields[field] = found
            elif field not in (_CARRY, _LINKS):
                requirement = f'hold states that fit {lane.algorithm}'
                theirs = f'{self._folder} with {self._kept[name].labels["algorithm"]}'
                raise errors.invalid('fork_from', requirement, f'{theirs}, whose state {mismatch}')
        if _LINKS not in fields:  # of another kind, and only reported
            fields[_LINKS] = jax.tree.map(lambda a: np.zeros(a.shape, a.dtype), shape.links)
        if _CARRY not in fields or not self._same_pattern(lane, name):
            pattern = lanes_.pattern_of(self._experiment, lane)
            key = self._experiment.draws.key_of('links', lane.seed, lane.point)
            fields[_CARRY] = pattern.init(prng.pattern_key(key))
        return FederationState(**fields)

    def _same_pattern(self, lane: Lane, name: str) -> bool:
        """Whether a lane's pattern has the section and the draws that the run's lane had."""
        ours, theirs, labels = self._experiment.config, self._config, self._kept[name].labels
        if not self._same_draws(lane, labels):
            return False
        if ours is None or theirs is None:
            return True
        ours_now = _section(ours, lane.pattern, lane.point)
        return bool(ours_now == _section(theirs, labels['pattern'], labels))

    def _same_draws(self, lane: Lane, labels: Mapping[str, Any]) -> bool:
        """Whether all that a lane draws has the seed that it had in the run, at a point there."""
        facts = self._theirs
        alone = facts['grid'].get(redraws.GRID, ())
        draws = redraws.Draws(facts.get('redraw', {}), facts['seeds'], alone)
        ours = self._experiment.draws.decisive(lane.seed, lane.point)
        return ours == draws.decisive(lane.seed, labels)

    # The run's lanes.

    def _name_of(self, lane: Lane) -> str:
        """The lane of the run that a lane goes on from.

        Labels of algorithm and pattern agree, or there is only one; seeds agree; and so do the
        columns of the run's grid that have several values and that both lanes have.

        Raises:
          ValueError: naming what is missing, or that there are several.
        """
        wanted: dict[str, Any] = {'stage': lanes_.MAIN, 'seed': int(lane.seed)}
        if lane.seed not in self._theirs['seeds']:
            raise self._lacks(f'seed {lane.seed}', self._theirs['seeds'])
        for kind in ('algorithm', 'pattern'):
            label, there = getattr(lane, kind), self._theirs[f'{kind}s']
            if label not in there and len(there) > 1:
                raise self._lacks(f'{kind} {label!r}', there)
            wanted[kind] = label if label in there else there[0]
        several = {name for name, values in self._theirs['grid'].items() if len(values) > 1}
        point = {name: _plain(value) for name, value in lane.point.items() if name in several}

        found = [
            name
            for name, kept in self._kept.items()
            if all(kept.labels[key] == value for key, value in wanted.items())
            and all(kept.labels.get(key, value) == value for key, value in point.items())
        ]
        if len(found) != 1:
            shown = [f'{name} {v}' for name, v in {**wanted, **point}.items() if name != 'stage']
            said = f'{self._folder} with {len(found)}'
            raise errors.invalid('fork_from', f'hold one lane with {", ".join(shown)}', said)
        return found[0]

    def _lacks(self, what: str, there: Sequence[Any]) -> ValueError:
        shown = ', '.join(map(str, there))
        return errors.invalid('fork_from', f'hold {what}', f'{self._folder} with {shown}')

    # Their states, leaf by leaf, as `checkpoints.leaves_of` names them.

    def _stored(self, name: str, round: int) -> dict[str, Any] | None:
        """A state in a checkpoint; None if there is none that is whole."""
        path = self._kept[name].states.get(round)
        if path is not None:
            with contextlib.suppress(checkpoints.DamagedError):  # or removed since
                return checkpoints.leaves(path)
        return None

    def _advanced(self, name: str) -> dict[str, Any]:
        """The state after the round, of which no checkpoint was kept."""
        lane, past = self._lane(name), self._programs.experiment
        group = Group(self._programs, [lane])
        saves = reversed(list(self._kept[name].states))
        earlier = (self._stored(name, done) for done in saves if done < self.round)
        stored = next((leaves for leaves in earlier if leaves is not None), None)
        if stored is not None:
            kind = jax.tree.structure(state_shape(past, lane))
            group.restore([jax.tree.unflatten(kind, list(stored.values()))])
        elif 'at_round' in self._theirs:
            facts = self._theirs
            group.restore([origin(past, facts['forked_from'], facts['at_round']).begin(lane)])
        else:
            group.start()
        while group.round < self.round:
            group.period()
        return checkpoints.leaves_of(group.states()[0])

    def _lane(self, name: str) -> Lane:
        """A lane of the run, to advance.

        Raises:
          ValueError: if nothing says what it does, or it would do otherwise here.
        """
        if self._config is None:
            kept = [done for done in self._kept[name].states if self._stored(name, done)]
            requirement = f'be a round with a checkpoint of {name}, as {self._folder} has no config'
            said = f'{self.round}; there is {", ".join(map(str, kept)) or "none"}'
            raise errors.invalid('at_round', requirement, said)
        now = self._programs.experiment.facts()
        here = {name: now[name] for name in ('draws', 'numerics')}
        theirs = {name: self._theirs.get(name, value) for name, value in here.items()}
        if theirs != here:
            field, old, new = runs.first_difference(theirs, here, 'run')
            requirement = f'hold the states of round {self.round}, or have run as it would here'
            where = f'{self._folder}, where {field} is {old!r} and not {new!r}'
            raise errors.invalid('fork_from', requirement, where)
        return lanes_.of_kept(self._kept[name])

    @functools.cached_property
    def _programs(self) -> Programs:
        """Of the run."""
        assert self._config is not None
        with errors.inside('fork_from'):
            experiment = build(self._config)
        places = devices.places(1, 1) if self._theirs.get(runs.ON_A_MESH) else None
        return Programs(experiment, places=places)


def _plain(value: Any) -> Any:
    """A value as it reads in a line of metrics."""
    return json.loads(json.dumps(value))


def _field(leaves: Mapping[str, Any], field: str, like: PyTree) -> tuple[PyTree | None, str | None]:
    """A field of a state from its leaves, and what does not fit, if anything."""
    starts = (f'.{field}.', f'.{field}[')
    there = {k: leaf for k, leaf in leaves.items() if k == f'.{field}' or k.startswith(starts)}
    wanted = {f'.{field}{place}': leaf for place, leaf in checkpoints.leaves_of(like).items()}
    for place, leaf in wanted.items():
        if place not in there:
            return None, f'has no {place}'
        if (there[place].shape, there[place].dtype) != (leaf.shape, leaf.dtype):
            theirs, ours = (f'{a.dtype}{list(a.shape)}' for a in (there[place], leaf))
            return None, f'has {theirs} at {place}, not {ours}'
    for place in there:
        if place not in wanted:
            return None, f'has {place} too'
    return jax.tree.unflatten(jax.tree.structure(like), [there[place] for place in wanted]), None


def _section(config: Mapping[str, Any], label: str, point: Mapping[str, Any]) -> Any:
    """What is said of a pattern at a point, as plain values."""
    path, section = pattern_sections(config)[label]
    named = {'name': section} if isinstance(section, str) else section
    own = {k.removeprefix(path): v for k, v in point.items() if k.startswith(f'{path}.')}
    return _plain([named, own])
