"""Other futures of a run: lanes that begin at one of its rounds, under other conditions.

The lanes of a fork begin after round T with the states that a run's lanes had then. Keys depend on
seed, round and client alone, so with nothing changed they go on to the bit as the run's own did, on
the kind of device that it ran on; what differs later is due to what was changed.

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

import contextlib
import functools
import itertools
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from fedjax_links import runs
from fedjax_links.base import FederationState, PyTree
from fedjax_links.config import bound, nested
from fedjax_links.core import checks, errors, grids, paths, prng
from fedjax_links.experiment.config_parts import pattern_sections
from fedjax_links.machines import devices, environment
from fedjax_links.participation import PARTICIPATION
from fedjax_links.planning import seeding, validation
from fedjax_links.planning.lanes import MAIN, Lane, of_kept
from fedjax_links.runner import compilation, hooks, lane_batch, program_cache
from fedjax_links.runner.identity import Identities
from fedjax_links.storage import checkpoints, descriptions
from fedjax_links.storage.identity import RunIdentity, run_differences

if TYPE_CHECKING:
    from fedjax_links.experiment.definition import Experiment


class Fork(hooks.Origin):
    """The states of a run's lanes after a round.

    Attributes:
      round: T.
      facts: ``forked_from``, ``at_round``, and ``source``, a digest of what that run is of.
    """

    def __init__(
        self,
        experiment: 'Experiment',
        fork_from: str | Path,
        at_round: int,
        *,
        allow_imports: bool = False,
        allow_changed: bool = False,
    ) -> None:
        """Checks that every lane can begin.

        Args:
          experiment: what happens from then on.
          fork_from: folder of a run.
          at_round: T.
          allow_imports: whether the run's config may name code outside the package that the
            experiment's own does not name.
          allow_changed: whether the programs and data that the run's config stands for may have
            changed since it ran.

        Raises:
          ValueError: if the round is none that both have evaluated, a lane has no counterpart, a
            state does not fit, with its first such leaf, or the run is of programs or data that its
            config does not stand for any more.
        """
        self._experiment, self._allow_imports = experiment, allow_imports
        fork_from = self._folder = paths.as_path(fork_from)
        self._theirs, self._config = runs.read_description(fork_from, 'fork_from')
        self._kept = {lane.name: lane for lane in runs.lanes(fork_from)}
        self._ready: dict[str, FederationState] = {}
        self.round = at_round
        identity = descriptions.read_identity(self._folder)
        self.facts = {
            'forked_from': os.path.abspath(fork_from),
            'at_round': at_round,
            'source': '' if identity is None else identity.digest(),
        }
        if not allow_changed:
            self._check_unchanged(identity)
        ours, theirs = experiment, self._theirs
        checks.static_int('at_round', at_round)
        for period in (ours.eval_every, theirs['eval_every']):
            validation.check_multiple('at_round', at_round, period)
        least, most = (
            theirs.get('at_round', 0),
            min(theirs['num_rounds'], ours.num_rounds - 1),
        )
        if not least <= at_round <= most:
            requirement = (
                f'lie in [{least}, {most}], in {self._folder} and below `num_rounds`'
            )
            raise errors.invalid('at_round', requirement, at_round)
        checked: set[tuple[str, str]] = set()
        for lane in itertools.chain(
            *map(experiment.plan.schedule.main, experiment.algorithms)
        ):
            name, pair = self._name_of(lane), (lane.algorithm, lane.pattern)
            if pair not in checked or self._config is None:
                checked.add(pair)
                leaves = self._stored(name, at_round)
                if leaves is None:  # then what they would be like
                    past = self._lane(name)
                    shape = compilation.state_shape(self._programs.experiment, past)
                    leaves = checkpoints.leaves_of(shape)
                self._fitted(lane, name, leaves)

    def _check_unchanged(self, identity: RunIdentity | None) -> None:
        """Refuses a run whose config stands for other programs or data now than when it ran.

        Lanes may be played again from that config, and what a fork shares with it must be the same.
        An experiment made in Python is compared by its version alone.
        """
        requirement = (
            'hold a run of what it says today (--allow_changed goes on all the same)'
        )
        if identity is None:
            said = (
                f'{self._folder}, where nothing says of which programs and data it is'
            )
            raise errors.invalid('fork_from', requirement, said)
        if self._config is None:
            versions = {lane.version for lane in identity.lanes.values()}
            changed = [
                f'fedjax_links is {version} and not {environment.version()}'
                for version in versions - {environment.version()}
            ]
        else:
            try:
                now = Identities(self._programs.experiment).of_run()
            except (
                bound.RefusedImportError
            ):  # so nothing is played again; states alone are read
                return
            changed = run_differences(identity, now)
        if changed:
            said = f'{self._folder}, where {"; ".join(changed[:3])}'
            raise errors.invalid('fork_from', requirement, said)

    def begin(self, lane: Lane) -> FederationState:
        """As `Origin.begin`: read if there is a checkpoint; else the run's lane is advanced again.

        From the last checkpoint before the round, or from where it began.
        """
        if lane.name in self._ready:
            return self._ready.pop(lane.name)
        name = self._name_of(lane)
        return self._fitted(
            lane, name, self._stored(name, self.round) or self._advanced(name)
        )

    def carry(self, pattern: str, seed: int) -> PyTree | None:
        """As `Origin.carry`; all algorithms meet the same links, so any lane knows it."""
        every = self._experiment.plan.schedule.main(
            next(iter(self._experiment.algorithms))
        )
        lane = next(
            lane for lane in every if (lane.pattern, lane.seed) == (pattern, seed)
        )
        state = self._ready[lane.name] = self.begin(lane)
        return state.participation

    def has_links(self, folder: Path, num_rounds: int) -> bool:
        """As `Origin.has_links`: to draw them again, lanes would have to be advanced again."""
        kept, ours = runs.read_links(folder), self._experiment
        more = ours.seeds[1:] if hooks.LINKS in ours.log else ()
        wanted = [
            f'mask/{pattern}/{seed}' for pattern in ours.patterns for seed in more
        ]
        return int(kept.get('num_rounds', -1)) == num_rounds and kept.keys() >= {
            *wanted
        }

    # What fits.

    def _fitted(
        self, lane: Lane, name: str, leaves: Mapping[str, Any]
    ) -> FederationState:
        """The leaves of the run's lane of this name as a state of a lane.

        Raises:
          ValueError: naming the first leaf that does not fit.
        """
        shape = compilation.state_shape(self._experiment, lane)
        wanted, wrong = checkpoints.leaves_of(shape), set()
        for place in (*leaves, *wanted):
            both = leaves.get(place), wanted.get(place)
            theirs, ours = (
                'none' if a is None else f'{a.dtype}{list(a.shape)}' for a in both
            )
            if theirs != ours:
                wrong.add(field := re.split(r'[.\[]', place)[1])
                if field not in ('participation', 'links'):
                    requirement = f'hold states that fit {lane.algorithm}'
                    whose = (
                        f'{self._folder} with {self._kept[name].labels["algorithm"]}'
                    )
                    said = f'{whose}, whose state has {theirs} at {place}, not {ours}'
                    raise errors.invalid('fork_from', requirement, said)
        there = [leaves.get(place) for place in wanted]
        state: FederationState = jax.tree.unflatten(jax.tree.structure(shape), there)
        if 'links' in wrong:  # of another kind, and only reported
            blank = jax.tree.map(lambda a: np.zeros(a.shape, a.dtype), shape.links)
            state = state._replace(links=blank)
        if 'participation' in wrong or not self._same_pattern(lane, name):
            pattern = self._experiment.plan.pattern_of(lane)
            key = self._experiment.plan.draws.key_of('links', lane.seed, lane.point)
            state = state._replace(participation=pattern.init(prng.pattern_key(key)))
        return state

    def _same_pattern(self, lane: Lane, name: str) -> bool:
        """Whether a lane's pattern has the section and the draws that the run's lane had."""
        facts, labels, ours = self._theirs, self._kept[name].labels, self._experiment
        alone = facts['grid'].get(seeding.GRID, ())
        draws = seeding.Draws(facts.get('redraw', {}), facts['seeds'], alone)
        drawn = ours.plan.draws.decisive(lane.seed, lane.point)
        if drawn != draws.decisive(lane.seed, labels):
            return False
        if ours.config is None or self._config is None:
            return True
        now = _section(ours.config, lane.pattern, lane.point)
        return bool(now == _section(self._config, labels['pattern'], labels))

    # The run's lanes.

    def _name_of(self, lane: Lane) -> str:
        """The lane of the run that a lane goes on from.

        Labels of algorithm and pattern agree, or there is only one; seeds agree; and so do the
        columns of the run's grid that have several values and that both lanes have.

        Raises:
          ValueError: naming what is missing, or that there are several.
        """
        wanted: dict[str, Any] = {'stage': MAIN, 'seed': int(lane.seed)}
        if lane.seed not in self._theirs['seeds']:
            raise self._lacks(f'seed {lane.seed}', self._theirs['seeds'])
        for kind in ('algorithm', 'pattern'):
            label, there = getattr(lane, kind), self._theirs[f'{kind}s']
            if label not in there and len(there) > 1:
                raise self._lacks(f'{kind} {label!r}', there)
            wanted[kind] = label if label in there else there[0]
        several = {
            name for name, values in self._theirs['grid'].items() if len(values) > 1
        }
        wanted |= {
            name: _plain(value) for name, value in lane.point.items() if name in several
        }
        found = [
            name
            for name, kept in self._kept.items()
            if grids.agree(kept.labels, wanted)
        ]
        if len(found) != 1:
            shown = [
                f'{name} {value}' for name, value in wanted.items() if name != 'stage'
            ]
            said = f'{self._folder} with {len(found)}'
            raise errors.invalid(
                'fork_from', f'hold one lane with {", ".join(shown)}', said
            )
        return found[0]

    def _lacks(self, what: str, there: Sequence[Any]) -> ValueError:
        shown = ', '.join(map(str, there))
        return errors.invalid(
            'fork_from', f'hold {what}', f'{self._folder} with {shown}'
        )

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
        group = lane_batch.Group(self._programs, [lane])
        saves = [done for done in self._kept[name].states if done < self.round]
        earlier = (self._stored(name, done) for done in reversed(saves))
        if stored := next(filter(None, earlier), None):
            kind = jax.tree.structure(compilation.state_shape(past, lane))
            group.restore([jax.tree.unflatten(kind, list(stored.values()))])
        elif 'at_round' in self._theirs:
            facts = self._theirs
            earlier_fork = Fork(
                past,
                facts['forked_from'],
                facts['at_round'],
                allow_imports=self._allow_imports,
                allow_changed=True,
            )
            group.restore([earlier_fork.begin(lane)])
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
            kept = [
                done for done in self._kept[name].states if self._stored(name, done)
            ]
            requirement = f'be a round with a checkpoint of {name}, as {self._folder} has no config'
            said = f'{self.round}; there is {", ".join(map(str, kept)) or "none"}'
            raise errors.invalid('at_round', requirement, said)
        now = self._programs.experiment.plan.facts()
        here = {name: now[name] for name in ('draws', 'numerics')}
        theirs = {name: self._theirs.get(name, value) for name, value in here.items()}
        if found := runs.first_difference(theirs, here, 'run'):
            field, old, new = found
            requirement = (
                f'hold the states of round {self.round}, or have run as it would here'
            )
            where = f'{self._folder}, where {field} is {old!r} and not {new!r}'
            raise errors.invalid('fork_from', requirement, where)
        return of_kept(self._kept[name])

    @functools.cached_property
    def _programs(self) -> program_cache.Programs:
        """Of the run."""
        from fedjax_links.experiment.config import (
            build,
            recorded,
        )  # whose experiments fork

        assert self._config is not None
        with errors.context('fork_from'):
            allowed: Any = {
                'allow_imports': self._allow_imports,
                'trusted': self._experiment.config,
            }
            experiment = build(recorded(self._config, **allowed))
        places = devices.places(1, 1) if self._theirs.get(runs.ON_A_MESH) else None
        return program_cache.Programs(experiment, places=places)


def _plain(value: Any) -> Any:
    """A value as it reads in a line of metrics."""
    return json.loads(json.dumps(value))


def _section(config: Mapping[str, Any], label: str, point: Mapping[str, Any]) -> Any:
    """What is said at a point of the pattern that has the carry, as plain values."""
    sections = pattern_sections(config.get('links'), config.get('patterns'))
    path, section = sections[label]
    section = nested.section(section)
    while _keeps_carry(section):
        path, section = f'{path}.pattern', nested.section(section['pattern'])
    own = {
        k.removeprefix(path): v for k, v in point.items() if k.startswith(f'{path}.')
    }
    return _plain([section, own])


def _keeps_carry(section: Any) -> bool:
    """Whether a section's carry is that of the pattern in it."""
    if not isinstance(section, Mapping) or 'pattern' not in section:
        return False
    entry = PARTICIPATION.get(section.get('name', ''))
    return entry is not None and entry.carries_pattern
