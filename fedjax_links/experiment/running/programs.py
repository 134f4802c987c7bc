"""The compiled programs of an experiment, each built when it is first asked for and kept."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import jax

from fedjax_links.base import FederationState, Participation, Problem
from fedjax_links.core import errors, memory, tree
from fedjax_links.experiment.plan import families
from fedjax_links.experiment.plan.lanes import Lane
from fedjax_links.experiment.running import traced
from fedjax_links.machines import devices, processes

if TYPE_CHECKING:
    from fedjax_links.experiment.definition import Experiment
    from fedjax_links.experiment.running.groups import Group


class Programs:
    """The programs of an experiment, each built when it is first asked for.

    Attributes:
      side_by_side: whether lanes run in one program, elsewhere than on a CPU.
      places: where lanes run at the same time.
      initial_params: makes the parameters that a group of lanes begins with.
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
        given = devices.places(alone=bool(side_by_side)) if places is None else places
        self.places = list(given)
        alone = jax.default_backend() == 'cpu' or self.places[0].is_mesh
        self.side_by_side = not alone if side_by_side is None else side_by_side
        self.initial_params = traced.initial_params(side_by_side=self.side_by_side)
        self._links: dict[int, traced.LinkProgram] = {}
        self._training: dict[Any, traced.Program] = {}
        self._begun: dict[Any, Future[Any]] = {}
        self._compiled: dict[Any, Any] = {}
        self._placed: dict[Any, Problem] = {}
        self._threads = ThreadPoolExecutor(max(8, 2 * len(self.places)))

    def key(self, lane: Lane) -> Any:
        """Lanes with the same key can share a program."""
        _, built_in = traced.split(self.experiment, lane)
        leaves, kind = jax.tree.flatten(self.links(self.experiment.plan.pattern_of(lane)).sample)
        shapes = tuple(leaf.shape for leaf in leaves)
        problem = families.kind_of(self.experiment.plan.problem_of(lane))
        return lane.algorithm, repr(built_in), problem, kind, shapes

    def one_of_each(self, lanes: Sequence[Lane]) -> list[Lane]:
        """The first lane of each program."""
        return list({self.key(lane): lane for lane in reversed(lanes)}.values())[::-1]

    def training(self, lane: Lane, place: devices.Place, varying: Sequence[bool]) -> traced.Program:
        """The program of a lane; one device is like another, a mesh is not.

        Args:
          lane: any that has it.
          place: where it runs.
          varying: for each leaf of the problem, whether lanes side by side differ in it.
        """
        key = self.key(lane), place if place.is_mesh else None, varying
        if key not in self._training:
            kind = jax.tree.structure(self.experiment.plan.problem_of(lane))
            axes = jax.tree.unflatten(kind, [0 if varies else None for varies in varying])
            together = axes if self.side_by_side else None
            self._training[key] = traced.program(self.experiment, lane, place, together)
        return self._training[key]

    def links(self, pattern: Participation) -> traced.LinkProgram:
        """The program of a pattern."""
        if id(pattern) not in self._links:
            period, together = self.experiment.eval_every, self.side_by_side
            self._links[id(pattern)] = traced.link_program(pattern, period, side_by_side=together)
        return self._links[id(pattern)]

    def begin(self, group: 'Group', function: Any, inputs: Callable[[], Any]) -> None:
        """Begins to compile, in a thread, what is not compiled yet.

        All else is done here and now, under the settings of JAX that hold here.

        Args:
          group: whose program it is.
          function: ``start`` or ``advance`` of the program.
          inputs: gives what it takes, or the shapes.
        """
        key = function, *self._where(group)
        if key not in self._begun and key not in self._compiled:
            group.settle()
            self._begun[key] = self._threads.submit(function.lower(*inputs()).compile)

    def compile(self, groups: Sequence['Group']) -> None:
        """Compiles what trains each group's lanes, for all their devices at the same time.

        Raises:
          ValueError: if one is known not to fit.
        """
        for group in groups:
            self.begin(group, group.program.advance, group.inputs)
        every = {(group.program.advance, *self._where(group)): group for group in groups}
        new = {key: group for key, group in every.items() if key not in self._compiled}
        done = [self._begun.pop(key).result() for key in new]

        def check() -> None:
            free = memory.available_bytes()
            for group, compiled in zip(new.values(), done, strict=True):
                needed = memory.peak_bytes(compiled, group.place.num_copies)
                memory.refuse_if_above(free, needed or 0, group.lanes[0].algorithm)

        processes.do_in_all(check)
        self._compiled |= zip(new, done, strict=True)

    def fit(self, groups: Sequence['Group']) -> bool:
        """Whether no group is known to be too large, each for its device; those are compiled."""
        try:
            self.compile(groups)
        except errors.InvalidError:
            return False
        return True

    def compiled(self, group: 'Group') -> Any:
        """What trains a group's lanes, compiled; refused if it is known not to fit."""
        self.compile([group])
        return self._compiled[group.program.advance, *self._where(group)]

    def start(self, group: 'Group', *given: Any) -> FederationState:
        """The states of a group's lanes before their first round."""
        start, params = group.program.start, None
        self.begin(group, start, group.beginning)
        if group.layout is None:
            params = self.initial_params(group.problem.init_params, given[0])
        started: FederationState = self._begun[start, *self._where(group)].result()(params, *given)
        return started

    def placed(self, problem: Problem, place: devices.Place) -> Problem:
        """A problem where a lane runs."""
        key = id(problem), place.devices
        if key not in self._placed:
            self._placed[key] = place.put(problem)
        return self._placed[key]

    def num_at_a_time(self, lane: Lane, num_lanes: int) -> int:
        """How many lanes like this one run in one program or, on a CPU, at the same time."""
        needed = traced.lane_bytes(self.experiment, lane)
        if self.side_by_side:
            return memory.lanes_that_fit(needed, num_lanes)
        needed += tree.num_bytes(self.experiment.plan.problem_of(lane))
        wanted = min(num_lanes, len(self.places))
        return memory.lanes_that_fit(self.places[0].num_copies * needed, wanted)

    def forget(self, label: str) -> None:
        """Lets go of the programs of an algorithm that is done."""
        for key in [key for key in self._training if key[0][0] == label]:
            gone = self._training.pop(key)
            self._begun = {k: v for k, v in self._begun.items() if k[0] not in gone}
        self._compiled.clear()
        self._placed.clear()

    def _where(self, group: 'Group') -> Any:
        return group.width, group.place.devices
