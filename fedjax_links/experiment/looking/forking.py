"""Other futures of a run: lanes that begin at one of its rounds, under other conditions.

The lanes of a fork begin after round T with the states that a run's lanes had then. Keys depend on
seed, round and client alone, so with nothing changed they go on to the bit as the run's own did, on
the kind of device that it ran on; what differs later is due to what was changed.

* The model, memories, counters and whatever else the algorithm keeps must fit leaf by leaf.
* The pattern's carry (Markov states, clocks, offsets) is kept if its section and the seeds of its
  draws are unchanged and its leaves fit; without a config nothing is known of sections. Else the
  pattern begins afresh, as it would before round 0, with the links of round T and later.
* What was tuned alike, on the same draws, is taken over with its metrics; else tuning begins before
  round 0, as ever.
* Metrics and realised links are those of the rounds after T.

The run is read whenever a lane begins, so it has to stay until all have begun.
"""

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
from fedjax_links.experiment.config_parts import pattern_sections
from fedjax_links.experiment.definition import Experiment
from fedjax_links.experiment.looking import past
from fedjax_links.experiment.plan import lanes as lanes_
from fedjax_links.experiment.plan.lanes import Lane
from fedjax_links.experiment.running import hooks
from fedjax_links.experiment.running import loop as running
from fedjax_links.experiment.running.programs import Group, Programs
from fedjax_links.storage import checkpoints

