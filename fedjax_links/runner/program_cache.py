"""The compiled programs of an experiment, each built when it is first asked for and kept."""

import collections
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from fedjax_links import base, runs
from fedjax_links.base import FederationState, Participation, Problem
from fedjax_links.core import errors, memory, tree
from fedjax_links.machines import devices, processes
from fedjax_links.planning import parametrized
from fedjax_links.planning.lanes import Lane
from fedjax_links.runner import compilation
from fedjax_links.runner.hooks import LINKS, Origin

if TYPE_CHECKING:
    from fedjax_links.experiment.definition import Experiment
    from fedjax_links.runner.lane_batch import Group

_MOST_LINKS = 2**27


class Programs:
    """The programs of an experiment, each built when it is first asked for.

    Attributes:
      side_by_side: whether lanes run in one program, elsewhere than on a CPU.
      places: where lanes run at the same time.
    """

    def __init__(
        self,
        experiment: 'Experiment',
        *,
        side_by_side: bool | None = None,
        places: Sequence[devices.Place] | None = None,
    ) -> None:
        """Builds nothing yet.

        Args:
          experiment: what runs.
          side_by_side: see above; never on a mesh.
          places: devices or meshes; all devices of this process by default.
        """
        self.experiment = experiment
        self.places = list(places or devices.places(alone=bool(side_by_side)))
        alone = jax.default_backend() == 'cpu' or self.places[0].is_mesh
        self.side_by_side = not alone if side_by_side is None else side_by_side
        self._traced: dict[int, tuple[Participation, compilation.TracedPattern]] = {}
        self._first_traced: dict[Hashable, compilation.TracedPattern] = {}
        self._links: dict[Hashable, compilation.LinkProgram] = {}
        self._training: dict[Any, compilation.Program] = {}
        self._begun: dict[Any, Future[Any]] = {}
        self._fitting: set[Future[Any]] = (
            set()
        )  # those of `_begun` that are known to fit
        self._placed: collections.OrderedDict[Any, tuple[Problem, Problem]]
        self._placed = (
            collections.OrderedDict()
        )  # what was put, so that its arrays live, and where
        self._threads = ThreadPoolExecutor(max(8, 2 * len(self.places)))

    def key(self, lane: Lane) -> Any:
        """Lanes with the same key can share a program."""
        _, built_in = compilation.split(self.experiment, lane)
        sample = self.links(self.experiment.plan.pattern_of(lane)).sample
        kinds = map(
            parametrized.kind_of, (self.experiment.plan.problem_of(lane), sample)
        )
        return lane.algorithm, repr(built_in), *kinds

    def one_of_each(self, lanes: Sequence[Lane]) -> list[Lane]:
        """The first lane of each program, as far as the first two seeds of each point tell.

        Seeds whose problems and patterns are alike in these are taken to be alike, so that not all
        problems are made.
        """
        return list(self._first_by(self.key, lanes).values())

    def structures_of(self, lanes: Sequence[Lane]) -> set[Hashable]:
        """Those of the lanes' patterns, one for each program of links; likewise."""

        def structure(lane: Lane) -> Hashable:
            return self.links(self.experiment.plan.pattern_of(lane)).structure

        return set(self._first_by(structure, lanes))

    def _first_by(
        self, key: Callable[[Lane], Hashable], lanes: Sequence[Lane]
    ) -> dict[Hashable, Lane]:
        """The first lane of each key, which lanes of a point share if its first two seeds do."""
        seeds = self.experiment.plan.draws.seeds[:2]
        shared = dict[str, Any]()
        found = dict[Hashable, Lane]()
        for lane in lanes:
            at = repr((lane.algorithm, lane.pattern, lane.point))
            if at not in shared:
                keys = {key(lane._replace(seed=seed)) for seed in seeds}
                shared[at] = keys.pop() if len(keys) == 1 else None
            own = key(lane) if shared[at] is None else shared[at]
            found.setdefault(own, lane)
        return found

    def training(
        self, lane: Lane, place: devices.Place, varying: Sequence[bool]
    ) -> compilation.Program:
        """The program of a lane; one device is like another, a mesh is not.

        Args:
          lane: any that has it.
          place: where it runs.
          varying: for each leaf of the problem, whether lanes side by side differ in it.
        """
        key = self.key(lane), place if place.is_mesh else None, varying
        if key not in self._training:
            kind = jax.tree.structure(self.experiment.plan.problem_of(lane))
            axes = jax.tree.unflatten(
                kind, [0 if varies else None for varies in varying]
            )
            together = axes if self.side_by_side else None
            self._training[key] = compilation.program(
                self.experiment, lane, place, together
            )
        return self._training[key]

    def links(self, pattern: Participation) -> compilation.TracedPattern:
        """A pattern as traced, which is done once.

        Arrays that equal those of the first pattern of the same structure are the same ones.
        """
        if id(pattern) not in self._traced:
            new = compilation.trace_pattern(pattern)
            first = self._first_traced.setdefault(new.structure, new)
            constants = parametrized.share_equal(new.constants, first.constants)
            self._traced[id(pattern)] = pattern, first._replace(constants=constants)
        return self._traced[id(pattern)][1]

    def link_program(
        self, pattern: compilation.TracedPattern, varying: Sequence[bool] = ()
    ) -> compilation.LinkProgram:
        """The program of all patterns of a structure.

        Args:
          pattern: one of them.
          varying: for each of its constants, whether lanes side by side differ in it.
        """
        varying = tuple(varying) if any(varying) else ()
        key = pattern.structure, varying
        if key not in self._links:
            leaves, kind = jax.tree.flatten(pattern.constants)
            has_lane = varying or (False,) * len(leaves)
            axes = jax.tree.unflatten(
                kind, [0 if varies else None for varies in has_lane]
            )
            together = axes if self.side_by_side else None
            period = self.experiment.eval_every
            self._links[key] = compilation.link_program(pattern, period, together)
        return self._links[key]

    def begin(
        self, group: 'Group', function: Any, inputs: Callable[[], Any]
    ) -> Future[Any]:
        """Begins to compile, in a thread, what is not compiled yet.

        All else is done here and now, under the settings of JAX that hold here.

        Args:
          group: whose program it is.
          function: ``start`` or ``advance`` of the program.
          inputs: gives what it takes, or the shapes.
        """
        key = function, group.width, group.place.devices
        if key not in self._begun:
            group.settle()
            self._begun[key] = self._threads.submit(function.lower(*inputs()).compile)
        return self._begun[key]

    def compile(self, groups: Sequence['Group']) -> list[Any]:
        """What trains each group's lanes, compiled for all their devices at the same time.

        Raises:
          ValueError: if one is known not to fit.
        """
        begun = [
            self.begin(group, group.program.advance, group.inputs) for group in groups
        ]
        done = [future.result() for future in begun]
        new = dict(zip(begun, groups, strict=True))

        def check() -> None:
            unknown = new.keys() - self._fitting
            free = memory.available_bytes() if unknown else None  # which reads files
            for future in unknown:
                needed = memory.peak_bytes(
                    future.result(), new[future].place.num_copies
                )
                memory.refuse_if_above(
                    free, needed or 0, new[future].lanes[0].algorithm
                )

        processes.do_in_all(check)
        self._fitting |= new.keys()
        return done

    def start(self, group: 'Group') -> FederationState:
        """The states of a group's lanes before their first round."""
        compiled = self.begin(group, group.program.start, group.beginning).result()
        params, *given = group.beginning()
        if params is not None:
            params = compilation.initial_params(group.problem.init_params, given[0])
        started: FederationState = compiled(params, *given)
        return started

    def placed(self, problem: Problem, place: devices.Place) -> Problem:
        """A problem where a lane runs; those of lanes that began last are kept."""
        leaves, structure = jax.tree.flatten(problem)
        key = structure, tuple(map(id, leaves)), place.devices
        if key not in self._placed:
            self._placed[key] = problem, place.put(problem)
        self._placed.move_to_end(key)
        while len(self._placed) > len(self.places):
            self._placed.popitem(last=False)
        return self._placed[key][1]

    def places_for(self, lanes: Sequence[Lane]) -> list[devices.Place]:
        """Where lanes with one program run: as many places as there is work and memory for."""
        if self.side_by_side:
            return self.places
        needed = compilation.lane_bytes(self.experiment, lanes[0])
        needed += tree.num_bytes(self.experiment.plan.problem_of(lanes[0]))
        wanted = min(len(lanes), len(self.places))
        return self.places[
            : memory.lanes_that_fit(self.places[0].num_copies * needed, wanted)
        ]

    def forget(self, label: str) -> None:
        """Lets go of the programs of an algorithm that is done."""
        for key in [key for key in self._training if key[0][0] == label]:
            gone = self._training.pop(key)
            self._begun = {k: v for k, v in self._begun.items() if k[0] not in gone}
        self._fitting.clear()
        self._placed.clear()


