"""Other futures of a run: lanes that begin at one of its rounds, under other conditions.

The lanes of a fork begin after round T with the states that a run's lanes had then. Keys depend on
seed, round and client alone, so with nothing changed they give the bits of the run itself, on the
kind of device that it ran on; what differs later is due to what was changed.

* The model, memories, counters and whatever else the algorithm keeps must fit leaf by leaf.
* The pattern's carry (Markov states, clocks, offsets) is kept if its section and the seeds of its
  draws are unchanged and its leaves fit; without a config nothing is known of sections. Outages,
  caps and what else has no memory of its own may come, go or change around it: links outside are
  the run's. Else the pattern begins afresh, as it would before round 0, with the links of round T
  and later.
* Tuning begins before round 0, as ever.
* Metrics and realised links are those of the rounds after T.

The run is read whenever a lane begins, so it has to stay until all have begun.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedjax_links import runs
from fedjax_links.base import FederationState, PyTree
from fedjax_links.config import nested
from fedjax_links.core import checks, errors, paths, prng
from fedjax_links.experiment.config_parts import pattern_sections
from fedjax_links.experiment.source_run import Planned, SourceRun, plain
from fedjax_links.participation import PARTICIPATION
from fedjax_links.planning import seeding, validation
from fedjax_links.planning.lanes import Lane
from fedjax_links.planning.plan import Plan
from fedjax_links.runner import compilation, hooks, lane_batch
from fedjax_links.storage import checkpoints


class Fork(hooks.InitialStates):
    """The states of a run's lanes after a round.

    Attributes:
      round: T.
      facts: ``forked_from``, ``at_round``, and ``source``, a digest of what that run is of.
    """

    def __init__(
        self,
        plan: Plan,
        fork_from: str | Path,
        at_round: int,
        *,
        build: Callable[[Mapping[str, Any]], Planned],
        allow_imports: bool = False,
        allow_changed: bool = False,
    ) -> None:
        """Checks that every lane can begin.

        Args:
          plan: what happens from then on.
          fork_from: folder of a run.
          at_round: T.
          build: makes the experiment of a config.
          allow_imports: whether the run's config may name code outside the package that the
            plan's does not name.
          allow_changed: whether the programs and data that the run's config stands for may have
            changed since it ran.

        Raises:
          ValueError: if the round is none that both have evaluated, a lane has no counterpart, a
            state does not fit, with its first such leaf, or the run is of programs or data that its
            config does not stand for any more.
        """
        self._plan = plan
        self._build = build
        self._allow_imports = allow_imports
        self._run = SourceRun(
            paths.as_path(fork_from),
            build,
            allow_imports=allow_imports,
            trusted=plan.config,
        )
        self._ready: dict[str, FederationState] = {}
        self.round = at_round
        identity = self._run.identity
        self.facts = {
            'forked_from': os.path.abspath(self._run.folder),
            'at_round': at_round,
            'source': '' if identity is None else identity.digest(),
        }
        if not allow_changed:
            self._run.check_unchanged()
        self._check_round()
        self._check_lanes()

    def _check_round(self) -> None:
        """Refuses a round that the run, or the plan, does not evaluate."""
        facts = self._run.facts
        checks.static_int('at_round', self.round)
        for period in (self._plan.eval_every, facts['eval_every']):
            validation.check_multiple('at_round', self.round, period)
        earliest = facts.get('at_round', 0)
        latest = min(facts['num_rounds'], self._plan.num_rounds - 1)
        if not earliest <= self.round <= latest:
            requirement = (
                f'lie in [{earliest}, {latest}], in {self._run.folder} and below '
                '`num_rounds`'
            )
            raise errors.invalid('at_round', requirement, self.round)

    def _check_lanes(self) -> None:
        """Refuses lanes without a counterpart whose state fits.

        With a config, one state of each algorithm and pattern tells whether all fit.
        """
        checked: set[tuple[str, str]] = set()
        for lane in self._main_lanes():
            name = self._run.counterpart(lane)
            pair = lane.algorithm, lane.pattern
            if pair in checked and self._run.config is not None:
                continue
            checked.add(pair)
            leaves = self._run.stored(name, self.round)
            if leaves is None:  # then what they would be like
                past_lane = self._run.lane(name, self.round)
                shape = compilation.state_shape(self._run.programs.plan, past_lane)
                leaves = checkpoints.leaves_of(shape)
            self._fitted(lane, name, leaves)

    def _main_lanes(self) -> Iterator[Lane]:
        for label in self._plan.algorithms:
            yield from self._plan.schedule.main(label)

    def begin(self, lane: Lane) -> FederationState:
        """Returns the state of `InitialStates.begin`, from a checkpoint where there is one.

        Else the run's lane is advanced again, from the last checkpoint before the round, or from
        where it began.
        """
        if lane.name in self._ready:
            return self._ready.pop(lane.name)
        name = self._run.counterpart(lane)
        leaves = self._run.stored(name, self.round) or self._advanced(name)
        return self._fitted(lane, name, leaves)

    def carry(self, pattern: str, seed: int) -> PyTree | None:
        """As `InitialStates.carry`; all algorithms meet the same links, so any lane knows it."""
        lane = next(
            lane
            for lane in self._main_lanes()
            if (lane.pattern, lane.seed) == (pattern, seed)
        )
        state = self._ready[lane.name] = self.begin(lane)
        return state.participation

    def has_links(self, folder: Path, num_rounds: int) -> bool:
        """As `InitialStates.has_links`: to draw them again, lanes would have to run again."""
        stored = runs.read_links(folder)
        plan = self._plan
        further_seeds = plan.seeds[1:] if hooks.LINKS in plan.settings.log else ()
        wanted = {
            f'mask/{pattern}/{seed}'
            for pattern in plan.patterns
            for seed in further_seeds
        }
        return int(stored.get('num_rounds', -1)) == num_rounds and wanted.issubset(
            stored
        )

    # What fits.

    def _fitted(
        self, lane: Lane, name: str, leaves: Mapping[str, Any]
    ) -> FederationState:
        """Returns the leaves of the run's lane of this name as the state of a lane.

        Raises:
          ValueError: naming the first leaf that does not fit.
        """
        shape = compilation.state_shape(self._plan, lane)
        wanted = checkpoints.leaves_of(shape)
        changed_fields = self._changed_fields(lane, name, leaves, wanted)
        ordered = [leaves.get(path) for path in wanted]
        state: FederationState = jax.tree.unflatten(jax.tree.structure(shape), ordered)
        if 'links' in changed_fields:  # of another kind, and only reported
            blank = jax.tree.map(lambda a: np.zeros(a.shape, a.dtype), shape.links)
            state = state._replace(links=blank)
        if 'participation' in changed_fields or not self._same_pattern(lane, name):
            pattern = self._plan.pattern_of(lane)
            key = self._plan.draws.key_of('links', lane.seed, lane.point)
            state = state._replace(participation=pattern.init(prng.pattern_key(key)))
        return state

    def _changed_fields(
        self,
        lane: Lane,
        name: str,
        leaves: Mapping[str, Any],
        wanted: Mapping[str, Any],
    ) -> set[str]:
        """Returns the fields of a state whose leaves do not fit: links and the pattern's carry.

        Raises:
          ValueError: naming the first leaf of another field that does not fit.
        """
        changed: set[str] = set()
        for path in (*leaves, *wanted):
            old = _kind(leaves.get(path))
            new = _kind(wanted.get(path))
            if old == new:
                continue
            field = re.split(r'[.\[]', path)[1]
            changed.add(field)
            if field not in ('participation', 'links'):
                requirement = f'hold states that fit {lane.algorithm}'
                label = self._run.lanes[name].labels['algorithm']
                got = (
                    f'{self._run.folder} with {label}, whose state has {old} at {path}, '
                    f'not {new}'
                )
                raise errors.invalid('fork_from', requirement, got)
        return changed

    def _same_pattern(self, lane: Lane, name: str) -> bool:
        """Whether a lane's pattern has the section and the draws that the run's lane had."""
        facts = self._run.facts
        labels = self._run.lanes[name].labels
        streams_of_grid = facts['grid'].get(seeding.GRID, ())
        draws = seeding.Draws(facts.get('redraw', {}), facts['seeds'], streams_of_grid)
        drawn = self._plan.draws.stream_seeds(lane.seed, lane.point)
        if drawn != draws.stream_seeds(lane.seed, labels):
            return False
        if self._plan.config is None or self._run.config is None:
            return True
        new = _section(self._plan.config, lane.pattern, lane.point)
        old = _section(self._run.config, labels['pattern'], labels)
        return bool(new == old)

    def _advanced(self, name: str) -> dict[str, Any]:
        """Advances the run's lane to the round, of which no checkpoint was kept."""
        lane = self._run.lane(name, self.round)
        programs = self._run.programs
        batch = lane_batch.LaneBatch(programs, [lane])
        stored = self._last_stored(name)
        if stored is not None:
            shape = compilation.state_shape(programs.plan, lane)
            state = jax.tree.unflatten(jax.tree.structure(shape), list(stored.values()))
            batch.restore([state])
        elif 'at_round' in self._run.facts:
            batch.restore([self._earlier_fork().begin(lane)])
        else:
            batch.start()
        while batch.round < self.round:
            batch.advance_period()
        return checkpoints.leaves_of(batch.states()[0])

    def _last_stored(self, name: str) -> dict[str, Any] | None:
        """Reads the last whole checkpoint before the round; None if there is none."""
        for done in sorted(self._run.lanes[name].states, reverse=True):
            if done < self.round:
                stored = self._run.stored(name, done)
                if stored:
                    return stored
        return None

    def _earlier_fork(self) -> 'Fork':
        """Returns the fork that the run itself is."""
        facts = self._run.facts
        return Fork(
            self._run.programs.plan,
            facts['forked_from'],
            facts['at_round'],
            build=self._build,
            allow_imports=self._allow_imports,
            allow_changed=True,
        )


def _kind(leaf: Any) -> str:
    """Returns dtype and shape of a leaf; ``'none'`` where there is none."""
    return 'none' if leaf is None else f'{leaf.dtype}{list(leaf.shape)}'


def _section(config: Mapping[str, Any], label: str, point: Mapping[str, Any]) -> Any:
    """Returns what a config says at a point of the pattern that has the carry, as plain values."""
    sections = pattern_sections(config.get('links'), config.get('patterns'))
    path, section = sections[label]
    section = nested.section(section)
    while _keeps_carry(section):
        path = f'{path}.pattern'
        section = nested.section(section['pattern'])
    columns = {
        name.removeprefix(path): value
        for name, value in point.items()
        if name.startswith(f'{path}.')
    }
    return plain([section, columns])


def _keeps_carry(section: Any) -> bool:
    """Whether a section's carry is that of the pattern in it."""
    if not isinstance(section, Mapping) or 'pattern' not in section:
        return False
    entry = PARTICIPATION.get(section.get('name', ''))
    return entry is not None and entry.carries_pattern
