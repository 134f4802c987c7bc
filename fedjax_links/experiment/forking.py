"""Forks a run: starts lanes from the run's states after T rounds, under other conditions.

A lane is one simulation (`planning.lanes.Lane`). The run that a fork starts from is called the
run.

Random keys depend on seed, round and client alone. So a fork without a change has the bits of the
run, on the same kind of device. Any difference is due to what was changed.

* The state of the algorithm (model, memories, counters) must fit the fork's leaf by leaf.
* The fork continues with the run's carry of the pattern (Markov states, clocks, offsets) if its
  leaves fit, and neither the pattern's section nor the seeds of its draws have changed. Sections
  are not compared if either experiment was made in Python.
* A pattern without a memory of its own, such as an outage or a cap, may be put around the pattern,
  removed or changed. The pattern inside keeps its carry, and draws the run's links.
* Otherwise the pattern's carry is initialised as before round 0, and the pattern then draws the
  links of round T and later.
* Tuning starts before round 0, as without a fork.
* Metrics and realised links are recorded for the rounds after T alone.

The run is read each time a lane starts, so it must stay in place until all lanes have started.
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
from fedjax_links.core.grids import Point
from fedjax_links.core.records import Section
from fedjax_links.experiment.config_parts import pattern_sections
from fedjax_links.experiment.source_run import Planned, SourceRun, plain
from fedjax_links.participation import PARTICIPATION
from fedjax_links.planning import seeding, validation
from fedjax_links.planning.lanes import Lane
from fedjax_links.planning.plan import Plan
from fedjax_links.runner import compilation, hooks, lane_batch
from fedjax_links.storage import checkpoints

_LINK_STREAMS = ('data', 'partition', 'links_quality', 'links')
"""Streams that links may depend on; links that depend on labels follow the clients' data."""