def realised(programs: Programs, origin: Origin) -> dict[str, np.ndarray]:
    """The realised links of the first seed, or of every seed where asked for, one bit each.

    Args:
      programs: the programs of the experiment.
      origin: what the lanes of its main stage begin with.

    Returns:
      What `links.npz` holds.
    """
    experiment, arrays = programs.experiment, dict[str, np.ndarray]()
    if origin.round:
        arrays['first_round'] = np.array(origin.round)
        arrays['num_rounds'] = np.array(experiment.num_rounds)
    for name, (label, seed) in _realised_names(programs).items():
        found = _of_seed(programs, label, seed, origin)
        probs = found.pop('prob')
        if LINKS in experiment.log:
            arrays[f'prob/{name}'] = probs
        arrays[f'mean_prob/{name}'] = probs.mean(axis=0)
        if 'neighbours' in found:
            arrays[f'neighbours/{name}'] = found.pop('neighbours')[0]
        for kind, values in found.items():
            flags = values.dtype == bool
            arrays[f'{kind}/{name}'] = np.packbits(values, axis=-1) if flags else values
    return arrays


def has_realised(programs: Programs, origin: Origin, folder: Path) -> bool:
    """Whether a folder of the experiment has what `realised` would give it.

    Args:
      programs: as in `realised`.
      origin: likewise.
      folder: of a run of the experiment; the leader of several processes looks at it.
    """

    def is_there() -> bytes:
        if origin.has_links(folder, programs.experiment.num_rounds):
            return b'yes'
        try:
            kept = runs.read_links(folder)
        except errors.InvalidError:  # the file was changed
            return b'no'
        return b'yes' if _are_realised(programs, origin, kept) else b'no'

    return processes.ask_leader(is_there) == b'yes'