_CARRY, _LINKS = 'participation', 'links'
_TUNED_BY = (
    'client',
    'direction',
    'eval_every',
    'eval_fn',
    'grid',
    'grid_mode',
    'metric',
    'problem',
    'tuning',
)


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
        self._past = past.Past(fork_from)
        self._programs = Programs(experiment)
        self._ready: dict[str, FederationState] = {}
        self.round = at_round
        self.facts = {'forked_from': os.path.normpath(fork_from), 'at_round': at_round}
        self._check_round()
        for label in experiment.algorithms:
            checked: set[str] = set()
            for lane in self._lanes(label):
                name = self._past.name_of(lane)
                if lane.pattern not in checked or self._past.config is None:
                    checked.add(lane.pattern)
                    self._fitted(lane, self._shape(lane), name, self._past.shapes(name, at_round))

    def begin(self, lanes: Sequence[Lane], shapes: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        """As `Origin.begin`."""
        return self.round, {
            lane.name: self._ready.pop(lane.name, None) or self._state(lane, shapes[lane.name])
            for lane in lanes
        }

    def carry(self, pattern: str, seed: int) -> PyTree | None:
        """As `Origin.carry`; all algorithms meet the same links, so any lane knows it."""
        every = self._lanes(next(iter(self._experiment.algorithms)))
        lane = next(lane for lane in every if (lane.pattern, lane.seed) == (pattern, seed))
        self._ready[lane.name] = self._state(lane, self._shape(lane))
        return self._ready[lane.name].participation

    def has_links(self, folder: Path, num_rounds: int) -> bool:
        """As `Origin.has_links`: to draw them again, lanes would have to be advanced again."""
        kept = runs.read_links(folder)
        return 'num_rounds' in kept and int(kept['num_rounds']) == num_rounds

    def tuning_lines(self, lanes: Sequence[Lane]) -> Mapping[str, Sequence[str]]:
        """As `Origin.tuning_lines`."""
        label = lanes[0].algorithm
        ours, theirs = (
            _tuned_by(config, label) for config in (self._experiment.config, self._past.config)
        )
        if ours is None or ours != theirs or not all(map(self._past.is_done, lanes)):
            return {}
        same = all(self._same_draws(lane, lane.point) for lane in lanes)
        return {lane.name: self._past.kept[lane.name].lines for lane in lanes} if same else {}

    def _check_round(self) -> None:
        checks.static_int('at_round', self.round)
        ours, theirs = self._experiment, self._past.facts
        for whose, period in (('', ours.eval_every), (' of the run', theirs['eval_every'])):
            if self.round % period:
                requirement = f'be a multiple of eval_every = {period}{whose}'
                raise errors.invalid('at_round', requirement, self.round)
        least, most = self._past.first_round, theirs['num_rounds']
        if not least <= self.round <= most:
            requirement = f'lie in [{least}, {most}], the rounds of {self._past.folder}'
            raise errors.invalid('at_round', requirement, self.round)
        if self.round >= ours.num_rounds:
            requirement = f'be below num_rounds = {ours.num_rounds}'
            raise errors.invalid('at_round', requirement, self.round)

    def _lanes(self, label: str) -> list[Lane]:
        """The lanes of an algorithm, with the first values that tuning tries, if it is tuned."""
        blank = lanes_.first_tried(self._experiment, label)
        return lanes_.main_lanes(self._experiment, label, blank)

    def _shape(self, lane: Lane) -> FederationState:
        return Group(self._programs, [lane]).shapes()[0]

    def _state(self, lane: Lane, shape: FederationState) -> FederationState:
        """The state that a lane begins with."""
        name = self._past.name_of(lane)
        return self._fitted(lane, shape, name, self._past.state(name, self.round))

    def _fitted(
        self, lane: Lane, shape: FederationState, name: str, leaves: Mapping[str, Any]
    ) -> FederationState:
        """The run's leaves as a state of a lane.

        Raises:
          ValueError: naming the first leaf that does not fit.
        """
        fields: dict[str, PyTree] = {}
        for field, like in shape._asdict().items():
            found, mismatch = _field(leaves, field, like)
            if mismatch is None:
                fields[field] = found
            elif field not in (_CARRY, _LINKS):
                theirs = self._past.labels(name)['algorithm']
                requirement = f'hold states that fit {lane.algorithm}'
                what = f'{self._past.folder} with {theirs}, whose state {mismatch}'
                raise errors.invalid('fork_from', requirement, what)
        if _LINKS not in fields:  # of another kind, and only reported
            fields[_LINKS] = jax.tree.map(lambda a: np.zeros(a.shape, a.dtype), shape.links)
        if _CARRY not in fields or not self._same_pattern(lane, name):
            pattern = self._experiment.pattern_at(lane.pattern, lane.point, lane.seed)
            seed = self._experiment.draws.seed_of('links', lane.seed, lane.point)
            key = jax.random.key(np.uint32(seed))
            fields[_CARRY] = pattern.init(prng.pattern_key(key))
        return FederationState(**fields)

    def _same_pattern(self, lane: Lane, name: str) -> bool:
        """Whether a lane's pattern has the section and the draws that the run's lane had."""
        ours, theirs = self._experiment.config, self._past.config
        labels = self._past.labels(name)
        if not self._same_draws(lane, labels):
            return False
        if ours is None or theirs is None:
            return True
        ours_now = _section(ours, lane.pattern, lane.point)
        return bool(ours_now == _section(theirs, labels['pattern'], labels))

    def _same_draws(self, lane: Lane, labels: Mapping[str, Any]) -> bool:
        """Whether all that a lane draws has the seed that it had in the run, at a point there."""
        ours = self._experiment.draws.decisive(lane.seed, lane.point)
        return ours == self._past.draws.decisive(lane.seed, labels)


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
    return json.loads(json.dumps([named, own]))


def _tuned_by(config: Mapping[str, Any] | None, label: str) -> Any:
    """What decides the tuning of an algorithm, as plain values; None without a config."""
    if config is None or label not in config['algorithms'] or not config.get('tuning'):
        return None
    sections = pattern_sections(config)
    pattern = config['tuning'].get('pattern', next(iter(sections)))
    fields = {name: config.get(name) for name in _TUNED_BY}
    own = config.get('problems', {}).get(pattern)
    parts = [fields, config['algorithms'][label], own, sections[pattern]]
    return json.loads(json.dumps(parts))