class Fork(hooks.InitialStates):
    """Holds the states of a run's lanes after a round.

    Attributes:
      round: T.
      facts: ``forked_from``, the run's folder; ``at_round``, T; and ``source``, the digest of the
        run's identity.
    """

    def __init__(
        self,
        plan: Plan,
        fork_from: str | Path,
        at_round: int,
        *,
        build: Callable[[Section], Planned],
        allow_imports: bool = False,
        allow_changed: bool = False,
    ) -> None:
        """Checks that each lane can start.

        Args:
          plan: of the fork, for the rounds after T.
          fork_from: folder of the run.
          at_round: T.
          build: makes the experiment of a config.
          allow_imports: whether the run's config may name code outside the package that the
            plan's does not name.
          allow_changed: whether the programs and data of the run's config may have changed
            since it ran.

        Raises:
          ValueError: if run and plan do not both evaluate the round, or a lane has no counterpart
            in the run. If a state does not fit, naming its first leaf that does not. Also if the
            run's programs or data have changed.
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
        """Refuses a round that the run or the plan does not evaluate."""
        facts = self._run.facts
        checks.static_int('at_round', self.round)
        for period in (self._plan.eval_every, facts['eval_every']):
            validation.check_multiple('at_round', self.round, period)
        earliest = facts.get('at_round', 1)  # The run may be a fork itself.
        latest = min(facts['num_rounds'], self._plan.num_rounds - 1)
        if not earliest <= self.round <= latest:
            requirement = (
                f'lie in [{earliest}, {latest}], the rounds of {self._run.folder} below '
                '`num_rounds`'
            )
            raise errors.invalid('at_round', requirement, self.round)

    def _check_lanes(self) -> None:
        """Refuses lanes that have no counterpart in the run, or whose counterpart does not fit.

        If the run has a config, one lane of each algorithm and pattern is checked, as states of all
        these lanes have the same shapes. Without a config, a lane can start only from its
        checkpoint, so each lane is checked.
        """
        checked: set[tuple[str, str]] = set()
        for lane in self._main_lanes():
            name = self._run.counterpart(lane)
            pair = lane.algorithm, lane.pattern
            if pair in checked and self._run.config is not None:
                continue
            checked.add(pair)
            leaves = self._run.saved_leaves(name, self.round)
            if leaves is None:
                # Without a checkpoint, the run's lane will be advanced to a state of these shapes.
                past_lane = self._run.lane(name, self.round)
                shape = compilation.state_shape(self._run.programs.plan, past_lane)
                leaves = checkpoints.leaves_of(shape)
            self._fitted(lane, name, leaves)

    def _main_lanes(self) -> Iterator[Lane]:
        """Yields the fork's main lanes."""
        for label in self._plan.algorithms:
            yield from self._plan.schedule.main(label)

    def begin(self, lane: Lane) -> FederationState:
        """Returns the state that a lane starts from, read from the run's checkpoint of round T.

        If there is no such checkpoint, the run's lane is advanced again to round T. It begins from
        its last checkpoint before that round, or else from its start.
        """
        if lane.name in self._ready:
            return self._ready.pop(lane.name)
        name = self._run.counterpart(lane)
        leaves = self._run.saved_leaves(name, self.round) or self._advanced(name)
        return self._fitted(lane, name, leaves)

    def carry(self, pattern: str, seed: int) -> PyTree | None:
        """Returns the carry that a pattern starts with. Lanes of all algorithms have the same."""
        lane = next(
            lane
            for lane in self._main_lanes()
            if (lane.pattern, lane.seed) == (pattern, seed)
        )
        state = self._ready[lane.name] = self.begin(lane)
        return state.participation

    def has_links(self, folder: Path, num_rounds: int) -> bool:
        """Returns whether a folder has the realised links of ``num_rounds`` and all logged seeds.

        If not, links are drawn again, and lanes of the run may have to be advanced again for that.
        """
        stored = runs.read_links(folder)
        plan = self._plan
        # The links of the first seed are always recorded, under a name without the seed.
        further_seeds = plan.seeds[1:] if hooks.LINKS in plan.settings.log else ()
        names = {
            f'mask/{pattern}/{seed}'
            for pattern in plan.patterns
            for seed in further_seeds
        }
        has_rounds = int(stored.get('num_rounds', -1)) == num_rounds
        return has_rounds and names.issubset(stored)

    # Fit a state of the run to a lane of the fork.

    def _fitted(
        self, lane: Lane, name: str, leaves: Mapping[str, np.ndarray]
    ) -> FederationState:
        """Returns the state that a lane starts from.

        Args:
          lane: of the fork.
          name: of the lane's counterpart in the run.
          leaves: of the counterpart's state, by path.

        Raises:
          ValueError: naming the first leaf that does not fit.
        """
        shape = compilation.state_shape(self._plan, lane)
        new_leaves = checkpoints.leaves_of(shape)
        changed_fields = self._changed_fields(lane, name, leaves, new_leaves)
        ordered = [leaves.get(path) for path in new_leaves]
        state: FederationState = jax.tree.unflatten(jax.tree.structure(shape), ordered)
        if 'links' in changed_fields:
            # The links in the run's state are of another type. They are only reported.
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
        old_leaves: Mapping[str, Any],
        new_leaves: Mapping[str, Any],
    ) -> set[str]:
        """Returns the fields of the state with leaves that do not fit: links, or pattern's carry.

        Raises:
          ValueError: naming the first leaf of another field that does not fit.
        """
        changed: set[str] = set()
        for path in (*old_leaves, *new_leaves):
            old = _kind(old_leaves.get(path))
            new = _kind(new_leaves.get(path))
            if old == new:
                continue
            field = re.split(r'[.\[]', path)[1]  # the name after the first dot
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
        """Returns whether a lane's pattern has the section and seeds of the run's lane ``name``."""
        facts = self._run.facts
        labels = self._run.lanes[name].labels
        streams_of_grid = facts['grid'].get(seeding.REDRAW_COLUMN, ())
        old_draws = seeding.Draws(
            facts.get('redraw', {}), facts['seeds'], streams_of_grid
        )
        old_seeds = old_draws.stream_seeds(lane.seed, labels)
        new_seeds = self._plan.draws.stream_seeds(lane.seed, lane.point)
        if any(new_seeds[stream] != old_seeds[stream] for stream in _LINK_STREAMS):
            return False
        if self._plan.config is None or self._run.config is None:
            return True
        new = _section(self._plan.config, lane.pattern, lane.point)
        old = _section(self._run.config, labels['pattern'], labels)
        return bool(new == old)

    def _advanced(self, name: str) -> dict[str, Any]:
        """Advances a lane of the run again, to round T, of which it has no checkpoint."""
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
        """Reads the last undamaged checkpoint before round T; None if there is none."""
        for num_rounds in sorted(self._run.lanes[name].states, reverse=True):
            if num_rounds < self.round:
                stored = self._run.saved_leaves(name, num_rounds)
                if stored:
                    return stored
        return None

    def _earlier_fork(self) -> 'Fork':
        """Returns the fork by which the run itself started."""
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
    """Returns dtype and shape of a leaf as text; ``'none'`` if there is no leaf."""
    return 'none' if leaf is None else f'{leaf.dtype}{list(leaf.shape)}'


def _section(config: Section, label: str, point: Point) -> Any:
    """Returns the section of the pattern that makes the carry, with its columns of the grid.

    Args:
      config: of the experiment.
      label: of the pattern; other patterns may be nested in it.
      point: of the grid, by dotted path.
    """
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
    """Returns whether a pattern holds another pattern, and has no carry besides the inner one's."""
    if not isinstance(section, Mapping) or 'pattern' not in section:
        return False
    entry = PARTICIPATION.get(section.get('name', ''))
    return entry is not None and entry.carries_pattern