def _are_realised(
    programs: Programs, origin: Origin, kept: Mapping[str, np.ndarray]
) -> bool:
    """Whether these are the links of all rounds, patterns and seeds that are wanted."""
    names, experiment = _realised_names(programs), programs.experiment
    kinds = (
        ('mask', 'mean_prob', 'prob')
        if LINKS in experiment.log
        else ('mask', 'mean_prob')
    )
    wanted = {f'{kind}/{name}' for kind in kinds for name in names}
    there = {
        name for name in kept if name.split('/')[0] in ('mask', 'mean_prob', 'prob')
    }
    if there != wanted or int(kept.get('first_round', 0)) != origin.round:
        return False
    num_rounds = experiment.num_rounds - origin.round
    return all(len(kept[f'mask/{name}']) == num_rounds for name in names)


def _realised_names(programs: Programs) -> dict[str, tuple[str, int]]:
    """Pattern and seed of the links that are kept, by the name that they have in `links.npz`."""
    experiment, found = programs.experiment, dict[str, tuple[str, int]]()
    is_asked = LINKS in experiment.log
    seeds = experiment.seeds if is_asked else experiment.seeds[:1]
    for label in experiment.plan.patterns:
        pattern = experiment.pattern_at(label, experiment.plan.points[0])
        shapes = programs.links(pattern).sample
        num_edges = math.prod(shapes.edges.shape) if base.has_peers(shapes) else 0
        size = (pattern.num_clients + num_edges) * experiment.num_rounds
        if size > _MOST_LINKS and not is_asked:
            continue
        for index, seed in enumerate(seeds):
            found[f'{label}/{seed}' if index else label] = label, seed
    return found


