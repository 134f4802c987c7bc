"""Builds the compiled programs of a plan, each when it is first used.

A lane is one simulation (`planning.lanes.Lane`). Lanes that differ only in values that are
arguments, such as a learning rate, share a program.
"""

import collections
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax

from fedjax_links.base import Participation, Problem, PyTree
from fedjax_links.core import memory, tree
from fedjax_links.machines import devices, processes
from fedjax_links.planning import problem_families
from fedjax_links.planning.lanes import Lane
from fedjax_links.planning.plan import Plan
from fedjax_links.runner import compilation

# Programs that compile at the same time, at least. Not measured.
_MIN_COMPILE_THREADS = 8


class Programs:
    """Holds the programs of a plan, each built when it is first used.

    Attributes:
      plan: what runs.
      side_by_side: whether several lanes advance in one program.
      slots: the device slots on which lanes run at the same time.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        side_by_side: bool | None = None,
        slots: Sequence[devices.DeviceSlot] | None = None,
    ) -> None:
        """Builds nothing yet.

        Args:
          plan: what runs.
          side_by_side: whether several lanes advance in one program. By default they do, except on
            a CPU, and on a mesh, which takes one lane at a time.
          slots: devices or meshes; all devices of this process by default.
        """
        self.plan = plan
        self.slots = list(slots or devices.device_slots(one_thread=bool(side_by_side)))
        if side_by_side is None:
            is_cpu = jax.default_backend() == 'cpu'
            side_by_side = not is_cpu and not self.slots[0].is_mesh
        self.side_by_side = side_by_side
        # By the pattern's id. The pattern is kept, so that no other object gets its id.
        self._traced: dict[int, tuple[Participation, compilation.TracedPattern]] = {}
        self._first_traced: dict[Hashable, compilation.TracedPattern] = {}
        self._link_programs: dict[Hashable, compilation.LinkProgram] = {}
        self._training: dict[Any, compilation.TrainingProgram] = {}
        self._compiling: dict[Any, Future[Any]] = {}
        self._known_to_fit: set[Future[Any]] = set()
        # A problem and its copy on a slot, by the ids of the problem's arrays. The problem is
        # kept, so that no other object gets the id of one of these arrays.
        self._copies: collections.OrderedDict[Any, tuple[Problem, Problem]]
        self._copies = collections.OrderedDict()
        num_threads = max(_MIN_COMPILE_THREADS, 2 * len(self.slots))
        self._threads = ThreadPoolExecutor(num_threads)

    # Which lanes share a program.

    def key(self, lane: Lane) -> Hashable:
        """Returns a key that is equal for lanes which can share a training program."""
        built_in = compilation.built_in_columns(self.plan, lane)
        sample = self.links(self.plan.pattern_of(lane)).sample
        problem_kind = problem_families.structure_of(self.plan.problem_of(lane))
        sample_kind = problem_families.structure_of(sample)
        return lane.algorithm, repr(built_in), problem_kind, sample_kind

    def by_program(self, lanes: Sequence[Lane]) -> list[list[Lane]]:
        """Groups lanes by program, judged by the first two seeds of each point.

        If these two seeds share a program, all seeds are assumed to share it, so that not all
        problems have to be made.
        """
        return list(self._group_by(self.key, lanes).values())

    def one_of_each(self, lanes: Sequence[Lane]) -> list[Lane]:
        """Returns the first lane of each program."""
        return [same_program[0] for same_program in self.by_program(lanes)]

    def by_structure(self, lanes: Sequence[Lane]) -> dict[Hashable, list[Lane]]:
        """Groups lanes by the structure of their patterns, one for each program of links."""

        def structure(lane: Lane) -> Hashable:
            return self.links(self.plan.pattern_of(lane)).structure

        return self._group_by(structure, lanes)

    def _group_by(
        self, key: Callable[[Lane], Hashable], lanes: Sequence[Lane]
    ) -> dict[Hashable, list[Lane]]:
        """Groups lanes by a key; if two seeds of a point have one key, all its seeds do."""
        seeds = self.plan.draws.seeds[:2]
        key_at: dict[str, Hashable] = {}
        groups: dict[Hashable, list[Lane]] = {}
        for lane in lanes:
            point = repr((lane.algorithm, lane.pattern, lane.point))
            if point not in key_at:
                keys = {key(lane._replace(seed=seed)) for seed in seeds}
                key_at[point] = keys.pop() if len(keys) == 1 else None
            shared_key = key_at[point]
            lane_key = key(lane) if shared_key is None else shared_key
            groups.setdefault(lane_key, []).append(lane)
        return groups

    # Programs before they are compiled.

    def training(
        self, lane: Lane, slot: devices.DeviceSlot, varying: tuple[bool, ...]
    ) -> compilation.TrainingProgram:
        """Returns the program of a lane. All single devices share it; each mesh has its own.

        Args:
          lane: any lane with the program.
          slot: the device slot that the lane runs on.
          varying: for each leaf of the problem, whether lanes side by side differ in it.
        """
        key = self.key(lane), slot if slot.is_mesh else None, varying
        if key not in self._training:
            axes = self._lane_axes(self.plan.problem_of(lane), varying)
            self._training[key] = compilation.training_program(
                self.plan, lane, slot, axes
            )
        return self._training[key]

    def links(self, pattern: Participation) -> compilation.TracedPattern:
        """Returns a pattern as traced; each pattern is traced once.

        The result has the functions of the first traced pattern with the same structure, so
        patterns of one structure share a program. It has the arrays of this pattern. If an array
        equals the first pattern's, it is the same object.
        """
        if id(pattern) not in self._traced:
            traced = compilation.trace_pattern(pattern)
            first = self._first_traced.setdefault(traced.structure, traced)
            constants = problem_families.reuse_equal(traced.constants, first.constants)
            self._traced[id(pattern)] = pattern, first._replace(constants=constants)
        return self._traced[id(pattern)][1]

    def link_program(
        self,
        pattern: compilation.TracedPattern,
        varying: tuple[bool, ...] | None = None,
    ) -> compilation.LinkProgram:
        """Returns the program of all patterns of a structure.

        Args:
          pattern: any pattern of the structure.
          varying: for each constant of the pattern, whether lanes side by side differ in it; by
            default, they differ in none.
        """
        if varying is None:
            varying = (False,) * len(jax.tree.leaves(pattern.constants))
        key = pattern.structure, varying
        if key not in self._link_programs:
            axes = self._lane_axes(pattern.constants, varying)
            self._link_programs[key] = compilation.link_program(
                pattern, self.plan.eval_every, axes
            )
        return self._link_programs[key]

    def _lane_axes(self, values: PyTree, varying: tuple[bool, ...]) -> PyTree:
        """Returns the axis of lanes of each leaf, as `jax.vmap` takes it; None for single lanes."""
        if not self.side_by_side:
            return None
        axes = [0 if varies else None for varies in varying]
        return jax.tree.unflatten(jax.tree.structure(values), axes)

    # Compiled programs.

    def begin_compile(
        self,
        function: jax.stages.Wrapped,
        args: Callable[[], tuple[PyTree, ...]],
        *,
        width: int,
        slot: devices.DeviceSlot,
    ) -> Future[jax.stages.Compiled]:
        """Begins to compile, in a thread, what is not compiled yet.

        Tracing and lowering are done here and now, under the settings of JAX that hold here.

        Args:
          function: ``start`` or ``advance`` of a program.
          args: returns the function's arguments, or their shapes. It is not called if the function
            is already compiled.
          width: how many lanes the function has side by side.
          slot: the device slot that the lanes run on.
        """
        key = function, width, slot.devices
        if key not in self._compiling:
            lowered = function.lower(*args())
            self._compiling[key] = self._threads.submit(lowered.compile)
        return self._compiling[key]

    def check_memory(
        self, programs: Mapping[Future[jax.stages.Compiled], tuple[int, str]]
    ) -> None:
        """Refuses compiled programs that are known not to fit into memory.

        Args:
          programs: for each compiled program, how many copies of its data lie in one memory
            (`devices.DeviceSlot.num_copies`), and the label of the algorithm.

        Raises:
          ValueError: naming the algorithm of a program that does not fit.
        """

        def check() -> None:
            unknown = programs.keys() - self._known_to_fit
            # The available memory is read from files, so only if a program is unknown.
            available = memory.available_bytes() if unknown else None
            for future in unknown:
                num_copies, label = programs[future]
                needed = memory.peak_bytes(future.result(), num_copies)
                memory.refuse_if_above(available, needed or 0, label)

        processes.run_in_all(check)
        self._known_to_fit |= programs.keys()

    # Where lanes run.

    def problem_on(self, slot: devices.DeviceSlot, problem: Problem) -> Problem:
        """Returns a problem with its arrays on a slot; the copies used last are cached."""
        leaves, structure = jax.tree.flatten(problem)
        key = structure, tuple(map(id, leaves)), slot.devices
        if key not in self._copies:
            self._copies[key] = problem, slot.put(problem)
        self._copies.move_to_end(key)
        while len(self._copies) > len(self.slots):
            self._copies.popitem(last=False)
        return self._copies[key][1]

    def slots_for(self, lanes: Sequence[Lane]) -> list[devices.DeviceSlot]:
        """Returns the slots that lanes with one program run on, as many as fit into memory."""
        if self.side_by_side:
            return self.slots
        needed = compilation.lane_bytes(self.plan, lanes[0])
        needed += tree.num_bytes(self.plan.problem_of(lanes[0]))
        num_useful = min(len(lanes), len(self.slots))
        num_fitting = memory.lanes_that_fit(
            self.slots[0].num_copies * needed, num_useful
        )
        return self.slots[:num_fitting]

    def forget(self, label: str) -> None:
        """Drops the programs of an algorithm that is done, and all copies of problems."""
        keys = [key for key in self._training if key[0][0] == label]
        for key in keys:
            dropped_program = self._training.pop(key)
            self._compiling = {
                compiled_key: future
                for compiled_key, future in self._compiling.items()
                # The first part of a key is a function, such as `advance` of a program.
                if compiled_key[0] not in dropped_program
            }
        # The set holds compiled programs, too. Programs of other algorithms are checked again.
        self._known_to_fit.clear()
        self._copies.clear()
