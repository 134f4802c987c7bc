"""Runs lanes together, some periods at a time.

A lane is one simulation (`planning.lanes.Lane`). A period is the ``eval_every`` rounds up to an
evaluation. A program may run several lanes side by side, as one array axis.
"""

import functools
import itertools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links.base import FederationState, Key, PyTree
from fedjax_links.core import mesh_layouts
from fedjax_links.core.records import MetricsRow
from fedjax_links.machines.devices import DeviceSlot
from fedjax_links.planning import problem_families
from fedjax_links.planning.lanes import Lane
from fedjax_links.runner.compilation import (
    PeriodMetrics,
    TracedPattern,
    initial_params,
    most_periods,
    traced_columns,
)
from fedjax_links.runner.link_draws import LinkDraws
from fedjax_links.runner.program_cache import Programs

_Part = TypeVar('_Part')


class LaneBatch:
    """Runs lanes together: one, or several with the same program.

    Attributes:
      lanes: the lanes of the batch.
      slot: the device slot that the lanes run on.
      width: how many lanes the program runs side by side. If the batch has fewer, its last lane is
        repeated.
      program: trains the lanes.
      problem: of the lanes. Arrays that differ between lanes are stacked.
      max_periods: how many periods can be dispatched at once.
      round: rounds that every lane has completed once all dispatched periods are done.
      done: rounds of every lane whose metrics were collected.
    """

    def __init__(
        self,
        programs: Programs,
        lanes: Sequence[Lane],
        slot: DeviceSlot | None = None,
        width: int | None = None,
    ) -> None:
        """Prepares the lanes; their states come with `start` or `restore`.

        Args:
          programs: the programs of the plan.
          lanes: lanes that share a program.
          slot: the device slot that the lanes run on; by default the first of ``programs.slots``.
          width: how many lanes the program has; by default the number of ``lanes``, never less.
        """
        plan = programs.plan
        self.lanes = list(lanes)
        self.slot = slot or programs.slots[0]
        self.width = width or len(lanes)
        self.round = 0
        self.done = 0
        self._programs = programs
        self._side_by_side = programs.side_by_side
        self._period = plan.eval_every
        padded = self._pad(self.lanes)
        problems = [plan.problem_of(lane) for lane in padded]
        varying = problem_families.varying_leaves(problems)
        self._problems_vary = any(varying)
        self.problem = problems[0]
        if self._problems_vary:
            self.problem = problem_families.stack_varying(problems)
        self.program = programs.training(lanes[0], self.slot, varying)
        self._columns = self._stack([traced_columns(plan, lane) for lane in padded])
        self._init_keys = self._stack(self._keys_of('init', padded))
        self._keys = self._stack(self._keys_of('batches', padded))
        patterns = [programs.links(plan.pattern_of(lane)) for lane in padded]
        self._sample = patterns[0].sample
        self._link_draws = self._make_link_draws(padded, patterns)
        self.max_periods = most_periods(self._sample, self._period, self.width)
        self._states: FederationState | None = None
        self._advance: Any = None
        self._dispatched: deque[tuple[int, PeriodMetrics]] = deque()
        self._has_put_inputs = False

    def _keys_of(self, stream: str, lanes: Sequence[Lane]) -> list[Key]:
        """Returns the keys of a stream of draws, one for each lane."""
        draws = self._programs.plan.draws
        return [draws.key_of(stream, lane.seed, lane.point) for lane in lanes]

    def _make_link_draws(
        self, lanes: Sequence[Lane], patterns: Sequence[TracedPattern]
    ) -> list[LinkDraws]:
        """Groups lanes by the structure of their patterns."""
        keys = self._keys_of('links', lanes)
        members: dict[Any, list[int]] = {}
        for index, pattern in enumerate(patterns):
            members.setdefault(pattern.structure, []).append(index)
        return [
            LinkDraws(
                self._programs,
                indices,
                [patterns[i] for i in indices],
                self._stack([keys[i] for i in indices]),
            )
            for indices in members.values()
        ]

    # The states that lanes begin with.

    def put_inputs(self) -> None:
        """Puts the inputs of all periods on the slot, and inputs of links on its first device."""
        if self._has_put_inputs:
            return
        self._has_put_inputs = True
        if self._problems_vary:
            self.problem = self.slot.put(self.problem)
        else:
            self.problem = self._programs.problem_on(self.slot, self.problem)
        for link_draws in self._link_draws:
            link_draws.put_inputs(self.slot.first_device)
        self._keys, self._init_keys, self._columns = self.slot.put(
            (self._keys, self._init_keys, self._columns)
        )

    def start(self) -> None:
        """Gives every lane the state before its first round."""
        self.put_inputs()
        compiled = self.compile_start().result()
        params, *args = self.init_args()
        if params is not None:  # only their shapes so far
            params = initial_params(self.problem.init_params, self._init_keys)
        self._states = compiled(params, *args)
        for link_draws in self._link_draws:
            link_draws.start()

    def restore(self, states: Sequence[FederationState]) -> None:
        """Gives every lane a saved state, or a state from which a fork starts."""
        self.put_inputs()
        # All states have completed the same number of rounds.
        (self.round,) = {int(state.round) for state in states}
        self.done = self.round
        padded = self._pad(states)
        for link_draws in self._link_draws:
            carry = self._stack([padded[i].participation for i in link_draws.lanes])
            link_draws.carry = jax.device_put(carry, self.slot.first_device)
        without_carry = [state._replace(participation=()) for state in padded]
        if self.layout is None:
            self._states = self._stack(self.slot.put(without_carry))
            return
        leaves = self.layout.to_device_leaves(without_carry[0])
        leaves = self.slot.put(leaves, self.layout.shardings)
        self._states = self.layout.from_device_leaves(leaves, is_padded=True)

    # The arguments of the programs, and the compilation.

    def advance_args(self) -> tuple[PyTree, ...]:
        """Returns the arguments of ``program.advance``, with shapes for states and links."""
        states = jax.eval_shape(self.program.start, *self.init_args())
        if self.layout is not None:
            shardings = jax.tree.unflatten(
                jax.tree.structure(states), self.layout.shardings
            )
            states = jax.tree.map(
                lambda a, sharding: a.update(sharding=sharding), states, shardings
            )
        shape = functools.partial(jax.ShapeDtypeStruct, sharding=self.slot.sharding)
        lead_axes: tuple[int, ...] = (self.max_periods, self._period)
        if self._side_by_side:
            lead_axes = (self.width, *lead_axes)
        links = jax.tree.map(
            lambda a: shape((*lead_axes, *a.shape), a.dtype), self._sample
        )
        count = shape((), np.int32)
        return states, self._keys, links, count, self._columns, self.problem

    def init_args(self) -> tuple[PyTree, ...]:
        """Returns the arguments of ``program.start``, with shapes for parameters."""
        params = None
        if not self.slot.is_mesh:
            make = functools.partial(initial_params, self.problem.init_params)
            params = jax.eval_shape(make, self._init_keys)
        return params, self._init_keys, self._columns, self.problem

    @functools.cached_property
    def layout(self) -> mesh_layouts.Layout | None:
        """Returns the layout of the state of the one lane on a mesh; None without a mesh."""
        if self.program.layout is None:
            return None
        return self.program.layout(*self.init_args())

    def compile_start(self) -> Future[jax.stages.Compiled]:
        """Begins to compile ``program.start``."""
        return self._begin_compile(self.program.start, self.init_args)

    def compile_advance(self) -> Future[jax.stages.Compiled]:
        """Begins to compile ``program.advance``."""
        return self._begin_compile(self.program.advance, self.advance_args)

    def _begin_compile(
        self, function: jax.stages.Wrapped, make_args: Callable[[], tuple[PyTree, ...]]
    ) -> Future[jax.stages.Compiled]:
        """Begins to compile a program for arguments that lie where the lanes run."""

        def placed_args() -> tuple[PyTree, ...]:
            self.put_inputs()
            return make_args()

        return self._programs.begin_compile(
            function, placed_args, width=self.width, slot=self.slot
        )

    # Periods.

    def states(self) -> list[FederationState]:
        """Returns the lanes' states with the patterns' carries.

        If several processes divide a client table, it is a `mesh_layouts.LocalRows`.
        """
        assert self._states is not None
        if not self._side_by_side:
            state = self._states
            if self.layout is not None:
                state = self.layout.fetch(state)
            return [state._replace(participation=self._link_draws[0].carry)]
        states, carries = jax.device_get(
            (self._states, [link_draws.carry for link_draws in self._link_draws])
        )
        carry_of: dict[int, PyTree] = {}
        for carry, link_draws in zip(carries, self._link_draws, strict=True):
            for row, lane_index in enumerate(link_draws.lanes):
                carry_of[lane_index] = _row(carry, row)
        return [
            _row(states, i)._replace(participation=carry_of[i])
            for i in range(len(self.lanes))
        ]

    def advance_period(self) -> list[MetricsRow]:
        """Advances every lane by a period: `dispatch`, then `collect`."""
        self.dispatch()
        return self.collect()[0]

    def dispatch(self, periods: int = 1) -> None:
        """Starts periods on the device, ``max_periods`` at the most, and does not wait."""
        first_round, count = jax.device_put(
            (np.int32(self.round), np.int32(periods)), self.slot.first_device
        )
        link_parts = [
            link_draws.draw(first_round, count, self.max_periods)
            for link_draws in self._link_draws
        ]
        links = link_parts[0]
        if len(link_parts) > 1:
            lanes_of_parts = [link_draws.lanes for link_draws in self._link_draws]
            links = _joined(link_parts, tuple(itertools.chain(*lanes_of_parts)))
        if self.slot.is_mesh:
            links, count = self.slot.put((links, count))
        if self._advance is None:
            (self._advance,) = compile_batches(self._programs, [self])
        self._states, metrics = self.slot.start(
            self._advance,
            self._states,
            self._keys,
            links,
            count,
            self._columns,
            self.problem,
        )
        self._dispatched.append((periods, metrics))
        self.round += periods * self._period

    def collect(self) -> list[list[MetricsRow]]:
        """Waits for the periods of the earliest `dispatch` that is not collected yet.

        Returns:
          For each period, a record of each lane: sums over the rounds, evaluations, and ``finite``.
          If ``finite`` is False, also ``first_bad_round``, from 0, the first round that ended so.
        """
        periods, metrics = self._dispatched.popleft()
        self.done += periods * self._period
        columns = self._columns_of(metrics)
        return [
            [_record(columns, (lane, period)) for lane in range(len(self.lanes))]
            for period in range(periods)
        ]

    def evaluate(self) -> list[MetricsRow]:
        """Evaluates the lanes' initial models; the records have no sums over rounds."""
        metrics = self.program.evaluate(
            self._init_keys, self._keys, self._columns, self.problem
        )
        columns = self._columns_of(metrics)
        return [_record(columns, (lane,)) for lane in range(len(self.lanes))]

    def _columns_of(self, metrics: PeriodMetrics) -> dict[str, np.ndarray]:
        """Returns the metrics by their names in a metrics file; arrays begin with a lane axis."""
        host = jax.device_get(metrics)
        if not self._side_by_side:
            host = jax.tree.map(lambda a: a[None], host)
        columns = {'finite': host.finite}
        if host.sums is not None:
            sums = {**host.sums._asdict(), **host.sums.extra}
            del sums['extra']
            columns |= {f'rounds/{name}': total for name, total in sums.items()}
        for model, evals in host.evals.items():
            columns |= {f'{model}/{name}': value for name, value in evals.items()}
        columns['first_bad_round'] = host.first_bad_round
        return columns

    def _pad(self, of_lanes: Sequence[_Part]) -> list[_Part]:
        """Repeats the entry of the last lane up to the width of the program."""
        num_missing = self.width - len(of_lanes)
        return [*of_lanes, *[of_lanes[-1]] * num_missing]

    def _stack(self, trees: Sequence[PyTree]) -> PyTree:
        """Joins one pytree for each lane into the argument that the program takes.

        A program of lanes side by side takes stacked pytrees. Any other program has one lane, and
        takes its pytree.
        """
        if not self._side_by_side:
            return trees[0]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def compile_batches(
    programs: Programs, batches: Sequence[LaneBatch]
) -> list[jax.stages.Compiled]:
    """Compiles the ``advance`` program of each batch, for all devices at the same time.

    Args:
      programs: the programs of the plan.
      batches: of one algorithm.

    Returns:
      The compiled programs.

    Raises:
      ValueError: if a program is known not to fit into memory.
    """
    compiling = [batch.compile_advance() for batch in batches]
    compiled = [future.result() for future in compiling]
    programs.check_memory(
        {
            future: (batch.slot.num_copies, batch.lanes[0].algorithm)
            for future, batch in zip(compiling, batches, strict=True)
        }
    )
    return compiled


@functools.partial(jax.jit, static_argnames='lanes')
def _joined(parts: Sequence[PyTree], lanes: tuple[int, ...]) -> PyTree:
    """Joins the links of lanes of several patterns, in the order of the lanes' indices."""
    order = np.argsort(lanes)
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[order], *parts)


def _record(columns: Mapping[str, np.ndarray], index: tuple[int, ...]) -> MetricsRow:
    """Returns the metrics of a lane after a period."""
    record = {name: column[index] for name, column in columns.items()}
    if record['finite']:
        del record['first_bad_round']
    return record


def _row(rows: PyTree, index: int) -> PyTree:
    """Returns the entries of one lane."""
    return jax.tree.map(lambda a: a[index], rows)