def _of_seed(
    programs: Programs, label: str, seed: int, origin: Origin
) -> dict[str, np.ndarray]:
    """Who takes part, bool[T, N], the reported probabilities float[T, N], and what else there is.

    Durations float[T] of rounds that tell them, neighbours int32[T, N, K] and edges bool[T, N * K]
    of links between clients; all from the first round of the run on.
    """
    pieces = [*_pieces(programs, label, seed, origin)]
    return {
        kind: np.concatenate([piece[kind] for piece in pieces]) for kind in pieces[0]
    }


def first_active(programs: Programs, label: str) -> int | None:
    """Finds the first round in which a client takes part, under the first seed's links.

    No more rounds are drawn than it takes.

    Args:
      programs: the programs of the experiment.
      label: of the pattern.

    Returns:
      The round; None if there is none in the whole run.
    """
    rounds_before = 0
    for links in _drawn(programs, label, programs.experiment.seeds[0], Origin()):
        is_active = _someone_takes_part(links)
        if is_active.any():
            return rounds_before + int(np.argmax(is_active))
        rounds_before += len(is_active)
    return None


def _someone_takes_part(links: base.Links) -> np.ndarray:
    """bool[T]: in which of T rounds some client does; N masks are not made of a few names."""
    if isinstance(links, base.CohortLinkSample):
        return (np.asarray(links.ids) < links.num_clients).any(axis=1)
    is_active = np.asarray(base.participants(links)).any(axis=1)
    if base.has_peers(links):  # clients that hear each other train without a server
        is_active |= np.asarray(links.edges).any(axis=(1, 2))
    return is_active


def _pieces(
    programs: Programs, label: str, seed: int, origin: Origin
) -> Iterator[dict[str, np.ndarray]]:
    """Yields what `_of_seed` returns, as many rounds at a time as are drawn."""
    for links in _drawn(programs, label, seed, origin):
        piece = {'mask': base.participants(links), 'prob': links.prob}
        if base.has_peers(links):
            piece |= {
                'neighbours': links.neighbours,
                'edges': links.edges.reshape(len(links.edges), -1),
            }
        if getattr(links, 'duration', None) is not None:
            piece['duration'] = links.duration
        yield {kind: np.asarray(values) for kind, values in piece.items()}


def _drawn(
    programs: Programs, label: str, seed: int, origin: Origin
) -> Iterator[base.Links]:
    """Draws links of T rounds at a time, on the host: every array has T rows."""
    experiment = programs.experiment
    point, period = experiment.plan.points[0], experiment.eval_every
    pattern = programs.links(experiment.pattern_at(label, point, seed))
    program, home = programs.link_program(pattern), programs.places[0].home
    keys, carry = (
        experiment.plan.draws.key_of('links', seed, point),
        origin.carry(label, seed),
    )
    # On a device, as those of lanes: one program for both.
    keys, constants = jax.device_put((keys, pattern.constants), home)
    if programs.side_by_side:
        keys, carry = keys[None], jax.tree.map(lambda a: a[None], carry)
    if carry is None:
        carry = program.start(constants, keys)
    most, lead = (
        compilation.most_periods(pattern.sample, period),
        2 + programs.side_by_side,
    )
    for first in range(origin.round, experiment.num_rounds, most * period):
        rounds = min(most * period, experiment.num_rounds - first)
        given = jax.device_put((np.int32(first), np.int32(rounds // period)), home)
        carry, drawn = program.draw(constants, carry, keys, *given, most=most)
        host = jax.device_get(drawn)
        yield jax.tree.map(lambda a, n=rounds: a.reshape(-1, *a.shape[lead:])[:n], host)
